package main

import (
	"encoding/json"
	"math"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/admit"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
)

// TestProbabilities: what replay writes, what predict answers and what the model
// says agree, and a threshold moves labels alone.
func TestProbabilities(t *testing.T) {
	dir := t.TempDir()
	train, test := moons(t, "train.libsvm.gz", 1500, 0), moons(t, "test.libsvm", 400, 5000)
	model, file, page := filepath.Join(dir, "m.ssm"), filepath.Join(dir, "scores.csv"), filepath.Join(dir, "page")
	res := decode[struct{ Prequential eval.Summary }](t, must(t, "replay", train, "--learner", "online", "--tune=off", "--warmup", "100",
		"--model", model, "--scores", file, "--report", page, "--json", "-"))

	// The file has all that the measures are made of.
	data := read(t, file)
	rows := strings.Split(strings.TrimSpace(string(data)), "\n")
	if rows[0] != "decision,probability,label" || len(rows) != 1401 {
		t.Fatalf("%d rows, of which the first is %s", len(rows), rows[0])
	}
	var loss, n, right float64
	for i, row := range rows[1:] {
		cells := strings.Split(row, ",")
		f, _ := strconv.ParseFloat(cells[0], 64)
		y, _ := strconv.ParseFloat(cells[2], 64)
		if (f >= 0) == (y > 0) {
			right++
		}
		if (cells[1] == "") != (i < 200) {
			t.Fatalf("row %d: %s", i, row)
		}
		if p, err := strconv.ParseFloat(cells[1], 64); err == nil {
			loss -= math.Log(map[bool]float64{true: p, false: 1 - p}[y > 0])
			n++
		}
	}
	if s := res.Prequential; math.Abs(loss/n-float64(s.LogLoss)) > 1e-12 || math.Abs(right/1400-float64(s.Accuracy)) > 1e-12 || s.LogLoss > 0.4 || len(s.Window.Reliability) < 10 {
		t.Errorf("log loss %v and accuracy %v of the file, %+v", loss/n, right/1400, s)
	}
	m, err := predictor.Load(model)
	if err != nil {
		t.Fatal(err)
	}
	type line struct{ Decision, Probability, Label, Y float64 }
	ask := func(args ...string) (lines []line) {
		for text := range strings.Lines(must(t, append(append([]string{"predict", "--model", model}, args...), test)...)) {
			lines = append(lines, decode[line](t, text))
		}
		return lines
	}
	plain, careful := ask(), ask("--threshold", "0.9")
	moved := 0
	for i, l := range plain {
		if p, known := m.Probability(l.Decision); !known || p != l.Probability || !(p > 0 && p < 1) {
			t.Fatalf("%+v, the model says %v", l, p)
		}
		want := -1.0
		if l.Probability >= 0.9 {
			want = 1
		}
		if c := careful[i]; c.Label != want || c.Decision != l.Decision || c.Probability != l.Probability || l.Label != m.Label(l.Decision) {
			t.Fatalf("%+v with a threshold, %+v without", c, l)
		}
		if careful[i].Label != l.Label {
			moved++
		}
	}
	if moved < 5 || moved > 200 {
		t.Errorf("the threshold moves %d labels", moved)
	}
	only := strings.Fields(must(t, "predict", "--model", model, "--output", "probability", test))
	if p, err := strconv.ParseFloat(only[7], 64); err != nil || p != plain[7].Probability || len(only) != len(plain) {
		t.Errorf("%d probabilities alone, of which one is %s, want %v", len(only), only[7], plain[7].Probability)
	}
	// The accuracy that is printed is that of the labels.
	hits := 0.0
	for _, l := range careful {
		if l.Label == l.Y {
			hits++
		}
	}
	if _, _, text := streamsvm(t.Context(), "predict", "--model", model, "--threshold", "0.9", test); !strings.Contains(text, "accuracy "+eval.Percent(hits/400)) || !strings.Contains(text, "log loss 0.") {
		t.Errorf("%s; the accuracy is %v", text, hits/400)
	}

	// Over HTTP.
	v := &predictor.Version{Predictor: m}
	p := &predict{
		c: &cli.Call{}, codecFlags: codecFlags{labels: "pm1", comma: ",", maxFeatures: 100}, maxBody: 1000, threshold: 0.9,
		m: metrics.NewPredictor(metrics.NewRegistry(version.String)), ready: new(atomic.Bool), limits: admit.New(admit.Options{}), current: func() *predictor.Version { return v },
	}
	p.ready.Store(true)
	w := httptest.NewRecorder()
	p.routes()["POST /predict"](w, httptest.NewRequestWithContext(t.Context(), "POST", "/predict", strings.NewReader(`{"x":[0.5,0.6]}`)))
	var got struct{ Predictions []line }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		t.Fatalf("%d %s %v", w.Code, w.Body, err)
	}
	l := got.Predictions[0]
	if want, _ := m.Probability(l.Decision); l.Probability != want || (l.Label > 0) != (want >= 0.9) {
		t.Errorf("over HTTP: %+v, want the probability %v", l, want)
	}
}

// learned returns an encoded predictor without its map to probabilities, which
// comes from what was predicted where labels come late.
func learned(t *testing.T, model []byte) []byte {
	t.Helper()
	p, err := pipeline.Decode(model)
	if err != nil {
		t.Fatal(err)
	}
	p.Probability = nil
	data, err := p.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestNoProbabilities: models without them answer null, and no label under a
// threshold.
func TestNoProbabilities(t *testing.T) {
	test := moons(t, "test.libsvm", 10, 5000)
	short := filepath.Join(t.TempDir(), "short.ssm")
	must(t, "replay", moons(t, "train.libsvm", 250, 0), "--learner", "online", "--tune=off", "--warmup", "100", "--model", short, "-q")
	for _, model := range []string{"../../trainer/testdata/before/online2.ssm", short} {
		out := must(t, "predict", "--model", model, test)
		if strings.Count(out, `"probability":null,"label"`) != 10 {
			t.Errorf("%s: %s", model, out)
		}
		if out := must(t, "predict", "--model", model, "--output", "probability", test); out != strings.Repeat("?\n", 10) {
			t.Errorf("%s: %s", model, out)
		}
		code, out, text := streamsvm(t.Context(), "predict", "--model", model, "--threshold", "0.5", test)
		if code != int(cli.Data) || strings.Count(out, `"error"`) != 10 || strings.Contains(out, "label\"") || !strings.Contains(text, "threshold needs") {
			t.Errorf("%s: exit code %d, %s%s", model, code, out, text)
		}
	}
	for _, bad := range []string{"0", "-0.1", "1.1", "NaN"} {
		if code, _, text := streamsvm(t.Context(), "predict", "--model", short, "--threshold", bad, test); code != int(cli.Usage) || !strings.Contains(text, "threshold") {
			t.Errorf("--threshold %s: exit code %d, %s", bad, code, text)
		}
	}
	regression := filepath.Join(t.TempDir(), "r.ssm")
	must(t, "replay", numbers(t, "n.libsvm", 500, 0), "--learner", "online", "--task", "regress", "--tune=off", "--model", regression, "-q")
	if out := must(t, "predict", "--model", regression, numbers(t, "m.libsvm", 5, 900)); strings.Contains(out, "probability") {
		t.Error(out)
	}
	if code, _, text := streamsvm(t.Context(), "predict", "--model", regression, "--threshold", "0.5", test); code != int(cli.Usage) || !strings.Contains(text, "numbers") {
		t.Errorf("a regression: exit code %d, %s", code, text)
	}
}
