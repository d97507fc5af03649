// Package gate decides whether a candidate may take the place of a champion: by
// bounds that hold however often one looks, on losses of both on the same
// examples, none of which the candidate has learned from.
package gate

import (
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// Mean bounds the mean of numbers in [−1,1] that come one after the other. What
// is bounded is the mean of their expectations, each given all that came before:
// they need be neither independent nor of one distribution, and a stream may
// drift. The bounds hold at all times together, so that they may be looked at
// after every number, and counting may stop because of what they say.
//
// It is the empirical-Bernstein confidence sequence of Howard, Ramdas, McAuliffe
// and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences",
// Annals of Statistics 49, 2021, theorem 4, with the stitched boundary of their
// theorem 1. Choe and Ramdas, "Comparing sequential forecasters", Operations
// Research 72, 2024, compare forecasts with it as is done here.
type Mean struct {
	n        uint64
	sum      float64
	variance float64 // Σ (x_i − the mean of those before)²
}

// Add takes the next number.
func (m *Mean) Add(x float64) {
	d := x - m.sum/float64(m.n+1) // the mean of those before, and of a 0
	m.variance += float64(d * d)
	m.sum += x
	m.n++
}

// N returns how many numbers there are, Value their mean, 0 without any.
func (m *Mean) N() uint64 { return m.n }

// Value returns the mean of the numbers, 0 of none.
func (m *Mean) Value() float64 { return m.sum / float64(max(m.n, 1)) }

// Bounds returns bounds of the mean, of which each one is wrong at any time with
// a probability of at most alpha.
func (m *Mean) Bounds(alpha float64) (low, high float64) {
	if m.n == 0 {
		return -1, 1
	}
	r := boundary(m.variance, alpha) / float64(m.n)
	return max(m.Value()-r, -1), min(m.Value()+r, 1)
}

// Of the boundary: epochs in which the variance grows by the factor eta, from
// first on, get shares of alpha that fall with the power decay of their number.
const (
	eta   = 2.0
	first = 4.0
	decay = 1.4
	zeta  = 3.1055472779775810 // Σ k^−decay over k ≥ 1
	width = 2.0                // of [−1,1]
)

var (
	stitch1 = (math.Pow(eta, 0.25) + math.Pow(eta, -0.25)) / math.Sqrt2
	stitch2 = (math.Sqrt(eta) + 1) / 2
)

// boundary returns what a sum whose variance is v stays below, at all times, but
// with probability alpha.
func boundary(v, alpha float64) float64 {
	v = max(v, first)
	l := float64(decay*math.Log1p(math.Log(v/first)/math.Log(eta))) + math.Log(zeta/alpha)
	b := stitch2 * width * l
	return math.Sqrt(float64(stitch1*stitch1*v*l)+float64(b*b)) + b
}

// Fields describes the state.
func (m *Mean) Fields(f *state.Fields) {
	f.Uint64("examples", &m.n)
	f.Float64("sum", &m.sum)
	f.Float64("variance", &m.variance)
}
