// Package lssvm is the learner lssvm, a least-squares SVM on random features. Import it
// for its side effect, to train it or to read its models.
//
// The API is stable.
package lssvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/contrib/scale/internal/normal"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// options are the options of lssvm.
type options struct {
	C        float64 `opt:"c" default:"100" range:"(0,inf)" tune:"log 1 10000" doc:"weight of the losses: lambda = 1/(C n) for n examples; used while lambda is auto"`
	Lambda   float64 `opt:"lambda" default:"auto" range:"(0,inf)" auto:"1/(C n)" doc:"ridge weight"`
	Kernel   string  `opt:"kernel" default:"rbf" enum:"rbf,laplacian" doc:"exp(-gamma |x-z|^2), or exp(-gamma |x-z|) with the l1 norm"`
	Gamma    float64 `opt:"gamma" default:"auto" range:"(0,1e12]" auto:"1/median distance of the first examples" tune:"log 0.01 30" doc:"kernel width"`
	Features int     `opt:"features" default:"1024" range:"[1,16320]" doc:"random features; memory and time grow with the square"`
	Loss     string  `opt:"loss" default:"squares" enum:"squares,hinge" doc:"what passes of streamsvm sum minimise: squares, in one, or the squared hinge, from the least squares that training gives"`

	Refresh float64 `opt:"refresh" fixed:"0.05" range:"(0,100]"` // arrivals between solutions, as a multiple of the examples at the last one; never fewer than half the features
}

// Spec registers lssvm.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "lssvm",
	Summary: "least-squares kernel SVM on random features, exact at each refresh: learns by sums that machines can share",
	When:    "streams that one machine cannot learn from: sums of parts of a stream, added, are those of all of it (streamsvm sum); noise; any number of classes for the price of one",
	Paper:   "Suykens, Vandewalle, Least Squares Support Vector Machine Classifiers, Neural Processing Letters 1999; features of Rahimi, Recht, Random Features for Large-Scale Kernel Machines, NIPS 2007; Newton's method of Keerthi, DeCoste, A Modified Finite Newton Method for Fast Solution of Large Scale Linear SVMs, JMLR 2005",
	Kind:    algos.Features,
	Classes: true,
	Tasks:   []algos.Task{algos.Classify},
}, (*options).check, newLearner, rffmodel.DecodeHeads)

func init() {
	if err := registry.Register(Spec); err != nil {
		panic(err) // another package has registered a learner of this name
	}
}

func (o *options) check() error {
	if o.Features%o.block() != 0 {
		return fmt.Errorf("option features = %d is not a multiple of %d", o.Features, o.block())
	}
	return nil
}

// block is the number of features that are drawn together.
func (o *options) block() int { return min(o.Features, 64) }

// batch is the number of examples whose features are computed together.
const batch = 64

// leastSquares is the learner lssvm: ridge regression of the labels, ±1, on random features
// and a constant. Its Sums hold all that it stores about the examples, and its model
// follows from them alone: it minimises, for each class k of more than two, or once for two,
// or once for two,
//
//	1/(2 Σw) Σ_i w_i (f_k(x_i) − y_ik)² + λ/2 ‖f_k‖²
//
// over f_k(x) = √(2/D) Σ_j a_j φ_j(x) + b, where ‖f‖² = ‖a‖² + b² and φ are the features
// of package rff, rounded to 12 bits. As D grows this becomes the kernel's LS-SVM.
// Cost: D²/2 integer products an example, D³/6 a solution, whatever the number of classes.
//
// After Fix, with the loss hinge, Sum adds only examples inside the margin of the model,
// y_ik f_k(x_i) < 1, to the sums of class k. On these examples the squared hinge loss has the
// gradient and the Hessian of the squares above, so Newton needs nothing else.
//
// Not safe for concurrent use.
type leastSquares struct {
	*samplers.Buffer
	opt   options
	env   algos.Env
	feats *rff.Features // nil until gamma is known
	dim   int           // of the examples
	of    int           // the value of dim at the last solution, as in the model
	sums  *normal.Sums
	wait  int // examples since the last solution
	steps uint64
	sol   normal.Solution
	model algos.Model

	points rff.Points // scratch
	z      []float32
	row    []int16
}

