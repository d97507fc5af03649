package adaptive

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// A subscriber predicts with the version that was published last. The experts' scores are
// as old as that version then, and an expert that is the best one while it learns can be
// the worst one a thousand examples later. So what is published has calibrations and
// weights of its own, learned from the scores that the experts of the latest version gave
// to the examples since.
//
// As the learner must be a function of the stream, its versions are not those that
// happen to be published: one is taken at 64 examples, at each doubling while that is
// less than the interval between versions, and then at multiples of the interval.
//
// Several rules propose weights, which are frozen for the life of a version.
// The rules are judged by the log loss of their frozen weights, which is what a
// subscriber would have seen, and mixed by a Hedge that counts each version alike.
const (
	defaultEvery = 2500 // examples between versions, where the trainer does not say
	firstVersion = 64

	effective   = 250   // examples that a version counts as, at most: they depend on one another
	ageForget   = .0005 // of calibrations
	ageSpread   = .01   // of the stack's weights
	lossKeep    = .9999 // discount of an expert's losses, per example
	expertRate  = .2    // of the Hedge over experts
	poolRate    = .03   // of the Hedge over rules
	poolKeep    = .98   // discount of the rules' losses, per version
	doublingFor = .5    // while versions grow older: short lives say little about longer ones
	aloneMost   = 1.01  // the growing SVM is published alone if it has at most this times the loss of the best rule
	aloneAfter  = 8     // versions
)

// The rules that propose weights.
const (
	ruleOwn    = iota // the trainer's own stack
	ruleShare         // the trainer's own weights by fixed share, of probabilities
	ruleLeader        // the expert with the least loss
	ruleHedge         // by exponential weights
	ruleStack         // logistic regression on the experts' log odds
	ruleSlow          // the mean of the slow experts
	ruleBase          // the base rate
	ruleLong          // the experts that remember longest, each by itself
	ruleLinear
	ruleKernel
	numRules
)

// A stream that jumps makes versions wrong that were sure. How much of the mixture's log
// odds f is published is learned like the rules: caps[0] stands for all of it, c for
// c tanh(f/c). The first one begins with an advantage.
var caps = [...]float64{0, 4, 3, 2, 1.5, 1, 0.5}

const (
	capPrior  = 3 // the advantage, in nats
	numJudged = numRules + len(caps)
)

// judged is a number for each rule and each cap.
type judged [numJudged]float64

// capped returns the mean of f as capped, by the weights of the caps.
func capped(f float64, weights []float64) float64 {
	sum := float64(weights[0] * f)
	for i, c := range caps[1:] {
		sum += float64(weights[1+i] * float64(c*tanh(f/c)))
	}
	return sum
}

func tanh(x float64) float64 {
	e := linear.ExpNeg(2 * math.Abs(x))
	return math.Copysign((1-e)/(1+e), x)
}

var ruleExperts = [numRules]string{ruleBase: "base", ruleLong: "dsg", ruleLinear: "o0.5", ruleKernel: "m"}

// proposal is what a rule proposes for a version: weights of the experts and a constant,
// last.
type proposal []float64

// published learns the weights of published versions.
type published struct {
	every   uint64
	experts []entry
	names   map[string]int

	calibrators []calibrator // at age
	stack       *stack       // at age
	losses      []float64    // of each expert's log odds, discounted
	shrink      shrinker     // of the trainer's own log odds, at age
	rules       judged       // discounted losses of the rules and caps

	// The latest version.
	versions  uint64        // taken so far
	began     uint64        // examples when it was taken
	next      uint64        // examples at which the next one is due
	version   *ensemble     // with a term-free list of all experts that were there; nil: none yet
	place     []int         // of each expert in the version, -1 if it was not there
	own, aged []calibration // as frozen
	shrunk    shrinker
	proposals [numRules]proposal
	sums      judged    // losses in the life of the version
	mix       []float64 // weights of the rules and caps, as frozen
	count     float64

	x []float64 // scratch
}

func newPublished(every int, experts []entry) *published {
	if every <= 0 {
		every = defaultEvery
	}
	n := len(experts)
	p := &published{every: uint64(every), experts: experts, names: map[string]int{}, stack: newStack(n+1, ageSpread, 1), losses: make([]float64, n), next: firstVersion, x: make([]float64, n+1)}
	for i, e := range experts {
		p.names[e.name] = i
		p.calibrators = append(p.calibrators, newCalibrator())
	}
	p.shrink = newShrinker()
	return p
}

// life is the number of examples that the present version is for.
func (p *published) life() float64 { return float64(p.next - p.began) }

// scores returns the scores of the latest version for a batch, by example and expert; nil
// while there is none.
func (p *published) scores(xs []stream.Vec) [][]score {
	if p.version == nil {
		return nil
	}
	all := make([][]float64, len(p.version.members))
	for k := range all {
		all[k] = make([]float64, len(xs))
	}
	p.version.scores(all, xs)
	out, flat := make([][]score, len(xs)), make([]score, len(xs)*len(p.experts))
	for i := range xs {
		out[i] = flat[i*len(p.experts) : (i+1)*len(p.experts)]
		for e, k := range p.place {
			if k >= 0 {
				out[i][e] = score{all[k][i], true}
			}
		}
	}
	return out
}

