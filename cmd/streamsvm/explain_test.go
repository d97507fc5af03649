package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// TestExplain: contributions and the constant make the decision, and have the
// names of features where there are some.
func TestExplain(t *testing.T) {
	dir := t.TempDir()
	vectors, events := filepath.Join(dir, "vectors.libsvm"), filepath.Join(dir, "events.json")
	var b, e strings.Builder
	for i, p := range purchases(1500) {
		fmt.Fprintf(&b, "%d 1:%g 2:%d 4:%d\n", p.sign(), p.amount, p.hour, i%7)
		fmt.Fprintf(&e, `{"country":%q,"amount":%g,"hour":%d,"fraud":%v}`+"\n", p.country, p.amount, p.hour, p.zeroOne() == 1)
	}
	write(t, vectors, b.String())
	write(t, events, e.String())
	type line struct {
		Decision, Constant float64
		Contributions      []struct {
			Feature string
			Value   float64
		}
	}
	model := filepath.Join(dir, "m.ssm")
	for _, tt := range []struct{ learner, task, file, label, feature string }{
		{"online", "classify", vectors, "", "feature 4"},
		{"online", "classify", events, "fraud", "country=BR"},
		{"l1smooth", "classify", vectors, "", "feature 1"},
		{"ridge", "regress", vectors, "", "feature 1"},
		{"svrg-sd", "regress", vectors, "", "feature 2"},
		{"saga-sd", "regress", vectors, "", "feature 2"},
	} {
		args := []string{"replay", tt.file, "--learner", tt.learner, "--task", tt.task, "--model", model, "-q", "--tune=off", "--warmup", "300"}
		if tt.label != "" {
			args = append(args, "--label", tt.label)
		}
		must(t, args...)
		seen := false
		for text := range strings.Lines(must(t, "predict", "--model", model, tt.file, "--explain", "100", "-q")) {
			l := decode[line](t, text)
			sum, before := l.Constant, math.Inf(1)
			for _, c := range l.Contributions {
				sum += c.Value
				seen = seen || c.Feature == tt.feature
				if v := math.Abs(c.Value); v > before || v == 0 {
					t.Fatalf("%+v: not in order, or 0: %s", tt, text)
				} else {
					before = v
				}
			}
			if math.Abs(sum-l.Decision) > 1e-9*(1+math.Abs(l.Decision)) {
				t.Fatalf("%+v: they make %v: %s", tt, sum, text)
			}
		}
		if !seen {
			t.Errorf("%+v: %s contributes nothing", tt, tt.feature)
		}
		if out := must(t, "predict", "--model", model, tt.file, "--explain", "1", "-q"); strings.Count(out, `"feature":`) != 1500 {
			t.Errorf("%+v: %d contributions of 1500 predictions with one each", tt, strings.Count(out, `"feature":`))
		}
		if out := must(t, "predict", "--model", model, tt.file, "-q"); strings.Contains(out, "contributions") {
			t.Errorf("%+v: unasked: %.200s", tt, out)
		}
	}
	must(t, append([]string{"replay", vectors, "--model", model}, learn...)...)
	if code, _, errText := streamsvm(t.Context(), "predict", "--model", model, vectors, "--explain", "3"); code != int(cli.Usage) || !strings.Contains(errText, "contributions are known only for linear models") {
		t.Errorf("a kernel model: exit code %d, %s", code, errText)
	}
}