func newLearner(env algos.Env, o options) (algos.Learner, error) {
	opts := samplers.Options{Classes: env.Classes > 2, Every: 1}
	b, err := samplers.New(opts)
	if err != nil {
		return nil, err
	}
	l := &leastSquares{Buffer: b, opt: o, env: env, sol: normal.Solution{Objective: math.NaN(), Norm: math.NaN(), Gap: math.NaN()}}
	heads := 1
	if opts.Classes {
		heads = env.Classes
	}
	if l.sums, err = normal.New(o.Features+1, heads, false); err != nil {
		return nil, err
	}
	if !math.IsNaN(o.Gamma) {
		err = l.draw(o.Gamma)
	}
	l.model = l.modelOf(nil)
	return l, err
}

// ready reports whether the features are known.
func (l *leastSquares) ready() bool { return l.feats != nil }

// draw sets the features for a kernel width.
func (l *leastSquares) draw(gamma float64) (err error) {
	l.feats, err = rff.New(rff.Spectrum(l.opt.Kernel), gamma, l.opt.block(), l.env.Seed, rffmodel.Cache)
	return err
}

// Fix makes the learner, which has no examples yet, use the features of a model made by
// a learner with the same options and, with the loss hinge, its margins.
func (l *leastSquares) Fix(m algos.Model) (err error) {
	parts, _, several := ovr.Parts(m)
	if !several {
		parts = []algos.Model{m}
	}
	x := make([]float64, 0, l.sums.Heads()*l.sums.Dim())
	for _, part := range parts {
		f, ok := part.(*rffmodel.Model)
		if !ok || f.Feats == nil || len(f.Coef) != l.opt.Features || f.Feats.Block() != l.opt.block() || f.Fresh || len(parts) != l.sums.Heads() {
			return fmt.Errorf("the model (%s) has no features of lssvm", m.Info().Text)
		}
		l.feats = f.Feats
		x = append(append(x, f.Offset), f.Coef...)
	}
	if l.opt.Loss == "squares" {
		clear(x)
	} else if l.sums, err = normal.New(l.sums.Dim(), l.sums.Heads(), true); err != nil {
		return err
	}
	l.sol.X = x
	l.model = l.modelOf(x)
	return nil
}

// Add adds a labelled example. It goes into the sums at once, except for the examples
// from which gamma is chosen.
func (l *leastSquares) Add(x *stream.Example) (algos.Fate, error) {
	if l.sums.Full() {
		return algos.SampledOut, &stream.FieldError{Stage: stream.StageLearn, Reason: stream.ReasonLimit, Err: errors.New("lssvm has learned as many examples as its sums can hold")}
	}
	if x.Labelled && l.sums.Heads() > 1 && !(x.Y < float64(l.sums.Heads())) {
		return algos.SampledOut, &stream.FieldError{Stage: stream.StageLabel, Reason: stream.ReasonLabel, Field: "y", Err: fmt.Errorf("label %g is not the number of a class, 0 to %d", x.Y, l.sums.Heads()-1)}
	}
	fate, err := l.Buffer.Add(x)
	if err != nil || fate == algos.SampledOut {
		return fate, err
	}
	l.wait++
	if !l.ready() && len(l.Pending()) >= kernel.Warmup {
		l.choose()
	}
	if l.ready() && len(l.Pending()) >= batch {
		l.sum()
	}
	return fate, nil
}

// choose sets gamma from the pending examples.
func (l *leastSquares) choose() {
	if l.draw(kernel.AutoGamma(l.Vecs(), l.opt.Kernel == string(rff.Laplacian))) != nil {
		_ = l.draw(1)
	}
}

// sum moves the pending examples into the sums.
func (l *leastSquares) sum() {
	if d := l.Take(); len(d.Join) > 0 {
		l.Sum(d.Join)
	}
}

