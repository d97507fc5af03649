package scs

import (
	"errors"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/kernel"
)

// AppendBinary appends the complete state. The products Qα, Qd and Q(a∘w) are
// stored, because recomputing them in another order of summation would round
// differently. Kernel rows are not stored: they can be recomputed bit for bit.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the output of AppendBinary, in a learner that was made
// with the same options.
func (l *Learner) UnmarshalBinary(data []byte) error {
	l.classifiers[0].p, l.classifiers[0].model = nil, nil
	return state.Decode(data, l.fields)
}

var (
	errSeq    = errors.New("not one number for each point of the sample")
	errRadius = errors.New("not a positive number")
)

func (l *Learner) fields(f *state.Fields) {
	c := l.classifiers[0]
	f.Group("buffer", l.Growing.Fields)
	f.Uint64("k", &c.k)
	f.Float64("delta", &c.delta)
	f.Bool("fresh", &c.fresh)
	f.Float64("norm", &c.norm)
	f.Float64("step", &c.step)
	f.Bool("moved", &c.moved)
	f.Group("counters", c.counts.fields)
	if l.guarded() {
		f.Group("pace", l.growth.fields)
		f.Group("proof", c.cert.fields)
		f.Group("model", c.modelFields)
	}
	begun := l.begun()
	f.Bool("begun", &begun)
	if f.Decoding() && f.Err() == nil && !(c.delta > 0) {
		f.Fail("delta", errRadius)
	}
	if begun && f.Err() == nil {
		if f.Decoding() {
			l.share(kernel.New(kernel.Func{}))
		}
		f.Group("problem", c.p.Fields)
		c.checkLambda(f)
	}
	l.checkSample(f)
}

// checkSample checks that the buffer has numbers for all points.
func (l *Learner) checkSample(f *state.Fields) {
	if f.Decoding() && f.Err() == nil && l.Len() != l.size() {
		f.Fail("buffer.seq", errSeq)
	}
}

func (c *classifier) checkLambda(f *state.Fields) {
	if f.Decoding() && f.Err() == nil && !(c.p.Lambda > 0 && c.p.Lambda < math.Inf(1)) {
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
