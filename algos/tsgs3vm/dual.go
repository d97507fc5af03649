package tsgs3vm

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	// chunk is the number of unlabelled points whose features are in memory at a
	// time: 1 MiB for 4,096 features.
	chunk = 64
	// sweepLimit bounds the coordinate updates of an arm in one step, so that its
	// time does not grow with the number of labels.
	sweepLimit = 256
	// rampSteps is the number of unlabelled minibatches over which C* rises from 0 to
	// its value, so that the labelled solution forms first.
	rampSteps = 10
	// restartUpdates and lastUpdates bound the coordinate updates of an arm after a
	// restart and at the end; polishTol is the tolerance of both.
	restartUpdates, lastUpdates, polishTol = 40_000, 200_000, 3e-4
)

// dual learns with a fixed set of D features. Its decision functions, the arms,
// each have w = w_L + w_U:
//
//	w_L = Σ_i α_i y_i z_i,   0 ≤ α_i ≤ c,   by dual coordinate ascent:
//	      α_i ← clamp(α_i + (1 − y_i f(x_i))/‖z_i‖², 0, c v_i),  v_i the weight of i
//	w_U ← (1−γ) w_U − Σ_u β_u sign(u'(f)) z_u over a minibatch,
//	      β_u = min(γ C*/B |u'(f(x_u))|, (1 − |f(x_u)|)/‖z‖²)
//
// That is the fixed point f = −C mean l' k − C* E[u' k] of the paper's steps (eq.
// 7), with the labelled part solved instead of sampled, and with implicit
// unlabelled steps that stop at the margin. For 200 labels the useful C is 100 to
// 1,000; a stochastic step of that size would be larger than the margin.
//
// While a sweep covers all stored labels, each step ends near the optimum. With more
// labels, the last iterate leans towards the latest labels, more so the noisier they
// are. Then the model is a mean of the iterates. It is also better than the optimum on
// the pool once there have been more labels than the pool holds.
//
// A label that leaves the pool leaves its coefficient behind in w_L, unless the
// pool is a window: then its contribution is subtracted.
type dual struct {
	opt  options
	arms []*arm

	slots
	scored  scored
	fold    []int // by slot, while cross-validating
	cursor  int
	since   uint64 // unlabelled minibatches since the features changed
	serve   int
	checked uint64 // examples at the last cross-validation
	buf     []float32
	sweeps  func() // waits for the step's sweep, which changes arms and cursor; or nil
}

func newDual(o options, classes int) *dual {
	d := &dual{opt: o}
	rhos := []float64{defaultRho}
	switch {
	case o.noLoss():
		rhos = nil
	case !math.IsNaN(o.Rho) || o.Ratio:
		rhos = []float64{o.Rho}
	}
	if classes == 0 {
		d.arms = append(d.arms, newArm(0, false, 0, o.Features))
	}
	for range classes {
		d.addClass()
	}
	for _, rho := range rhos {
		d.arms = append(d.arms, newArm(rho, true, 0, o.Features))
	}
	if o.Serve == "semi" {
		d.serve = len(d.arms) / 2
	}
	return d
}

// addClass adds an arm for the next class.
func (d *dual) addClass() *arm {
	a := newArm(0, false, 0, d.opt.Features)
	d.arms = append(d.arms, a)
	a.class = len(d.arms)
	return a
}

// norm converts products of cosines to kernel values.
func (d *dual) norm() float64 { return 2 / float64(d.opt.Features) }

// work estimates the nanoseconds it takes to process the points with every arm.
func (d *dual) work(points int) float64 {
	return float64(len(d.arms)*points*d.opt.Features) / 4
}

// eachArm calls f for groups of arms, in parallel because they are independent. steps
// is the number of points processed with each arm.
func (d *dual) eachArm(steps int, f func(arms []*arm, first int)) {
	par.Split(len(d.arms), 1, d.work(steps), func(from, to int) { f(d.arms[from:to], from) })
}

