// Package online learns linear models from a stream, one update per example:
// passive-aggressive, stochastic gradients, or normalised adaptive gradients.
//
// Options are stable; the package has no other API.
package online

import (
	"context"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Learner keeps f(x) = b + Σ_j w_j x_j and updates it once on every labelled
// example (x, y). With a diagonal metric D an update is the implicit step
//
//	w ← w + s D x,   s = −∂L(f(x) + q s, y)/∂f,   q = Σ_j D_j x_j²
//
// which minimises ½ (w′−w)ᵀ D⁻¹ (w′−w) + L(w′ᵀx, y) and so never overshoots a
// label, whatever the step size. The bias is the weight of a constant feature
// √Bias.
//
// An example of weight k has the loss k L. Its step uses k D in place of D and does
// not overshoot the label either (importance-aware updates: Karampatziakis and
// Langford 2011). G_j and the counts of examples treat it as an example of weight
// 1.
//
// pa: D = C. With the hinge or the ε-insensitive loss it is PA-I, with the squared
// hinge or the squared loss PA-II (Crammer et al.).
//
// sgd: D = Rate/t^Power at the t-th example that had a loss.
//
// nag: D_j = Rate·Y·√(t/N)/(σ_j √G_j) (Ross, Mineiro and Langford, algorithm 2),
// where σ_j is the largest |x_j|, G_j the sum of squared gradients in w_j, N the
// sum of x_j²/σ_j² over all features and examples, and Y the scale of the labels: 1
// for classes, their standard deviation for numbers. When σ_j grows, w_j shrinks by
// the same factor. So the units of the features and of a numeric target do not
// matter.
//
// Departures: the step is implicit; the sums are over the examples that had a loss;
// Y is added; Memory makes G, N and t decay by 1 − 1/Memory per example.
//
// Work that touches all weights (regularisation, forgetting and averaging) is
// deferred and done in one sweep, once as many features have been visited as there
// are weights, but at least sweepEvery examples apart. So an update costs
// O(nonzeros). Regularisation for k examples is the proximal step w_j ←
// soft(w_j, k L1 D_j)/(1 + k L2 D_j); the bias is exempt. An average is over the
// iterates at the sweeps.
//
// Memory: 8 bytes per weight, 24 with nag, 8 more with averaging. It does not
// depend on the number of examples. A Learner is not safe for concurrent use.
type Learner struct {
	*samplers.Buffer
	opt     options
	loss    loss
	regress bool
	nag     bool
	z       float64 // the constant feature

	n, updates    uint64 // number of examples, and of examples that had a loss
	w             []float64
	b             float64   // weight of the constant feature
	hist          []float64 // nag: G_j at 2j, σ_j at 2j+1
	histB         float64   // G of the bias; its σ is z
	t, norm       float64   // nag: t and N, both discounted
	meanY, devY   float64   // regression: mean of the labels, sum of squared deviations
	avg           []float64
	avgB, sweeps  float64
	touched, left uint64  // features visited, and updates, since the last sweep
	mean          float64 // mean of the loss, for the gauge "loss"

	model *model.Linear
	d     []float64 // scratch: D_j for the features of the example
}

// sweepEvery is the smallest number of updates between sweeps. Otherwise, with few
// features, every update would need a sweep.
const sweepEvery = 16

func newLearner(env algos.Env, o options) (algos.Learner, error) {
	k, err := lossOf(o, env.Task)
	if err != nil {
		return nil, err
	}
	b, err := samplers.New(samplers.Options{Regress: env.Task == algos.Regress, Every: 1})
	if err != nil {
		return nil, err
	}
	l := &Learner{Buffer: b, opt: o, loss: k, regress: env.Task == algos.Regress, nag: o.Update == "nag", z: math.Sqrt(o.Bias)}
	l.renew()
	return l, nil
}

// Step learns from the example. The report it returns has no gauges.
func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	for _, x := range l.Take().Join {
		l.update(&x.X, x.Y, x.Importance())
	}
	return l.basic(), nil
}

