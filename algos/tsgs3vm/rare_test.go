package tsgs3vm

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// Where a class is rare and examples are weighed for it, settings are judged by
// the AUC of each fold; else by errors.
func TestRareClassIsJudgedByOrder(t *testing.T) {
	r := rng.New(1, "rare")
	for _, c := range []struct {
		every  int
		weight float32
		ranks  bool
	}{{20, 5, true}, {20, 0, false}, {3, 5, false}} {
		var pool []*stream.Example
		for i := range 200 {
			x := &stream.Example{X: stream.Vec{Val: []float32{float32(r.NormFloat64())}}, Y: -1, Labelled: true}
			if i%c.every == 0 {
				x.Y, x.Weight = 1, c.weight
			}
			pool = append(pool, x)
		}
		g := newGrid(pool, options{shared: shared{}}, 1, 0)
		if g.ranks != c.ranks {
			t.Fatalf("1 in %d, weight %g: by order is %t", c.every, c.weight, g.ranks)
		}
		s := make([]float64, len(pool))
		for i := range s {
			s[i] = math.Round(4*r.NormFloat64()) + g.y[i] // with ties
		}
		for fold := 1; fold <= tuneFolds; fold++ {
			var scores, labels []float64
			rare := 0.0
			for k, f := range g.fold {
				if f == fold {
					scores, labels = append(scores, s[k]), append(labels, g.y[k])
					if g.y[k] > 0 {
						rare++
					}
				}
			}
			if got, want := g.disorder(fold, s), rare*(1-eval.AUC(scores, labels)); math.Abs(got-want) > 1e-9 {
				t.Errorf("1 in %d: fold %d: %g, want %g", c.every, fold, got, want)
			}
		}
	}
}
