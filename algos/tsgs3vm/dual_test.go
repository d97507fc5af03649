package tsgs3vm

import (
	"github.com/streamsvm/streamsvm/compare"
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	ref "github.com/streamsvm/streamsvm/internal/testkit/oracle"
	"github.com/streamsvm/streamsvm/stream"
)

// The supervised arm ends at the optimum of the SVM on its features, by an
// oracle that shares no code with it.
func TestOptimum(t *testing.T) {
	const c, size = 20, 128
	var xs []*stream.Example
	for _, x := range algostest.Moons(200, algos.Classify, 5) {
		if x.Labelled {
			xs = append(xs, x)
		}
	}
	l := learned(t, DSG, map[string]string{"gamma": "2", "c": "20", "features": "128", "block": "32"}, xs)
	d := l.solver.(*dual)
	n := len(xs)
	q, y := make([][]float64, n), make([]float64, n)
	for i := range n {
		q[i] = make([]float64, n)
		y[i] = xs[i].Y
		for j := range n {
			for k := range size {
				q[i][j] += 2. / size * float64(d.z[i][k]) * float64(d.z[j][k])
			}
			q[i][j]++ // the bias
		}
	}
	lambda := 1 / (c * float64(n))
	best := ref.Solve(q, y, lambda, 1e-9, 100000)
	ridge, loss := 0.0, 0.0
	for _, w := range d.arms[0].w {
		ridge += 2. / size * w * w
	}
	ridge += d.arms[0].b * d.arms[0].b
	for _, x := range xs {
		loss += max(0, 1-x.Y*l.Model().Decision(x.X))
	}
	got := lambda/2*ridge + loss/float64(n)
	if got < best.Objective*(1-1e-6) || got > best.Objective*1.01 {
		t.Errorf("objective %g, optimum %g (gap %g)", got, best.Objective, best.Gap)
	}
}

func TestChance(t *testing.T) {
	for _, c := range []struct {
		won, lost uint64
		want      float64
	}{{0, 0, 1}, {5, 0, 1. / 32}, {0, 5, 1}, {4, 1, 6. / 32}, {9, 1, 11. / 1024}, {60, 40, .0284440}} {
		if got := compare.McNemar(c.won, c.lost); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%d to %d: %g, want %g", c.won, c.lost, got, c.want)
		}
	}
}

// The twin is served on ties and without significance; of several arms that
// are significantly better, the best.
func TestServes(t *testing.T) {
	for _, c := range []struct {
		scores [3]pairs
		want   int
	}{
		{[3]pairs{}, 0},
		{[3]pairs{{5, 0}, {3, 0}, {8, 5}}, 0}, // 1/32 > 0.05/3
		{[3]pairs{{6, 0}, {3, 0}, {0, 9}}, 1},
		{[3]pairs{{6, 0}, {20, 4}, {9, 0}}, 2},
		{[3]pairs{{0, 30}, {0, 0}, {30, 29}}, 0},
	} {
		l, err := Spec.New(algos.Env{Seed: 1}, map[string]string{"gamma": "1", "features": "64", "block": "64"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := algos.Feed(t.Context(), l, algostest.Moons(80, algos.Classify, 1)...); err != nil {
			t.Fatal(err)
		}
		g := l.(*Learner)
		d := g.solver.(*dual)
		d.arms = append(d.arms, newArm(0.5, true, 0, 64), newArm(1, true, 0, 64))
		for i, p := range c.scores {
			d.arms[i+1].score = evidence{live: p}
		}
		d.choose(g, false)
		m := d.view(g)
		if d.serve != c.want || (m.Choice == rffmodel.Semi) != (c.want > 0) || m.Rho != d.arms[c.want].rho {
			t.Errorf("%v: arm %d is served, want %d", c.scores, d.serve, c.want)
		}
	}
}

// A full window of fresh blocks: a step changes one slot and a few numbers
// before them, less than a hundredth of the model.
func TestStepChangesOneSlot(t *testing.T) {
	g := newRig(t, 3, 20, 100, "block", "32", "step", "0.1").admit()
	for range 1000 {
		g.iterate(4)
	}
	encode := func() []byte { return algostest.Bytes(t, g.sgd.view(g.Learner)) }
	before := encode()
	g.iterate(4)
	after := encode()
	changed := 0
	for i := range before {
		if before[i] != after[i] {
			changed++
		}
	}
	if len(before) != len(after) || changed*100 > len(after) || changed < 8 {
		t.Errorf("%d of %d bytes change, %d bytes before", changed, len(after), len(before))
	}
}
