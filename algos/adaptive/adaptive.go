package adaptive

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Experts of the panel, in the order of machines and linear experts.
const (
	growing = iota // m: all examples since the last cut
	k64            // challengers, on the newest examples
	k256
	k1024
	k2048
	l1 // passive-aggressive
	l01
	a3 // AdaGrad
	a1
	r1 // passive-aggressive in random features
	r01
	numExperts
)

var names = [numExperts]string{"m", "k64", "k256", "k1024", "k2048", "l1", "l01", "a3", "a1", "r1", "r01"}

// sizes are the numbers of examples at which the experts change. Tests have
// smaller ones.
type sizes struct {
	first    int                  // of the first machine
	large    int                  // from which on the growing machine is scs
	whole    int                  // on which its options are chosen as those of a learner that stands alone
	settled  int                  // from which on the longest challenger is not worth its time
	held     int                  // most that the growing machine of a regression holds, which needs all of them
	windows  [k2048 - k64 + 1]int // of the challengers
	features [2]int               // at which the expert in random features begins
	scs, dsg map[string]string    // options of scs and dsg, whose defaults are for large samples
}

var standard = sizes{
	first: 64, large: 2048, whole: 4000, settled: 16384, held: 2048, windows: [...]int{64, 256, 1024, 2048},
	features: [...]int{512, 4000}, dsg: map[string]string{"features": "2048"},
}

// The classifier's own weights follow the stream closely.
const (
	ownSpread = 0.1   // of the stack's weights
	ownKeep   = 0.999 // φ of the stack
	ownForget = 0.01  // of calibrations
)

// mostCount bounds as how many examples one counts where experts are judged.
const mostCount = 50

// Learner is the classifier; see the package documentation. Not safe for concurrent
// use.
type Learner struct {
	*panel
	*mixer            // nil: one of several, whose scores are mixed together
	log      []record // of one of several: the examples learned from, until they are mixed
	experts  []entry
	version  *ensemble           // the latest one, without terms; nil: none yet
	place    []int               // of each expert in it, -1 if it was not there
	common   *common             // what one of several has in common with others; may be nil
	heaviest float64             // weight of an example; 0: all were 1
	heavy    [2]balance          // mean weights of the classes, −1 first
	pending  []pendingPrediction // in order of the examples
	numbers  *numbers            // of a regression, which has no mixer
	labels   labels              // of a regression

	parts  [][2]int // of the experts, from and to: parts learn at the same time
	batch  []input
	rooms  [][]float32   // for the inputs of the batch
	phis   []float32     // for its random features
	now    [][]score     // of the experts, by example of the batch
	aged   [][]score     // of the latest version, likewise
	made   []*prediction // for the examples of the batch, now or before
	judged []judgement
}

// judgement is how an example counts, and what was predicted for it.
type judgement struct {
	prediction
	now           bool    // the prediction is made now; otherwise it was when the example came
	count, weight float64 // see weigh
	shift         float64 // of the log odds at that time
}

var (
	_ algos.Sequential       = (*Learner)(nil)
	_ algos.DriftReporter    = (*Learner)(nil)
	_ algos.PendingPredictor = (*Learner)(nil)
	_ algos.Publisher        = (*Learner)(nil)
)

func newLearner(env algos.Env, o options) (algos.Learner, error) { return newSized(env, o, &standard) }

func newSized(env algos.Env, o options, s *sizes) (algos.Learner, error) {
	if env.Task == algos.Regress {
		l, err := newExpertsOf(env, o, s)
		if err == nil {
			l.numbers = newNumbers(env.PublishEvery, len(l.experts), &l.labels, o.Loss == "absolute")
		}
		return l, err
	}
	if env.Classes > 2 {
		return newClasses(env, o, s)
	}
	l, err := newExpertsOf(env, o, s)
	if err != nil {
		return nil, err
	}
	l.mixer = newMixer(env, 1, l.experts)
	return l, nil
}

// newExpertsOf returns a learner without a mixer.
func newExpertsOf(env algos.Env, o options, s *sizes) (l *Learner, err error) {
	l = &Learner{}
	held, newLinear := 0, func(x onePass) linearLearner { return &x }
	if env.Task == algos.Regress {
		held, newLinear = s.held, func(x onePass) linearLearner {
			return &follower{onePass: x, absolute: o.Loss == "absolute", labels: &l.labels}
		}
	}
	l.panel, err = makePanel(env, o, s, held, l, newLinear)
	if err != nil {
		return nil, err
	}
	l.setExperts(l.newExperts())
	l.now = newScores(together, len(l.experts))
	l.rooms, l.judged = make([][]float32, together), make([]judgement, together)
	return l, nil
}

