package algostest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
)

// deterministic: options, seed and examples determine every byte of the state,
// on any number of processors.
func (s *suite) deterministic(t *testing.T) {
	run := func(procs int) []byte {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		l := s.learner(t)
		Feed(t, l, s.moons(s.examples, s.seed)...)
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		return Bytes(t, l)
	}
	if !bytes.Equal(run(1), run(5)) {
		t.Error("another state at GOMAXPROCS=5 than at 1")
	}
}

// resume: storing and restoring at any point changes nothing, whether the
// restored learner is new or was in use. The published model stays the same too,
// because a restart publishes it again under its old version.
func (s *suite) resume(t *testing.T) {
	r := rand.New(rand.NewPCG(s.seed, 1))
	whole, parts := s.learner(t), s.learner(t)
	used := s.learner(t)
	Feed(t, used, s.moons(s.examples/3, s.seed+1)...)
	parts = s.restore(t, Bytes(t, parts))
	other := clone(s.moons(s.examples, s.seed))
	for i, x := range s.moons(s.examples, s.seed) {
		Feed(t, whole, x)
		if _, err := parts.Add(other[i]); err != nil {
			t.Fatal(err)
		}
		for n := parts.Need(); n.Fresh <= 0; n = parts.Need() {
			for k := range n.Steps {
				if _, err := parts.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
				// Also between two of several steps.
				if k < n.Steps-1 && r.IntN(20) == 0 {
					parts = s.restore(t, Bytes(t, parts))
				}
			}
		}
		if i > 1 && r.IntN(max(s.examples/30, 2)) > 0 {
			continue
		}
		data := Bytes(t, parts)
		if !bytes.Equal(Bytes(t, whole), data) {
			t.Fatalf("seed %d: states differ after %d examples", s.seed, i+1)
		}
		if r.IntN(4) == 0 {
			if err := used.UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
			parts, used = used, parts
		} else {
			parts = s.restore(t, data)
		}
		if !bytes.Equal(data, Bytes(t, parts)) {
			t.Fatalf("seed %d: the state after %d examples changes as it is restored", s.seed, i+1)
		}
		if !bytes.Equal(Bytes(t, publishedBy(whole)), Bytes(t, publishedBy(parts))) {
			t.Fatalf("seed %d: the model after %d examples changes as the state is restored", s.seed, i+1)
		}
	}
	parts = s.restore(t, Bytes(t, parts)) // what only Finish needs has been stored, too
	for _, l := range []algos.Learner{whole, parts} {
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(Bytes(t, whole), Bytes(t, parts)) {
		t.Errorf("seed %d: states differ after Finish", s.seed)
	}
}

// publishedBy returns the model that a subscriber gets.
func publishedBy(l algos.Learner) algos.Model {
	if p, ok := l.(algos.Publisher); ok {
		return p.Published()
	}
	return l.Model()
}

// damage: truncated states and models are refused. With flipped bits they are
// refused or work, and take no more memory than their length allows.
func (s *suite) damage(t *testing.T) {
	r := rand.New(rand.NewPCG(s.seed, 2))
	l := s.learner(t)
	Feed(t, l, s.odd(s.examples/2, s.seed)...)
	points := probes(s.seed)
	decisions := make([]float64, len(points))
	for _, c := range []struct {
		name string
		good []byte
		read func([]byte) error
	}{
		{"state", Bytes(t, l), func(b []byte) error {
			l := s.learner(t)
			if err := l.UnmarshalBinary(b); err != nil {
				return err
			}
			l.Need()
			l.Report()
			l.Model().Decisions(decisions, points)
			Bytes(t, l)
			return nil
		}},
		{"model", Bytes(t, l.Model()), func(b []byte) error {
			m, err := s.spec.DecodeModel(b)
			if err != nil {
				return err
			}
			m.Info()
			m.Decisions(decisions, points)
			Bytes(t, m)
			return nil
		}},
	} {
		if err := c.read(nil); err == nil {
			t.Errorf("%s: no error for nothing", c.name)
		}
		if err := c.read(append(slices.Clone(c.good), 0)); err == nil {
			t.Errorf("%s: no error for a byte too many", c.name)
		}
		// Bad input is compared with the cost of a good read, scratch and probes included.
		usual := allocated(func() { _ = c.read(c.good) })
		for i := range 60 {
			bad := slices.Clone(c.good)
			if i%2 == 0 {
				bad = bad[:r.IntN(len(bad))]
			} else {
				// Lengths are mostly near the beginning of a field.
				at := r.IntN(len(bad))
				if i%4 == 1 {
					at = r.IntN(min(len(bad), 400))
				}
				bad[at] ^= 1 << r.IntN(8)
			}
			var err error
			cost := allocated(func() { err = c.read(bad) })
			if err == nil && i%2 == 0 {
				t.Fatalf("%s, seed %d: no error for %d bytes of %d", c.name, s.seed, len(bad), len(c.good))
			}
			// A packed row of 1,024 features may have no feature but zeros.
			if limit := 2*usual + 8192*uint64(len(bad)) + 1<<22; cost > limit {
				t.Fatalf("%s, seed %d: %d bytes made it allocate %d", c.name, s.seed, len(bad), cost)
			}
		}
	}
}

func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

// countdown is a context that ends after left calls of Err or Done.
type countdown struct {
	context.Context
	cancel context.CancelFunc
	left   int
}

func (c *countdown) ask() {
	if c.left == 0 {
		c.cancel()
	}
	c.left--
}

func (c *countdown) Err() error            { c.ask(); return c.Context.Err() }
func (c *countdown) Done() <-chan struct{} { c.ask(); return c.Context.Done() }

// cancel: a Step whose context ends, before or during it, either completes or
// leaves the state as it was.
func (s *suite) cancel(t *testing.T) {
	whole, l := s.learner(t), s.learner(t)
	refused := 0
	other := s.moons(s.examples, s.seed)
	for i, x := range s.moons(s.examples, s.seed) {
		if _, err := l.Add(x); err != nil {
			t.Fatal(err)
		}
		if _, err := whole.Add(other[i]); err != nil {
			t.Fatal(err)
		}
		due := l.Need()
		if due.Fresh > 0 {
			continue
		}
		// Most steps of busy learners are not cancelled: comparing states takes time.
		for range due.Steps {
			if refused >= 40 && i%50 > 0 {
				break
			}
			for asks := 0; ; asks++ {
				before := Bytes(t, l)
				inner, stop := context.WithCancel(t.Context())
				_, err := l.Step(&countdown{inner, stop, asks})
				stop()
				if err == nil {
					if _, err := whole.Step(t.Context()); err != nil {
						t.Fatal(err)
					}
					break
				}
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("a cancelled Step failed with %v", err)
				}
				if !bytes.Equal(before, Bytes(t, l)) {
					t.Fatalf("a Step cancelled after %d looks at its context changed the state", asks)
				}
				refused++
			}
		}
		Step(t, l)
		Step(t, whole)
	}
	if !bytes.Equal(Bytes(t, l), Bytes(t, whole)) {
		t.Error("cancelled steps left something behind")
	}
}

