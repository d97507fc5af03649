package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/predictor"
)

// explanation is what a prediction says about the fields.
type explanation struct {
	Decision, Constant float64
	Contributions      []struct {
		Feature string
		Value   float64
	}
}

// TestExplain: a contribution is what the decision loses when a field is replaced: in a
// vector by the mean of the stream, in an event by null if nothing was missing in training.
// That is so for every learner.
func TestExplain(t *testing.T) {
	dir := t.TempDir()
	vectors, events, model := filepath.Join(dir, "vectors.json"), filepath.Join(dir, "events.json"), filepath.Join(dir, "m.ssm")
	var b, e strings.Builder
	var sum [2]float64
	const n = 1500
	for _, p := range purchases(n) {
		sum[0], sum[1] = sum[0]+float64(float32(p.amount+1000)), sum[1]+float64(p.hour)
		fmt.Fprintf(&b, `{"x":[%g,%d],"y":%d}`+"\n", p.amount+1000, p.hour, p.sign())
		fmt.Fprintf(&e, `{"country":%q,"amount":%g,"hour":%d,"fraud":%v}`+"\n", p.country, p.amount, p.hour, p.zeroOne() == 1)
	}
	write(t, vectors, b.String())
	write(t, events, e.String())
	for _, tt := range []struct {
		file, learner string
		record        string
		without       map[string]string
	}{
		{vectors, "adaptive", `{"x":[1020,3]}`, map[string]string{
			"feature 1": fmt.Sprintf(`{"x":[%v,3]}`, sum[0]/n), "feature 2": fmt.Sprintf(`{"x":[1020,%v]}`, sum[1]/n),
		}},
		{events, "adaptive", `{"amount":90,"country":"BR","hour":3}`, map[string]string{
			"amount": `{"country":"BR","hour":3}`, "hour": `{"amount":90,"country":"BR"}`,
		}},
		{events, "online", `{"amount":90,"country":"BR","hour":3}`, map[string]string{
			"amount": `{"country":"BR","hour":3}`, "hour": `{"amount":90,"country":"BR"}`,
		}},
	} {
		args := []string{"replay", tt.file, "--learner", tt.learner, "--model", model, "-q"}
		if tt.file == events {
			args = append(args, "--label", "fraud")
		}
		must(t, args...)
		s, err := predictor.Open(t.Context(), predictor.ScorerOptions{File: model})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "one.json")
		write(t, file, tt.record)
		got := decode[explanation](t, must(t, "predict", "--model", model, file, "--explain", "9", "-q"))
		total := got.Constant
		for _, c := range got.Contributions {
			total += c.Value
			other, ok := tt.without[c.Feature]
			if !ok {
				continue
			}
			p, err := s.Score([]byte(other))
			if err != nil {
				t.Fatal(err)
			}
			if d := got.Decision - p.Score; math.Abs(d-c.Value) > 1e-4*(1+math.Abs(d)) {
				t.Errorf("%s, %s: %s contributes %v, want %v", tt.learner, tt.record, c.Feature, c.Value, d)
			}
			delete(tt.without, c.Feature)
		}
		if len(tt.without) > 0 {
			t.Errorf("%s, %s: nothing about %v: %+v", tt.learner, tt.record, tt.without, got)
		}
		if tt.learner == "online" && math.Abs(total-got.Decision) > 1e-5 {
			t.Errorf("%s: they make %v, the decision is %v", tt.record, total, got.Decision)
		}
		one := must(t, "predict", "--model", model, file, "--explain", "1", "-q")
		if strings.Count(one, `"feature":`) != 1 || !strings.Contains(one, fmt.Sprintf(`[{"feature":%q`, got.Contributions[0].Feature)) {
			t.Errorf("the largest one: %s", one)
		}
		if out := must(t, "predict", "--model", model, file, "-q"); strings.Contains(out, "contributions") {
			t.Errorf("unasked: %s", out)
		}
	}
	// The model of the last case, over HTTP.
	srv := newService(t, model, 0)
	for query, want := range map[string]int{"explain=2": 2, "explain": 3} {
		code, answer := post(t, srv.URL+"/predict?"+query, `[{"amount":90,"country":"BR","hour":3}]`)
		var rows struct{ Predictions []explanation }
		if err := json.Unmarshal([]byte(answer), &rows); err != nil || code != 200 || len(rows.Predictions) != 1 || len(rows.Predictions[0].Contributions) != want {
			t.Errorf("%s: %d %s", query, code, answer)
		}
	}
	for _, tt := range []struct {
		query, body string
		code        int
	}{{"explain=-1", "{}", 400}, {"explain=x", "{}", 400}, {"explain=1", "[" + strings.Repeat("{},", 100) + "{}]", 413}, {"", "[" + strings.Repeat("{},", 100) + "{}]", 200}} {
		if code, answer := post(t, srv.URL+"/predict?"+tt.query, tt.body); code != tt.code {
			t.Errorf("%s: %d %s", tt.query, code, answer)
		}
	}
}
