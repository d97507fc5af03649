// Package pegasos learns a kernel SVM from a stream with Pegasos, by stochastic
// subgradient steps.
//
// Options are stable; the package has no other API.
package pegasos

import (
	"context"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Learner runs kernel Pegasos (Shalev-Shwartz, Singer, Srebro, Cotter,
// Mathematical Programming 127, 2011, section 4).
//
// It minimises λ/2 ‖w‖² + E max(0, 1 − y f(x)), f(x) = ⟨w, Φ(x)⟩, by steps on
// minibatches of k examples. With counts a_j of the violations seen so far,
//
//	w_{t+1} = 1/(λ t) Σ_j a_j Φ(x_j),   a_i += y_i/k where y_i f_t(x_i) < 1
//
// which is the step w_{t+1} = (1 − η λ) w_t + η/k Σ y_i Φ(x_i), η = 1/(λ t), in
// a form in which no coefficient but those of violators changes.
//
// The loss of an example of weight v counts v times, a_i += v y_i/k, but where
// that is more than the step of weight 1 it ends at the margin (Karampatziakis and
// Langford 2011): with plain multiples a few heavy examples undo each other.
//
// Paper → code: α_t[j] |coef[j]|, t step, k Options.Batch, λ lambda().
//
// Departures: each example of the stream is used once, in order, instead of
// being drawn from a fixed set; there is no projection (eq. 6), which the paper
// calls optional; λ may be 1/(C n) with the growing number n of examples; the bias
// is that of the kernel K + bias; averaging gives later iterates more weight by default
// (Lacoste-Julien, Schmidt and Bach, arXiv:1212.2002).
//
// With removal=fade the numbers t and n of the formulas are those of effective
// steps and examples. Once an eighth of Budget support vectors has come, they, the
// a_j and the weights of past iterates in the average are multiplied by g in
// each step with new ones, g near 1 − 8/Budget for each. For a given λ that
// leaves w as it is and keeps the step size from falling further; λ = 1/(C n)
// stays that of the n examples in which an eighth of Budget support vectors come.
// A support vector in w has at most e⁻⁷ of its weight left when it goes. If it goes with its full weight, as it does with λ = 1/(C n),
// where all coefficients are C, it takes with it what it is in all past
// iterates: the average is then no longer one of iterates but a sum over the
// present support vectors, with the largest weights on those about to go.
//
// Cost: as many kernel evaluations for each example as there are support
// vectors. Memory: at most Budget support vectors. Not safe for concurrent use.
type Learner struct {
	*samplers.Buffer
	opt options

	step, n uint64
	t, seen float64 // effective numbers of steps and examples
	came    float64 // violators that became support vectors, each with the weight it has left
	basis   *kernel.Basis
	coef    []float64 // signed, in the units of the formula above
	seq     []uint64  // of the support vectors
	scale   float64   // 1/(λ t)

	// The average of the iterates is Σ_j (coef_j·sum − lag_j)/weight Φ(x_j).
	sum, weight float64
	lag         []float64

	rng *rng.Source // of states only: earlier versions drew from it

	evals                int64
	violations, removals uint64
	hinge                float64 // progressive mean, over Gauge "hinge"

	model *expansion.Expansion
}

func newLearner(env algos.Env, o options) (algos.Learner, error) {
	b, err := samplers.New(samplers.Options{Every: o.Batch, Batches: true, Warmup: o.Warmup()})
	return &Learner{
		Buffer: b,
		opt:    o, basis: kernel.New(o.Func(o.Bias, nil)),
		rng: rng.New(env.Seed, "pegasos.draw"),
	}, err
}

// Step does an iteration on the oldest batch of new examples.
func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	l.learn()
	return l.Report(), nil
}

// Finish learns from what is pending, the last batch being as small as it is.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) {
	for len(l.Pending()) > 0 {
		if err := ctx.Err(); err != nil {
			return algos.Report{}, err
		}
		l.learn()
	}
	return l.Report(), nil
}

// next hands out the oldest batch of new examples.
func (l *Learner) next() []*stream.Example {
	if !l.Ready() {
		l.basis = kernel.New(l.opt.Func(l.opt.Bias, l.Vecs()))
	}
	return l.Take().Join
}

// learn learns from the oldest batch of new examples.
func (l *Learner) learn() {
	batch := l.next()
	n := len(batch)
	if n == 0 {
		return
	}
	l.n += uint64(n)
	for _, x := range batch {
		l.seen += x.Importance()
	}
	l.iterate(batch)
}

func (l *Learner) lambda() float64 {
	if math.IsNaN(l.opt.Lambda) {
		return 1 / (l.opt.C * l.seen)
	}
	return l.opt.Lambda
}

// iterate does step t on a batch.
func (l *Learner) iterate(batch []*stream.Example) {
	l.model = nil
	u := l.scores(batch)
	l.step++
	l.t++
	inc := 1 / float64(len(batch))
	for i, x := range batch {
		loss := 1 - x.Y*float64(l.scale*u[i])
		seen := float64(l.n) - float64(len(batch)-i-1)
		l.hinge += (max(loss, 0) - l.hinge) / seen
		inc := l.heed(x, inc, loss)
		if loss <= 0 {
			continue
		}
		l.violations++
		l.raise(x, float64(inc*x.Y))
	}
	l.fade()
	l.scale = 1 / (l.lambda() * l.t)
	for len(l.coef) > l.opt.Budget {
		l.remove(l.victim())
	}
	if l.opt.Average != "none" {
		l.sum += float64(l.t * l.scale)
		l.weight += l.t
	}
}

