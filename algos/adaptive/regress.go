package adaptive

import (
	"context"
	"fmt"
	"log/slog"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Experts of a regression: those of the classifier, and two that know no
// features.
const (
	last = numExperts + iota // the number that came last
	mean                     // the mean so far
	numGuessers
)

var guesserNames = append(names[:], "last", "mean")

// held is the most examples of the growing machine of a regression. Kernel ridge
// regression needs all of them.
const held = 2048

// regressor is the panel for numbers. Its machines are kernel ridge regressions
// whatever the loss, which is that of the other experts and of the average, and so
// is the growing one, which slides once it holds as many examples as it may. Not
// safe for concurrent use.
type regressor struct {
	*samplers.Buffer
	opt options
	env algos.Env

	cutting  *samplers.Cutting
	machines [1 + k1024]*machine // nil: none yet; as the growing one
	inputs   inputs
	linear   [numExperts - l1]follower
	waves    *waves // nil: none yet, or none at all
	labels   labels
	average  *average

	dim   int   // features of the widest example
	evals int64 // kernel values computed by learners that are gone; like those of windows, since it was made or restored
	tuned uint64
	told  uint64 // when the log was told of a cut

	scores [numGuessers]float64 // scratch
	block  [1 + k1024][]float64
	vecs   []stream.Vec
}

var (
	_ algos.Sequential = (*regressor)(nil)
	_ algos.Cutter     = (*regressor)(nil)
)

func newRegressor(env algos.Env, o options) (algos.Learner, error) {
	b, err := samplers.New(samplers.Options{Regress: true, Every: 1})
	if err != nil {
		return nil, err
	}
	l := &regressor{Buffer: b, opt: o, env: env, average: newAverage(o.Loss == "absolute")}
	if l.cutting, err = samplers.NewCutting(held+tick, windows...); err != nil {
		return nil, err
	}
	for e := range l.linear {
		x := &l.linear[e]
		x.absolute = o.Loss == "absolute"
		switch e + l1 {
		case l1, r1:
			x.rate = 1
		case l01, r01:
			x.rate = 0.1
		case a3:
			x.rate, x.adaptive = 0.3, true
		case a1:
			x.rate, x.adaptive = 0.1, true
		}
	}
	return l, nil
}

// Step learns from the examples pending.
func (l *regressor) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if err := l.learn(ctx, nil, l.Take().Join); err != nil {
		return algos.Report{}, err
	}
	return l.Report(), nil
}

// Follow implements algos.Sequential.
func (l *regressor) Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	if err := l.learn(ctx, nil, l.Take().Join); err != nil {
		return 0, 0, err
	}
	known := make([]*stream.Example, 0, len(xs))
	for _, x := range xs {
		if x.Labelled {
			known = append(known, x)
		}
	}
	out := make([]float64, len(known))
	if err := l.learn(ctx, out, known); err != nil {
		return 0, 0, err
	}
	k := 0
	for i, x := range xs {
		if x.Labelled {
			dst[i] = out[k]
			k++
		}
	}
	return k, k, nil
}

// Finish learns from what is pending.
func (l *regressor) Finish(ctx context.Context) (algos.Report, error) {
	if err := l.learn(ctx, nil, l.Take().Join); err != nil {
		return algos.Report{}, err
	}
	if l.machines[growing] == nil && l.cutting.Seen() > 0 {
		if err := l.begin(ctx, int(l.cutting.Seen())); err != nil {
			return algos.Report{}, err
		}
	}
	return l.Report(), nil
}