// Sum adds labelled examples that Add would accept to the sums. The features must be
// known.
func (l *leastSquares) Sum(xs []*stream.Example) {
	size, heads, features := l.sums.Dim(), l.sums.Heads(), l.opt.Features
	if l.row == nil {
		l.row, l.z = make([]int16, size+heads), make([]float32, batch*features)
		l.row[0] = normal.One
	}
	for len(xs) > 0 {
		n := min(len(xs), batch)
		l.points.Pack(samplers.Vecs(xs[:n]))
		b := l.opt.block()
		for s := 0; s*b < features; s++ {
			l.feats.Map(l.z[s*b:], features, &l.points, uint64(s))
		}
		for i, x := range xs[:n] {
			l.dim = max(l.dim, x.X.Dim())
			z, w := l.z[i*features:][:features], normal.Weight(x.Importance())
			normal.Round(l.row[1:size], z)
			l.sums.Count(w)
			for k := range heads {
				y := target(x, k, heads)
				if !l.sums.Hinge() {
					l.row[size+k] = normal.One * int16(y)
					continue
				}
				if c := l.sol.X[k*size:][:size]; y*(vec.DotMixed(z, c[1:])/normal.One+c[0]) < 1 {
					l.row[size] = normal.One * int16(y)
					l.sums.Add(k, l.row[:size+1], w)
				}
			}
			if !l.sums.Hinge() {
				l.sums.Add(0, l.row, w)
			}
		}
		xs = xs[n:]
	}
}

// target returns the target of class k, or of the positive class of two.
func target(x *stream.Example, k, heads int) float64 {
	switch {
	case heads == 1:
		return x.Y
	case int(x.Y) == k:
		return 1
	}
	return -1
}

// Sums returns the sums over all examples.
func (l *leastSquares) Sums() *normal.Sums {
	if l.ready() {
		l.sum()
	}
	return l.sums
}

// Dim returns the number of features of the examples in the sums, counted up to the
// last one.
func (l *leastSquares) Dim() int { return l.dim }

// Blank returns the model without any examples.
func (l *leastSquares) Blank() algos.Model { return l.modelOf(make([]float64, len(l.sol.X))) }

// Restore replaces the sums by sums over examples with dim features.
func (l *leastSquares) Restore(s *normal.Sums, dim int) error {
	if s.Dim() != l.sums.Dim() || s.Heads() != l.sums.Heads() || s.Hinge() != l.sums.Hinge() {
		return fmt.Errorf("sums of %d features and %d targets, want %d and %d", s.Dim(), s.Heads(), l.sums.Dim(), l.sums.Heads())
	}
	l.sums, l.dim = s, dim
	return nil
}

// Here returns the objective of the model passed to Fix, from its sums.
func (l *leastSquares) Here() normal.Solution { return l.sums.At(l.sol.X, l.ridge()) }

// Newton returns the model at t of a Newton step from the model passed to Fix.
func (l *leastSquares) Newton(t float64) (algos.Model, error) {
	sol, err := l.sums.Solve(l.ridge())
	if err != nil {
		return nil, err
	}
	l.of = l.dim
	for i, from := range l.sol.X {
		sol.X[i] = from + float64(t*(sol.X[i]-from))
	}
	return l.modelOf(sol.X), nil
}

// AddClass implements algos.ClassAdder.
func (l *leastSquares) AddClass(context.Context) error {
	if l.ready() {
		l.sum()
	}
	l.sums.AddHead()
	l.row = nil
	l.model = l.modelOf(l.sol.X)
	return nil
}

// Need requests a share of the examples at the last solution, but enough that solving
// takes no longer than summing.
func (l *leastSquares) Need() algos.Need {
	want := max(1, l.sums.Dim()/2)
	if math.IsNaN(l.opt.Gamma) && l.steps == 0 {
		want = max(want, kernel.Warmup)
	}
	n := float64(l.sums.Len()) + float64(len(l.Pending())-l.wait)
	if share := math.Ceil(l.opt.Refresh * max(n, 0)); share > float64(want) {
		want = int(min(share, math.MaxInt32))
	}
	return algos.Need{Fresh: max(want-l.wait, 0), Steps: 1}
}

// Step solves the normal equations.
func (l *leastSquares) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if l.wait == 0 {
		return l.Report(), nil
	}
	if !l.ready() {
		l.choose()
	}
	l.sum()
	sol, err := l.sums.Solve(l.ridge())
	if err != nil {
		return algos.Report{}, err
	}
	l.sol, l.of, l.wait = sol, l.dim, 0
	l.steps++
	l.model = l.modelOf(sol.X)
	return l.Report(), nil
}

