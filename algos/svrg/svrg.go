// Package svrg learns linear models from a stream with variance-reduced stochastic
// gradients, on a sample of the stream. Package finitesum implements the methods;
// this package makes them learners.
//
// Options are stable; the package has no other API.
package svrg

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/finitesum"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Learner minimises
//
//	1/n Σ loss(wᵀx_i + β b, y_i) + λ/2 (‖w‖² + b²) + l1 ‖w‖₁
//
// over the n labelled examples in a window or reservoir. β² is the option bias and
// β b the model's bias. A refresh adds the arrivals to the sample, which is one
// step, and then runs epochs on it, one step each. The next refresh starts where
// this one ended. An interrupted epoch is run again from its snapshot.
//
// Memory: the examples, with saga-sd one number per example, about 12 vectors, and with
// up to 64 coordinates (optionally 1,000) half a Gram matrix. It is not safe for
// concurrent use.
type Learner struct {
	*samplers.Buffer
	opt    options
	par    finitesum.Params
	loss   finitesum.Loss
	prob   *finitesum.Problem
	solver *finitesum.Solver
	gram   *finitesum.Gram // nil: θ is not computed from a Gram matrix
	stale  int             // rows removed from gram since it was rebuilt

	due   int  // epochs still to be run on the present sample
	fresh bool // examples have been added since Finish
	steps uint64
	note  note
	model *model.Linear
	w     []float64
}

// note has the values to report about the last epoch.
type note struct{ objective, norm, bound, eta, thetaMin, thetaMax float64 }

const autoGram = 64 // see option theta

func newLearner(env algos.Env, m *finitesum.Method, o options) (algos.Learner, error) {
	loss, err := lossOf(o.Loss, env.Task)
	if err != nil {
		return nil, err
	}
	b, err := samplers.New(samplers.Options{
		Regress: env.Task == algos.Regress, Features: o.Features,
		Policy: samplers.Policy(o.Keep), Size: o.Buffer, Hold: true, Seed: env.Seed, Every: 1,
	})
	if err != nil {
		return nil, err
	}
	nan := math.NaN()
	l := &Learner{
		Buffer: b, opt: o, par: o.params(m, env.Seed), loss: loss,
		note:  note{nan, nan, nan, nan, 1, 1},
		model: model.NewLinear(nil, 0),
	}
	l.begin()
	return l, nil
}

// begin creates an empty problem and a solver at 0.
func (l *Learner) begin() {
	l.prob = &finitesum.Problem{Loss: l.loss, Lasso: l.opt.L1, Bias: math.Sqrt(l.opt.Bias)}
	l.weigh()
	l.solver = finitesum.NewSolver(l.prob, l.par)
}

// weigh sets λ for the present number of examples.
func (l *Learner) weigh() {
	l.prob.Ridge = l.opt.Lambda
	if math.IsNaN(l.opt.Lambda) {
		mass := 1.0
		if l.prob.Len() > 0 {
			mass = l.prob.Mass()
		}
		l.prob.Ridge = 1 / (l.opt.C * mass)
	}
}

// Limits implements algos.Limited.
func (l *Learner) Limits() algos.Limits {
	return algos.Limits{Features: l.opt.Features, Option: "dims"}
}

// Need waits for a fraction of the number of stored examples.
func (l *Learner) Need() algos.Need {
	if l.due > 0 {
		return algos.Need{Steps: l.due}
	}
	n := l.NeedOf(max(int(math.Ceil(l.opt.Refresh*float64(l.prob.Len()))), 1))
	n.Steps += l.opt.Epochs
	return n
}

// Step adds the arrivals, or runs an epoch.
func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if l.due == 0 {
		l.arrive()
		l.due = l.opt.Epochs
		return l.Report(), nil
	}
	if err := l.epoch(ctx); err != nil {
		return algos.Report{}, err
	}
	l.due--
	return l.Report(), nil
}

// arrive adds the arrivals to the sample, the problem and the Gram matrix.
func (l *Learner) arrive() {
	d := l.Take()
	if len(d.Join) == 0 {
		return
	}
	l.fresh = true
	var slots []int
	for i, x := range d.Join {
		slot := d.Slots[i]
		switch {
		case slot < 0:
			continue
		case slot == l.prob.Len():
			l.prob.Append(x.X, x.Y)
			l.prob.Weigh(slot, x.Importance())
		default:
			if l.gram != nil {
				l.gram.Remove(l.prob, slot)
				l.stale++
			}
			l.prob.Set(slot, x.X, x.Y)
			l.prob.Weigh(slot, x.Importance())
			slots = append(slots, slot)
		}
		if l.gram != nil {
			l.gram.Add(l.prob, slot)
		}
	}
	l.weigh()
	l.keepGram()
	l.solver.Changed(slots...)
	if l.prob.Ridge == 0 {
		l.solver.Restart()
	}
}

// byGram reports whether θ may be computed from a Gram matrix.
func (l *Learner) byGram() bool {
	return l.par.Decrease > 0 && l.loss.Kind == finitesum.Squared
}

