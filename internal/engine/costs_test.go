package engine

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/pipeline"
)

// TestCosts tries all thresholds on the probabilities: the one that follows from the costs
// is as good as the best one in hindsight, but for noise, and the mean cost is that of it.
// The published model has the costs, and a restored state goes on with the mean.
func TestCosts(t *testing.T) {
	const fn, fp = 10, 1
	cfg := config(t, "online")
	cfg.Costs, cfg.PublishEvery = "fn=10,fp=1", 500
	items := rings(3000, 4, false)
	e := newEngine(t, cfg)
	var p []float64
	var positive []bool
	watch := func(decision, probability, label float64) {
		if !math.IsNaN(probability) {
			p, positive = append(p, probability), append(positive, label > 0)
		}
	}
	e.scored = watch
	for chunk := range slices.Chunk(items, 100) {
		if _, err := e.Consume(t.Context(), chunk); err != nil {
			t.Fatal(err)
		}
		if len(p) < 800 || len(p) >= 900 {
			continue
		}
		s, err := e.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e = newEngine(t, cfg)
		if err := e.Restore(s); err != nil {
			t.Fatal(err)
		}
		e.scored = watch
	}
	if err := e.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	mean := func(threshold float64) (cost, spread float64) {
		var sum, square float64
		for i, v := range p {
			c := 0.
			switch {
			case v >= threshold && !positive[i]:
				c = fp
			case v < threshold && positive[i]:
				c = fn
			}
			sum, square = sum+c, square+c*c
		}
		n := float64(len(p))
		return sum / n, math.Sqrt((square/n - sum/n*sum/n) / n)
	}
	cost, spread := mean(fp / (fn + fp + 0.))
	best, half := math.Inf(1), 0.
	for i := range 1001 {
		c, _ := mean(float64(i) / 1000)
		if best = min(best, c); i == 500 {
			half = c
		}
	}
	t.Logf("%d probabilities: mean cost %.4f, at best %.4f, at ½ %.4f", len(p), cost, best, half)
	if cost > best+2*spread || half < cost+2*spread {
		t.Errorf("mean cost %g, at best %g, at ½ %g, deviation %g", cost, best, half, spread)
	}
	if got := e.Prequential().Final().Cost; got == nil || math.Abs(float64(*got)-cost) > 1e-9 {
		t.Errorf("the mean cost is %v, want %g", got, cost)
	}
	if got := e.FinalAsPublished().Cost; got == nil || !(*got > 0 && float64(*got) < 2*cost) {
		t.Errorf("the mean cost as published is %v, own %g", got, cost)
	}
	data, err := e.Predictor().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := pipeline.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.Costs, []float64{fp, fn}) {
		t.Errorf("the model has costs %v", m.Costs)
	}
	for _, bad := range []string{"fn=0", "fn", "zz=2", "fn=1,fn=2"} {
		cfg.Costs = bad
		if _, err := NewEngine(cfg); err == nil {
			t.Errorf("costs %q are taken", bad)
		}
	}
	cfg.Signature.Labels, cfg.Costs = "a,b,c", "fn=10,fp=1"
	if _, err := NewEngine(cfg); err == nil || !strings.Contains(err.Error(), "two labels") {
		t.Errorf("false negatives of three labels: %v", err)
	}
}
