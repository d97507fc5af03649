package l1smooth

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

// Decisions at examples that are held out are about those of learners that have
// seen the others only, each with one weight of the losses.
func TestHeldOut(t *testing.T) {
	const n, folds = 600, 3
	r := rand.New(rand.NewPCG(1, 2))
	xs, fold := make([]*stream.Example, n), make([]int, n)
	for i := range xs {
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, X: stream.Vec{Val: make([]float32, 5)}}
		for j := range x.X.Val {
			x.X.Val[j] = float32(r.NormFloat64())
		}
		x.Y = math.Copysign(1, float64(x.X.Val[0])+float64(x.X.Val[1])/2+.3+r.NormFloat64()/2)
		xs[i], fold[i] = x, i%folds
	}
	learner := func(c float64) *Learner {
		l, err := Spec.New(algos.Env{Seed: 1, Classes: 2}, map[string]string{"c": fmt.Sprint(c)})
		if err != nil {
			t.Fatal(err)
		}
		return l.(*Learner)
	}
	cs := []float64{.01, 1, 100}
	got := learner(1).HeldOut(xs, fold, cs)
	for k, c := range cs {
		off, size := 0.0, 0.0
		for held := range folds {
			l := learner(c)
			for i, x := range xs {
				if fold[i] != held {
					algostest.Feed(t, l, x)
				}
			}
			if _, err := l.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, x := range xs {
				if fold[i] == held {
					want := l.Model().Decision(x.X)
					off += math.Abs(got[k*n+i] - want)
					size += math.Abs(want)
				}
			}
		}
		if !(off < .03*size) {
			t.Errorf("c = %g: decisions differ by %.3f of their size", c, off/size)
		}
	}
}
