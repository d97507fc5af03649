// Package ridge learns linear ridge regression from a stream exactly, by the normal
// equations.
//
// Options are stable; the package has no other API.
package ridge

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

// options are the learner's options; their tags document them.
type options struct {
	C      float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.01 1000" doc:"weight of the losses: lambda = 1/(C n) for n examples; used while lambda is auto"`
	Lambda float64 `opt:"lambda" default:"auto" range:"[0,inf)" auto:"1/(C n)" doc:"ridge weight"`
	Keep   string  `opt:"keep" default:"all" enum:"all,window" doc:"the examples that count: all, of which none is held, or the last ones"`
	Buffer int     `opt:"buffer" default:"10000" range:"[1,1e8]" doc:"examples in the window"`

	Refresh  float64 `opt:"refresh" default:"0.05" range:"(0,100]" doc:"arrivals between solutions, as a multiple of the examples that count"`
	Features int     `opt:"dims" alias:"dim" default:"999" range:"[1,10000]" doc:"most features that ever differ from 0; memory grows with their square, time with their cube"`

	Bias float64 `opt:"bias" fixed:"1" range:"[0,inf)"` // the square of a constant feature, which gives the model a regularised bias; 0 for none
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "ridge",
	Summary: "linear ridge regression, solved exactly at each refresh",
	When:    "squared loss and up to some hundred features: nothing is more accurate, and with keep = all no example is held",
	Paper:   "Hoerl, Kennard: Ridge Regression: Biased Estimation for Nonorthogonal Problems, Technometrics 1970; normal equations by Cholesky factorisation",
	Kind:    algos.Linear,
	Tasks:   []algos.Task{algos.Regress, algos.Classify},
	Presets: map[string]map[string]string{"drift": {"keep": "window", "buffer": "500", "refresh": "0.02"}},
}, nil, newLearner, model.DecodeLinear)

// Learner keeps Σ x xᵀ and Σ y x over the labelled examples that count. A refresh
// minimises
//
//	1/(2n) Σ v_i (wᵀx_i + β b − y_i)² + λ/2 (‖w‖² + b²)
//
// where v_i are the weights of the examples, n is their sum, β² is the option bias
// and β b the model's bias. In classification the targets are the labels ±1. Cost:
// d²/2 per example, twice that with a window, and d³/6 per refresh. The sums of a
// window are recomputed once as many examples have left it as it contains, so that
// rounding errors do not accumulate. It is not safe for concurrent use.
type Learner struct {
	*samplers.Buffer
	opt    options
	seen   []int32           // the feature of each coordinate, in order of appearance
	place  map[int32]int32   // the coordinate of a feature
	rows   finitesum.Problem // the window in these coordinates, or only the latest example
	sums   finitesum.Gram
	square float64 // Σ y²
	count  int
	stale  int // examples that have left since the sums were last computed from scratch
	wait   int // examples since the last refresh
	steps  uint64
	w      []float64
	model  *model.Linear
	note   note
}

// note has the values to report about the last solution.
type note struct{ objective, norm float64 }

const maxFeature = 1<<20 - 1 // bounds the model

func newLearner(env algos.Env, o options) (algos.Learner, error) {
	opts := samplers.Options{Regress: env.Task == algos.Regress, Features: maxFeature + 1, Every: 1}
	if o.Keep == "window" {
		opts.Policy, opts.Size, opts.Hold = samplers.Recent, o.Buffer, true
	}
	b, err := samplers.New(opts)
	if err != nil {
		return nil, err
	}
	l := &Learner{Buffer: b, opt: o, note: note{math.NaN(), math.NaN()}}
	l.rows.Bias = math.Sqrt(o.Bias)
	l.place = map[int32]int32{}
	l.renew()
	return l, nil
}

// Limits implements algos.Limited.
func (l *Learner) Limits() algos.Limits {
	return algos.Limits{Features: maxFeature + 1, Distinct: l.opt.Features, Option: "dims"}
}