func (d *dual) labels() int { return len(d.arms[0].a) }

func (d *dual) step(l *Learner, draw *samplers.Draw) {
	d.takeLabelled(l, draw)
	if len(draw.Unlabelled) > 0 {
		d.takeUnlabelled(l, l.vectors(draw.Unlabelled), nil)
	}
	// The sweep runs while the caller reads the next examples and computes their features.
	c := d.box(l)
	d.sweeps = par.Start(d.work(min(len(d.z), sweepLimit)), func() {
		d.sweep(c, sweepLimit)
		d.average()
	})
	d.choose(l, false)
}

// wait waits for the end of the last step.
func (d *dual) wait() {
	if f := d.sweeps; f != nil {
		d.sweeps = nil
		f()
	}
}

// average adds the arms' iterates to their means if a sweep does not cover all labels.
func (d *dual) average() {
	if len(d.z) <= sweepLimit {
		return
	}
	for _, a := range d.arms {
		a.mean.add(a.w, 1, a.b)
	}
}

// forget drops the means, so that the last iterates are served.
func (d *dual) forget() {
	for _, a := range d.arms {
		a.mean = iterates{}
	}
}

// box returns the largest α of an example of weight 1.
func (d *dual) box(l *Learner) float64 {
	n, c, _ := l.weights(0)
	return c / max(n, 1)
}

func (d *dual) takeLabelled(l *Learner, draw *samplers.Draw) {
	fresh, loss := draw.Join, 0.0
	for from := 0; from < len(fresh); from += chunk {
		part := fresh[from:min(len(fresh), from+chunk)]
		xs := l.vectors(part)
		d.scored.mu.Lock()
		z := d.scored.find(l.feats, d.opt.Features, xs)
		if z == nil {
			z = d.features(l, xs)
		}
		m := d.rows(l, z, len(part))
		q := make([]float64, len(part))
		squares(q, z, m, d.opt.Features, d.opt.Bias)
		loss += d.learn(l, part, draw.Slots[from:], draw.Old[from:], z, m, q)
		d.scored.mu.Unlock()
	}
	if len(fresh) > 0 {
		l.hinge = loss / float64(len(fresh)*len(l.averages))
	}
}

// learn does the first step on each of the labelled examples xs. z are their
// features, m their contributions to w, q their k(x,x), slots their slots in the
// sample, and old the previous examples in these slots. It scores the models of all
// arms on each example before they learn it, and returns the losses of the supervised ones.
func (d *dual) learn(l *Learner, xs []*stream.Example, slots []int, old []*stream.Example, z, m []float32, q []float64) (loss float64) {
	c, n := d.box(l), len(xs)
	gone, said := make([][]float32, n), make([]float64, n*len(d.arms))
	for r, slot := range slots[:n] {
		if slot < 0 {
			continue
		}
		if old[r] != nil && d.opt.Keep == string(samplers.Recent) {
			gone[r] = slices.Clone(d.m[slot])
		}
		d.place(slot, xs[r], d.row(z, r), d.row(m, r), q[r])
	}
	d.eachArm(2*n, func(arms []*arm, first int) {
		for r, x := range xs {
			z, m, c := d.row(z, r), d.row(m, r), x.Importance()*c
			for k, a := range arms {
				said[(first+k)*n+r] = d.predict(a, z)
			}
			for _, a := range arms {
				d.learnOne(a, a.sign(x.Y), slots[r], old[r], gone[r], z, m, q[r], c)
			}
		}
	})
	for r, x := range xs {
		for k, a := range d.arms {
			f := said[k*n+r]
			if a.semi {
				a.score.live.add(f, said[r], x.Y)
			} else {
				loss += max(0, 1-float64(a.sign(x.Y)*f))
			}
		}
	}
	return loss
}