// follow: a Sequential learner that follows a stream in blocks, some of them one
// example at a time, predicts and learns the same as one whose model is used before
// each example.
func (s *suite) follow(t *testing.T) {
	l, ok := s.learner(t).(algos.Sequential)
	if !ok {
		t.Skip("it is not Sequential")
	}
	whole := s.learner(t)
	r := rand.New(rand.NewPCG(s.seed, 4))
	xs := s.odd(s.examples, s.seed)
	other := clone(xs)
	for at := 0; at < len(xs); {
		n := min(1+r.IntN(1+r.IntN(100)), len(xs)-at)
		var want []float64
		got := make([]float64, n*s.per())
		learned, steps := 0, 0
		for _, x := range other[at : at+n] {
			want = append(want, s.say(t, whole.Model(), x.X)...)
			fate, err := whole.Add(x)
			if err != nil {
				t.Fatal(err)
			}
			if fate == algos.Learned {
				learned++
			}
			if err := algos.StepDue(t.Context(), whole, func() { steps++ }); err != nil {
				t.Fatal(err)
			}
		}
		block := xs[at : at+n]
		if r.IntN(4) == 0 {
			for i, x := range block {
				copy(got[i*s.per():], s.say(t, l.Model(), x.X))
				Feed(t, l, x)
			}
		} else {
			gotLearned, gotSteps, err := l.Follow(t.Context(), got, block)
			if err != nil {
				t.Fatal(err)
			}
			if gotLearned != learned || gotSteps != steps {
				t.Fatalf("seed %d, examples %d to %d: Follow learned from %d in %d steps, want %d in %d", s.seed, at, at+n, gotLearned, gotSteps, learned, steps)
			}
		}
		for i, x := range block {
			got, want := got[i*s.per():(i+1)*s.per()], want[i*s.per():(i+1)*s.per()]
			if x.Labelled && !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-7*(1+math.Abs(b)) }) {
				t.Fatalf("seed %d, example %d: Follow predicts %g, the model %g", s.seed, at+i, got, want)
			}
		}
		if at += n; !bytes.Equal(Bytes(t, l), Bytes(t, whole)) {
			t.Fatalf("seed %d: states differ after %d examples", s.seed, at)
		}
	}
	before := Bytes(t, l)
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := l.Follow(ended, make([]float64, len(xs)*s.per()), xs); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled Follow: %v", err)
	}
	if !bytes.Equal(before, Bytes(t, l)) {
		t.Error("a cancelled Follow changed the state")
	}
}
