package algostest

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// weights checks that examples count according to their weights, and that weights of
// 1 change nothing.
func (s *suite) weights(t *testing.T) {
	if l, ok := s.learner(t).(algos.Limited); ok && l.Limits().Unweighted {
		t.Skip("the learner cannot weigh")
	}
	t.Run("one", s.weightOne)
	t.Run("resume", s.weightResume)
	t.Run("heard", s.weightHeard)
	t.Run("twice", s.weightTwice)
}

// fed returns a learner that has learned from xs.
func (s *suite) fed(t *testing.T, xs []*stream.Example) algos.Learner {
	l := s.learner(t)
	Feed(t, l, clone(xs)...)
	if _, err := l.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	return l
}

// weightOne: a weight of 1 is the same as no weight.
func (s *suite) weightOne(t *testing.T) {
	xs := s.moons(s.examples, s.seed)
	without := Bytes(t, s.fed(t, xs))
	for _, x := range xs {
		x.Weight = 1
	}
	if !bytes.Equal(without, Bytes(t, s.fed(t, xs))) {
		t.Error("with a weight of 1 on each example the state is another one")
	}
}

// weightResume: weights are part of the state.
func (s *suite) weightResume(t *testing.T) {
	xs := s.moons(s.examples, s.seed)
	r := rand.New(rand.NewPCG(s.seed, 7))
	for _, x := range xs {
		x.Weight = float32(math.Exp2(4*r.Float64() - 2))
	}
	n := len(xs)/2 + 3
	l := s.learner(t)
	Feed(t, l, clone(xs[:n])...)
	again := s.restore(t, Bytes(t, l))
	Feed(t, l, clone(xs[n:])...)
	Feed(t, again, clone(xs[n:])...)
	if !bytes.Equal(Bytes(t, l), Bytes(t, again)) {
		t.Error("a learner that was restored goes on in another way where examples have weights")
	}
}

// overlapping returns examples with two weakly informative features (with two classes
// only the first one is) and a constant one for models without a bias.
func (s *suite) overlapping(n int, seed uint64) []*stream.Example {
	r := rand.New(rand.NewPCG(seed, 11))
	xs := make([]*stream.Example, n)
	for i := range xs {
		var y, u, v float64
		if s.classes > 2 {
			y = float64(r.IntN(s.classes))
			v, u = math.Sincos(2 * math.Pi * y / float64(s.classes))
		} else {
			y = sign(r.IntN(2) == 0)
			u = 0.7 * y
		}
		x := []float32{float32(u + r.NormFloat64()), float32(v + r.NormFloat64()), 1}
		if s.task == algos.Regress {
			y += 0.5 * r.NormFloat64()
		}
		xs[i] = &stream.Example{Seq: uint64(i + 1), X: stream.Vec{Val: x}, Y: y, Labelled: true}
	}
	return xs
}

// weightHeard: if labels above 0, or labels of the first of several classes, count
// eight times, more decisions favour them. If they count an eighth, fewer do.
func (s *suite) weightHeard(t *testing.T) {
	n := max(s.examples, 2000)
	xs := s.overlapping(n, s.seed)
	level := func(w float32) float64 {
		for _, x := range xs {
			if x.Weight = 0; s.classes > 2 && x.Y == 0 || s.classes <= 2 && x.Y > 0 {
				x.Weight = w
			}
		}
		m := s.fed(t, xs).Model()
		test := s.overlapping(2000, s.seed+1)
		up := 0.0
		for _, x := range test {
			switch f := m.Decision(x.X); {
			case s.task == algos.Regress:
				up += f
			case s.classes > 2 && f == 0, s.classes <= 2 && f >= 0:
				up++
			}
		}
		return up / float64(len(test))
	}
	low, middle, high := level(1./8), level(1), level(8)
	// Few labels may leave all decisions on one side of the middle.
	if !(low <= middle+0.02 && middle <= high+0.02 && low+0.06 < high) {
		t.Errorf("with labels of one class counting 1/8, 1 and 8 times, decisions are at %.3f, %.3f and %.3f", low, middle, high)
	}
}

// weightTwice: an example of weight 2 counts as two examples. The check is for learners
// that report their distance from the optimum.
func (s *suite) weightTwice(t *testing.T) {
	once := s.overlapping(200, s.seed)
	var twice []*stream.Example
	for i, x := range once {
		k := 1
		if i%3 == 0 {
			k, x.Weight = 2, 2
		}
		for range k {
			c := *x
			c.Seq, c.Weight = uint64(len(twice)+1), 0
			twice = append(twice, &c)
		}
	}
	for _, o := range s.spec.Options {
		if _, given := s.options[o.Name]; o.Name == "gamma" && !given {
			s.options["gamma"] = "0.5"
			defer delete(s.options, "gamma")
		}
	}
	a, b := s.fed(t, once).Report(), s.fed(t, twice).Report()
	if a.Sample < len(once) || b.Sample < len(twice) {
		t.Skip("the learner does not hold all examples")
	}
	near := a.Certificate + b.Certificate
	if math.IsNaN(near) || near > 0.05*b.Objective {
		t.Skip("the learner does not say that it is near an optimum")
	}
	if d := math.Abs(a.Objective - b.Objective); !(d <= near+1e-6*math.Abs(b.Objective)) {
		t.Errorf("objective %g with weights of 2, %g with the examples twice; at most %g above the optimum", a.Objective, b.Objective, near)
	}
}
