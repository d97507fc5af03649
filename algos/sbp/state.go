package sbp

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/kernel/rows"
)

// AppendBinary appends the complete state. Responses are stored, because recomputing
// them in another order of summation would round differently. Kernel rows are not
// stored.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the output of AppendBinary; after an error the state is
// undefined.
func (l *Learner) UnmarshalBinary(data []byte) error {
	l.basis, l.cold = kernel.New(kernel.Func{}), kernel.New(kernel.Func{})
	l.rows = rows.New(l.basis, l.opt.CacheMB<<20)
	l.cur, l.bar = level{}, level{}
	l.model = nil
	return state.Decode(data, l.fields)
}

var (
	errLength = errors.New("lengths do not agree")
	errNumber = errors.New("a number is out of range")
)

func (l *Learner) fields(f *state.Fields) {
	// Earlier versions could certify the average.
	dual, gap, uncertified := []float64(nil), math.NaN(), 0
	f.Group("buffer", l.Buffer.Fields)
	f.Binary("rng", l.rng)
	f.Group("points", l.basis.Fields)
	f.Float64s("y", &l.y)
	f.Float64s("a", &l.a)
	f.Float64s("u", &l.u)
	f.Float64s("lag", &l.lag)
	f.Float64s("sum_u", &l.sumU)
	f.Float64s("dual", &dual)
	f.Group("rows", l.rows.Fields)
	f.Group("cold", l.cold.Fields)
	f.Float64s("cold_a", &l.coldA)
	f.Float64s("cold_lag", &l.coldLag)
	f.Int("cold_next", &l.coldNext)
	f.Uint64("removed", &l.removed)
	f.Float64("scale", &l.scale)
	f.Float64("norm2", &l.r2)
	f.Float64("sum_norm2", &l.sum2)
	f.Float64("sum_w", &l.sumW)
	f.Float64("shrunk", &l.shrunk)
	f.Float64("max_diag", &l.maxDiag)
	f.Float64("t", &l.t)
	f.Uint64("step", &l.step)
	f.Float64("sum_scale", &l.sumS)
	f.Float64("weight", &l.weight)
	f.Int("since", &l.since)
	f.Bool("fresh", &l.fresh)
	f.Float64("nu", &l.nu)
	f.Bool("fixed", &l.fixed)
	f.Float64("only", &l.only)
	f.Group("level", l.cur.fields)
	f.Group("level_average", l.bar.fields)
	f.Float64("unit_average", &l.barUnit)
	f.Int("depth", &l.depth)
	f.Int("reach", &l.reach)
	f.Float64("gap", &gap)
	f.Int("uncertified", &uncertified)
	if f.Decoding() && f.Err() == nil {
		l.check(f)
	}
}

func (l *level) fields(f *state.Fields) {
	f.Float64("gamma", &l.gamma)
	f.Float64("bias", &l.bias)
	f.Float64("delta", &l.delta)
	f.Int("under", &l.under)
	if f.Decoding() && (!finite(l.gamma) || !finite(l.bias) || !(l.delta >= 0) || !finite(l.delta)) {
		f.Fail("gamma", errNumber)
	}
}

func finite(x float64) bool { return x-x == 0 }

// check makes f fail for states that no run can have saved.
func (l *Learner) check(f *state.Fields) {
	n := len(l.y)
	for _, v := range [][]float64{l.a, l.u, l.lag, l.sumU} {
		if len(v) != n {
			f.Fail("a", errLength)
			return
		}
		for _, x := range v {
			if !finite(x) {
				f.Fail("a", errNumber)
				return
			}
		}
	}
	if l.basis.Len() != n || l.Len() != n {
		f.Fail("points", errLength)
		return
	}
	for i, y := range l.y {
		if y != 1 && y != -1 {
			f.Fail("y", fmt.Errorf("label of example %d is %g", i, y))
			return
		}
	}
	if c := l.cold.Len(); len(l.coldA) != c || len(l.coldLag) != c || c > l.opt.Frozen || l.coldNext < 0 || l.coldNext > c {
		f.Fail("cold", errLength)
		return
	}
	if l.depth < 1 || l.depth > rows.Block || l.reach < 0 {
		f.Fail("depth", errNumber)
	}
	for _, x := range []float64{l.r2, l.shrunk, l.maxDiag, l.t, l.sumS, l.weight, l.nu} {
		if !(x >= 0) || !finite(x) {
			f.Fail("scale", errNumber)
			return
		}
	}
	if !(l.scale > 0) || !finite(l.scale) || !(l.barUnit > 0) || !finite(l.barUnit) || !finite(l.only) {
		f.Fail("scale", errNumber)
	}
}