// mixing is a mean of probabilities.
type mixing struct{ sum, weights float64 }

func (m *mixing) add(weight, logOdds float64) {
	m.sum += float64(weight * linear.Sigmoid(logOdds))
	m.weights += weight
}

func (m *mixing) logOdds() float64 {
	if m.weights == 0 {
		return 0
	}
	p := m.sum / m.weights
	return linear.Log(p / (1 - p))
}

// logLoss is −ln of the probability of y, 1 or 0, at log odds f.
func logLoss(f, y float64) float64 {
	if y > 0 {
		f = -f
	}
	return linear.Softplus(f)
}

// learn takes note of what the experts of the latest version predicted for an example of
// label y, 1 or 0, of such a weight.
func (p *published) learn(scores []score, y, weight float64) {
	if scores == nil {
		return
	}
	w := weight * min(1, effective/p.life())
	// The rules, as they were frozen.
	x := logOddsOf(p.x, scores, func(e int) *calibration { return &p.own[e] })
	own := bounded(dot(p.proposals[ruleOwn], x), mostLogOdds)
	var f float64 // of the mixture
	judge := func(r int, g float64) {
		p.sums[r] += float64(weight * logLoss(g, y))
		f += float64(p.mix[r] * g)
	}
	judge(ruleOwn, bounded(p.shrunk.of(own), mostLogOdds))
	var mixed mixing
	for e, s := range scores {
		if s.ok {
			mixed.add(p.proposals[ruleShare][e], x[e])
		}
	}
	judge(ruleShare, mixed.logOdds())
	x = logOddsOf(p.x, scores, func(e int) *calibration { return &p.aged[e] })
	for r := ruleShare + 1; r < numRules; r++ {
		judge(r, bounded(dot(p.proposals[r], x), mostLogOdds))
	}
	p.sums[numRules] += float64(weight * logLoss(f, y))
	for i, c := range caps[1:] {
		p.sums[numRules+1+i] += float64(weight * logLoss(float64(c*tanh(f/c)), y))
	}
	p.count += weight
	p.shrink.learn(own, y, w)
	// What the next version will have.
	x = logOddsOf(p.x, scores, func(e int) *calibration { return &p.calibrators[e].calibration })
	p.stack.learn(x, y, w)
	for e, s := range scores {
		loss := math.Ln2
		if s.ok {
			loss = logLoss(x[e], y)
			p.calibrators[e].learn(s.f, y, ageForget, w)
		}
		p.losses[e] = float64(lossKeep*p.losses[e]) + float64(w*loss)
	}
}

// due reports whether a version is to be taken after so many examples.
func (p *published) due(examples uint64) bool { return examples >= p.next }

// take takes a version after so many examples, whose experts are those of m. own are the
// trainer's calibrations and stack.
func (p *published) take(examples uint64, m *ensemble, place []int, own []calibrator, stack *stack, shares []float64) {
	p.settle()
	if p.versions == 0 {
		// There is nothing to go by but the trainer's own weights.
		for e := range p.calibrators {
			p.calibrators[e] = own[e]
		}
		copy(p.stack.w, stack.w)
	}
	p.versions++
	p.version, p.place, p.began = m, place, examples
	p.next = min(2*examples, examples-examples%p.every+p.every)
	p.own, p.aged = frozen(own), frozen(p.calibrators)
	p.shrunk = p.shrink
	p.proposals, p.mix = p.propose(stack, shares), p.mixture()
}

func frozen(list []calibrator) []calibration {
	out := make([]calibration, len(list))
	for i := range list {
		out[i] = list[i].calibration
	}
	return out
}

// settle adds the losses of the version that ends to the records.
func (p *published) settle() {
	if p.count == 0 {
		return
	}
	keep := poolKeep
	if p.next <= p.every {
		keep = doublingFor
		for e := range p.losses {
			p.losses[e] *= doublingFor
		}
	}
	n := min(p.count, effective)
	for r := range p.rules {
		p.rules[r] = float64(keep*p.rules[r]) + float64(n*(p.sums[r]/p.count))
	}
	p.sums, p.count = judged{}, 0
}

// propose returns what the rules propose now.
func (p *published) propose(own *stack, shares []float64) (out [numRules]proposal) {
	n := len(p.experts)
	for r := range out {
		out[r] = make(proposal, n+1)
		if e, ok := p.names[ruleExperts[r]]; ok {
			out[r][e] = 1
		}
	}
	copy(out[ruleOwn], own.w)
	copy(out[ruleShare], shares)
	copy(out[ruleStack], p.stack.w)
	out[ruleLeader][slices.Index(p.losses, slices.Min(p.losses))] = 1
	copy(out[ruleHedge], hedge(p.losses, expertRate))
	var slow float64
	for e := range p.losses {
		if p.experts[e].slow {
			out[ruleSlow][e] = 1
			slow++
		}
	}
	for e := range p.losses {
		out[ruleSlow][e] /= slow
	}
	return out
}

