package adaptive

import (
	"context"
	"log/slog"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

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
