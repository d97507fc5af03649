package adaptive

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// The panel's experts: kernel learners first, then linear ones.
const (
	growing = iota // m: all examples since the last cut
	k64            // challengers, on the newest examples
	k256
	k1024
	k2048
	l1  // passive-aggressive
	ada // AdaGrad
	r1  // passive-aggressive in random features
	numExperts
)

// uncut is the kernel learner m as it would be without cuts, from sizes.whole examples on; of a
// regression, m as it would be without the latest cut.
const uncut = k2048 + 1

var names = [numExperts]string{"m", "k64", "k256", "k1024", "k2048", "l1", "ada", "r1"}

// sizes are the numbers of examples at which experts start, change or end. Tests use
// smaller ones.
type sizes struct {
	first    int                  // with which the growing SVM starts
	large    int                  // from which the growing SVM is a scs learner
	whole    int                  // at which it is tuned as scs would be by itself
	settled  int                  // from which the longest challenger is not worth its time
	held     int                  // limit of the growing learner of a regression, which keeps all its kernel values
	windows  [k2048 - k64 + 1]int // newest examples that each challenger learns from
	features [2]int               // at which expert dsg starts, and starts again
	scs, dsg map[string]string    // options of scs and dsg that differ from their defaults
}

// kept returns how many of the newest examples a classifier keeps: also those that a class added later
// learns from.
func (s *sizes) kept() int { return max(s.whole+tick, ovr.Remembered) }

var standard = sizes{
	first: 64, large: 2048, whole: 4000, settled: 16384, held: 2048, windows: [...]int{64, 256, 1024, 2048},
	features: [...]int{512, 4000}, dsg: map[string]string{"features": "1536"},
}

// The weights for the next example follow the stream closely.
const (
	ownSpread = 0.1   // prior variance of the stack's weights
	ownKeep   = 0.999 // forgetting factor φ of the stack
	ownForget = 0.01  // forgetting rate of the calibrations
	ownOffset = 0.25  // fraction of the Newton step that their offset takes: class rates change sooner than scales
)

// mostCount limits how many examples a single one may stand for when experts are judged.
const mostCount = 50

// Learner is the classifier or regression; see the package documentation. It is not safe for
// concurrent use.
type Learner struct {
	*panel
	*mixer               // nil for one of several classes, which share a mixer, and for regression
	log         []record // one of several classes: examples learned from but not mixed yet
	experts     []entry
	version     *ensemble           // the latest version, without terms; nil before the first
	place       []int               // member of version for each expert; -1 if it was missing
	first       *Learner            // that of class 0, if this one is of another class
	common      *common             // computations shared between classes; may be nil
	shared      *schedule           // of versions, of one of several classes
	maxWeight   float64             // largest weight of an example; 0 while all were 1
	meanWeights [2]balance          // mean example weight of each class, −1 first
	pending     []pendingPrediction // in the order of arrival
	numbers     *numbers            // regression only, instead of a mixer
	labels      labels              // regression only

	parts       [][2]int // ranges [from, to) of experts; ranges learn concurrently
	batch       []input
	buffers     [][]float32   // reused for the inputs of a batch
	phis        []float32     // reused for the random features of a batch
	hats        stream.Vec    // reused for its splines
	scores      [][]score     // by example of the batch, then expert
	aged        []aged        // by example of the batch; nil if none was predicted now
	predictions []*prediction // for each example of the batch, made now or on arrival
	judged      []judgement
}

// judgement is the prediction for an example and the weight with which it is judged.
type judgement struct {
	prediction
	now           bool    // predicted now; false: predicted when the example arrived
	count, weight float64 // see weigh
	shift         float64 // of the log odds when the prediction was made
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

// setExperts sets the experts and divides them into parts that learn concurrently: the kernel
// learners are one part, and each other slow expert begins a part.
func (l *Learner) setExperts(list []entry) {
	l.experts, l.parts = list, nil
	for e, x := range list {
		begins := e == 0
		switch x := x.expert.(type) {
		case *randomFeatures:
			begins = true
		case *linearExpert:
			begins = begins || x.at == 0
		case *gradient:
			begins = begins || x.form == onSplines
		case *nearExpert:
			begins = begins || !x.second
		}
		if begins {
			l.parts = append(l.parts, [2]int{e, e})
		}
		l.parts[len(l.parts)-1][1] = e + 1
	}
}

// near returns the stored examples of the nearest neighbours.
func (l *Learner) near() *neighbours {
	for _, e := range l.experts {
		if near, ok := e.expert.(*nearExpert); ok {
			return near.neighbours
		}
	}
	return nil
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

// judge feeds example i of the batch to the drift detector and records its weight.
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

// mix writes the predictions for the batch to dst, unless that is nil, and updates the mixer.
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
			// Importance weights are for the experts only: log odds describe the unweighted stream.
			l.mixer.learn(lane, p.aged.lane(), p.aged.out, positive(x), j.count, p.aged.stands)
		case l.numbers == nil:
			l.log = append(l.log, record{slices.Clone(p.scores), p.aged, positive(x), j.weight})
		}
		if dst != nil {
			dst[i] = p.f
		}
	}
}

// compareChallengers reports to the drift detector which challengers were closer to y than
// the growing SVM.
func (l *Learner) compareChallengers(p *prediction, y, weight float64) {
	// The prediction may come from a growing SVM that has been replaced since.
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
		if k.at > growing && k.at != uncut && l.kernels[k.at] != nil && p.scores[e].ok {
			by[k.at-k64] = weight * float64(cmp.Compare(miss(p.scores[0].f), miss(p.scores[e].f)))
		}
	}
	l.detector.Compare(by[:])
}

// balance is a moving mean of example weights.
type balance struct{ n, mean float64 }

// weigh records the weight of an example and returns how much it counts when experts are
// judged. count is the number of examples it stands for, after sampling. weight, for
// comparing errors, includes class weights, relative to the largest so far.
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

// shift is added to the log odds so that decisions respect class weights: the log of the
// ratio of the classes' mean weights.
func (l *Learner) shift() float64 {
	if b := l.meanWeights; b[0].n > 0 && b[1].n > 0 && b[0].mean != b[1].mean {
		return linear.Log(b[1].mean / b[0].mean)
	}
	return 0
}

// widen restarts the experts for wide examples; in holds the first of these.
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
	l.inputs.observe(in.x.X)
	l.prepare(in)
	in.phi, in.hat = stream.Vec{}, stream.Vec{}
	for _, e := range list {
		if err := e.learn(in, score{}); err != nil {
			return err
		}
	}
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
