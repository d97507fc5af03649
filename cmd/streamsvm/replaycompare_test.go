package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/eval"
)

// TestCompare: each rival has the measures that it has by itself.
func TestCompare(t *testing.T) {
	path, dir := moons(t, "train.libsvm.gz", 3000, 0), t.TempDir()
	js := filepath.Join(dir, "r.json")
	args := []string{"replay", path, "--tune=off", "--warmup", "500", "--window", "200", "-q", "--labelled", "2000"}
	out := must(t, append(args, "--compare", "pegasos,online,majority,no-change", "--report", dir, "--json", js)...)
	data, err := os.ReadFile(js)
	if err != nil {
		t.Fatal(err)
	}
	list := decode[[]compared](t, string(data))
	if len(list) != 4 {
		t.Fatalf("%s", data)
	}
	for i, name := range []string{"pegasos", "online"} {
		alone := decode[result](t, must(t, append(args, "--learner", name, "--json", "-")...))
		got, want := list[i], alone.Prequential
		if got.Name != name || got.Prequential.Accuracy != want.Accuracy || got.Prequential.Window.Accuracy != want.Window.Accuracy || *got.Prequential.Interval != *want.Interval || got.Common != want.Accuracy {
			t.Errorf("%+v, alone %+v", got, want)
		}
		if !strings.Contains(out, name) || !strings.Contains(out, eval.Percent(want.Accuracy)) {
			t.Errorf("%s is not in\n%s", name, out)
		}
		// The rules are those of the baselines, over the examples after the warm-up
		// to the nearest point of a curve.
		for k, b := range []eval.Number{want.Baseline.Majority, want.Baseline.NoChange} {
			if got := list[2+k].Common; math.Abs(float64(got-b)) > 0.003 {
				t.Errorf("%s: %v, the baseline of %s is %v", list[2+k].Name, got, name, b)
			}
			if window := list[2+k].Prequential.Window.Accuracy; window != []eval.Number{want.Window.Baseline.Majority, want.Window.Baseline.NoChange}[k] {
				t.Errorf("%s: %v in the window", list[2+k].Name, window)
			}
		}
	}
	for _, v := range list[2:] {
		if v.Examples != 2000 || v.Prequential.Accuracy != map[string]eval.Number{ruleMajority: v.Prequential.Baseline.Majority, ruleNoChange: v.Prequential.Baseline.NoChange}[v.Name] {
			t.Errorf("%+v", v)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil || !strings.Contains(string(page), `"name":"no-change"`) {
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
	out := must(t, "replay", path, "--task", "regress", "--tune=off", "--warmup", "50", "-q", "--compare", "online,no-change", "--json", "-")
	list := decode[[]compared](t, out)
	if len(list) != 2 || *list[1].Prequential.MAE < 1.99 || list[1].Common != 2 || list[0].Common >= 1 {
		t.Errorf("%s", out)
	}
	if out := must(t, "replay", path, "--task", "regress", "--tune=off", "-q", "--compare", "online,no-change"); !strings.Contains(out, "mean abs. error") {
		t.Errorf("%s", out)
	}
}

func TestCompareRefuses(t *testing.T) {
	path := moons(t, "train.libsvm", 50, 0)
	for _, tt := range []struct{ args, want string }{
		{"--compare pegasos,pegasso", `--compare: no learner "pegasso"; there are adaptive`},
		{"--compare pegasos,online,pegasos", "pegasos is there twice"},
		{"--compare majority,no-change", "there is no learner among them"},
		{"--compare pegasos --learner online", "it cannot be combined with --learner"},
		{"--compare pegasos --model m.ssm", "it cannot be combined with --model"},
		{"--compare online,majority --task regress", "there is no majority of numbers"},
		{"--compare online,pegasos --task regress", "learner pegasos does not do task regress"},
	} {
		code, _, errText := streamsvm(t.Context(), append([]string{"replay", path, "-q"}, strings.Fields(tt.args)...)...)
		if cli.Code(code) != cli.Usage || !strings.Contains(errText, tt.want) {
			t.Errorf("%s: exit code %d, %q", tt.args, code, errText)
		}
	}
}