func newScores(rows, experts int) [][]score {
	out, flat := make([][]score, rows), make([]score, rows*experts)
	for i := range out {
		out[i] = flat[i*experts : (i+1)*experts]
	}
	return out
}

// setExperts sets the experts, and their parts: first the machines, and each other one that
// takes long with those that follow.
func (l *Learner) setExperts(list []entry) {
	l.experts, l.parts = list, nil
	for e, x := range list {
		begins := e == 0
		switch x := x.expert.(type) {
		case *features:
			begins = true
		case *linearExpert:
			begins = begins || x.at == 0
		case *nearExpert:
			begins = begins || !x.second
		}
		if begins {
			l.parts = append(l.parts, [2]int{e, e})
		}
		l.parts[len(l.parts)-1][1] = e + 1
	}
}

// Follow implements algos.Sequential.
func (l *Learner) Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error) {
	if learned, steps, err = l.panel.Follow(ctx, dst, xs); err != nil {
		return 0, 0, err
	}
	for _, x := range xs {
		if !x.Labelled {
			l.recall(x)
		}
	}
	return learned, steps, nil
}

// look lets the experts predict some examples, and learn from each before they predict the
// next one. It sets dst, which may be nil, to the predictions, and returns how many of xs
// those are.
//
// Experts do not depend on each other, so each goes through all of the examples by itself.
// Only machines are compared with each other, which may cut the sample, and those for numbers
// depend on the numbers before.
func (l *Learner) look(ctx context.Context, dst []float64, xs []*stream.Example) (int, error) {
	seen := l.cutting.Seen()
	xs = xs[:min(len(xs), l.most(seen))]
	widens := l.enter(xs)
	xs = xs[:len(l.batch)]
	l.made, l.aged = l.made[:0], nil
	fresh := false
	for _, x := range xs {
		p := l.recall(x)
		l.made, fresh = append(l.made, p), fresh || p == nil
	}
	err := l.each(1+len(l.parts), func(i int) error {
		switch {
		case i == 1:
			if fresh {
				l.aged = l.versionScores(samplers.Vecs(xs), l.common.inputsOf(l.version, seen, len(xs)))
			}
			return nil
		case l.numbers != nil || widens:
			return nil
		case i == 0:
			return l.train(ctx, fresh)
		}
		return l.ticks(func(from, to int) error {
			err := l.run(l.parts[i-1], from, to, fresh, true)
			if at := seen + uint64(to); err == nil && at%tick == 0 && to < len(xs) {
				err = l.step(ctx, l.parts[i-1], at)
			}
			return err
		})
	})
	all := [2]int{0, len(l.experts)}
	switch {
	case err != nil:
	case widens:
		if err = l.run(all, 0, 1, fresh, false); err == nil {
			l.judge(0)
			err = l.widen(&l.batch[0])
			l.labels.learn(xs[0].Y)
		}
	case l.numbers != nil:
		for i, x := range xs {
			if err = l.run(all, i, i+1, fresh, true); err != nil {
				break
			}
			l.judge(i)
			l.labels.learn(x.Y)
		}
	}
	if err != nil {
		return 0, err
	}
	ticks := l.cutting.Seen()%tick == 0
	err = l.each(1+len(l.parts), func(i int) error {
		switch {
		case i == 0:
			l.mix(dst)
		case i == 1 && ticks && (l.numbers != nil || widens):
			return l.turn(ctx)
		case i > 1 && ticks:
			return l.step(ctx, l.parts[i-1], l.cutting.Seen())
		}
		return nil
	})
	return len(xs), err
}

// most returns how many examples may be looked at together: up to the next version, and up to
// where an expert needs those before.
func (l *Learner) most(seen uint64) int {
	n := uint64(together)
	if next := l.nextVersion(); next > 0 {
		n = min(n, next-seen)
	}
	if l.numbers != nil {
		return int(min(n, tick-seen%tick))
	}
	for _, e := range l.experts {
		if f, ok := e.expert.(*features); ok {
			n = min(n, f.most(seen))
		}
	}
	return int(n)
}

// ticks calls f for the parts of the batch between ticks.
func (l *Learner) ticks(f func(from, to int) error) error {
	for from, to := 0, 0; from < len(l.batch); from = to {
		for to++; to < len(l.batch) && l.batch[to].i > 0; to++ {
		}
		if err := f(from, to); err != nil {
			return err
		}
	}
	return nil
}

