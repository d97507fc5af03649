// Command importmodel converts a model file of LIBSVM's svm-train (C-SVC, RBF
// kernel, two classes) to a streamsvm model, so that both programs predict with
// the same support vectors.
//
//	go run -C bench ./importmodel MODEL OUT.ssm
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: importmodel MODEL OUT.ssm")
		os.Exit(64)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "importmodel:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	f, err := os.Open(in)
	if err != nil {
		return err
	}
	defer f.Close()
	p, err := read(f)
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	data, err := p.AppendBinary(nil)
	if err != nil {
		return err
	}
	return os.WriteFile(out, data, 0o644)
}

// read returns a predictor with the same decisions as the LIBSVM model in r.
func read(r io.Reader) (*pipeline.Pipeline, error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	head := map[string]string{}
	for s.Scan() && s.Text() != "SV" {
		key, value, _ := strings.Cut(s.Text(), " ")
		head[key] = value
	}
	for key, want := range map[string]string{"svm_type": "c_svc", "kernel_type": "rbf", "nr_class": "2"} {
		if head[key] != want {
			return nil, fmt.Errorf("%s is %q, want %s", key, head[key], want)
		}
	}
	gamma, err1 := strconv.ParseFloat(head["gamma"], 32)
	rho, err2 := strconv.ParseFloat(head["rho"], 64)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	sign := 1.0 // of f: LIBSVM's f is positive for the first label
	switch head["label"] {
	case "1 -1":
	case "-1 1":
		sign = -1
	default:
		return nil, fmt.Errorf("the labels are %q, want 1 and -1", head["label"])
	}
	dec, err := codec.New("libsvm", codec.Options{Task: "regress"}) // coefficients are in the place of labels
	if err != nil {
		return nil, err
	}
	var rows []stream.Vec
	var coef []float64
	for s.Scan() {
		var ex stream.Example
		if err := dec.Decode(s.Bytes(), &ex); err != nil {
			return nil, fmt.Errorf("support vector %d: %w", len(coef)+1, err)
		}
		rows, coef = append(rows, ex.X), append(coef, sign*ex.Y)
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	if want := head["total_sv"]; strconv.Itoa(len(coef)) != want {
		return nil, fmt.Errorf("%d support vectors, the header says %s", len(coef), want)
	}
	m, err := model.NewExpansion(model.Kernel{Name: "rbf", Gamma: gamma}, rows, coef, -sign*rho)
	if err != nil {
		return nil, err
	}
	// Models of sbp are kernel expansions.
	return &pipeline.Pipeline{Learner: "sbp", Task: algos.Classify, Transform: new(prep.Transform), Model: m}, nil
}