// learnOne does an arm's first step on an example. gone is the contribution of the
// slot's previous example to w, or nil if it stays.
func (d *dual) learnOne(a *arm, y float64, slot int, old *stream.Example, gone, z, m []float32, q, c float64) {
	if slot < 0 {
		if next, _ := d.ascend(a, c, 0, z, q, y); next > 0 {
			d.shift(a, next*y, m, true)
		}
		return
	}
	switch {
	case slot == len(a.a):
		a.a = append(a.a, 0)
	case gone != nil && a.a[slot] != 0:
		d.shift(a, -a.a[slot]*a.sign(old.Y), gone, true)
	}
	a.a[slot] = 0
	d.relaxAt(a, c, slot, z, m, q, y)
}

// takeUnlabelled learns from a minibatch of unlabelled points. known has their
// features, or is nil.
func (d *dual) takeUnlabelled(l *Learner, xs []stream.Vec, known []float32) {
	if !d.arms[len(d.arms)-1].semi {
		return
	}
	d.since++
	share := float64(len(xs)) / float64(d.opt.BatchU)
	for _, a := range d.arms {
		if !a.semi {
			continue
		}
		keep := 1 - float64(d.opt.Step*share)
		for j, wl := range a.wl {
			a.w[j] = wl + float64(keep*(a.w[j]-wl))
		}
		a.b = a.bl + float64(keep*(a.b-a.bl))
	}
	q := 1 + d.opt.Bias
	inside, positive, loss := 0, 0, 0.0
	for from := 0; from < len(xs); from += chunk {
		part := xs[from:min(len(xs), from+chunk)]
		z := known[min(from*d.opt.Features, len(known)):]
		if len(known) == 0 {
			z = d.features(l, part)
		}
		for _, a := range d.arms {
			if !a.semi {
				continue
			}
			_, _, cstar := l.weights(a.rho)
			box := d.opt.Step * cstar * min(1, float64(d.since)/rampSteps) / float64(d.opt.BatchU)
			last := a == d.arms[len(d.arms)-1]
			for r := range part {
				row := d.row(z, r)
				f := d.decision(a, row)
				if last {
					loss += symmetric(f)
					if math.Abs(f) < 1 {
						inside++
					}
					if f >= 0 {
						positive++
					}
				}
				if beta := min(box, symmetric(f)/q); beta > 0 && f != 0 {
					d.shift(a, math.Copysign(beta, f), row, false)
				}
			}
		}
	}
	n := float64(len(xs))
	l.uLoss, l.inside, l.share = loss/n, float64(inside)/n, float64(positive)/n
}

// sweep does a coordinate step for at most limit labelled points, where c bounds α at
// weight 1, and returns the largest violation.
func (d *dual) sweep(c float64, limit int) float64 {
	n := len(d.z)
	steps := min(n, limit)
	if steps == 0 {
		return 0
	}
	worst := make([]float64, len(d.arms))
	d.eachArm(steps, func(arms []*arm, first int) {
		for s := range steps {
			i := (d.cursor + s) % n
			for k, a := range arms {
				worst[first+k] = max(worst[first+k], d.relax(a, d.v[i]*c, i, a.sign(d.y[i])))
			}
		}
	})
	d.cursor = (d.cursor + steps) % n
	return slices.Max(worst)
}

// polish sweeps until no coefficient is far from optimal, with at most the given number
// of updates per arm.
func (d *dual) polish(l *Learner, updates int) {
	for range updates / max(len(d.z), 1) {
		if d.sweep(d.box(l), len(d.z)) < polishTol {
			break
		}
	}
}

func (d *dual) finish(l *Learner) {
	d.wait()
	if l.Len() < int(l.labelled) && d.arms[0].mean.n > 0 {
		d.choose(l, true)
		return
	}
	d.forget()
	d.prepare(l)
	d.replay(l)
	d.polish(l, lastUpdates)
	d.choose(l, true)
}

// replayed is the number of minibatches after which w_U has forgotten its start at 0,
// (1−γ)^60 = 5 % at the default step, and C* has long reached its value.
const replayed = 60