// keepGram creates the Gram matrix, rebuilds it once as many rows have been removed as
// it contains, and drops it if there are too many coordinates.
func (l *Learner) keepGram() {
	if !l.byGram() {
		return
	}
	limit := finitesum.MaxGram
	if l.opt.Theta == "auto" {
		limit = autoGram
	}
	switch d := l.prob.Dim(); {
	case d > limit:
		l.gram = nil
	case l.gram == nil || l.stale >= l.prob.Len() || l.gram.Dim() != d:
		l.gram = new(finitesum.Gram)
		l.gram.Rebuild(l.prob)
		l.stale = 0
	}
	l.solver.UseGram(l.gram)
}

// epoch runs one epoch and updates the model.
func (l *Learner) epoch(ctx context.Context) error {
	if l.prob.Len() == 0 {
		return nil
	}
	s := l.solver
	before, value := slices.Clone(s.X()), s.Value()
	if err := s.Epoch(ctx); err != nil {
		return err
	}
	l.steps++
	l.note.eta = s.Step()
	l.note.thetaMin, l.note.thetaMax = s.ThetaRange()
	s.Guard(before, value)
	l.note.objective = s.Value()
	l.note.norm, l.note.bound = s.Gap()
	l.w = append(l.w[:0:0], s.Output()...)
	l.renew()
	return nil
}

// renew makes the model from the weights.
func (l *Learner) renew() {
	w, bias := l.w, 0.0
	if l.prob.Bias != 0 && len(w) > 0 {
		w, bias = w[1:], float64(l.prob.Bias*w[0])
	}
	l.model = model.NewLinear(w, bias)
}

// Finish adds the arrivals and runs the final epochs.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	l.arrive()
	if l.fresh {
		l.fresh = false
		l.due = max(l.due, l.opt.Final)
	}
	for l.due > 0 {
		if err := l.epoch(ctx); err != nil {
			return algos.Report{}, err
		}
		l.due--
		// A NaN norm bounds nothing.
		if n := &l.note; l.prob.Len() == 0 || n.norm == 0 || n.bound <= float64(l.opt.Tol*n.objective) {
			l.due = 0
		}
	}
	return l.Report(), nil
}

// Report describes the state after the last epoch: F at the snapshot, the norm of the
// smallest subgradient there, and, as the certificate, the bound on F − min F of
// Solver.Gap.
func (l *Learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step, r.Sample = l.steps, l.prob.Len()
	r.Objective, r.GradNorm, r.Certificate, r.StepSize = l.note.objective, l.note.norm, l.note.bound, l.note.eta
	r.Gauges = []stream.Measure{
		{Name: "passes", Value: l.solver.Passes()},
		{Name: "halvings", Value: float64(l.solver.Halvings())},
		{Name: "theta_min", Value: l.note.thetaMin},
		{Name: "theta_max", Value: l.note.thetaMax},
	}
	return r
}

// Model returns the present model.
func (l *Learner) Model() algos.Model { return l.model }

// AppendBinary appends the complete state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the state; after an error it is undefined.
func (l *Learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }

func (l *Learner) fields(f *state.Fields) {
	if f.Decoding() {
		l.begin()
	}
	f.Group("solver", l.solver.Fields)
	f.Group("buffer", l.Buffer.Fields)
	if f.Decoding() && f.Err() == nil {
		f.Fail("solver", l.restore())
	}
	has := l.gram != nil
	f.Bool("gram", &has)
	if f.Decoding() {
		l.gram = nil
		if has {
			l.gram = new(finitesum.Gram)
		}
	}
	if has {
		f.Group("sums", l.gram.Fields)
	}
	f.Int("stale", &l.stale)
	f.Int("due", &l.due)
	f.Bool("fresh", &l.fresh)
	f.Uint64("steps", &l.steps)
	n := &l.note
	for _, v := range []struct {
		name string
		v    *float64
	}{{"objective", &n.objective}, {"norm", &n.norm}, {"bound", &n.bound}, {"eta", &n.eta}, {"theta_min", &n.thetaMin}, {"theta_max", &n.thetaMax}} {
		f.Float64(v.name, v.v)
	}
	f.Float64s("w", &l.w)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	dim := l.prob.Dim()
	if l.gram != nil && (l.gram.Dim() != dim || l.gram.Len() != l.prob.Len()) {
		f.Fail("sums", fmt.Errorf("of %d rows, %d coordinates", l.gram.Len(), l.gram.Dim()))
		return
	}
	if len(l.w) > dim || l.due < 0 || l.due > max(l.opt.Epochs, l.opt.Final) || l.stale < 0 {
		f.Fail("w", fmt.Errorf("%d weights, %d epochs due, %d rows out", len(l.w), l.due, l.stale))
		return
	}
	if err := linear.Finite(l.w); err != nil {
		f.Fail("w", err)
		return
	}
	l.w = slices.Clone(l.w) // the previous model may still be in use
	if l.byGram() {
		l.solver.UseGram(l.gram)
	}
	l.renew()
}

// restore builds the problem from the decoded examples. It returns an error if one of
// them has more coordinates than the solver's vectors.
func (l *Learner) restore() error {
	dim := len(l.solver.X())
	for i, x := range l.Sample() {
		l.prob.Append(x.X, x.Y)
		l.prob.Weigh(i, x.Importance())
	}
	if have := l.prob.Dim(); have > dim {
		return fmt.Errorf("the examples have %d coordinates, the model %d", have, dim)
	}
	l.prob.Widen(dim)
	l.weigh()
	return l.solver.Restored()
}