// Add adds a labelled example to the sums. With keep = all no example is stored.
func (l *Learner) Add(x *stream.Example) (algos.Fate, error) {
	if x.Labelled {
		if err := l.room(x.X); err != nil {
			return algos.SampledOut, err
		}
	}
	fate, err := l.Buffer.Add(x)
	if err != nil || fate == algos.SampledOut {
		return fate, err
	}
	d := l.Take()
	for i, x := range d.Join {
		slot, row := 0, l.mapped(x.X)
		switch {
		case d.Slots == nil && l.rows.Len() > 0:
			l.rows.Set(0, row, x.Y)
			l.rows.Weigh(0, x.Importance())
			l.count++
		case d.Slots == nil || d.Old[i] == nil:
			slot = l.rows.Len()
			l.rows.Append(row, x.Y)
			l.rows.Weigh(slot, x.Importance())
			l.count++
		default:
			slot = d.Slots[i]
			l.sums.Remove(&l.rows, slot)
			l.square -= float64(d.Old[i].Importance() * float64(d.Old[i].Y*d.Old[i].Y))
			l.rows.Set(slot, row, x.Y)
			l.rows.Weigh(slot, x.Importance())
			l.stale++
		}
		l.sums.Add(&l.rows, slot)
		l.square += float64(x.Importance() * float64(x.Y*x.Y))
		l.wait++
	}
	if l.stale >= l.count {
		l.sums.Rebuild(&l.rows)
		l.stale, l.square = 0, 0
		for _, x := range l.Sample() {
			l.square += float64(x.Importance() * float64(x.Y*x.Y))
		}
	}
	return fate, nil
}

// room returns an error if there would be too many features in total.
func (l *Learner) room(x stream.Vec) error {
	room := l.opt.Features - len(l.seen)
	for feature := range linear.Nonzeros(x) {
		if _, known := l.place[int32(feature)]; !known {
			room--
		}
	}
	if room < 0 {
		return &stream.FieldError{Stage: stream.StageFeature, Reason: stream.ReasonLimit, Field: "x", Err: fmt.Errorf("more than %d features in all (option dims); svrg-sd takes millions", l.opt.Features)}
	}
	return nil
}

// mapped returns x in the coordinates of the sums. New features get the next
// coordinates.
func (l *Learner) mapped(x stream.Vec) stream.Vec {
	out := stream.Vec{Idx: make([]int32, 0, len(x.Val)), Val: make([]float32, 0, len(x.Val))}
	for feature, v := range linear.Nonzeros(x) {
		j, known := l.place[int32(feature)]
		if !known {
			j = int32(len(l.seen))
			l.place[int32(feature)] = j
			l.seen = append(l.seen, int32(feature))
		}
		k, _ := slices.BinarySearch(out.Idx, j)
		out.Idx, out.Val = slices.Insert(out.Idx, k, j), slices.Insert(out.Val, k, v)
	}
	return out
}

// Need waits for a fraction of the number of examples that counted at the last
// refresh.
func (l *Learner) Need() algos.Need {
	want := max(int(math.Ceil(l.opt.Refresh*float64(max(l.count-l.wait, 0)))), 1)
	return algos.Need{Fresh: max(want-l.wait, 0), Steps: 1}
}

// Step solves the normal equations.
func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if err := l.solve(); err != nil {
		return algos.Report{}, err
	}
	return l.Report(), nil
}

func (l *Learner) solve() error {
	if l.wait == 0 {
		return nil
	}
	lambda := l.lambda()
	x, err := l.sums.Ridge(lambda)
	if err != nil {
		return err
	}
	l.wait = 0
	l.steps++
	l.w = x
	l.renew()
	q, h, norm := l.sums.At(x, lambda)
	l.note = note{max(0, (q+l.square/l.mass())/2-h), norm}
	for _, v := range x {
		l.note.objective += float64(float64(v*v) * lambda / 2)
	}
	return nil
}

