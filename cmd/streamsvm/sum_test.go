package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/tsgs3vm"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/normal"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// sumRecord returns the value of record k, which for some k is not an example.
func sumRecord(k int) string {
	r := rand.New(rand.NewPCG(1, uint64(k)))
	x, y := r.NormFloat64(), r.NormFloat64()
	switch {
	case k%97 == 50:
		return "1 1:x"
	case k%101 == 60:
		return fmt.Sprintf("? 1:%.4f 2:%.4f", x, y)
	}
	label := 0
	if x*y > 0.2 {
		label = 1
	}
	if x > 1 {
		label = 2
	}
	return fmt.Sprintf("%d 1:%.4f 2:%.4f", label, x, y)
}

// sumPlan trains lssvm on clean records and returns the file of the model.
func sumPlan(t *testing.T, args ...string) string {
	t.Helper()
	var text strings.Builder
	for k := range 520 {
		if line := sumRecord(k); !strings.Contains(line, "x") && line[0] != '?' {
			text.WriteString(line + "\n")
		}
	}
	model := filepath.Join(t.TempDir(), "plan.ssm")
	must(t, append([]string{"replay", save(t, "first.libsvm", text.String()), "--labels", "0,1,2", "--learner", "lssvm", "--tune=off", "--model", model, "-q"}, args...)...)
	return model
}

// TestSum: the model of sums is that of one learner for each part, added in order,
// to the bit, and weights in recordings count.
func TestSum(t *testing.T) {
	for _, set := range [][]string{{"--set", "features=64", "--set", "gamma=1"}, {"--set", "kernel=linear"}} {
		plan, dir := sumPlan(t, set...), t.TempDir()
		const parts, records = 3, 3000
		args := []string{"solve", "--out", filepath.Join(dir, "model.ssm")}
		for part := range parts {
			name := filepath.Join(dir, fmt.Sprint(part, ".libsvm"))
			if part == 2 {
				name = filepath.Join(dir, "2.ssr")
			}
			var text strings.Builder
			var recs []stream.Record
			for k := part; k < records; k += parts {
				text.WriteString(sumRecord(k) + "\n")
				recs = append(recs, stream.Record{Topic: "in", Offset: int64(k), Value: []byte(sumRecord(k))})
				if k%2 == 0 {
					recs[len(recs)-1].Headers = []stream.Header{{Key: "__streamsvm.sift", Value: []byte("1 p=0.25 f=0.5 v=1 e=1")}}
				}
			}
			if part == 2 {
				w, err := fileio.CreateRecording(name)
				for i := range recs {
					if err == nil {
						err = w.Write(&recs[i])
					}
				}
				if err == nil {
					err = w.Close(true)
				}
				if err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			sums := filepath.Join(dir, fmt.Sprint(part, ".sums"))
			code, _, said := streamsvm(t.Context(), "sum", name, "--model", plan, "--out", sums)
			if code != 0 || !strings.Contains(said, "10 unusable, 0 tombstones") && !strings.Contains(said, "11 unusable, 0 tombstones") {
				t.Fatalf("exit code %d: %s", code, said)
			}
			args = append(args, sums)
		}
		if code, _, said := streamsvm(t.Context(), args...); code != 0 || !strings.Contains(said, "31 unusable") {
			t.Fatalf("exit code %d: %s", code, said)
		}
		got, err := os.ReadFile(args[2])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, sumWant(t, plan, parts, records)) {
			t.Errorf("%v: the model is not that of one learner for each part", set)
		}
	}
}

// sumWant returns the model that one learner for each part makes.
func sumWant(t *testing.T, plan string, parts, records int) []byte {
	t.Helper()
	data, err := os.ReadFile(plan)
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := pipeline.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	type adder interface {
		algos.Learner
		Fix(algos.Model) error
		Sum([]*stream.Example)
		Sums() *normal.Sums
		Restore(*normal.Sums, int) error
	}
	learner := func() adder {
		l, err := tsgs3vm.LSSVM.New(algos.Env{Seed: 1, Classes: 3}, pipe.Options)
		if err == nil {
			err = l.(adder).Fix(pipe.Model)
		}
		if err != nil {
			t.Fatal(err)
		}
		return l.(adder)
	}
	dec, err := codec.New("libsvm", codec.Options{Labels: "0,1,2"})
	if err != nil {
		t.Fatal(err)
	}
	total := learner()
	for p := range parts {
		part := learner()
		for k := p; k < records; k += parts {
			x := new(stream.Example)
			if dec.Decode([]byte(sumRecord(k)), x) != nil || !x.Labelled {
				continue
			}
			if p == 2 && k%2 == 0 {
				x.Weight, x.Represents = 4, 4
			}
			x.X = pipe.Transform.Apply(x.X)
			part.Sum([]*stream.Example{x})
		}
		if err := total.Sums().Merge(part.Sums()); err != nil {
			t.Fatal(err)
		}
	}
	if err := total.Restore(total.Sums(), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := total.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	pipe.Model, pipe.Probability, pipe.Softmax = total.Model(), nil, nil
	want, err := pipe.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// TestSumRefuses: errors say what is wrong, and no file is written.
func TestSumRefuses(t *testing.T) {
	dir := t.TempDir()
	data, plan, other, foreign := save(t, "a.libsvm", sumRecord(0)+"\n"+sumRecord(1)+"\n"), sumPlan(t, "--set", "features=64"), sumPlan(t, "--set", "features=128"), groupModel(t)
	a, b, none, out := filepath.Join(dir, "a.sums"), filepath.Join(dir, "b.sums"), filepath.Join(dir, "none.sums"), filepath.Join(dir, "out")
	must(t, "sum", data, "--model", plan, "--out", a)
	must(t, "sum", data, "--model", other, "--out", b)
	must(t, "sum", os.DevNull, "--codec", "libsvm", "--model", plan, "--out", none)
	for _, test := range []struct {
		args []string
		code cli.Code
		says string
	}{
		{[]string{"sum", data, "--out", out}, cli.Usage, "--model"},
		{[]string{"sum", data, "--model", foreign, "--out", out}, cli.Usage, "does not learn from sums; lssvm does"},
		{[]string{"sum", data, "--model", data, "--out", out}, cli.Data, data},
		{[]string{"solve", a, b, "--out", out}, cli.Data, "the sums are of different models"},
		{[]string{"solve", plan, "--out", out}, cli.Data, "not a file of streamsvm sum"},
		{[]string{"solve", none, "--out", out}, cli.Data, "no examples"},
		{[]string{"solve", a}, cli.Usage, "--out"},
		{[]string{"solve", "--out", out}, cli.Usage, "FILE"},
	} {
		code, _, said := streamsvm(t.Context(), test.args...)
		if _, err := os.Stat(out); err == nil || code != int(test.code) || !strings.Contains(said, test.says) {
			t.Errorf("%q: exit code %d, want %d, and %q in: %s", test.args, code, test.code, test.says, said)
		}
	}
}
