package tsgs3vm

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

// What the model has scored before makes no difference to what is learned: the
// points themselves in one group or in two, others, or ones that have since
// changed in place.
func TestScoredChangesNothing(t *testing.T) {
	for _, spec := range []algos.Spec{Spec, DSG} {
		run := func(before func(l *Learner, xs []*stream.Example)) []byte {
			l, err := spec.New(algos.Env{Seed: 5}, map[string]string{"features": "128", "block": "32", "gamma": "1", "c": "10"})
			if err != nil {
				t.Fatal(err)
			}
			xs := algostest.Moons(600, algos.Classify, 7)
			for len(xs) > 0 {
				for l.Need().Fresh <= 0 {
					if _, err := l.Step(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				n := min(len(xs), l.Need().Fresh)
				before(l.(*Learner), xs[:n])
				for _, x := range xs[:n] {
					if _, err := l.Add(x); err != nil {
						t.Fatal(err)
					}
				}
				xs = xs[n:]
			}
			if _, err := l.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			out, err := l.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		score := func(l *Learner, xs []*stream.Example) {
			var vs []stream.Vec
			for _, x := range xs {
				vs = append(vs, x.X)
			}
			l.Model().Decisions(make([]float64, len(vs)), vs)
		}
		found := 0
		want := run(func(*Learner, []*stream.Example) {})
		for name, before := range map[string]func(*Learner, []*stream.Example){
			"the same": func(l *Learner, xs []*stream.Example) {
				score(l, xs)
				if d := l.solver.(*dual); l.step > 0 && d.scored.find(l.feats, 128, []stream.Vec{xs[len(xs)-1].X}) != nil {
					found++
				}
			},
			"the second half": func(l *Learner, xs []*stream.Example) { score(l, xs[len(xs)/2:]) },
			"more":            func(l *Learner, xs []*stream.Example) { score(l, append(algostest.Moons(3, algos.Classify, 1), xs...)) },
			"others":          func(l *Learner, xs []*stream.Example) { score(l, algostest.Moons(len(xs), algos.Classify, 1)) },
			"changed": func(l *Learner, xs []*stream.Example) {
				var was []float32
				for _, x := range xs {
					was = append(was, x.X.Val[0])
					x.X.Val[0]++
				}
				score(l, xs)
				for i, x := range xs {
					x.X.Val[0] = was[i]
				}
			},
		} {
			if got := run(before); !bytes.Equal(got, want) {
				t.Errorf("%s: %s, scored before: another state", spec.Name, name)
			}
		}
		if found < 5 {
			t.Errorf("%s: features were found %d times", spec.Name, found)
		}
	}
}

// Points are the same only if all of them is: of binary sparse ones the values
// always agree.
func TestScoredFind(t *testing.T) {
	sparse := func(idx ...int32) stream.Vec {
		x := stream.Vec{Idx: idx}
		for range idx {
			x.Val = append(x.Val, 1)
		}
		return x
	}
	dense := stream.Vec{Val: []float32{1, 1}}
	s := &scored{z: []float32{0, 1, 2, 3, 4, 5}}
	s.keep(nil, 2, []stream.Vec{sparse(0, 3), sparse(1, 3), dense})
	for _, c := range []struct {
		xs   []stream.Vec
		want []float32
	}{
		{[]stream.Vec{sparse(0, 3), sparse(1, 3), dense}, []float32{0, 1, 2, 3, 4, 5}},
		{[]stream.Vec{sparse(1, 3), dense}, []float32{2, 3, 4, 5}},
		{[]stream.Vec{sparse(1, 3)}, []float32{2, 3}},
		{[]stream.Vec{sparse(0, 2)}, nil},
		{[]stream.Vec{sparse(0, 1)}, nil}, // dense, it is among them
		{[]stream.Vec{sparse(0, 3), dense}, nil},
		{[]stream.Vec{sparse(0)}, nil},
		{[]stream.Vec{dense, dense}, nil},
		{nil, nil},
	} {
		if got := s.find(nil, 2, c.xs); !slices.Equal(got, c.want) {
			t.Errorf("%v: found %v, want %v", c.xs, got, c.want)
		}
	}
	if s.find(nil, 3, []stream.Vec{dense}) != nil {
		t.Error("features of another number were found")
	}
}

// The end of a step on another processor, and features computed meanwhile, change
// nothing of what is predicted and of the state.
func TestOverlapChangesNothing(t *testing.T) {
	for _, spec := range []algos.Spec{Spec, DSG} {
		run := func(procs int, expects bool) ([]float64, []byte) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			made, err := spec.New(algos.Env{Seed: 5}, map[string]string{"gamma": "1", "c": "10", "features": "2048"})
			if err != nil {
				t.Fatal(err)
			}
			l := made.(*Learner)
			xs := algostest.Moons(900, algos.Classify, 7)
			said, states := make([]float64, len(xs)), []byte(nil)
			for from := 0; from < len(xs); {
				n := min(len(xs)-from, l.Need().Fresh)
				vs := l.vectors(xs[from : from+n])
				if expects {
					l.Expect(vs)
				}
				l.Model().Decisions(said[from:], vs)
				if _, err := algos.Feed(t.Context(), l, xs[from:from+n]...); err != nil {
					t.Fatal(err)
				}
				if from += n; from == len(xs) || from/128 != (from-n)/128 {
					states = append(states, algostest.Bytes(t, l)...)
				}
			}
			return said, states
		}
		said, states := run(1, false)
		for _, procs := range []int{2, 4} {
			if f, s := run(procs, true); !slices.Equal(f, said) || !bytes.Equal(s, states) {
				t.Errorf("%s: other predictions or states on %d processors", spec.Name, procs)
			}
		}
	}
}
