package algostest

import (
	"bytes"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// per returns how many numbers a model predicts for an example.
func (s *suite) per() int {
	if s.classes > 2 {
		return s.classes
	}
	return 1
}

// say returns the predictions of m for xs: decisions, or the scores of all classes.
func (s *suite) say(t *testing.T, m algos.Model, xs ...stream.Vec) []float64 {
	out := make([]float64, s.per()*len(xs))
	if s.classes <= 2 {
		m.Decisions(out, xs)
		return out
	}
	scorer, ok := m.(algos.Scorer)
	if !ok || scorer.Classes() != s.classes {
		t.Errorf("the model, a %T, has no scores of %d classes", m, s.classes)
		return out
	}
	scorer.Scores(out, xs)
	for i, x := range xs {
		if f := m.Decision(x); f != float64(algos.Largest(out[i*s.classes:(i+1)*s.classes])) {
			t.Errorf("the decision is %g, the scores are %v", f, out[i*s.classes:(i+1)*s.classes])
		}
	}
	return out
}

// right reports whether the decision f is right for the label y.
func (s *suite) right(f, y float64) bool {
	if s.classes > 2 {
		return f == y
	}
	return (f >= 0) == (y > 0)
}

// addClass: a new class changes no other score and has a low score itself until
// there are examples of it. Then it is learned. Storing and restoring the learner
// before or after the addition changes nothing.
func (s *suite) addClass(t *testing.T) {
	if s.classes <= 2 {
		t.Skip("there are two classes")
	}
	more := *s
	more.classes++
	xs := more.moons(8*s.examples, s.seed)
	last := float64(s.classes)
	l, other := s.learner(t), s.learner(t)
	begun := false
	var points []stream.Vec
	for i, x := range xs {
		if i < 2*s.examples && x.Y == last {
			continue
		}
		if points = append(points, x.X); x.Labelled && x.Y == last && !begun {
			begun = true
			other = s.restore(t, Bytes(t, other))
			before := s.say(t, l.Model(), points...)
			for _, l := range []algos.Learner{l, other} {
				if err := l.(algos.ClassAdder).AddClass(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			after := more.say(t, l.Model(), points...)
			for i := range points {
				old, now := before[i*s.classes:(i+1)*s.classes], after[i*more.classes:(i+1)*more.classes]
				for k := range old {
					if !sameBits(old[k], now[k]) {
						t.Fatalf("the scores are %v, and %v after a class has been added", old, now)
					}
				}
				if now[s.classes] > -.2 {
					t.Fatalf("a class without examples has the score %g at example %d", now[s.classes], i)
				}
			}
			other = s.restore(t, Bytes(t, other))
		}
		c := *x
		Feed(t, l, x)
		Feed(t, other, &c)
	}
	for _, l := range []algos.Learner{l, other} {
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(Bytes(t, l), Bytes(t, other)) {
		t.Error("states differ after a class has been added to a restored learner")
	}
	n, right := 0., 0.
	for _, x := range more.moons(2000, s.seed+1) {
		if x.Labelled && x.Y == last {
			n++
			if l.Model().Decision(x.X) == last {
				right++
			}
		}
	}
	if right < s.accuracy/2*n {
		t.Errorf("of %g examples of a class that was added %g are told", n, right)
	}
}
