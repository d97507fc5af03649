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
	*mixer               // nil: one of several, whose scores are mixed together
	log         []record // of one of several: the examples learned from, until they are mixed
	experts     []entry
	version     *ensemble           // the latest one, without terms; nil: none yet
	place       []int               // of each expert in it, -1 if it was not there
	common      *common             // what one of several has in common with others; may be nil
	maxWeight   float64             // weight of an example; 0: all were 1
	meanWeights [2]balance          // mean weights of the classes, −1 first
	pending     []pendingPrediction // in order of the examples
	numbers     *numbers            // of a regression, which has no mixer
	labels      labels              // of a regression

	parts       [][2]int // of the experts, from and to: parts learn at the same time
	batch       []input
	buffers     [][]float32   // for the inputs of the batch
	phis        []float32     // for its random features
	scores      [][]score     // of the experts, by example of the batch
	aged        [][]score     // of the latest version, likewise
	predictions []*prediction // for the examples of the batch, now or before
	judged      []judgement
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
	l.scores = newScores(maxBatch, len(l.experts))
	l.buffers, l.judged = make([][]float32, maxBatch), make([]judgement, maxBatch)
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
		case *randomFeatures:
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
			l.takePending(x)
		}
	}
	return learned, steps, nil
}

// judge compares the machines on an example of the batch, and takes note of how it counts.
func (l *Learner) judge(i int) {
	x, j := l.batch[i].x, &l.judged[i]
	j.count, j.weight = l.weigh(x)
	if j.now = l.predictions[i] == nil; j.now {
		j.prediction, j.shift = prediction{scores: l.scores[i], generation: l.generation()}, l.shift()
		l.predictions[i] = &j.prediction
	}
	p := l.predictions[i]
	l.compareChallengers(p, x.Y, j.weight)
	l.detector.Add(x)
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
	for i, p := range l.predictions {
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

// compareChallengers tells the drift detector which machines were nearer to y.
func (l *Learner) compareChallengers(p *prediction, y, weight float64) {
	// The errors of a machine that has been cut since say nothing of this one.
	if cuts, _ := l.detector.ChangePoints(); p.generation != 1+cuts {
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
		if k.at > growing && l.kernels[k.at] != nil && p.scores[e].ok {
			by[k.at-k64] = weight * float64(cmp.Compare(miss(p.scores[0].f), miss(p.scores[e].f)))
		}
	}
	l.detector.Compare(by[:])
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
	b := &l.meanWeights[0]
	if x.Y > 0 {
		b = &l.meanWeights[1]
	}
	b.n++
	b.mean += float64(max(0.001, 1/b.n) * (w - b.mean))
	if w == 1 && l.maxWeight == 0 {
		return count, count
	}
	l.maxWeight = max(l.maxWeight, 1, w)
	return count, count * w / l.maxWeight
}

// shift is what the weights of the classes add to log odds, so that decisions are those by
// weight.
func (l *Learner) shift() float64 {
	if b := l.meanWeights; b[0].n > 0 && b[1].n > 0 && b[0].mean != b[1].mean {
		return linear.Log(b[1].mean / b[0].mean)
	}
	return 0
}

// widen lets experts begin again on wide examples, with the first one.
func (l *Learner) widen(in *input) error {
	l.dim = max(l.dim, in.x.X.Dim())
	l.panel.widen()
	fresh, list := l.newExperts(), l.experts
	for e := range list {
		switch list[e].expert.(type) {
		case *gradient, *nearExpert, *randomFeatures, *fitted:
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
