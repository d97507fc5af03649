package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/inspect"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/stream"
)

// numbers writes n examples whose labels are numbers to a file.
func numbers(t *testing.T, name string, n, skip int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, "generate", "friedman", "--seed", "4", "--count", fmt.Sprint(n), "--skip", fmt.Sprint(skip), "--out", path)
	return path
}

// A stream of numbers goes through every form, and what is measured on the way
// is what the predictions of the model written at the end say.
func TestRegression(t *testing.T) {
	test := numbers(t, "test.libsvm", 500, 9000)
	for _, name := range []string{"a.csv", "b.libsvm.gz", "c.jsonl", "d.msgpack"} {
		dir := t.TempDir()
		model, page := filepath.Join(dir, "m.ssm"), filepath.Join(dir, "report")
		// All forms but libsvm are dense. Features of [0,1) are not scaled, so
		// that this makes no difference.
		args := []string{"replay", numbers(t, name, 3000, 0), "--learner", "online", "--task", "regress", "--test", test,
			"--tune=off", "--label-column", "last", "--model", model, "--report", page, "--json", "-"}
		got := decode[map[string]any](t, must(t, args...))
		preq, held := got["prequential"].(map[string]any), got["test"].(map[string]any)
		if preq["accuracy"] != nil || preq["auc"] != nil || held["accuracy"] != nil {
			t.Errorf("%s: a regression has an accuracy: %v, %v", name, preq, held)
		}
		// The best linear model explains some 72 % of the variance.
		if r2 := held["r2"].(float64); r2 < 0.65 || r2 > 0.78 {
			t.Errorf("%s: R2 of the test is %v", name, r2)
		}
		if preq["mae"].(float64) > preq["rmse"].(float64) || preq["window"].(map[string]any)["r2"].(float64) < 0.6 {
			t.Errorf("%s: prequential measures %v", name, preq)
		}
		html, err := os.ReadFile(filepath.Join(page, "index.html"))
		if err != nil || !strings.Contains(string(html), "mean absolute error") && !strings.Contains(string(html), "MAE") {
			t.Errorf("%s: the report does not speak of the error (%v)", name, err)
		}

		// Predictions are numbers, and those of the test file have its error.
		out := must(t, "predict", "--model", model, test)
		var abs, n float64
		for line := range strings.Lines(out) {
			p := decode[map[string]float64](t, line)
			if p["label"] != p["decision"] {
				t.Fatalf("%s: the prediction is %v, the decision %v", name, p["label"], p["decision"])
			}
			abs += math.Abs(p["label"] - p["y"])
			n++
		}
		if want := held["mae"].(float64); n != 500 || math.Abs(abs/n-want) > 1e-9 {
			t.Errorf("%s: mean absolute error %g of %g predictions, replay says %g", name, abs/n, n, want)
		}
		first := must(t, "predict", "--model", model, "--output", "label", test)
		if first, _, _ = strings.Cut(first, "\n"); !strings.Contains(out, `"label":`+first) || first == "1" || first == "-1" {
			t.Errorf("%s: the first prediction is %q", name, first)
		}
	}
}

func TestRegressionHTTP(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m.ssm")
	must(t, "replay", numbers(t, "a.libsvm", 2000, 0), "--learner", "online", "--task", "regress", "--tune=off", "--model", model, "-q")
	pr, err := describe.ReadModel(model)
	if err != nil {
		t.Fatal(err)
	}
	// The address is on standard error.
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		stdio := cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: in, Getenv: func(string) (string, bool) { return "", false }}
		ended <- program().Main(ctx, []string{"predict", "--model", model, "--listen", "127.0.0.1:0"}, stdio)
		in.Close()
	}()
	var url string
	lines := bufio.NewScanner(out)
	for url == "" && lines.Scan() {
		if _, after, ok := strings.Cut(lines.Text(), "POST "); ok {
			url, _, _ = strings.Cut(after, " ")
		}
	}
	go io.Copy(io.Discard, out)
	resp, err := http.Post(url, "application/json", strings.NewReader(`[{"x":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"y":17.25},{"x":{"4":1}}]`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	var a struct {
		Predictions []struct{ Decision, Label float64 }
	}
	if err := errors.Join(err, json.Unmarshal(body, &a)); err != nil || resp.StatusCode != http.StatusOK || len(a.Predictions) != 2 {
		t.Fatalf("%s %s, %v", resp.Status, body, err)
	}
	for i, x := range []stream.Vec{{Val: slices.Repeat([]float32{.5}, 10)}, {Idx: []int32{3}, Val: []float32{1}}} {
		if got, want := a.Predictions[i], pr.Decision(x); got.Label != want || got.Decision != want || want == 1 {
			t.Errorf("prediction %d is %+v, want %g", i, got, want)
		}
	}
}

// TestTuneRegression: the tuner's candidates are compared by their squared
// error, and the one chosen is better than a poor choice.
func TestTuneRegression(t *testing.T) {
	train, test := numbers(t, "a.libsvm", 4500, 0), numbers(t, "b.libsvm", 1000, 9000)
	args := []string{"replay", train, "--learner", "online", "--task", "regress", "--test", test, "--json", "-"}
	rmse := func(extra ...string) (float64, any) {
		got := decode[map[string]any](t, must(t, append(args, extra...)...))
		return got["test"].(map[string]any)["rmse"].(float64), got["options"].(map[string]any)["rate"]
	}
	tuned, rate := rmse("--tune=on")
	if poor, _ := rmse("--tune=off", "--set", "rate=0.001"); tuned > poor-0.5 {
		t.Errorf("tuned to rate %v the error is %g, with a rate far too low %g", rate, tuned, poor)
	}
}

func TestInspectWeights(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m.ssm")
	run := []string{"replay", numbers(t, "a.libsvm", 2000, 0), "--learner", "online", "--task", "regress", "--tune=off", "--model", model, "-q"}
	must(t, run...)
	got := decode[[]inspect.Description](t, must(t, "model", "inspect", "--json", model))
	if len(got) != 1 || len(got[0].Weights) != 10 || got[0].Bias == nil || got[0].Hashed != 0 {
		t.Fatalf("%+v", got)
	}
	// 10 x4 is the largest linear term of the number.
	if w := got[0].Weights; w[0].Feature != 4 || math.Abs(w[0].Value-10) > 3 || math.Abs(w[2].Value) > math.Abs(w[1].Value) {
		t.Errorf("weights %+v", w)
	}
	if out := must(t, "model", "inspect", model); !strings.Contains(out, "- {feature: 4, value: ") || strings.Count(out, "- {feature: ") != 10 {
		t.Errorf("the text is\n%s", out)
	}
	must(t, append(run, "--hash-dim", "64")...)
	if out := must(t, "model", "inspect", model); !strings.Contains(out, "\nhashed: 64\n") {
		t.Errorf("the text is\n%s", out)
	}
}