// learn predicts each of xs, all of them labelled, into dst, which may be nil,
// and then learns from it. Machines change at ticks only.
func (l *regressor) learn(ctx context.Context, dst []float64, xs []*stream.Example) error {
	ctx = context.WithoutCancel(ctx)
	for len(xs) > 0 {
		n := min(len(xs), tick-int(l.cutting.Seen()%tick))
		l.scoreMachines(xs[:n])
		for i, x := range xs[:n] {
			f, err := l.one(i, x)
			if err != nil {
				return err
			}
			if dst != nil {
				dst[i] = f
			}
		}
		xs = xs[n:]
		if dst != nil {
			dst = dst[n:]
		}
		if l.cutting.Seen()%tick == 0 {
			if err := l.turn(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// scoreMachines computes the machines' predictions of a few examples.
func (l *regressor) scoreMachines(xs []*stream.Example) {
	l.vecs = l.vecs[:0]
	for _, x := range xs {
		l.vecs = append(l.vecs, x.X)
	}
	for e, m := range l.machines {
		if cap(l.block[e]) < tick {
			l.block[e] = make([]float64, tick)
		}
		l.block[e] = l.block[e][:len(xs)]
		if m != nil {
			m.score(l.block[e], l.vecs)
		}
	}
}

// one predicts an example, whose predictions by machines are known, and learns
// from it.
func (l *regressor) one(i int, x *stream.Example) (float64, error) {
	z := l.inputs.apply(x.X)
	var phi stream.Vec
	if l.waves != nil {
		phi = l.waves.of(z)
	}
	guess(l.scores[:], &l.labels, func(e int) (float64, bool) {
		if l.machines[e] == nil {
			return 0, false
		}
		return l.block[e][i], true
	}, func(e int) *follower { return &l.linear[e] }, z, phi)
	f := weighted(l.average.weights(), l.scores[:])
	if l.machines[growing] != nil {
		var d [k1024]float64
		for k := range d {
			d[k] = better(l.scores[k64+k]-x.Y, l.scores[growing]-x.Y)
		}
		l.cutting.CompareBy(d[:])
	}
	l.average.learn(l.scores[:], f, x.Y)
	l.labels.learn(x.Y)
	if l.dim = max(l.dim, x.X.Dim()); l.dim > narrow && !l.inputs.wide {
		l.widen()
		z = l.inputs.apply(x.X)
		clear(l.scores[l1 : r01+1])
	}
	for e := range l.linear {
		switch {
		case e+l1 < r1:
			l.linear[e].learn(z, l.scores[l1+e], x.Y, l.labels.sd(), x.Importance())
		case l.waves != nil:
			l.linear[e].learn(phi, l.scores[l1+e], x.Y, l.labels.sd(), x.Importance())
		}
	}
	l.inputs.observe(x.X)
	if l.waves == nil && !l.inputs.wide && l.opt.Panel != "small" && l.cutting.Seen()+1 >= first && l.dim > 0 {
		l.waves = newWaves(l.dim, l.env.Seed)
	}
	l.cutting.Add(x)
	for _, m := range l.machines {
		if m == nil {
			continue
		}
		if err := m.add(x); err != nil {
			return 0, err
		}
	}
	return f, nil
}

// better is 1 where the first error is the smaller one, −1 where it is the
// larger one.
func better(a, b float64) float64 {
	switch a, b := math.Abs(a), math.Abs(b); {
	case a < b:
		return 1
	case a > b:
		return -1
	}
	return 0
}

// guess sets dst to the experts' predictions. Those that know nothing yet predict
// the mean, and machines that are not there what the growing one does. phi has no
// features where there are no random ones.
func guess(dst []float64, y *labels, machine func(e int) (float64, bool), linear func(e int) *follower, z, phi stream.Vec) {
	dst[last], dst[mean] = y.last, y.mean
	for e := range l1 {
		f, there := machine(e)
		switch {
		case there:
			dst[e] = f
		case e == growing:
			dst[e] = y.mean
		default:
			dst[e] = dst[growing]
		}
	}
	for e := range numExperts - l1 {
		switch {
		case e+l1 < r1:
			dst[l1+e] = linear(e).score(z)
		case phi.Val != nil:
			dst[l1+e] = linear(e).score(phi)
		default:
			dst[l1+e] = y.mean
		}
	}
}

// widen lets the experts begin again on wide examples.
func (l *regressor) widen() {
	l.inputs.widen()
	l.waves = nil
	for e := range l.linear {
		l.linear[e].reset()
	}
}

// begin makes the growing machine from the n newest examples.
func (l *regressor) begin(ctx context.Context, n int) error {
	l.machines[growing] = &machine{window: held, target: target{number: true}}
	return l.choose(ctx, l.machines[growing], n)
}

// choose chooses the options of a machine on its n examples.
func (l *regressor) choose(ctx context.Context, m *machine, n int) error {
	if m.rows > 0 {
		l.evals += m.evals()
	}
	l.tuned++
	return m.choose(ctx, l.env, l.cutting.Newest(n), l.dim > narrow)
}

// turn is what happens at a tick: steps that are due, the test for a cut,
// machines that begin or are tuned anew.
func (l *regressor) turn(ctx context.Context) error {
	m := l.machines[growing]
	if m == nil {
		if l.cutting.Seen() < first {
			return nil
		}
		return l.begin(ctx, first)
	}
	parallel(len(l.machines), func(i int) {
		if m := l.machines[i]; m != nil {
			m.small.step()
		}
	})
	if cut, by, yes := l.cutting.Test(m.rows); yes {
		l.cut(cut, by)
		m = l.machines[growing]
	}
	for i, w := range windows {
		if w > 256 && (l.opt.Panel == "small" || l.dim > narrow) {
			continue
		}
		if k := &l.machines[k64+i]; *k == nil && m.rows > w {
			*k = m.with(w, l.cutting.Newest(w))
		}
	}
	for _, m := range l.machines {
		if m == nil || !m.due(false) {
			continue
		}
		if err := l.choose(ctx, m, m.rows); err != nil {
			return err
		}
	}
	return nil
}

// cut replaces the growing machine by one that has learned from what the
// challenger knows.
func (l *regressor) cut(c samplers.Cut, by int) {
	l.evals += l.machines[growing].evals()
	m := l.machines[k64+by].with(held, l.cutting.Newest(c.To))
	m.tuned, m.since = m.rows, 0
	l.machines[growing] = m
	if l.told == 0 || c.At >= l.told+256 {
		l.told = c.At
		l.env.Log.Info("cut", slog.String("learner", "adaptive"), slog.Uint64("at", c.At), slog.Int("from", c.From), slog.Int("to", c.To), slog.Float64("z", c.Z))
	}
}

// Cuts implements algos.Cutter.
func (l *regressor) Cuts() (total uint64, latest []samplers.Cut) { return l.cutting.Cuts() }

// Report describes the present state.
func (l *regressor) Report() algos.Report {
	r := algos.NewReport()
	r.Step, r.KernelEvals = l.cutting.Seen(), l.evals
	for _, m := range l.machines {
		if m != nil {
			r.KernelEvals += m.evals()
		}
	}
	if m := l.machines[growing]; m != nil {
		r.Sample = m.rows
	}
	w := l.average.weights()
	for e, name := range guesserNames {
		r.Gauges = append(r.Gauges, stream.Measure{Name: "weight_" + name, Value: w[e]})
	}
	total, _ := l.cutting.Cuts()
	r.Gauges = append(r.Gauges, stream.Measure{Name: "cut_total", Value: float64(total)}, stream.Measure{Name: "tune_total", Value: float64(l.tuned)})
	return r
}

// Model returns a view of the present panel.
func (l *regressor) Model() algos.Model {
	x := &guesser{weights: l.average.weights(), labels: l.labels, inputs: &l.inputs, waves: l.waves, seed: l.env.Seed}
	for e, m := range l.machines {
		if m != nil {
			x.kernels[e] = &kernelPart{m.transform, m.model()}
		}
	}
	for e := range l.linear {
		x.linear[e] = &l.linear[e]
	}
	return x
}

func (l *regressor) fields(f *state.Fields) {
	f.Group("buffer", l.Buffer.Fields)
	f.Group("cutting", l.cutting.Fields)
	f.Group("inputs", l.inputs.fields)
	for e := range l.linear {
		f.Group("linear", l.linear[e].fields)
	}
	dim := wavesDim(l.waves)
	f.Int("random_features", &dim)
	f.Group("labels", l.labels.fields)
	f.Group("average", l.average.fields)
	f.Int("features", &l.dim)
	f.Uint64("tuned", &l.tuned)
	f.Uint64("told", &l.told)
	if f.Decoding() && f.Err() == nil {
		var err error
		l.evals = 0
		l.waves, err = wavesOf(dim, l.inputs.wide, l.env.Seed)
		f.Fail("random_features", err)
	}
	for e := range l.machines {
		there := l.machines[e] != nil
		f.Bool("machine", &there)
		if f.Decoding() {
			l.machines[e] = nil
		}
		if !there || f.Err() != nil {
			continue
		}
		if f.Decoding() {
			l.machines[e] = &machine{window: append([]int{held}, windows...)[e], target: target{number: true}}
		}
		f.Group("state", func(f *state.Fields) { l.machines[e].fields(f, l.env) })
		if f.Decoding() && f.Err() == nil && (e > growing && l.machines[growing] == nil) {
			f.Fail("machine", fmt.Errorf("%d without the first", e))
		}
	}
}

func wavesDim(w *waves) int {
	if w == nil {
		return 0
	}
	return w.dim
}

// wavesOf returns the random features of so many features, nil for none.
func wavesOf(dim int, wide bool, seed uint64) (*waves, error) {
	switch {
	case dim < 0 || dim > narrow || dim > 0 && wide:
		return nil, fmt.Errorf("of %d features", dim)
	case dim > 0:
		return newWaves(dim, seed), nil
	}
	return nil, nil
}

// AppendBinary appends the complete state.
func (l *regressor) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores what AppendBinary wrote; after an error the state is
// undefined.
func (l *regressor) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }
