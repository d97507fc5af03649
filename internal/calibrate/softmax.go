package calibrate

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// Softmax is the map for more than two classes: the probability of a class is
// proportional to the exponential of Slope times its score in units of Scale.
// Scores 12 units or more below the largest count as 12 below.
type Softmax struct {
	Slope float64 // ≥ 0
	Scale float64 // > 0
}

// Probabilities sets dst[k] to the probability of class k, given the scores of all
// classes; dst may be scores. The class with the largest score has the largest
// probability. If a score is NaN or infinite, all are NaN.
func (m *Softmax) Probabilities(dst, scores []float64) {
	relative(dst, scores, m.Scale)
	softmax(dst, m.Slope)
}

// relative sets dst to the scores minus the largest one.
func relative(dst, scores []float64, scale float64) {
	top := math.Inf(-1)
	for _, s := range scores {
		top = max(top, s)
	}
	for k, s := range scores {
		dst[k] = max((s-top)/scale, -2*limit)
		if math.IsInf(s, -1) {
			dst[k] = math.NaN()
		}
	}
}

// softmax replaces scores, none of them positive, by probabilities.
func softmax(v []float64, slope float64) {
	sum := 0.0
	for k := range v {
		if v[k] == v[k] {
			v[k] = linear.ExpNeg(-float64(slope * v[k]))
		}
		sum += v[k]
	}
	for k := range v {
		v[k] /= sum
	}
}

// Fields describes the map.
func (m *Softmax) Fields(f *state.Fields) {
	f.Float64("slope", &m.Slope)
	f.Float64("scale", &m.Scale)
	if f.Decoding() && !(m.Slope >= 0 && m.Slope <= steepest && m.Scale > 0 && m.Scale <= math.MaxFloat64) {
		f.Fail("scale", fmt.Errorf("%+v is not a map to probabilities", *m))
	}
}

// OnlineSoftmax learns a Softmax from a sequence of scores and classes.
type OnlineSoftmax struct {
	labels         uint64
	squares, count float64 // discounted sums of the variances of scores, and of 1
	slope, curve   float64
	v, p           []float64 // scratch for the current example; not part of the state
}

// NewOnlineSoftmax returns an OnlineSoftmax before the first label.
func NewOnlineSoftmax() *OnlineSoftmax { return &OnlineSoftmax{slope: 1, curve: 1} }

// Map returns the current map, and whether there have been enough labels to use it.
func (o *OnlineSoftmax) Map() (Softmax, bool) {
	return Softmax{Slope: o.slope, Scale: unit(o.squares, o.count)}, o.labels >= Least
}

// Learn updates the map with a label, from 0 to len(scores)−1, and the scores of its
// example from before learning. It ignores scores that are not finite or are too large.
func (o *OnlineSoftmax) Learn(scores []float64, class int) {
	var mean, square float64
	for _, s := range scores {
		if !(math.Abs(s) < 1e150) {
			return
		}
		mean += s / float64(len(scores))
	}
	for _, s := range scores {
		square += float64((s-mean)*(s-mean)) / float64(len(scores))
	}
	o.v, o.p = append(o.v[:0], scores...), append(o.p[:0], scores...)
	relative(o.v, scores, unit(o.squares, o.count))
	copy(o.p, o.v)
	softmax(o.p, o.slope)
	o.labels++
	o.squares = float64((1-forget)*o.squares) + square
	o.count = float64((1-forget)*o.count) + 1

	// Derivatives of the loss slope·(−v_class) + ln Σ exp(slope·v_k).
	var first, second float64
	for k, v := range o.v {
		first += float64(o.p[k] * v)
	}
	for k, v := range o.v {
		second += float64(float64(o.p[k]*(v-first)) * (v - first))
	}
	first -= o.v[class]
	o.curve = float64((1-forget)*o.curve) + max(second, curvature) + forget
	o.slope = min(max(o.slope-first/o.curve, 0), steepest)
}

// Fields describes the state.
func (o *OnlineSoftmax) Fields(f *state.Fields) {
	f.Uint64("labels", &o.labels)
	f.Float64("squares", &o.squares)
	f.Float64("count", &o.count)
	f.Float64("slope", &o.slope)
	f.Float64("curve", &o.curve)
}