// mass returns the weight of the examples, or 1 without examples.
func (l *Learner) mass() float64 {
	if l.count == 0 {
		return 1
	}
	return l.sums.Mass()
}

func (l *Learner) lambda() float64 {
	if math.IsNaN(l.opt.Lambda) {
		return 1 / (l.opt.C * l.mass())
	}
	return l.opt.Lambda
}

// Finish solves if there are examples since the last refresh.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) { return l.Step(ctx) }

func (l *Learner) renew() {
	x, bias, dim := l.w, 0.0, 0
	if l.rows.Bias != 0 && len(x) > 0 {
		x, bias = x[1:], float64(l.rows.Bias*x[0])
	}
	for _, feature := range l.seen[:len(x)] {
		dim = max(dim, int(feature)+1)
	}
	w := make([]float64, dim)
	for j, v := range x {
		w[l.seen[j]] = v
	}
	l.model = model.NewLinear(w, bias)
}

// Report describes the last solution. The certificate is norm²/(2λ), a bound on the
// distance of the objective from its minimum.
func (l *Learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step, r.Sample = l.steps, l.count
	r.Objective, r.GradNorm = l.note.objective, l.note.norm
	if lambda := l.lambda(); lambda > 0 {
		r.Certificate = float64(l.note.norm*l.note.norm) / (2 * lambda)
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
	f.Int32s("seen", &l.seen)
	f.Group("sums", l.sums.Fields)
	f.Group("buffer", l.Buffer.Fields)
	f.Float64("square", &l.square)
	f.Int("count", &l.count)
	f.Int("stale", &l.stale)
	f.Int("wait", &l.wait)
	f.Uint64("steps", &l.steps)
	if f.Decoding() {
		l.w = nil // the previous model may still be in use
	}
	f.Float64s("w", &l.w)
	f.Float64("objective", &l.note.objective)
	f.Float64("norm", &l.note.norm)
	if f.Decoding() && f.Err() == nil {
		f.Fail("sums", l.restore())
	}
}

func (l *Learner) restore() error {
	dim := l.sums.Dim()
	l.rows = finitesum.Problem{Bias: l.rows.Bias}
	l.place = map[int32]int32{}
	for j, feature := range l.seen {
		if _, twice := l.place[feature]; twice || feature < 0 || feature > maxFeature {
			return fmt.Errorf("feature %d", feature)
		}
		l.place[feature] = int32(j)
	}
	known := len(l.seen)
	if l.rows.Bias != 0 {
		known++
	}
	// The sums are as wide as the widest example when it was added.
	if len(l.seen) > l.opt.Features || dim > known || l.count > 0 && dim < known || len(l.w) > dim {
		return fmt.Errorf("%d features, %d coordinates, %d weights", len(l.seen), dim, len(l.w))
	}
	if l.opt.Keep == "window" {
		for _, x := range l.Sample() {
			if err := l.room(x.X); err != nil {
				return err
			}
			l.rows.Append(l.mapped(x.X), x.Y)
			l.rows.Weigh(l.rows.Len()-1, x.Importance())
		}
		if l.count != l.Len() || l.rows.Dim() > max(dim, 1) {
			return fmt.Errorf("%d of %d examples, %d of %d coordinates", l.count, l.Len(), l.rows.Dim(), dim)
		}
	}
	if l.sums.Len() != l.count || l.count < 0 || l.wait < 0 || l.stale < 0 || l.stale > l.count || !(l.square >= 0) || math.IsInf(l.square, 1) {
		return fmt.Errorf("%d examples, %d in the sums, %d waiting", l.count, l.sums.Len(), l.wait)
	}
	if err := linear.Finite(l.w); err != nil {
		return err
	}
	l.rows.Widen(dim)
	l.renew()
	return nil
}
