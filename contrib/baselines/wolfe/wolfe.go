// Package wolfe is the deterministic conjugate subgradient method on the whole
// sample collected so far, the baseline that SCS is compared with (Wolfe, "A
// method of conjugate subgradients for minimizing nondifferentiable functions",
// Mathematical Programming Study 3, 1975).
//
// It minimises f(α) = λ/2 α'Qα + 1/m Σ v_i max(0, 1 − w_i (Qα)_i), v_i being the
// weights of the examples and m their sum. With G the
// bundle {−d_{k−1}, g_k} an iteration is
//
//	d_k = −Nr(G),  t_k in L ∩ R (weak Wolfe conditions),  α_{k+1} = α_k + t_k d_k.
//
// A null step, for which no t of at least the smallest length lies in L, keeps
// α but takes the subgradient at the trial point into the bundle. When ‖d‖ ≤
// eps after steps of total length above acc_tol the bundle is reset to the
// subgradient at α, and otherwise the run ends.
//
// Examples are collected and the whole problem is worked on at doubling sample
// sizes and at the end. Cost: one kernel row for each hinge that turns on or
// off (a product with Q in the alpha geometry), O(m) otherwise; no m × m matrix.
//
// Options are stable; the package has no other API.
package wolfe

import (
	"context"
	"errors"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/samplers"
)

// options are the learner's options; the tags say what they mean.
type options struct {
	C float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.1 1000" doc:"weight of the losses as in LIBSVM: lambda = 1/(C m); used while lambda is auto"`
	kernel.Options
	MaxSample int `opt:"max_sample" default:"20000" range:"[1,1e7]" doc:"largest sample; examples that come later are skipped"`

	Lambda   float64 `opt:"lambda" fixed:"auto" range:"(0,inf)" auto:"1/(C m)"` // ridge weight
	Bias     float64 `opt:"bias" fixed:"1" range:"[0,inf)"`                     // constant added to the kernel, which gives the model a regularised bias; 0 for none
	Initial  int     `opt:"initial" fixed:"256" range:"[1,1e6]"`                // examples before the first step; the next steps are due at doubled sizes
	Iter     int     `opt:"iterations" fixed:"300" range:"[1,1e7]"`             // most iterations a step
	CacheMB  int     `opt:"cache" fixed:"256" range:"[0,1e6]"`                  // bound on the cache of kernel rows, MiB; changes no result
	Geometry string  `opt:"geometry" fixed:"rkhs" enum:"rkhs,alpha"`            // metric of directions and steps: the function space or the Euclidean coefficients
	Eps      float64 `opt:"eps" fixed:"1e-3" range:"(0,inf)"`                   // the direction counts as zero when it is no longer than this
	AccTol   float64 `opt:"acc_tol" fixed:"1e-3" range:"[0,inf)"`               // total length of steps since the last reset at which a zero direction ends the run
}

// Constants of the line search, with 0 < decrease < 1/2 and decrease < curvature
// < 1. They are those of scs, which this is the baseline for.
const (
	decrease  = 0.25
	curvature = 0.45
)

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "wolfe",
	Summary: "deterministic conjugate subgradient kernel SVM on all examples so far",
	When:    "as a baseline, on up to some thousand examples",
	Paper:   "Wolfe: A method of conjugate subgradients for minimizing nondifferentiable functions",
	Kind:    algos.Kernel,
	Gone: map[string]string{
		"c1": "the constant of sufficient decrease is 0.25", "c2": "the constant of curvature is 0.45",
	},
	Presets: map[string]map[string]string{
		"paper": {"lambda": "1", "bias": "0", "geometry": "alpha"},
	},
}, nil, newLearner, expansion.Decode)

// Learner runs the method. Not safe for concurrent use.
type Learner struct {
	*samplers.Buffer // of the first ones: the points are in p
	opt              options
	p                *hinge.Problem // nil before the first step

	due   int // sample size at which a step is due
	k     uint64
	norm  float64
	step  float64
	model *expansion.Expansion
}

var _ algos.Learner = (*Learner)(nil)

func newLearner(_ algos.Env, o options) (algos.Learner, error) {
	b, err := samplers.New(samplers.Options{Policy: samplers.First, Size: o.MaxSample, Every: o.Initial})
	return &Learner{Buffer: b, opt: o, due: min(o.Initial, o.MaxSample), norm: math.NaN(), step: math.NaN()}, err
}

