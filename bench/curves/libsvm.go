package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// reference is what svm-train reached.
type reference struct{ seconds, err float64 }

// svmTrain runs svm-train and svm-predict on the examples.
func (c *config) svmTrain(ctx context.Context, train, test set) (*reference, error) {
	dir, err := os.MkdirTemp("", "curves")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, s := range map[string]set{"train": train, "test": test} {
		if err := s.write(path(name)); err != nil {
			return nil, err
		}
	}
	args := append([]string{"-q"}, strings.Fields(c.libsvm)...)
	cmd := exec.CommandContext(ctx, "svm-train", append(args, path("train"), path("model"))...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("svm-train: %w: %s", err, out)
	}
	r := &reference{seconds: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
	out, err := exec.CommandContext(ctx, "svm-predict", path("test"), path("model"), path("out")).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("svm-predict: %w: %s", err, out)
	}
	var right float64
	if _, err := fmt.Sscanf(string(out), "Accuracy = %g%%", &right); err != nil {
		return nil, fmt.Errorf("svm-predict said %q", out)
	}
	r.err = 1 - right/100
	return r, nil
}

// write writes the examples as LIBSVM lines.
func (s set) write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	var line []byte
	for _, x := range s {
		line = strconv.AppendFloat(line[:0], x.Y, 'g', -1, 64)
		for k, v := range x.X.Val {
			j := k
			if x.X.Idx != nil {
				j = int(x.X.Idx[k])
			}
			line = append(line, ' ')
			line = strconv.AppendInt(line, int64(j+1), 10)
			line = append(line, ':')
			line = strconv.AppendFloat(line, float64(v), 'g', -1, 32)
		}
		w.Write(append(line, '\n'))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