// Follow implements algos.Sequential. The update of an example starts from its
// prediction, so the prediction is computed only once.
func (l *Learner) Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error) {
	if _, err := l.Step(ctx); err != nil {
		return 0, 0, err
	}
	for i, x := range xs {
		if !x.Labelled {
			continue
		}
		if l.opt.Average != "none" {
			dst[i] = float64(l.avgB*l.z) + linear.Dot(l.avg, x.X)
			l.update(&x.X, x.Y, x.Importance())
		} else {
			dst[i] = l.update(&x.X, x.Y, x.Importance())
		}
		learned++
	}
	return learned, learned, nil
}

// Passes implements algos.Passing.
func (l *Learner) Passes() {}

// Finish learns from a pending example and does a last sweep.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) {
	if _, err := l.Step(ctx); err != nil {
		return algos.Report{}, err
	}
	if l.left > 0 {
		l.sweep()
	}
	return l.Report(), nil
}

// update learns from one example. It returns the prediction of the weights before
// the update.
func (l *Learner) update(x *stream.Vec, y, weight float64) float64 {
	l.n++
	if n := len(x.Idx); x.Idx == nil && len(x.Val) > len(l.w) || n > 0 && int(x.Idx[n-1]) >= len(l.w) { // not Dim, which would copy x
		l.widen(x.Dim())
	}
	before, beyond := l.look(x)
	f := before
	if l.regress && l.label(y) {
		f = l.predict(x)
	}
	if beyond && l.rescale(x) {
		f = l.predict(x)
	}
	g := l.loss.slope(f, y, l.opt.Epsilon)
	l.note(f, y, g)
	if g == 0 {
		return before
	}
	l.updates++
	if l.nag {
		l.stepEach(x, f, y, g, weight)
	} else {
		d := l.rate()
		q := d * (float64(l.z*l.z) + linear.Square(*x))
		if q > 0 {
			s := l.loss.step(f, y, g, l.opt.Epsilon, weight*q) * (weight * d)
			linear.Axpy(s, *x, l.w)
			l.b += float64(s * l.z)
		}
	}
	l.touched += uint64(len(x.Val))
	l.left++
	if l.left >= sweepEvery && l.touched >= uint64(len(l.w)) {
		l.sweep()
	}
	return before
}

// predict returns f(x).
func (l *Learner) predict(x *stream.Vec) float64 { return float64(l.b*l.z) + linear.Dot(l.w, *x) }

// look returns f(x), and whether a feature may be larger than its σ_j.
func (l *Learner) look(x *stream.Vec) (f float64, beyond bool) {
	if x.Idx == nil || !l.nag {
		return l.predict(x), l.nag
	}
	var sum linear.Lanes
	w, val, hist := l.w, x.Val[:len(x.Idx)], l.hist
	for k, j := range x.Idx {
		v := float64(val[k])
		sum[uint32(j)%uint32(len(sum))] += float64(v * w[j])
		if math.Abs(v) > hist[2*int(j)+1] {
			beyond = true
		}
	}
	return float64(l.b*l.z) + sum.Sum(), beyond
}

// widen makes room for n features.
func (l *Learner) widen(n int) {
	l.w = linear.Grow(l.w, n)
	if l.nag {
		l.hist = linear.Grow(l.hist, 2*n)
	}
	if l.opt.Average != "none" {
		l.avg = linear.Grow(l.avg, n)
	}
	l.renew()
}

// renew creates the view of the model.
func (l *Learner) renew() {
	if l.opt.Average != "none" {
		l.model = model.NewLinear(l.avg, float64(l.avgB*l.z))
		return
	}
	l.model = model.NewLinear(l.w, float64(l.b*l.z))
}

// label adds a numeric label to the statistics. The bias starts at the first label;
// label reports whether it has set the bias.
func (l *Learner) label(y float64) bool {
	first := l.n == 1 && l.z > 0
	if first {
		l.b = y / l.z
		l.avgB = l.b
	}
	d := y - l.meanY
	l.meanY += d / float64(l.n)
	l.devY += float64(d * (y - l.meanY))
	return first
}

