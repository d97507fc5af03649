package l1smooth

import (
	"errors"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

var (
	errLength = errors.New("lengths do not agree")
	errNumber = errors.New("a number is out of range")
)

// AppendBinary appends the complete state, without margins and gradients: every
// iteration recomputes them from weights and examples.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the output of AppendBinary; after an error the state is
// undefined.
func (l *Learner) UnmarshalBinary(data []byte) error {
	l.model = nil
	return state.Decode(data, l.fields)
}

func (l *Learner) fields(f *state.Fields) {
	f.Group("buffer", l.Buffer.Fields)
	f.Bool("solving", &l.solving)
	f.Bool("full", &l.full)
	f.Bool("settled", &l.settled)
	f.Int("iterations", &l.iters)
	f.Int("n", &l.n)
	f.Uint64("step", &l.step)
	f.Uint64("solved", &l.solved)
	f.Uint64("limited", &l.limited)
	f.Group("solver", l.s.fields)
	if f.Decoding() && f.Err() == nil {
		l.check(f)
	}
}

func (s *solver) fields(f *state.Fields) {
	f.Float64("lambda", &s.lambda)
	f.Float64("mu", &s.mu)
	f.Float64s("w", &s.w)
	f.Bools("active", &s.active)
	f.Int("k", &s.k)
	f.Bool("adjust", &s.adjust)
	f.Bool("begin", &s.begin)
	f.Int("enlarged", &s.enlarged)
	f.Uint64("steps", &s.steps)
	f.Uint64("passes", &s.passes)
	f.Uint64("hessians", &s.hessians)
	f.Uint64("values", &s.values)
	f.Uint64("failures", &s.failures)
	f.Uint64("products", &s.products)
	f.Float64("objective", &s.objective)
	f.Float64("gap", &s.gap)
	f.Float64("slope", &s.slope)
	f.Float64("length", &s.length)
}

// check makes f fail for states that no run can have saved, and packs the examples.
func (l *Learner) check(f *state.Fields) {
	s, m := &l.s, len(l.s.w)
	f.Fail("w", linear.Finite(s.w, []float64{s.lambda, s.mu}))
	switch {
	case m != len(s.active) || m > l.opt.Dim+1:
		f.Fail("w", errLength)
	case s.lambda < 0 || s.mu < 0 || s.k < 0 || s.k > len(s.alphas) || s.enlarged < 0 || s.enlarged > enlargements || l.iters < 0 || l.n < 0 || l.n > l.opt.Buffer:
		f.Fail("k", errNumber)
	case l.solving && (s.k == len(s.alphas) || l.n != l.Len() || l.n < 2):
		f.Fail("solving", errNumber)
	}
	if f.Err() != nil {
		return
	}
	s.blocks, s.known = nil, false
	s.dim = max(m-1, 0)
	l.pack(nil)
	if len(s.w) != m {
		f.Fail("w", errLength)
	}
}