// train lets the machines go through the batch.
func (l *Learner) train(ctx context.Context, fresh bool) error {
	return l.ticks(func(from, to int) error {
		if err := l.run(l.parts[0], from, to, fresh, true); err != nil {
			return err
		}
		for i := from; i < to; i++ {
			l.judge(i)
		}
		if l.cutting.Seen()%tick == 0 {
			return l.turn(ctx)
		}
		return nil
	})
}

// run lets a part of the experts predict examples of the batch between two ticks, and learn
// from them.
func (l *Learner) run(part [2]int, from, to int, fresh, learn bool) error {
	for e := part[0]; e < part[1]; e++ {
		x := l.experts[e].expert
		if l.batch[from].i == 0 {
			end := to
			for l.numbers != nil && end < len(l.batch) {
				end++
			}
			x.begin(l.batch[from:end], fresh)
		}
		for i := from; i < to; i++ {
			in := &l.batch[i]
			s := x.predict(in)
			l.now[i][e] = s
			if !learn {
				continue
			}
			if err := x.learn(in, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// step does what is due for a part of the experts after so many examples, at a tick.
func (l *Learner) step(ctx context.Context, part [2]int, seen uint64) error {
	for _, e := range l.experts[part[0]:part[1]] {
		if err := e.step(ctx, seen); err != nil {
			return err
		}
	}
	return nil
}

// enter makes a batch of the first of xs, which the linear experts see as they are after the
// examples before them. It reports whether the batch is one example that is found to be wide.
func (l *Learner) enter(xs []*stream.Example) (widens bool) {
	l.batch = l.batch[:0]
	waves := false
	for i, x := range xs {
		if widens = !l.inputs.wide && x.X.Dim() > narrow; widens && i > 0 {
			widens = false
			break
		}
		if l.numbers != nil { // experts may keep it
			l.rooms[i] = nil
		}
		in, known := l.common.input(l.cutting.Seen() + uint64(i))
		if !known {
			in = l.inputs.input(l.rooms[i], x.X)
			l.rooms[i] = in.z.Val
		}
		in.x, in.i = x, i-max(0, i-int((l.cutting.Seen()+uint64(i))%tick))
		l.batch = append(l.batch, in)
		if widens {
			break
		}
		l.dim = max(l.dim, x.X.Dim())
		l.inputs.observe(x.X)
		if waves = l.waves == nil && !l.inputs.wide && l.opt.Panel != "small" && l.cutting.Seen()+uint64(i)+1 >= uint64(l.sizes.first) && l.dim > 0; waves {
			break
		}
	}
	if l.waves != nil {
		zs := make([]stream.Vec, len(l.batch))
		for i := range zs {
			zs[i] = l.batch[i].z
		}
		if l.numbers != nil {
			l.phis = nil
		}
		for i, phi := range l.waves.ofAll(l.phis, zs...) {
			l.batch[i].phi = phi
			l.phis = phi.Val[:0]
		}
	}
	if waves {
		l.waves = newWaves(l.dim, l.env.Seed)
	}
	return widens
}

// prepare completes an input that is not of a batch.
func (l *Learner) prepare(in *input) {
	in.z = l.inputs.apply(in.x.X)
	if l.waves != nil {
		in.phi = l.waves.of(in.z)
	}
	if in.row = in.z; l.inputs.wide {
		in.row = unitLength(in.z)
	}
}

// judge compares the machines on an example of the batch, and takes note of how it counts.
func (l *Learner) judge(i int) {
	x, j := l.batch[i].x, &l.judged[i]
	j.count, j.weight = l.weigh(x)
	if j.now = l.made[i] == nil; j.now {
		j.prediction, j.shift = prediction{scores: l.now[i], machine: l.machine()}, l.shift()
		l.made[i] = &j.prediction
	}
	p := l.made[i]
	l.compareMachines(p, x.Y, j.weight)
	l.cutting.Add(x)
	if l.numbers != nil {
		if j.now {
			p.f = l.numbers.predict(p.scores)
			if l.aged != nil {
				p.aged = l.aged[i]
			}
		}
		l.numbers.learn(p.scores, p.aged, x.Y, j.weight)
	}
}

func positive(x *stream.Example) int {
	if x.Y > 0 {
		return 1
	}
	return 0
}

// mix sets dst, which may be nil, to the predictions for the batch, and lets the mixer learn.
func (l *Learner) mix(dst []float64) {
	for i, p := range l.made {
		x, j := l.batch[i].x, &l.judged[i]
		if j.now && l.aged != nil {
			p.aged = l.aged[i]
		}
		switch {
		case l.mixer != nil:
			lane := [][]score{p.scores}
			if j.now {
				p.f = l.mixer.predict(lane)[0] + j.shift
			}
			// Weights are for the experts. Log odds are of the stream as it is.
			l.mixer.learn(lane, p.agedScores(), positive(x), j.count)
		case l.numbers == nil:
			l.log = append(l.log, record{slices.Clone(p.scores), p.aged, positive(x), j.weight})
		}
		if dst != nil {
			dst[i] = p.f
		}
	}
}

// compareMachines tells the drift detector which machines were nearer to y.
func (l *Learner) compareMachines(p *prediction, y, weight float64) {
	// The errors of a machine that has been cut since say nothing of this one.
	if cuts, _ := l.cutting.ChangePoints(); p.machine != 1+cuts {
		return
	}
	miss := func(f float64) float64 {
		switch {
		case l.env.Task == algos.Regress:
			return math.Abs(f - y)
		case (f >= 0) != (y > 0):
			return 1
		}
		return 0
	}
	var by [k2048]float64
	for e, x := range l.experts {
		k, ok := x.expert.(*kernelExpert)
		if !ok {
			break
		}
		if k.at > growing && l.machines[k.at] != nil && p.scores[e].ok {
			by[k.at-k64] = weight * float64(cmp.Compare(miss(p.scores[0].f), miss(p.scores[e].f)))
		}
	}
	l.cutting.Compare(by[:])
}

// balance is a mean of the newest weights.
type balance struct{ n, mean float64 }

// weigh takes note of the weight of an example and returns by how much it counts where
// experts are judged: an example that stands for several of a stream counts as often.
// Where examples have weights besides, as those of a rare class do, it counts where errors
// are compared by that, in units of the largest so far.
func (l *Learner) weigh(x *stream.Example) (count, weight float64) {
	w := x.Importance() / x.Count()
	count = min(x.Count(), mostCount)
	b := &l.heavy[0]
	if x.Y > 0 {
		b = &l.heavy[1]
	}
	b.n++
	b.mean += float64(max(0.001, 1/b.n) * (w - b.mean))
	if w == 1 && l.heaviest == 0 {
		return count, count
	}
	l.heaviest = max(l.heaviest, 1, w)
	return count, count * w / l.heaviest
}

// shift is what the weights of the classes add to log odds, so that decisions are those by
// weight.
func (l *Learner) shift() float64 {
	if b := l.heavy; b[0].n > 0 && b[1].n > 0 && b[0].mean != b[1].mean {
		return linear.Log(b[1].mean / b[0].mean)
	}
	return 0
}

// ensemble returns a view of the experts, without terms, and the place of each.
func (l *Learner) ensemble() (m *ensemble, place []int) {
	m = &ensemble{inputs: &l.inputs, seed: l.env.Seed, waves: l.waves}
	if l.env.Task == algos.Regress {
		m.limits = new(limits)
	}
	for _, e := range l.experts {
		f := e.function()
		if f == nil {
			place = append(place, -1)
			continue
		}
		if near, ok := f.(nearFunction); ok {
			m.near = near.neighbours
		}
		place = append(place, len(m.members))
		m.members = append(m.members, member{e.name, f})
	}
	return m, place
}

// Model returns a view of the present ensemble.
func (l *Learner) Model() algos.Model {
	if l.numbers != nil {
		return l.weighted(l.numbers.weights())
	}
	if l.mixer == nil {
		return new(ensemble)
	}
	return l.present(l.mixer, 0).shifted(l.shift())
}

// present returns a view of the present ensemble, with the weights of a mixer.
func (l *Learner) present(x *mixer, lane int) *ensemble {
	m, place := l.ensemble()
	n := len(l.experts)
	for e, k := range place {
		if k >= 0 {
			m.terms = append(m.terms, term{k, x.calibrators[lane][e].calibration, x.stack.w[e], 0})
		}
	}
	m.bias = x.stack.w[n]
	return m
}

// Published implements algos.Publisher.
func (l *Learner) Published() algos.Model {
	if l.numbers != nil {
		return l.weighted(l.numbers.published()).pruned()
	}
	return l.toPublish(l.mixer, 0).shifted(l.shift())
}

func (l *Learner) toPublish(x *mixer, lane int) *ensemble {
	if x.published.versions == 0 {
		return l.present(x, lane)
	}
	m, place := l.ensemble()
	x.published.publish(m, lane, place, x.calibrators[lane], x.stack, x.shares.weights(), x.center(l.rate())[0])
	if e, ok := x.published.alone(); ok && place[e] >= 0 {
		m.terms, m.bias, m.mixed, m.caps = []term{{place[e], x.published.calibration(lane, e), 1, 0}}, 0, 0, nil
	}
	return m.pruned()
}

// rate returns the log odds of +1 by the share of the examples so far.
func (l *Learner) rate() float64 {
	for _, e := range l.experts {
		if b, ok := e.expert.(*baseRate); ok && b.n > 0 {
			return b.logOdds()
		}
	}
	return 0
}

// Calibrated implements algos.Publisher: decisions are log odds and what weights of classes
// add.
func (l *Learner) Calibrated() (shift float64, ok bool) { return l.shift(), l.numbers == nil }

// nextVersion returns after how many examples a version is due; 0: never.
func (l *Learner) nextVersion() uint64 {
	switch {
	case l.numbers != nil:
		return l.numbers.next
	case l.mixer != nil:
		return l.published.next
	}
	return 0
}

// learned takes a version, if one is due.
func (l *Learner) learned() error {
	examples := l.cutting.Seen()
	if next := l.nextVersion(); next == 0 || examples < next {
		return nil
	}
	if err := l.keepVersion(nil); err != nil {
		return err
	}
	if l.numbers != nil {
		l.numbers.take(examples)
		return nil
	}
	l.published.take(examples, l.calibrators, l.stack, l.shares.weights(), l.center(l.rate()))
	return nil
}

// keepVersion makes a version of the present experts. It shares what depends on features
// alone with that of a learner that has seen the same examples, if there is one.
func (l *Learner) keepVersion(other *ensemble) error {
	m, place := l.ensemble()
	near := m.near
	if other != nil && near != nil {
		m.near = new(neighbours)
	}
	data, err := m.AppendBinary(nil) // a copy
	if err == nil {
		m, err = decodeEnsemble(data)
	}
	if err == nil && other != nil {
		m.inputs, m.waves = other.inputs, other.waves
		if near != nil {
			*m.near = neighbours{points: other.near.points, y: slices.Clone(near.y), next: near.next}
		}
	}
	l.version, l.place = m, place
	return err
}

// versionScores returns the scores of the latest version for a batch, by example and expert;
// nil while there is none. Their inputs are b, if that is not nil.
func (l *Learner) versionScores(xs []stream.Vec, b *inputBatch) [][]score {
	if l.version == nil {
		return nil
	}
	all := newRows(len(l.version.members), len(xs))
	if b == nil {
		b = l.version.inputsOf(xs)
	}
	l.version.scores(all, b)
	out, flat := make([][]score, len(xs)), make([]score, len(xs)*len(l.experts))
	for i := range xs {
		out[i] = flat[i*len(l.experts) : (i+1)*len(l.experts)]
		for e, k := range l.place {
			if k >= 0 {
				out[i][e] = score{all[k][i], true}
			}
		}
	}
	return out
}

// widen lets experts begin again on wide examples, with the first one.
func (l *Learner) widen(in *input) error {
	l.dim = max(l.dim, in.x.X.Dim())
	l.panel.widen()
	fresh, list := l.newExperts(), l.experts
	for e := range list {
		switch list[e].expert.(type) {
		case *gradient, *nearExpert, *features, *fitted:
			list[e] = fresh[e]
		}
	}
	l.setExperts(list)
	l.prepare(in)
	in.phi = stream.Vec{}
	for _, e := range list {
		if err := e.learn(in, score{}); err != nil {
			return err
		}
	}
	l.inputs.observe(in.x.X)
	return nil
}

// Report describes the present state.
func (l *Learner) Report() algos.Report {
	list := make([]string, len(l.experts))
	for e, x := range l.experts {
		list[e] = x.name
	}
	if l.numbers != nil {
		return l.report(list, l.numbers.weights())
	}
	if l.mixer == nil {
		return l.report(list, make([]float64, len(list)))
	}
	return l.report(list, l.stack.w[:len(list)])
}

// unitLength returns z scaled to length 1.
func unitLength(z stream.Vec) stream.Vec {
	var square float64
	for _, v := range z.Val {
		square += float64(float64(v) * float64(v))
	}
	if square == 0 {
		return z
	}
	unit := stream.Vec{Idx: z.Idx, Val: slices.Clone(z.Val)}
	root := math.Sqrt(square)
	for k, v := range z.Val {
		unit.Val[k] = float32(float64(v) / root)
	}
	return unit
}
