package finitesum

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// Fields describes what an epoch leaves behind. After decoding, and once the
// problem holds the rows that it held, and is as wide as X is long, Restored
// must be called.
func (s *Solver) Fields(f *state.Fields) {
	f.Float64s("snapshot", &s.snap)
	f.Float64s("y", &s.y)
	f.Float64s("z", &s.z)
	f.Float64s("sum", &s.sum)
	f.Int("summed", &s.summed)
	f.Uint64("epoch", &s.epoch)
	f.Uint64("segment", &s.segs)
	f.Int("halved", &s.halved)
	f.Float64s("table", &s.table)
	f.Float64s("mean", &s.gbar)
	f.Float64("passes", &s.passes)
}

// Restored checks what Fields has read and makes the solver ready.
func (s *Solver) Restored() error {
	d, n := s.prob.Dim(), s.prob.Len()
	rows := 0
	if s.par.Method.table() {
		rows = n
	}
	for _, c := range []struct {
		name string
		v    []float64
		want int
	}{
		{"snapshot", s.snap, d}, {"y", s.y, s.wide(SVRGSD, Katyusha)}, {"z", s.z, s.wide(Katyusha)}, {"sum", s.sum, s.wide(SVRGSD)},
		{"table", s.table, rows}, {"mean", s.gbar, s.wide(SAGA, SAGASD)},
	} {
		if len(c.v) != c.want {
			return fmt.Errorf("%s: %d numbers, want %d", c.name, len(c.v), c.want)
		}
		for _, v := range c.v {
			if v-v != 0 {
				return fmt.Errorf("%s: a value is %g", c.name, v)
			}
		}
	}
	if s.summed < 0 || s.halved < 0 || s.halved > 2000 || !(s.passes >= 0) || math.IsInf(s.passes, 1) {
		return fmt.Errorf("%d summed, %d halved, %g passes", s.summed, s.halved, s.passes)
	}
	s.valid, s.sample.n = nothing, 0
	s.room0()
	return nil
}

// wide returns the number of coordinates of a vector that only these methods
// have.
func (s *Solver) wide(methods ...Method) int {
	for _, m := range methods {
		if s.par.Method == m {
			return s.prob.Dim()
		}
	}
	return 0
}

// room0 makes the scratch as wide as the problem.
func (s *Solver) room0() {
	d := s.prob.Dim()
	for _, v := range []*[]float64{&s.grad, &s.x, &s.xh, &s.acc, &s.rowF} {
		if len(*v) < d {
			*v = append(*v, make([]float64, d-len(*v))...)
		}
		*v = (*v)[:d]
	}
}
