package tsgs3vm

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// meanSteps is the number of steps over which the mean forgets old iterates.
const meanSteps = 64

// iterates is a mean of the n iterates so far, coefficients and bias.
type iterates struct {
	w []float64
	b float64
	n uint64
}

// add adds the iterate scale·w with bias b. The weights are linear, later exponential.
func (m *iterates) add(w []float64, scale, b float64) {
	if m.w == nil {
		m.w = make([]float64, len(w))
	}
	m.n++
	t := max(2/float64(m.n+1), 1./meanSteps)
	for j, v := range w {
		m.w[j] += float64(t * (float64(v*scale) - m.w[j]))
	}
	m.b += float64(t * (b - m.b))
}

func (m *iterates) fields(f *state.Fields, features int) {
	f.Float64s("mean", &m.w)
	f.Float64("mean_b", &m.b)
	f.Uint64("averaged", &m.n)
	switch {
	case !f.Decoding() || f.Err() != nil:
	case m.n == 0:
		m.w = nil
	case len(m.w) != features:
		f.Fail("mean", fmt.Errorf("%d coefficients of %d features after %d iterates", len(m.w), features, m.n))
	}
}
