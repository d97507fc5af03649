package hinge

import (
	"errors"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

var (
	errLength = errors.New("not one element for each point")
	errLabels = errors.New("a label is neither +1 nor -1")
)

// Fields describes the problem: points, coefficients and the products, without the
// row cache.
func (p *Problem) Fields(f *state.Fields) {
	f.Group("points", p.Basis.Fields)
	p.VectorFields(f)
}

// VectorFields describes the problem without the points, which must exist already.
func (p *Problem) VectorFields(f *state.Fields) {
	f.Float64("lambda", &p.Lambda)
	f.Float64s("w", &p.W)
	f.Float64s("alpha", &p.Alpha)
	f.Float64s("s", &p.S)
	f.Float64s("d", &p.D)
	f.Float64s("p", &p.P)
	f.Bools("active", &p.Active)
	f.Float64s("q", &p.Q)
	f.Float64s("alpha0", &p.Alpha0)
	f.Float64s("s0", &p.S0)
	p.V.Fields(f, p.Basis.Len())
	if !f.Decoding() || f.Err() != nil {
		return
	}
	n := p.Basis.Len()
	for _, v := range p.vectors() {
		if len(*v) != n {
			f.Fail("alpha", errLength)
			return
		}
	}
	if len(p.W) != n || len(p.Active) != n {
		f.Fail("w", errLength)
		return
	}
	for _, w := range p.W {
		if w != 1 && w != -1 {
			f.Fail("w", errLabels)
			return
		}
	}
	p.mass = p.V.Sum(n)
	p.Rows.Restart(p.Basis)
}