// note adds the loss to its mean.
func (l *Learner) note(f, y, g float64) {
	var v float64
	switch l.loss {
	case hinge:
		v = max(0, 1-float64(y*f))
	case squaredHinge:
		v = max(0, 1-float64(y*f))
		v *= v
	case squared:
		v = float64((y-f)*(y-f)) / 2
	case epsilon:
		v = max(0, math.Abs(y-f)-l.opt.Epsilon)
	case logistic:
		// The slope is as informative as the loss, and needs no logarithm.
		v = math.Abs(g)
	}
	l.mean += (v - l.mean) / float64(l.n)
}

// rescale raises σ_j to |x_j| where it is smaller, and reports whether a weight has
// changed.
func (l *Learner) rescale(x *stream.Vec) bool {
	changed := false
	for k, v := range x.Val {
		j := k
		if x.Idx != nil {
			j = int(x.Idx[k])
		}
		a, old := math.Abs(float64(v)), l.hist[2*j+1]
		if !(a > old) {
			continue
		}
		l.hist[2*j+1] = a
		if l.w[j] != 0 {
			l.w[j] *= old / a
			changed = true
		}
	}
	return changed
}

// stepEach is the update of nag. g is −∂L/∂f.
func (l *Learner) stepEach(x *stream.Vec, f, y, g, weight float64) {
	if cap(l.d) < len(x.Val) {
		l.d = make([]float64, 2*len(x.Val))
	}
	d := l.d[:len(x.Val)]
	// q without the factor common to all D_j, in the order of the features.
	q, norm, hist := 0.0, l.norm, l.hist
	for k, v32 := range x.Val {
		if v32 == 0 {
			d[k] = 0
			continue
		}
		j := k
		if x.Idx != nil {
			j = int(x.Idx[k])
		}
		v, top := float64(v32), hist[2*j+1]
		if a := math.Abs(v); a == top { // as always for features that are 0 or 1
			norm++
		} else {
			u := a / top
			norm += float64(u * u)
		}
		e := float64(g * v)
		sum := hist[2*j] + float64(e*e)
		hist[2*j] = sum
		c := v / (top * math.Sqrt(sum)) // D_j x_j
		d[k] = c
		q += float64(c * v)
	}
	l.norm = norm
	dz := 0.0
	if l.z > 0 {
		l.norm++
		e := float64(g * l.z)
		l.histB += float64(e * e)
		dz = 1 / math.Sqrt(l.histB)
		q += float64(dz * l.z)
	}
	l.t++
	rate := l.rate()
	q *= rate
	if !(q > 0 && q < math.Inf(1)) {
		return
	}
	s := l.loss.step(f, y, g, l.opt.Epsilon, weight*q) * (weight * rate)
	w := l.w
	for k, c := range d {
		if c == 0 {
			continue
		}
		j := k
		if x.Idx != nil {
			j = int(x.Idx[k])
		}
		w[j] += float64(s * c)
	}
	l.b += float64(s * dz)
}

// rate returns the factor common to all D_j, which is D itself except for nag.
func (l *Learner) rate() float64 {
	switch {
	case l.nag:
		if l.norm == 0 {
			return 0
		}
		r := l.opt.Rate * math.Sqrt(l.t/l.norm)
		if l.regress {
			r *= math.Sqrt(l.devY / float64(l.n))
		}
		return r
	case l.opt.Update == "pa":
		return l.opt.C
	case l.opt.Power == 0:
		return l.opt.Rate
	case l.opt.Power == 0.5:
		return l.opt.Rate / math.Sqrt(float64(l.updates))
	}
	return l.opt.Rate * power(float64(l.updates), -l.opt.Power)
}

// Report describes the present state.
func (l *Learner) Report() algos.Report {
	r := l.basic()
	r.Gauges = []stream.Measure{{Name: "loss", Value: l.mean}, {Name: "updates", Value: float64(l.updates)}}
	return r
}

func (l *Learner) basic() algos.Report {
	r := algos.NewReport()
	r.Step = l.n
	return r
}

// Model returns a view of the weights, or of their average.
func (l *Learner) Model() algos.Model {
	bias := l.b
	if l.opt.Average != "none" {
		bias = l.avgB
	}
	*l.model = *model.NewLinear(l.model.Weights(), float64(bias*l.z))
	return l.model
}