// heed returns by how much the coefficient of an example of that loss rises, where
// it would be inc with a weight of 1.
func (l *Learner) heed(x *stream.Example, inc, loss float64) float64 {
	w := x.Importance()
	if w <= 1 || loss <= 0 {
		return w * inc
	}
	scale := 1 / (l.lambda() * l.t)
	return min(w*inc, max(inc, loss/max(float64(scale*l.between(x, x)), 1e-300)))
}

// raise adds c to the coefficient of x, which becomes a support vector.
func (l *Learner) raise(x *stream.Example, c float64) {
	l.basis.Append(x.X)
	l.coef = append(l.coef, c)
	l.lag = append(l.lag, 0)
	l.lag[len(l.lag)-1] += float64(c * l.sum) // 0 and not −0 where there is no sum yet
	l.seq = append(l.seq, x.Seq)
	l.came++
}

// spans is the size of the budget, as a multiple of the number of further support
// vectors after which e⁻¹ is left of one's weight. With fewer, removals are felt in
// the average (see package perceptron); with more, what is learned is that of
// fewer examples.
const spans = 8

// fade takes weight from all that was learned, so that the weights that support
// vectors have left sum up to no more than an eighth of the budget.
func (l *Learner) fade() {
	most := max(1, float64(l.opt.Budget)/spans)
	if l.opt.Removal != "fade" || l.came <= most {
		return
	}
	g := most / l.came
	for j, a := range l.coef {
		l.lag[j] = float64(g * (l.lag[j] - float64(a*l.sum)))
		l.coef[j] *= g
	}
	l.sum = 0
	l.weight *= g
	l.t *= g
	l.seen *= g
	l.came = most
}

// victim chooses the support vector to go.
func (l *Learner) victim() int {
	best, size := 0, math.Inf(1)
	for j, c := range l.coef {
		s := math.Abs(c) * math.Sqrt(l.basis.Diag(j))
		if s < size || s == size && l.seq[j] < l.seq[best] {
			best, size = j, s
		}
	}
	return best
}

// remove drops support vector j; the last one takes its place.
func (l *Learner) remove(j int) {
	last := len(l.coef) - 1
	if j != last {
		l.basis.Set(j, l.basis.Row(last))
		l.coef[j], l.lag[j], l.seq[j] = l.coef[last], l.lag[last], l.seq[last]
	}
	l.basis.Truncate(last)
	l.coef, l.lag, l.seq = l.coef[:last], l.lag[:last], l.seq[:last]
	l.removals++
}

// scores returns Σ_j coef_j K(x_j, x) for every x of the batch.
func (l *Learner) scores(batch []*stream.Example) []float64 {
	u := make([]float64, len(batch))
	l.basis.Sums(u, samplers.Vecs(batch), l.coef)
	l.evals += int64(len(l.coef) * len(batch))
	return u
}

// between returns K(x,z) for two examples outside the basis.
func (l *Learner) between(x, z *stream.Example) float64 {
	b := kernel.New(l.basis.Func)
	b.Append(x.X)
	var k [1]float32
	b.Block(k[:], 1, []stream.Vec{z.X}, 0, 1)
	l.evals++
	return float64(k[0])
}

// Report describes the present state.
func (l *Learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step = l.step
	r.Sample = len(l.coef) + l.Len()
	r.KernelEvals = l.evals
	if l.step > 0 {
		r.StepSize = 1 / (l.lambda() * l.t)
	}
	r.Gauges = []stream.Measure{
		{Name: "hinge", Value: l.hinge},
		{Name: "violations", Value: float64(l.violations)},
		{Name: "removals", Value: float64(l.removals)},
	}
	return r
}

// Model returns the last iterate, or the average.
func (l *Learner) Model() algos.Model {
	if l.model == nil {
		c := make([]float64, len(l.coef))
		for j, a := range l.coef {
			if l.opt.Average == "none" {
				c[j] = a * l.scale
			} else {
				c[j] = (float64(a*l.sum) - l.lag[j]) / l.weight
			}
		}
		l.model = expansion.View(l.basis, c, 0)
	}
	return l.model
}

func (l *Learner) fields(f *state.Fields) {
	f.Group("buffer", l.Buffer.Fields)
	f.Uint64("step", &l.step)
	f.Uint64("n", &l.n)
	f.Float64("t", &l.t)
	f.Float64("seen", &l.seen)
	f.Float64("came", &l.came)
	f.Group("support", l.basis.Fields)
	f.Float64s("coef", &l.coef)
	f.Uint64s("seq", &l.seq)
	f.Float64("scale", &l.scale)
	p, sq := 1.0, 0.0 // of projections, which earlier versions had
	f.Float64("p", &p)
	f.Float64("sq", &sq)
	f.Float64("sum", &l.sum)
	f.Float64("weight", &l.weight)
	f.Float64s("lag", &l.lag)
	f.Binary("rng", l.rng)
	f.Int64("evals", &l.evals)
	f.Uint64("violations", &l.violations)
	f.Uint64("removals", &l.removals)
	f.Float64("hinge", &l.hinge)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	n := l.basis.Len()
	if len(l.coef) != n || len(l.seq) != n || len(l.lag) != n {
		f.Fail("coef", fmt.Errorf("%d coefficients for %d support vectors", len(l.coef), n))
	}
	l.model = nil
}

// AppendBinary appends the complete state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the state; after an error it is undefined.
func (l *Learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }
