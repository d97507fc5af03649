package gate

import (
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// ConfidenceSequence bounds the mean of numbers in [−1,1] that arrive one after the
// other. It bounds the mean of their expectations, each given all earlier numbers, so
// they need be neither independent nor identically distributed: the stream may drift.
// The bounds hold at all times simultaneously. You may look at them after every
// number, and stop because of them.
//
// It is the empirical-Bernstein confidence sequence of Howard, Ramdas, McAuliffe and
// Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of
// Statistics 49, 2021, theorem 4, with the stitched boundary of their theorem 1. Choe
// and Ramdas, "Comparing sequential forecasters", Operations Research 72, 2024, compare
// forecasts in this way.
type ConfidenceSequence struct {
	n        uint64
	sum      float64
	variance float64 // Σ (x_i − mean of the numbers before x_i)²
}

// Add adds the next number.
func (s *ConfidenceSequence) Add(x float64) {
	d := x - s.sum/float64(s.n+1) // the mean of the earlier numbers and a 0
	s.variance += float64(d * d)
	s.sum += x
	s.n++
}

// N returns how many numbers have been added.
func (s *ConfidenceSequence) N() uint64 { return s.n }

// Mean returns the mean of the numbers, 0 without any.
func (s *ConfidenceSequence) Mean() float64 { return s.sum / float64(max(s.n, 1)) }

// Bounds returns a lower and an upper bound of the mean. Each of them is ever wrong
// with probability at most alpha.
func (s *ConfidenceSequence) Bounds(alpha float64) (low, high float64) {
	if s.n == 0 {
		return -1, 1
	}
	r := boundary(s.variance, alpha) / float64(s.n)
	return max(s.Mean()-r, -1), min(s.Mean()+r, 1)
}

// Parameters of the boundary. Time is divided into epochs in which the variance grows
// by the factor eta, starting at first. Epoch k gets a share of alpha proportional to
// k^−decay.
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

// boundary returns a bound of a sum with variance v that is ever exceeded with
// probability at most alpha.
func boundary(v, alpha float64) float64 {
	v = max(v, first)
	l := float64(decay*math.Log1p(math.Log(v/first)/math.Log(eta))) + math.Log(zeta/alpha)
	b := stitch2 * width * l
	return math.Sqrt(float64(stitch1*stitch1*v*l)+float64(b*b)) + b
}

// Fields describes the state.
func (s *ConfidenceSequence) Fields(f *state.Fields) {
	f.Uint64("examples", &s.n)
	f.Float64("sum", &s.sum)
	f.Float64("variance", &s.variance)
}