// replayFloats bounds the features kept in memory during a replay.
const replayFloats = 1 << 24

// replay learns from the recent unlabelled examples again.
func (d *dual) replay(l *Learner) {
	if !d.arms[len(d.arms)-1].semi || len(l.Recent()) == 0 {
		return
	}
	var z []float32
	if len(l.Recent())*d.opt.Features <= replayFloats {
		z = mapped(l.feats, d.opt.Features, l.Recent())
	}
	l.rerun(replayed, z, func(xs []stream.Vec, z []float32) {
		d.takeUnlabelled(l, xs, z)
		d.sweep(d.box(l), sweepLimit)
	})
}

// restart learns from the stored examples again, with new features.
func (d *dual) restart(l *Learner, last bool) {
	d.wait()
	d.ready, d.since = false, 0
	d.forget()
	d.prepare(l)
	c := d.box(l)
	for _, a := range d.arms {
		clear(a.w)
		clear(a.wl)
		a.b, a.bl = 0, 0
		for i, alpha := range a.a {
			a.a[i] = min(alpha, l.Sample()[i].Importance()*c)
			d.shift(a, a.a[i]*a.sign(l.Sample()[i].Y), d.m[i], true)
		}
	}
	if l.classes == 0 { // otherwise α is nearly optimal
		d.polish(l, restartUpdates)
	}
	if !last { // otherwise finish will replay
		d.replay(l)
	}
}

func (d *dual) view(l *Learner) *rffmodel.Model { return d.viewOf(l, d.serve) }

// viewOf returns the model of an arm.
func (d *dual) viewOf(l *Learner, arm int) *rffmodel.Model {
	d.wait()
	a := d.arms[arm]
	w, b := a.model()
	k := l.cluster.weight
	if !a.semi {
		w, b, k = l.averaged(arm, w, b)
	}
	m := &rffmodel.Model{Feats: l.feats, Dim: l.dim, Coef: w, Scale: d.norm(), Offset: float64(d.opt.Bias * b), Rho: a.rho, Cluster: k, Sums: d.scored.sums}
	if len(d.arms) > 1 && a.class == 0 {
		m.Choice = rffmodel.Supervised
		if d.serve > 0 {
			m.Choice = rffmodel.Semi
		}
	}
	return m
}

func (d *dual) gauges(l *Learner) []stream.Measure {
	a := d.arms[d.serve]
	return []stream.Measure{
		{Name: "served_arm", Value: float64(d.serve)},
		{Name: "served_rho", Value: a.rho},
		{Name: "served_won", Value: float64(a.score.best().won)},
		{Name: "served_lost", Value: float64(a.score.best().lost)},
	}
}

func (d *dual) fields(l *Learner, f *state.Fields) {
	d.wait()
	f.Int("cursor", &d.cursor)
	f.Uint64("since", &d.since)
	f.Int("serve", &d.serve)
	f.Uint64("checked", &d.checked)
	for i, a := range d.arms {
		f.Float64s("w", &a.w)
		if i == 0 {
			a.wl = a.w
		} else {
			f.Float64s("wl", &a.wl)
			f.Float64("bl", &a.bl)
		}
		f.Float64("b", &a.b)
		f.Float64s("a", &a.a)
		f.Group("score", a.score.fields)
		a.mean.fields(f, d.opt.Features)
	}
	if !f.Decoding() || f.Err() != nil {
		return
	}
	d.slots = slots{}
	for _, a := range d.arms {
		if len(a.w) != d.opt.Features || len(a.wl) != d.opt.Features || len(a.a) != l.Len() {
			f.Fail("w", fmt.Errorf("%d coefficients of %d features, %d of %d labels", len(a.w), d.opt.Features, len(a.a), l.Len()))
		}
	}
	if d.serve < 0 || d.serve >= len(d.arms) || d.cursor < 0 {
		f.Fail("serve", fmt.Errorf("arm %d of %d", d.serve, len(d.arms)))
	}
}