// Need says how many examples are missing for the next doubling.
func (l *Learner) Need() algos.Need { return l.NeedOf(l.due - l.Len()) }

// Step works on all examples so far.
func (l *Learner) Step(context.Context) (algos.Report, error) {
	l.work()
	l.due = min(max(l.due, 2*l.Len()), l.opt.MaxSample)
	return l.Report(), nil
}

// Finish works on all examples.
func (l *Learner) Finish(context.Context) (algos.Report, error) {
	if l.Len()+len(l.Pending()) > 0 {
		l.work()
	}
	return l.Report(), nil
}

func (l *Learner) work() {
	if l.p == nil {
		l.p = hinge.New(kernel.New(l.opt.Func(l.opt.Bias, l.Vecs())), l.opt.CacheMB<<20)
	}
	p, w, join := l.p, []float64(nil), l.Take().Join
	for _, x := range join {
		p.Basis.Append(x.X)
		w = append(w, x.Y)
	}
	p.Extend(w, weight.Of(join))
	p.Lambda = l.opt.Lambda
	if math.IsNaN(p.Lambda) {
		p.Lambda = 1 / (l.opt.C * p.Mass())
	}
	p.Refresh()
	l.descend()
	l.model = nil
}

// descend runs the method from the present α.
func (l *Learner) descend() {
	p := l.p
	acc, last := 0.0, 1.0
	l.turn(true)
	for range l.opt.Iter {
		l.k++
		if l.norm <= l.opt.Eps {
			if acc <= l.opt.AccTol {
				return
			}
			acc = 0
			l.turn(true)
			continue
		}
		line := p.Line()
		t, trial := line.Bracket(decrease, curvature, l.norm, last)
		l.step = t * l.norm
		if t > 0 {
			last = t
			acc += t * l.norm
			p.Move(t)
			l.turn(false)
			continue
		}
		// Null step: α stays, d turns by the subgradient at the trial point.
		acc += trial * l.norm
		p.Mark()
		p.Move(trial)
		l.turn(false)
		p.Revert()
		p.Refresh()
	}
}

// turn sets the next direction; reset forgets the bundle.
func (l *Learner) turn(reset bool) {
	if l.opt.Geometry == "alpha" {
		l.norm = l.p.TurnAlpha(reset)
	} else {
		l.norm = l.p.TurnRKHS(reset)
	}
}

// Report describes the present state.
func (l *Learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step, r.GradNorm, r.StepSize, r.KernelEvals, r.Sample = l.k, l.norm, l.step, 0, l.Len()+len(l.Pending())
	if l.p != nil && l.p.Len() > 0 {
		r.Objective, r.Certificate, r.KernelEvals = l.p.Objective(), l.p.Certificate(), l.p.Rows.Evals
	}
	return r
}

// Model returns the expansion over the points with non-zero coefficients.
func (l *Learner) Model() algos.Model {
	if l.model == nil {
		l.model = expansion.New(kernel.New(kernel.Func{}), nil, 0)
		if l.p != nil {
			l.model = expansion.New(l.p.Basis, l.p.Alpha, 0)
		}
	}
	return l.model
}

// AppendBinary appends the complete state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores what AppendBinary wrote.
func (l *Learner) UnmarshalBinary(data []byte) error {
	l.p, l.model = nil, nil
	return state.Decode(data, l.fields)
}

func (l *Learner) fields(f *state.Fields) {
	f.Group("buffer", l.Buffer.Fields)
	f.Int("due", &l.due)
	f.Uint64("k", &l.k)
	f.Float64("norm", &l.norm)
	f.Float64("step", &l.step)
	begun := l.p != nil
	f.Bool("begun", &begun)
	if f.Decoding() && f.Err() == nil && !begun && l.Len() > 0 {
		f.Fail("begun", errSample)
	}
	if !begun || f.Err() != nil {
		return
	}
	if f.Decoding() {
		l.p = hinge.New(kernel.New(kernel.Func{}), l.opt.CacheMB<<20)
	}
	f.Group("problem", l.p.Fields)
	if f.Decoding() && f.Err() == nil && l.Len() != l.p.Len() {
		f.Fail("problem", errSample)
	}
}

var errSample = errors.New("it is not on the sample")