// Finish solves with the pending examples.
func (l *leastSquares) Finish(ctx context.Context) (algos.Report, error) { return l.Step(ctx) }

func (l *leastSquares) lambda() float64 {
	if !math.IsNaN(l.opt.Lambda) {
		return l.opt.Lambda
	}
	return 1 / (l.opt.C * cmp.Or(l.sums.Mass(), 1))
}

// ridge returns the ridge of each coordinate: a = √(D/2) times the coefficient of
// a random feature.
func (l *leastSquares) ridge() []float64 {
	r, lambda := make([]float64, l.sums.Dim()), l.lambda()
	r[0] = lambda
	for j := range r[1:] {
		r[j+1] = float64(lambda*float64(l.opt.Features)) / 2
	}
	return r
}

// modelOf returns the model with the coefficients x of each head. Classes added after the
// solution have a constant score, and before the first solution all have 0. Until then a
// kernel width chosen from the examples is left out too: the model changes only with
// solutions, so that a restart restores the one that has been published.
func (l *leastSquares) modelOf(x []float64) algos.Model {
	feats := l.feats
	if len(x) == 0 && math.IsNaN(l.opt.Gamma) {
		feats = nil
	}
	size := l.sums.Dim()
	parts := make([]*rffmodel.Model, l.sums.Heads())
	for k := range parts {
		c, offset := make([]float64, size), 0.0
		switch {
		case (k+1)*size <= len(x):
			c = x[k*size : (k+1)*size]
			offset = c[0]
		case len(x) > 0:
			offset = ovr.Blank
		}
		parts[k] = &rffmodel.Model{Feats: feats, Dim: l.of, Coef: c[1:], Scale: 1, Offset: offset}
		if feats == nil {
			parts[k].Coef = nil
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return rffmodel.NewHeads(parts, false)
}

// Report describes the last solution.
func (l *leastSquares) Report() algos.Report {
	r := algos.NewReport()
	r.Step, r.Sample = l.steps, int(min(l.sums.Len(), math.MaxInt32))
	r.Objective, r.GradNorm, r.Certificate = l.sol.Objective, l.sol.Norm, l.sol.Gap
	return r
}

// Model returns the present model.
func (l *leastSquares) Model() algos.Model { return l.model }

// AppendBinary appends the complete state.
func (l *leastSquares) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the state; after an error it is undefined.
func (l *leastSquares) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }

func (l *leastSquares) fields(f *state.Fields) {
	heads, gamma := l.sums.Heads(), 0.0
	if !f.Decoding() && l.ready() {
		l.sum()
	}
	if !f.Decoding() && l.feats != nil {
		gamma = l.feats.Gamma()
	}
	if f.Decoding() {
		l.sums = new(normal.Sums) // the old model may still be in use
		l.sol = normal.Solution{}
	}
	f.Float64("gamma", &gamma)
	f.Group("sums", l.sums.Fields)
	f.Group("buffer", l.Buffer.Fields)
	f.Int("dim", &l.dim)
	f.Int("wait", &l.wait)
	f.Uint64("steps", &l.steps)
	f.Float64s("x", &l.sol.X)
	f.Float64("objective", &l.sol.Objective)
	f.Float64("norm", &l.sol.Norm)
	f.Float64("gap", &l.sol.Gap)
	f.Int("solved_dim", &l.of)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	size, n := l.sums.Dim(), l.sums.Heads()
	switch {
	case size != l.opt.Features+1 || l.sums.Hinge() || n < heads || heads == 1 && n != 1:
		f.Fail("sums", fmt.Errorf("%d features, %d targets, want %d and %d", size, n, l.opt.Features+1, heads))
		return
	case len(l.sol.X) > n*size || len(l.sol.X)%size != 0 || l.steps > 0 && (gamma == 0 || len(l.sol.X) == 0) || l.wait < 0 || l.of < 0 || l.dim < l.of:
		f.Fail("x", fmt.Errorf("%d coefficients of %d targets after %d solutions", len(l.sol.X), n, l.steps))
		return
	}
	if l.feats = nil; gamma != 0 {
		if err := l.draw(gamma); err != nil {
			f.Fail("gamma", err)
			return
		}
	}
	l.model = l.modelOf(l.sol.X)
}
