package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/eval"
)

// TestCompare: each learner has the measures that it has by itself, and the baselines are
// those of the first.
func TestCompare(t *testing.T) {
	path, dir := moons(t, "train.libsvm.gz", 3000, 0), t.TempDir()
	js := filepath.Join(dir, "r.json")
	args := []string{"replay", path, "--tune=off", "--warmup", "500", "--window", "200", "-q", "--labelled", "2000", "--delay", "20", "--publish-every", "400"}
	out := must(t, append(args, "--compare", "sbp,online", "--report", dir, "--json", js)...)
	data := read(t, js)
	list := decode[[]candidateResult](t, string(data))
	if len(list) != 2 {
		t.Fatalf("%s", data)
	}
	for i, name := range []string{"sbp", "online"} {
		alone := decode[result](t, must(t, append(args, "--learner", name, "--json", "-")...))
		got, want := list[i], alone.Prequential
		if got.Name != name || got.Prequential.Accuracy != want.Accuracy || got.Prequential.Window.Accuracy != want.Window.Accuracy || *got.Prequential.Interval != *want.Interval || got.Common != want.Accuracy {
			t.Errorf("%+v, alone %+v", got, want)
		}
		a, b := got.AsPublished, alone.AsPublished
		if a == nil || b == nil || a.Versions < 5 || a.Accuracy != b.Accuracy || a.LogLoss != b.LogLoss || a.Accuracy == want.Accuracy || !strings.Contains(out, eval.Percent(a.Accuracy)) {
			t.Errorf("as published %+v, alone %+v", a, b)
		}
		if !strings.Contains(out, name) || !strings.Contains(out, eval.Percent(want.Accuracy)) {
			t.Errorf("%s is not in\n%s", name, out)
		}
	}
	if text := must(t, append(args, "--publish-every", "2600")...); !strings.Contains(text, "age to 650") || strings.Contains(text, "older") {
		t.Errorf("ages that no example has reached are shown, or others are not\n%s", text)
	}
	if want := "baselines: " + list[0].Prequential.Baseline.String() + "\n"; !strings.HasSuffix(out, want) {
		t.Errorf("want %q after the table\n%s", want, out)
	}
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil || !strings.Contains(string(page), `"name":"online"`) {
		t.Errorf("the page, %v", err)
	}
}

func TestCompareRegression(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ramp.libsvm")
	var b strings.Builder
	for range 200 {
		b.WriteString("1 1:1\n3 1:3\n")
	}
	write(t, path, b.String())
	out := must(t, "replay", path, "--task", "regress", "--tune=off", "--warmup", "50", "-q", "--compare", "online,ridge", "--json", "-")
	list := decode[[]candidateResult](t, out)
	if len(list) != 2 || list[1].Common >= 1 || list[0].Common >= 1 {
		t.Errorf("%s", out)
	}
	if out := must(t, "replay", path, "--task", "regress", "--tune=off", "-q", "--compare", "online,ridge"); !strings.Contains(out, "mean abs. error") {
		t.Errorf("%s", out)
	}
}

func TestCompareRefuses(t *testing.T) {
	path := moons(t, "train.libsvm", 50, 0)
	for _, tt := range []struct{ args, want string }{
		{"--compare sbp,sbpp", `--compare: no learner "sbpp"; there are adaptive`},
		{"--compare sbp,online,sbp", "sbp is there twice"},
		{"--compare sbp,no-change", "no-change has been removed from the list: both baselines are printed"},
		{"--learner sbp,online", "--learner: a list of learners is given to replay --compare"},
		{"--compare sbp --learner online", "it cannot be combined with --learner"},
		{"--compare sbp --model m.ssm", "it cannot be combined with --model"},
		{"--compare online,sbp --task regress", "learner sbp does not do task regress"},
	} {
		code, _, errText := streamsvm(t.Context(), append([]string{"replay", path, "-q"}, strings.Fields(tt.args)...)...)
		if cli.Code(code) != cli.Usage || !strings.Contains(errText, tt.want) {
			t.Errorf("%s: exit code %d, %q", tt.args, code, errText)
		}
	}
}

// With more than two classes, too, it is known how far a learner is behind.
func TestCompareClasses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "classes.libsvm")
	var b strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&b, "%d 1:%d 2:%d\n", i%3, (i+i/7)%3, i%2)
	}
	write(t, path, b.String())
	list := decode[[]candidateResult](t, must(t, "replay", path, "--labels", "0,1,2", "--tune=off", "--warmup", "100", "-q", "--compare", "online,ridge", "--json", "-"))
	if len(list) != 2 || (list[0].Behind == nil) == (list[1].Behind == nil) {
		t.Errorf("%+v", list)
	}
	for _, r := range list {
		if r.Examples != 1400 || math.Abs(float64(r.Common-r.Prequential.Accuracy)) > 1e-9 {
			t.Errorf("%+v", r)
		}
	}
}
