package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// TestFolds: a short file is cross-validated, as by hand with files of its rows.
func TestFolds(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, rows []string) string {
		path := filepath.Join(dir, name)
		write(t, path, strings.Join(rows, ""))
		return path
	}
	rows := strings.SplitAfter(must(t, "generate", "moons", "--count", "205"), "\n")[:205]
	args := []string{"--learner", "sbp", "--seed", "3", "-q", "--json", "-"}
	got := decode[result](t, must(t, append([]string{"replay", write("all.libsvm", rows)}, args...)...)).Folds
	if got == nil || got.Folds != 10 {
		t.Fatalf("%+v", got)
	}
	var recs []stream.Record
	for i := range rows {
		recs = append(recs, stream.Record{Offset: int64(i)})
	}
	shuffle(recs, 3)
	var sum, auc float64
	for k := range 10 {
		var rest, part []string
		for i := range recs {
			row := rows[recs[i].Offset]
			if i >= k*205/10 && i < (k+1)*205/10 {
				part = append(part, row)
			} else {
				rest = append(rest, row)
			}
		}
		r := decode[result](t, must(t, append([]string{"replay", write(fmt.Sprintf("rest%d.libsvm", k), rest), "--test", write(fmt.Sprintf("part%d.libsvm", k), part)}, args...)...))
		if r.Folds != nil {
			t.Error("a run with a test is cross-validated, too")
		}
		sum, auc = sum+float64(r.Test.Accuracy), auc+float64(r.Test.AUC)
	}
	if math.Abs(float64(got.Accuracy.Mean)-sum/10) > 1e-12 || math.Abs(float64(got.AUC.Mean)-auc/10) > 1e-12 {
		t.Errorf("accuracy %v, AUC %v, by hand %v, %v", got.Accuracy.Mean, got.AUC.Mean, sum/10, auc/10)
	}
	if e := float64(got.Accuracy.Error); !(e > 0 && e < 0.1) {
		t.Errorf("standard error %v", e)
	}
	if out := must(t, "replay", filepath.Join(dir, "all.libsvm"), "-q", "--learner", "sbp"); !strings.Contains(out, "in cross-validation of 10 folds") {
		t.Error(out)
	}
}