// mixture returns the weights of the rules, which sum to 1, and those of the caps, which do
// too.
func (p *published) mixture() []float64 {
	losses := p.rules
	for i := range losses[numRules+1:] {
		losses[numRules+1+i] += float64(capPrior) / poolRate
	}
	return append(hedge(losses[:numRules], poolRate), hedge(losses[numRules:], poolRate)...)
}

// hedge returns weights in proportion to exp(−rate·loss).
func hedge(losses []float64, rate float64) []float64 {
	best, sum := slices.Min(losses), 0.0
	w := make([]float64, len(losses))
	for i, loss := range losses {
		w[i] = linear.ExpNeg(float64(rate * (loss - best)))
		sum += w[i]
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}

// publish sets the terms of a version to be published now. place has the member of each
// expert, -1 for one that is not there.
func (p *published) publish(m *ensemble, place []int, own []calibrator, stack *stack, shares []float64) {
	rules, proposals := p.mixture(), p.propose(stack, shares)
	n := len(p.experts)
	shrink := p.shrink
	m.mixed, m.caps = rules[ruleShare], rules[numRules:]
	m.bias = float64(rules[ruleOwn] * (float64(shrink.slope*proposals[ruleOwn][n]) + shrink.offset))
	for r := ruleShare + 1; r < numRules; r++ {
		m.bias += float64(rules[r] * proposals[r][n])
	}
	for e, k := range place {
		if k < 0 {
			continue
		}
		w := float64(rules[ruleOwn] * float64(shrink.slope*proposals[ruleOwn][e]))
		m.terms = append(m.terms, term{k, own[e].calibration, w, shares[e]})
		w = 0
		for r := ruleShare + 1; r < numRules; r++ {
			w += float64(rules[r] * proposals[r][e])
		}
		m.terms = append(m.terms, term{k, p.calibrators[e].calibration, w, 0})
	}
}

// alone returns the expert that is good enough to be published alone, if there is one.
func (p *published) alone() (e int, ok bool) {
	if p.versions < aloneAfter {
		return 0, false
	}
	e = p.names[ruleExperts[ruleKernel]]
	return e, p.rules[ruleKernel] <= aloneMost*slices.Min(p.rules[:numRules])
}

func (p *published) fields(f *state.Fields) {
	for e := range p.calibrators {
		f.Group("calibration", p.calibrators[e].fields)
	}
	f.Group("shrink", p.shrink.fields)
	f.Group("stack", p.stack.fields)
	n := len(p.experts)
	f.Float64s("losses", &p.losses)
	rules := p.rules[:]
	f.Float64s("rules", &rules)
	f.Uint64("versions", &p.versions)
	f.Uint64("next", &p.next)
	if f.Decoding() {
		p.version, p.began, p.count, p.sums = nil, 0, 0, judged{}
		if f.Err() == nil && (len(p.losses) != n || len(rules) != numJudged) {
			f.Fail("losses", fmt.Errorf("%d, %d", len(p.losses), len(rules)))
		}
		copy(p.rules[:], rules)
	}
	if p.versions == 0 || f.Err() != nil {
		return
	}
	f.Uint64("began", &p.began)
	f.Float64("count", &p.count)
	sums := p.sums[:]
	f.Float64s("sums", &sums)
	f.Float64s("mix", &p.mix)
	if f.Decoding() {
		p.version, p.place = new(ensemble), make([]int, n)
		p.own, p.aged = make([]calibration, n), make([]calibration, n)
	}
	f.Group("shrunk", p.shrunk.fields)
	for e := range n {
		f.Int("place", &p.place[e])
		f.Group("own", p.own[e].fields)
		f.Group("aged", p.aged[e].fields)
	}
	for r := range p.proposals {
		f.Float64s("proposal", (*[]float64)(&p.proposals[r]))
	}
	f.Group("version", p.version.fields)
	if f.Decoding() && f.Err() == nil {
		copy(p.sums[:], sums)
		f.Fail("version", p.check(len(sums)))
	}
}

func (p *published) check(sums int) error {
	if sums != numJudged || len(p.mix) != numJudged || p.next <= p.began {
		return fmt.Errorf("%d sums, from %d to %d", sums, p.began, p.next)
	}
	for _, k := range p.place {
		if k < -1 || k >= len(p.version.members) {
			return fmt.Errorf("expert %d of %d", k, len(p.version.members))
		}
	}
	lists := [][]float64{p.losses, p.rules[:], p.sums[:], p.mix, {p.count}}
	for _, w := range p.proposals {
		if len(w) != len(p.experts)+1 {
			return fmt.Errorf("%d weights for %d experts", len(w), len(p.experts))
		}
		lists = append(lists, w)
	}
	return linear.Finite(lists...)
}
