package adaptive

import (
	"context"
	"log/slog"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// The experts, in the order of their scores and weights.
const (
	growing = iota // M: all examples since the last cut
	k64            // challengers, on the newest examples
	k256
	k1024
	l1 // passive-aggressive
	l01
	a3 // AdaGrad
	a1
	r1 // passive-aggressive in random features
	r01
	numExperts
)

var names = [numExperts]string{"m", "k64", "k256", "k1024", "l1", "l01", "a3", "a1", "r1", "r01"}

// windows are those of the challengers.
var windows = []int{64, 256, 1024}

// Learner is the panel; see the package documentation. Not safe for concurrent
// use.
type Learner struct {
	*samplers.Buffer
	opt options
	env algos.Env

	cutting  *samplers.Cutting
	machines [1 + k1024]*machine // nil: none yet; a challenger is as good as the growing one until that has more examples
	inputs   inputs
	linear   [numExperts - l1]onePass
	waves    *waves // nil: none yet, or none at all
	vote     *vote
	trust    trust
	heaviest float64 // weight of an example; 0: all were 1

	dim   int   // features of the widest example
	evals int64 // kernel values computed by learners that are gone; like those of scs, since it was made or restored
	tuned uint64
	told  uint64 // when the log was told of a cut

	waiting []foretold // in order of the examples

	block [1 + k1024][]float64 // scratch
	vecs  []stream.Vec
	said  [tick]*prediction
}

var (
	_ algos.Sequential = (*Learner)(nil)
	_ algos.Cutter     = (*Learner)(nil)
	_ algos.Foreteller = (*Learner)(nil)
)

func newLearner(env algos.Env, o options) (algos.Learner, error) {
	if env.Task == algos.Regress {
		return newRegressor(env, o)
	}
	b, err := samplers.New(samplers.Options{Every: 1})
	if err != nil {
		return nil, err
	}
	l := &Learner{Buffer: b, opt: o, env: env, vote: newVote(numExperts)}
	if l.cutting, err = samplers.NewCutting(whole+tick, windows...); err != nil {
		return nil, err
	}
	for e := range l.linear {
		x := &l.linear[e]
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
func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if err := l.learn(ctx, nil, l.Take().Join); err != nil {
		return algos.Report{}, err
	}
	return l.Report(), nil
}

// Follow implements algos.Sequential.
func (l *Learner) Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error) {
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
		} else {
			l.recall(x)
		}
	}
	return k, k, nil
}

// Finish learns from what is pending, and lets the growing machine complete its
// optimisation.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) {
	if err := l.learn(ctx, nil, l.Take().Join); err != nil {
		return algos.Report{}, err
	}
	m := l.machines[growing]
	switch {
	case m == nil && l.cutting.Seen() > 0:
		if err := l.begin(ctx, int(l.cutting.Seen())); err != nil {
			return algos.Report{}, err
		}
	case m != nil && m.scs != nil:
		if _, err := m.scs.Finish(ctx); err != nil {
			return algos.Report{}, err
		}
	}
	return l.Report(), nil
}

