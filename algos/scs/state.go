package scs

import (
	"errors"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/kernel"
)

// AppendBinary appends the complete state. The products Qα, Qd and Q(a∘w) are
// stored, because recomputing them in another order of summation would round
// differently. Kernel rows are not stored: they can be recomputed bit for bit.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the output of AppendBinary, in a learner that was made
// with the same options.
func (l *Learner) UnmarshalBinary(data []byte) error {
	l.p, l.model = nil, nil
	return state.Decode(data, l.fields)
}

var (
	errSeq    = errors.New("not one number for each point of the sample")
	errRadius = errors.New("not a positive number")
)

func (l *Learner) fields(f *state.Fields) {
	f.Group("buffer", l.Growing.Fields)
	f.Uint64("k", &l.k)
	f.Float64("delta", &l.delta)
	f.Bool("fresh", &l.fresh)
	f.Float64("norm", &l.norm)
	f.Float64("step", &l.step)
	f.Bool("moved", &l.moved)
	f.Group("counters", l.counts.fields)
	if l.guarded() {
		f.Group("pace", l.growth.fields)
		f.Group("proof", l.cert.fields)
		f.Group("model", l.modelFields)
	}
	begun := l.p != nil
	f.Bool("begun", &begun)
	if f.Decoding() && f.Err() == nil && !(l.delta > 0) {
		f.Fail("delta", errRadius)
	}
	if f.Decoding() && f.Err() == nil && !begun && l.Len() > 0 {
		f.Fail("buffer.seq", errSeq)
	}
	if !begun || f.Err() != nil {
		return
	}
	if f.Decoding() {
		l.p = hinge.New(kernel.New(kernel.Func{}), l.opt.CacheMB<<20)
	}
	f.Group("problem", l.p.Fields)
	if f.Decoding() && f.Err() == nil && l.Len() != l.p.Len() {
		f.Fail("buffer.seq", errSeq)
	}
	if f.Decoding() && f.Err() == nil && (!(l.p.Lambda > 0) || math.IsInf(l.p.Lambda, 1)) {
		f.Fail("problem.lambda", errRadius)
	}
}

func (c *counters) fields(f *state.Fields) {
	f.Uint64("accepted", &c.accepted)
	f.Uint64("rejected", &c.rejected)
	f.Uint64("null", &c.null)
	f.Uint64("capped", &c.capped)
	f.Uint64("waited", &c.waited)
	f.Float64("decrease_s", &c.dS)
	f.Float64("decrease_t", &c.dT)
	f.Float64("objective_t", &c.fT)
	f.Float64("forgotten", &c.forgotten)
}
