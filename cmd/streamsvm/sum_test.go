package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
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

// TestSum: sketches of text files and of a recording make one model, for either loss.
// Package scale tests that it is exact.
func TestSum(t *testing.T) {
	for _, set := range [][]string{{"--set", "features=64", "--set", "gamma=1"}, {"--set", "features=64", "--set", "loss=hinge"}} {
		plan, dir := sumPlan(t, set...), t.TempDir()
		const parts, records = 3, 3000
		sketches := []string{"sum"}
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
			code, sketch, said := streamsvm(t.Context(), "sum", name, "--model", plan, "--tolerance", "data")
			if code != 0 || !strings.Contains(said, "10 unusable, 0 tombstones") && !strings.Contains(said, "11 unusable, 0 tombstones") {
				t.Fatalf("exit code %d: %s", code, said)
			}
			sketches = append(sketches, save(t, fmt.Sprint(part, ".sketch"), sketch))
		}
		code, sketch, said := streamsvm(t.Context(), sketches...)
		if code != 0 || !strings.Contains(said, "31 unusable") {
			t.Fatalf("exit code %d: %s", code, said)
		}
		code, model, said := streamsvm(t.Context(), "sum", "--solve", save(t, "all.sketch", sketch))
		if code != 0 || !strings.Contains(said, "31 unusable") {
			t.Fatalf("exit code %d: %s", code, said)
		}
		// Solving adds up sketches, too.
		if _, direct, _ := streamsvm(t.Context(), append(sketches, "--solve")...); direct != model {
			t.Error("merging before solving changes the model")
		}
		_, _, said = streamsvm(t.Context(), "predict", "--model", save(t, "model.ssm", model), filepath.Join(dir, "0.libsvm"))
		var accuracy float64
		if _, rest, ok := strings.Cut(said, "\naccuracy "); ok {
			_, _ = fmt.Sscanf(rest, "%f", &accuracy)
		}
		if accuracy < 85 {
			t.Errorf("%v: accuracy %v: %s", set, accuracy, said)
		}
	}
}

// TestSumRefuses: errors say what is wrong, and nothing is written.
func TestSumRefuses(t *testing.T) {
	plan, other, foreign := sumPlan(t, "--set", "features=64"), sumPlan(t, "--set", "features=128"), groupModel(t)
	data, bad := save(t, "a.libsvm", sumRecord(0)+"\n"+sumRecord(1)+"\n"), save(t, "bad.libsvm", sumRecord(0)+"\n"+sumRecord(50)+"\n")
	sum := func(args ...string) string {
		code, sketch, said := streamsvm(t.Context(), append([]string{"sum"}, args...)...)
		if code != 0 {
			t.Fatal(said)
		}
		return save(t, "a.sketch", sketch)
	}
	a, b, none := sum(data, "--model", plan), sum(data, "--model", other), sum(os.DevNull, "--codec", "libsvm", "--model", plan)
	for _, test := range []struct {
		args []string
		code cli.Code
		says string
	}{
		{[]string{"sum"}, cli.Usage, "--model"},
		{[]string{"sum", data}, cli.Data, "not a sketch of streamsvm sum"},
		{[]string{"sum", data, "--model", foreign}, cli.Usage, "does not learn from sums; lssvm does"},
		{[]string{"sum", data, "--model", data}, cli.Data, data},
		{[]string{"sum", bad, "--model", plan}, cli.Data, "--tolerance data"},
		{[]string{"sum", a, b}, cli.Data, "the sketches are of different models"},
		{[]string{"sum", "--solve", a, b}, cli.Data, b + ": the sketches are of different models"},
		{[]string{"sum", "--solve", plan}, cli.Data, "not a sketch of streamsvm sum"},
		{[]string{"sum", "--solve", none}, cli.Data, "no examples"},
	} {
		code, out, said := streamsvm(t.Context(), test.args...)
		if out != "" || code != int(test.code) || !strings.Contains(said, test.says) {
			t.Errorf("%q: exit code %d, want %d, and %q in: %s", test.args, code, test.code, test.says, said)
		}
	}
}
