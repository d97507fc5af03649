package adaptive

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/linear"
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
	heaviest float64             // weight of an example; 0: all were 1
	heavy    [2]balance          // mean weights of the classes, −1 first
	pending  []pendingPrediction // in order of the examples
	numbers  *numbers            // of a regression, which has no mixer
	labels   labels              // of a regression

	batch    []input
	recalled []*prediction
	aged     [][]score // of the latest version, by example of the batch
	now      []score   // scratch
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
	l.experts = l.newExperts()
	l.now = make([]score, len(l.experts))
	return l, nil
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

// look prepares the scores of a few examples by what does not change between them.
func (l *Learner) look(xs []*stream.Example) int {
	if next := l.nextVersion(); next > 0 {
		xs = xs[:min(uint64(len(xs)), next-l.cutting.Seen())]
	}
	l.batch, l.recalled = l.batch[:0], l.recalled[:0]
	vecs, fresh := make([]stream.Vec, len(xs)), false
	for i, x := range xs {
		l.batch = append(l.batch, input{x: x, i: i})
		l.recalled = append(l.recalled, l.recall(x))
		fresh = fresh || l.recalled[i] == nil
		vecs[i] = x.X
	}
	batch := l.batch
	l.aged = nil
	if fresh {
		l.aged = l.versionScores(vecs)
	} else {
		batch = nil
	}
	for _, e := range l.experts {
		e.begin(batch)
	}
	return len(xs)
}

// prepare completes an input.
func (l *Learner) prepare(in *input) {
	in.z, in.phi = l.see(in.x)
	if in.row = in.z; l.inputs.wide {
		in.row = unitLength(in.z)
	}
}

// predict sets dst to the scores of the experts.
func (l *Learner) predict(dst []score, in *input) {
	for e, x := range l.experts {
		dst[e] = x.predict(in)
	}
}

// one predicts an example, unless that was done when it arrived, and learns from it.
func (l *Learner) one(i int, x *stream.Example) (float64, error) {
	count, weight := l.weigh(x)
	in := &l.batch[i]
	l.prepare(in)
	l.predict(l.now, in)
	p := l.recalled[i]
	if p == nil {
		p = l.predictionOf(l.now)
		if l.aged != nil {
			p.aged = l.aged[i]
		}
	}
	l.compareMachines(p, x.Y, weight)
	y := 0
	if x.Y > 0 {
		y = 1
	}
	if l.numbers != nil {
		l.numbers.learn(p.scores, p.aged, x.Y, weight)
	} else if l.mixer == nil {
		l.log = append(l.log, record{slices.Clone(p.scores), p.aged, y, weight})
	} else {
		// Weights are for the experts. Log odds are of the stream as it is.
		l.mixer.learn([][]score{p.scores}, p.agedScores(), y, count)
	}
	wide := l.inputs.wide
	err := l.take(in.x, func() error {
		if l.inputs.wide != wide { // it has just been found to be wide
			l.prepare(in)
		}
		for e, x := range l.experts {
			if err := x.learn(in, l.now[e]); err != nil {
				return err
			}
		}
		if l.numbers != nil {
			l.labels.learn(x.Y)
		}
		return nil
	})
	return p.f, err
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
	if err := l.keepVersion(); err != nil {
		return err
	}
	if l.numbers != nil {
		l.numbers.take(examples)
		return nil
	}
	l.published.take(examples, l.calibrators, l.stack, l.shares.weights(), l.center(l.rate()))
	return nil
}

// keepVersion makes a version of the present experts.
func (l *Learner) keepVersion() error {
	m, place := l.ensemble()
	data, err := m.AppendBinary(nil) // a copy
	if err == nil {
		m, err = decodeEnsemble(data)
	}
	l.version, l.place = m, place
	return err
}

// versionScores returns the scores of the latest version for a batch, by example and expert;
// nil while there is none.
func (l *Learner) versionScores(xs []stream.Vec) [][]score {
	if l.version == nil {
		return nil
	}
	all := newRows(len(l.version.members), len(xs))
	l.version.scores(all, xs)
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

// turn does what is due after every 16th example.
func (l *Learner) turn(ctx context.Context) error {
	for _, e := range l.experts {
		if err := e.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// widen lets experts begin again on wide examples.
func (l *Learner) widen() {
	fresh := l.newExperts()
	for e := range l.experts {
		switch l.experts[e].expert.(type) {
		case *gradient, *nearExpert, *features, *fitted:
			l.experts[e] = fresh[e]
		}
	}
	clear(l.now)
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