// learn predicts each of xs, all of them labelled, into dst, which may be nil,
// and then learns from it. Machines change at ticks only: in between, their
// scores are computed together. It is not interrupted: there would be no state to
// go back to.
func (l *Learner) learn(ctx context.Context, dst []float64, xs []*stream.Example) error {
	ctx = context.WithoutCancel(ctx)
	for len(xs) > 0 {
		n := min(len(xs), tick-int(l.cutting.Seen()%tick))
		fresh := false
		for i, x := range xs[:n] {
			l.said[i] = l.recall(x)
			fresh = fresh || l.said[i] == nil
		}
		if fresh {
			l.scoreMachines(xs[:n])
		}
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

// scoreMachines computes the machines' scores of a few examples.
func (l *Learner) scoreMachines(xs []*stream.Example) {
	l.vecs = l.vecs[:0]
	for _, x := range xs {
		l.vecs = append(l.vecs, x.X)
	}
	for e, m := range l.machines {
		if cap(l.block[e]) < tick {
			l.block[e] = make([]float64, tick)
		}
		l.block[e] = l.block[e][:len(xs)]
		switch {
		case m != nil:
			m.score(l.block[e], l.vecs)
		default: // the same as the growing one, or nothing yet
			copy(l.block[e], l.block[growing])
		}
	}
	if l.machines[growing] == nil {
		for e := range l.block {
			clear(l.block[e])
		}
	}
}

// see returns an example as the linear experts see it, and its random features.
func (l *Learner) see(x *stream.Example) (z, phi stream.Vec) {
	z = l.inputs.apply(x.X)
	if l.waves != nil {
		phi = l.waves.of(z)
	}
	return z, phi
}

// predict returns what the experts say of example i of those whose scores by
// machines are known.
func (l *Learner) predict(i int, z, phi stream.Vec) (p prediction) {
	for e := range l.machines {
		p.scores[e] = l.block[e][i]
	}
	l.scoreLinear(p.scores[:], z, phi)
	p.f = logOdds(l.vote.mix(p.scores[:]))
	if m := l.machines[growing]; m != nil {
		if l.trust.given(m.rows) {
			p.f = l.vote.experts[growing].odds(p.scores[growing])
		}
		cuts, _ := l.cutting.Cuts()
		p.machine = 1 + cuts
	}
	return p
}

// scoreLinear sets the scores of linear experts.
func (l *Learner) scoreLinear(scores []float64, z, phi stream.Vec) {
	for e := range l.linear {
		switch {
		case e+l1 < r1:
			scores[l1+e] = l.linear[e].score(z)
		case l.waves != nil:
			scores[l1+e] = l.linear[e].score(phi)
		}
	}
}

// one predicts an example, whose scores by machines are known, unless it was
// foretold, and learns from it.
func (l *Learner) one(i int, x *stream.Example) (float64, error) {
	share := l.weigh(x)
	z, phi := l.see(x)
	var p prediction
	var now [numExperts]float64
	if l.said[i] != nil {
		p = *l.said[i]
		l.scoreLinear(now[:], z, phi)
	} else {
		p = l.predict(i, z, phi)
		now = p.scores
	}
	if p.machine > 0 {
		var wrong [1 + k1024]bool
		for e := range wrong {
			wrong[e] = (p.scores[e] >= 0) != (x.Y > 0)
		}
		l.judge(p.scores[:], x.Y, share)
		// The errors of a machine that has been cut since say nothing of this one.
		if cuts, _ := l.cutting.Cuts(); p.machine == 1+cuts {
			l.compare(wrong, share)
		}
	}
	l.vote.learn(p.scores[:], x.Y, share)
	if l.dim = max(l.dim, x.X.Dim()); l.dim > narrow && !l.inputs.wide {
		l.widen()
		z = l.inputs.apply(x.X)
		clear(now[l1:])
	}
	l.learnLinear(z, phi, now[:], x)
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
	return p.f, nil
}

// widen lets the experts begin again on wide examples.
func (l *Learner) widen() {
	l.inputs.widen()
	l.waves = nil
	for e := range l.linear {
		l.linear[e].reset()
	}
}

// begin makes the growing machine from the n newest examples.
func (l *Learner) begin(ctx context.Context, n int) error {
	m := &machine{}
	l.machines[growing] = m
	return l.choose(ctx, m, n)
}

// choose chooses the options of a machine on its n examples.
func (l *Learner) choose(ctx context.Context, m *machine, n int) error {
	if m.rows > 0 {
		l.evals += m.evals()
	}
	l.tuned++
	return m.choose(ctx, l.env, l.cutting.Newest(n), l.dim > narrow)
}

// turn is what happens at a tick: steps that are due, the test for a cut,
// machines that begin or are tuned anew.
func (l *Learner) turn(ctx context.Context) error {
	m := l.machines[growing]
	if m == nil {
		if l.cutting.Seen() < first {
			return nil
		}
		return l.begin(ctx, first)
	}
	var errs [1 + k1024]error
	parallel(len(l.machines), func(i int) {
		if m := l.machines[i]; m != nil {
			errs[i] = m.step(ctx)
		}
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if cut, by, yes := l.cutting.Test(m.rows); yes {
		l.cut(cut, by)
		m = l.machines[growing]
	}
	for i, w := range windows {
		if l.opt.Panel == "small" && w > 256 || l.dim > narrow && w > 256 {
			continue
		}
		if k := &l.machines[k64+i]; *k == nil && m.rows > w {
			*k = m.with(w, l.cutting.Newest(w))
		}
	}
	cuts, _ := l.cutting.Cuts()
	for _, m := range l.machines {
		if m == nil || !m.due(cuts > 0) {
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
func (l *Learner) cut(c samplers.Cut, by int) {
	old, k := l.machines[growing], l.machines[k64+by]
	l.evals += old.evals()
	m := k.with(0, l.cutting.Newest(c.To))
	m.tuned, m.since = m.rows, 0
	l.machines[growing] = m
	if l.told == 0 || c.At >= l.told+256 {
		l.told = c.At
		l.env.Log.Info("cut", slog.String("learner", "adaptive"), slog.Uint64("at", c.At), slog.Int("from", c.From), slog.Int("to", c.To), slog.Float64("z", c.Z))
	}
}

// Cuts implements algos.Cutter.
func (l *Learner) Cuts() (total uint64, latest []samplers.Cut) { return l.cutting.Cuts() }

// Report describes the present state.
func (l *Learner) Report() algos.Report {
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
	w := l.vote.weights()
	for e, name := range names {
		r.Gauges = append(r.Gauges, stream.Measure{Name: "weight_" + name, Value: w[e]})
	}
	total, _ := l.cutting.Cuts()
	r.Gauges = append(r.Gauges, stream.Measure{Name: "cut_total", Value: float64(total)}, stream.Measure{Name: "tune_total", Value: float64(l.tuned)})
	return r
}

// Model returns a view of the present panel.
func (l *Learner) Model() algos.Model {
	return l.mixture()
}
