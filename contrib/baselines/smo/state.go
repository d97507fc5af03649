package smo

import (
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/kernel/rows"
)

var (
	errLength = errors.New("lengths do not agree")
	errNumber = errors.New("a number is out of range")
)

func (l *Learner) fields(f *state.Fields) {
	f.Group("buffer", l.Buffer.Fields)
	f.Group("points", l.basis.Fields)
	f.Float64s("y", &l.y)
	f.Float64s("alpha", &l.alpha)
	f.Float64s("s", &l.s)
	f.Group("rows", l.rows.Fields)
	f.Uint64("step", &l.step)
	f.Float64("bound", &l.bound)
	f.Float64("b", &l.b)
	f.Float64("violation", &l.worst)
	f.Bool("fresh", &l.fresh)
	f.Uint64("removed", &l.removed)
	l.v.Fields(f, len(l.y))
	if f.Decoding() && f.Err() == nil {
		l.check(f)
	}
}

func finite(x float64) bool { return x-x == 0 }

// check refuses a state that cannot have been stored.
func (l *Learner) check(f *state.Fields) {
	n := len(l.y)
	if l.basis.Len() != n || l.Len() != n || len(l.alpha) != n || len(l.s) != n {
		f.Fail("points", errLength)
		return
	}
	if !(l.bound >= 0) || !finite(l.bound) || !finite(l.b) || !(l.worst >= 0) {
		f.Fail("bound", errNumber)
		return
	}
	for i, y := range l.y {
		if y != 1 && y != -1 {
			f.Fail("y", fmt.Errorf("label of example %d is %g", i, y))
			return
		}
		if !(l.alpha[i] >= 0 && l.alpha[i] <= l.most(i)) || !finite(l.s[i]) {
			f.Fail("alpha", errNumber)
			return
		}
	}
	l.diag = nil
	l.measure(nil, !l.basis.Sparse())
}

// AppendBinary appends the complete state. Responses are stored, since sums
// made in another order would differ in rounding; kernel rows are not.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores what AppendBinary wrote; after an error the state is
// undefined.
func (l *Learner) UnmarshalBinary(data []byte) error {
	l.basis = kernel.New(kernel.Func{})
	l.rows = rows.New(l.basis, l.opt.CacheMB<<20)
	l.model = nil
	return state.Decode(data, l.fields)
}
