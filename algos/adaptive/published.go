package adaptive

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// A subscriber predicts with the latest published version. Its experts stopped learning when
// it was published, and an expert that is best while it learns can be worst a thousand
// examples later. So published models have their own calibrations and weights. An expert is
// calibrated on its scores for the next example, while it learns: its scores grow as it
// learns, and scores of an old version would lag behind. The effect of age on these log odds,
// and the weights, are learned from scores that the latest version's experts gave to the
// examples since.
//
// Several rules propose weights, which are frozen during the life of a version. A rule's loss
// is the log loss of its frozen weights, as a subscriber would have seen it. A Hedge mixes
// the rules. Later versions count more.
//
// Experts start at different times. While a version lacks an expert, the expert is charged the
// loss of the leader, and the rule that follows it has no weight and is charged the mean loss
// of the other rules (specialists: Freund, Schapire, Singer, Warmuth, "Using and combining
// predictors that specialize", STOC 1997).
const (
	effective   = 250   // examples that a version counts as, at most: losses within a version are correlated
	slowForget  = .0002 // forgetting rate of the calibrations; at a higher one they follow bursts of labels
	ageForget   = .0005 // forgetting rate of the effect of age
	agePrior    = 200   // weight, in examples, of the prior that age changes nothing
	ageSpread   = .01   // prior variance of the stack's weights
	lossKeep    = .9999 // discount of an expert's losses, per example
	poolRate    = .03   // learning rate of the Hedge over rules
	poolKeep    = .98   // discount of the rules' losses, per version; see endVersion
	doublingFor = .5    // discount while intervals still double: short lives say little about longer ones
	aloneMost   = .01   // the growing SVM is published alone if that costs at most this share of the best rule's loss, and of its gain over the class rates
	aloneAfter  = 8     // versions before that is considered
)

// The rules that propose weights. Those from ruleSlow on remember long, and take calibrations
// without the effect of age.
const (
	ruleOwn    = iota // the stack for the next example
	ruleShare         // fixed share for the next example, on probabilities
	ruleLeader        // the expert with the least loss
	ruleStack         // a stack learned at age
	ruleSlow          // the plain mean of the slow experts
	ruleLong          // single experts that remember longest
	ruleLinear
	ruleKernel
	numRules
)

// After a jump in the stream, a confident version is badly wrong. So the distance d of the
// published log odds from those of the class rates is capped, and the caps are weighted by
// a Hedge too: caps[0] stands for d itself, each further c for c tanh(d/c), and a last one
// for 0. The first has an advantage that grows with the number of versions: a few versions
// that were right say little about the next one.
//
// This Hedge forgets nothing, and its rate falls as it errs (AdaHedge: de Rooij, van Erven,
// Grünwald, Koolen, "Follow the leader if you can, Hedge if you must", JMLR 15, 2014). The
// log loss is convex in log odds, so in the long run published versions are no worse than
// the class rates, on any stream.
var caps = [...]float64{0, 4, 3, 2, 1.5, 1, 0.5}

const (
	capPrior  = 8 // largest advantage, in nats: one for each version after the first
	numCaps   = len(caps) + 1
	numJudged = numRules + numCaps
)

// judged holds a number for each rule and each cap.
type judged [numJudged]float64

// capped returns the weighted mean over caps of the capped distance f. The last cap
// contributes 0.
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

var ruleExperts = [numRules]string{ruleLong: "dsg", ruleLinear: "o0.5", ruleKernel: "m"}

// proposal holds the weights that a rule proposes for a version: one for each expert and, last,
// the constant.
type proposal []float64

// published learns the weights of published versions.
type published struct {
	schedule
	experts []entry
	names   map[string]int

	calibrators [][]*calibrator // for the next example, by lane
	ageing      []shrinker      // effect of age on each expert's log odds
	stack       *stack          // learned at age
	losses      []float64       // log loss of each expert at age, discounted
	shrink      shrinker        // effect of age on the log odds for the next example
	rules       judged          // discounted losses of the rules, and losses of the caps in full
	gap         float64         // sum of the mixability gaps of the caps' Hedge

	// The latest version.
	versions  uint64           // number of versions so far
	own, aged [][]*calibration // frozen, by lane
	plain     [][]*calibration // like aged, without the effect of age
	center    []float64        // log odds of the class rates, by lane
	shrunk    shrinker
	proposals [numRules]proposal
	sums      judged    // losses during this version
	mix       []float64 // frozen weights of the rules and caps
	count     float64

	now           [][]*calibration // scratch, by lane
	x             [][]float64
	f, g, p, lost []float64
	out           outputs
}

func newPublished(every, lanes int, experts []entry) *published {
	n := len(experts)
	p := &published{schedule: newSchedule(every), experts: experts, names: map[string]int{}, stack: newStack(n+1, ageSpread, 1), losses: make([]float64, n), lost: make([]float64, n)}
	for i, e := range experts {
		p.names[e.name] = i
	}
	p.shrink, p.ageing = newShrinker(ownPrior), slices.Repeat([]shrinker{newShrinker(agePrior)}, n)
	p.grow(lanes)
	return p
}

// grow adds lanes until there are as many as lanes.
func (p *published) grow(lanes int) {
	n := len(p.experts)
	fresh := newCalibrators(lanes-len(p.calibrators), n)
	p.calibrators = append(p.calibrators, fresh...)
	if p.versions > 0 {
		p.own, p.aged, p.plain = append(p.own, frozen(fresh)...), append(p.aged, frozen(fresh)...), append(p.plain, frozen(fresh)...)
		for len(p.center) < lanes {
			p.center = append(p.center, -mostOdds)
		}
	}
	p.now = frozen(p.calibrators)
	p.x, p.f, p.g, p.p = newRows(lanes, n+1), make([]float64, lanes), make([]float64, lanes), make([]float64, lanes)
	p.out = make(outputs, numOutputs*lanes)
}

// mixing is a weighted mean of probabilities.
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

// outputs are the log odds that a version's rules gave an example, lane by lane: of each rule, NaN if
// it had none, of their mixture, and of the class rates.
type outputs []float64

// at returns output i of n lanes.
func (o outputs) at(i, lanes int) []float64 { return o[i*lanes : (i+1)*lanes] }

const (
	outMixture = numRules + iota
	outCenter
	numOutputs
)

// outputs returns what the latest version's rules make of scores of its experts, valid until the
// next call. It sets p.p to the log odds of ruleOwn before the effect of age.
func (p *published) outputs(scores [][]score) outputs {
	lanes := len(p.x)
	out := p.out[:numOutputs*lanes]
	f := out.at(outMixture, lanes)
	clear(f)
	copy(out.at(outCenter, lanes), p.center)
	var x [][]float64
	for r := range numRules {
		g := out.at(r, lanes)
		switch r {
		case ruleOwn:
			x = logOddsOf(p.x, scores, p.own)
		case ruleShare + 1:
			x = logOddsOf(p.x, scores, p.aged)
		case ruleSlow:
			x = logOddsOf(p.x, scores, p.plain)
		}
		e := p.expertOf(r)
		switch {
		case e >= 0 && !scores[0][e].ok, r == ruleShare && lanes > 1:
			for k := range g {
				g[k] = math.NaN()
			}
			continue
		case r == ruleOwn:
			mixInto(p.p, p.proposals[r], x)
			for k, v := range p.p {
				g[k] = bounded(p.shrunk.of(v, p.center[k]), mostLogOdds)
			}
		case r == ruleShare:
			var mixed mixing
			for e, s := range scores[0] {
				if s.ok {
					mixed.add(p.proposals[r][e], x[0][e])
				}
			}
			g[0] = mixed.logOdds()
		default:
			mixInto(g, p.proposals[r], x)
		}
		for k, v := range g {
			f[k] += float64(p.mix[r] * v)
		}
	}
	return out
}

// lossesOf returns the losses of what the rules, and the caps on their mixture, gave an example. The
// rule of an expert that the version lacks has the mean loss of the rules.
func (p *published) lossesOf(out outputs, y int) (losses judged) {
	lanes := len(p.x)
	var mean float64
	for r := range numRules {
		if g := out.at(r, lanes); g[0] == g[0] {
			losses[r] = logLoss(g, y)
			mean += float64(p.mix[r] * losses[r])
		}
	}
	for r := range numRules {
		if out.at(r, lanes)[0] != out.at(r, lanes)[0] && p.expertOf(r) >= 0 {
			losses[r] = mean
		}
	}
	f, center := p.f, out.at(outCenter, lanes)
	for k, v := range out.at(outMixture, lanes) {
		f[k] = v - center[k]
	}
	for i := range numCaps {
		for k, v := range f {
			switch {
			case i == len(caps):
				v = 0
			case i > 0:
				v = float64(caps[i] * tanh(v/caps[i]))
			}
			p.g[k] = center[k] + v
		}
		losses[numRules+i] = logLoss(p.g, y)
	}
	return losses
}

// learn updates everything with the scores of the latest version's experts for an example,
// nil if there was no version. y is 1 or 0, or the class number. If the label is late, late is
// what the rules gave when the example came, with older weights and calibrations. These know as
// little of what followed as a subscriber's, but say less about the present rules: so half of
// the loss is theirs.
func (p *published) learn(scores [][]score, late outputs, y int, weight float64) {
	if scores == nil || p.versions == 0 {
		return
	}
	w := weight * min(1, effective/p.life())
	losses := p.lossesOf(p.outputs(scores), y)
	p.shrink.learn(p.p, p.center, y, w)
	if late != nil {
		for i, loss := range p.lossesOf(late, y) {
			losses[i] = (losses[i] + loss) / 2
		}
	}
	for i, loss := range losses {
		p.sums[i] += float64(weight * loss)
	}
	p.count += weight
	// Learn weights for the next version, with present calibrations.
	for k, lane := range p.now {
		for e, c := range lane {
			*c = p.calibration(k, e)
		}
	}
	x := logOddsOf(p.x, scores, p.now)
	p.stack.learn(x, y, w)
	var mean float64
	for e, s := range scores[0] {
		for k := range x {
			p.g[k] = x[k][e]
		}
		if p.lost[e] = logLoss(p.g, y); s.ok {
			mean += float64(p.proposals[ruleLeader][e] * p.lost[e])
		}
	}
	for e, s := range scores[0] {
		if !s.ok {
			p.lost[e] = mean
		}
		p.losses[e] = float64(lossKeep*p.losses[e]) + float64(w*p.lost[e])
	}
	x = logOddsOf(p.x, scores, p.plain)
	for e := range p.ageing {
		if scores[0][e].ok {
			for k := range x {
				p.g[k] = x[k][e]
			}
			p.ageing[e].learn(p.g, p.center, y, w)
		}
	}
}

// hopeless reports whether an expert at age loses a quarter or more of what the best one gains over
// the class rates.
func (p *published) hopeless(name string) bool {
	least, rates := slices.Min(p.losses), p.losses[p.names["base"]]
	return p.losses[p.names[name]]-least > (rates-least)/4
}

// expertOf returns the expert that a rule follows; -1 if it is not a single expert.
func (p *published) expertOf(rule int) int {
	if e, ok := p.names[ruleExperts[rule]]; ok {
		return e
	}
	return -1
}

// calibration returns an expert's calibration for publishing: with the effect of age.
func (p *published) calibration(lane, e int) calibration {
	c, s := p.calibrators[lane][e].calibration, &p.ageing[e]
	c.slope, c.outer, c.offset = float64(s.slope*c.slope), float64(s.slope*c.outer), s.of(c.offset, p.center[lane])
	return c
}

// startVersion begins a version after the given number of examples. own and stack are those
// for the next example, center holds the log odds of the class rates, and place the member of
// each expert in the version, -1 if it is missing.
func (p *published) startVersion(examples uint64, c changes, own [][]*calibrator, stack *stack, shares, center []float64, place []int) {
	p.endVersion()
	if p.versions == 0 { // nothing has been learned at age yet
		copy(p.stack.w, stack.w)
	}
	p.versions++
	p.begin(examples, c)
	p.center = center
	p.own, p.plain, p.aged = frozen(own), frozen(p.calibrators), frozen(p.calibrators)
	for k, lane := range p.aged {
		for e, c := range lane {
			*c = p.calibration(k, e)
		}
	}
	p.shrunk = p.shrink
	p.proposals, p.mix = p.propose(stack, shares, place), p.mixture(place)
}

func frozen(list [][]*calibrator) [][]*calibration {
	out := make([][]*calibration, len(list))
	for k, lane := range list {
		for _, c := range lane {
			f := c.calibration
			out[k] = append(out[k], &f)
		}
	}
	return out
}

// endVersion adds the losses during the version to the totals.
func (p *published) endVersion() {
	if p.count == 0 {
		return
	}
	// The k-th version counts k times as much as the first, until poolKeep forgets more: early
	// versions say little about those that have seen more.
	keep, keepCaps := min(poolKeep, 1-1/float64(p.versions)), 1.0
	if p.next <= p.every {
		keep, keepCaps = doublingFor, doublingFor
		for e := range p.losses {
			p.losses[e] *= doublingFor
		}
	}
	n := min(p.count, effective)
	for r := range p.sums {
		p.sums[r] = float64(n * (p.sums[r] / p.count))
	}
	rate, weights, losses := p.capRate(), p.mix[numRules:], p.sums[numRules:]
	least := slices.Min(losses)
	var mean, sum float64
	for i, w := range weights {
		mean += float64(w * (losses[i] - least))
		sum += float64(w * linear.ExpNeg(float64(rate*(losses[i]-least))))
	}
	p.gap += max(0, mean+linear.Log(sum)/rate)
	for r, loss := range p.sums {
		if r == numRules {
			keep = keepCaps
		}
		p.rules[r] = float64(keep*p.rules[r]) + loss
	}
	p.sums, p.count = judged{}, 0
}

// capRate is the learning rate of the Hedge over caps.
func (p *published) capRate() float64 { return 1 / (1/poolRate + p.gap/capSpan) }

// capSpan is ln of the number of caps.
const capSpan = 2.0794415416798357

// afterVersion returns p as if the present version ended now.
func (p *published) afterVersion() *published {
	q := *p
	q.losses = slices.Clone(p.losses)
	q.endVersion()
	return &q
}

// propose returns the proposals of all rules for a version with the experts of place.
func (p *published) propose(own *stack, shares []float64, place []int) (out [numRules]proposal) {
	n := len(p.experts)
	for r := range out {
		out[r] = make(proposal, n+1)
		if e := p.expertOf(r); e >= 0 {
			out[r][e] = 1
		}
	}
	copy(out[ruleOwn], own.w)
	copy(out[ruleShare], shares)
	copy(out[ruleStack], p.stack.w)
	losses := slices.Clone(p.losses)
	for e, k := range place {
		if k < 0 {
			losses[e] = math.MaxFloat64
		}
	}
	out[ruleLeader][slices.Index(losses, slices.Min(losses))] = 1
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

// mixture returns the weights of the rules, which sum to 1, then those of the caps, which
// also sum to 1.
func (p *published) mixture(place []int) []float64 {
	losses, rate := p.rules, p.capRate()
	for r := range numRules {
		if e := p.expertOf(r); e >= 0 && place[e] < 0 {
			losses[r] = math.MaxFloat64
		}
	}
	if len(p.x) > 1 {
		losses[ruleShare] = math.MaxFloat64 // the rule is for two classes only
	}
	advantage := min(capPrior, float64(p.versions)-1)
	for i := range losses[numRules+1:] {
		losses[numRules+1+i] += advantage / rate
	}
	return append(hedge(losses[:numRules], poolRate), hedge(losses[numRules:], rate)...)
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

// publish sets the terms of m, one lane of a version to publish now. place holds the member
// of each expert in m, -1 if it is missing; latest does so for the latest version.
func (p *published) publish(m *ensemble, lane int, place, latest []int, own []*calibrator, stack *stack, shares []float64, center float64) {
	p = p.afterVersion()
	rules, proposals := p.mixture(latest), p.propose(stack, shares, latest)
	n := len(p.experts)
	shrink := p.shrink
	m.mixed, m.caps, m.center = rules[ruleShare], rules[numRules:numRules+len(caps)], center
	m.bias = float64(rules[ruleOwn] * shrink.of(proposals[ruleOwn][n], p.center[lane]))
	for r := ruleShare + 1; r < numRules; r++ {
		m.bias += float64(rules[r] * proposals[r][n])
	}
	for e, k := range place {
		if k < 0 {
			continue
		}
		w := float64(rules[ruleOwn] * float64(shrink.slope*proposals[ruleOwn][e]))
		m.terms = append(m.terms, term{k, own[e].calibration, w, shares[e]})
		var aged, plain float64
		for r := ruleShare + 1; r < numRules; r++ {
			if w := float64(rules[r] * proposals[r][e]); r < ruleSlow {
				aged += w
			} else {
				plain += w
			}
		}
		m.terms = append(m.terms, term{k, p.calibration(lane, e), aged, 0}, term{k, p.calibrators[lane][e].calibration, plain, 0})
	}
}

// alone returns the expert that may be published alone, if it is good enough.
func (p *published) alone() (e int, ok bool) {
	if p.versions < aloneAfter {
		return 0, false
	}
	p = p.afterVersion()
	e = p.names[ruleExperts[ruleKernel]]
	best := slices.Min(p.rules[:numRules])
	rates := best * (p.rules[numJudged-1] / p.rules[numRules]) // loss of the class rates, estimated from the caps
	return e, p.rules[ruleKernel]-best <= float64(aloneMost*min(best, rates-best))
}

func (p *published) fields(f *state.Fields) {
	calibratorFields(f, p.calibrators)
	f.Group("shrink", p.shrink.fields)
	f.Group("stack", p.stack.fields)
	n := len(p.experts)
	f.Float64s("losses", &p.losses)
	rules := p.rules[:]
	f.Float64s("rules", &rules)
	f.Float64("gap", &p.gap)
	f.Uint64("versions", &p.versions)
	f.Uint64("next", &p.next)
	if f.Decoding() {
		p.began, p.count, p.sums = 0, 0, judged{}
		if f.Err() == nil && (len(p.losses) != n || len(rules) != numJudged) {
			f.Fail("losses", fmt.Errorf("%d, %d", len(p.losses), len(rules)))
		}
		copy(p.rules[:], rules)
	}
	p.schedule.fields(f)
	for e := range p.ageing {
		f.Group("ageing", p.ageing[e].fields)
	}
	if p.versions == 0 || f.Err() != nil {
		return
	}
	f.Uint64("began", &p.began)
	f.Float64("count", &p.count)
	sums := p.sums[:]
	f.Float64s("sums", &sums)
	f.Float64s("mix", &p.mix)
	f.Float64s("center", &p.center)
	if f.Decoding() {
		p.own, p.aged, p.plain = frozen(p.calibrators), frozen(p.calibrators), frozen(p.calibrators)
	}
	f.Group("shrunk", p.shrunk.fields)
	for k := range p.own {
		for e := range p.own[k] {
			f.Group("own", p.own[k][e].fields)
			f.Group("aged", p.aged[k][e].fields)
		}
	}
	for r := range p.proposals {
		f.Float64s("proposal", (*[]float64)(&p.proposals[r]))
	}
	for _, lane := range p.plain {
		for _, c := range lane {
			f.Group("plain", c.fields)
		}
	}
	if f.Decoding() && f.Err() == nil {
		copy(p.sums[:], sums)
		f.Fail("version", p.check(len(sums)))
	}
}

func (p *published) check(sums int) error {
	if sums != numJudged || len(p.mix) != numJudged || len(p.center) != len(p.x) || p.look <= p.began || !(p.gap >= 0) {
		return fmt.Errorf("%d sums, of %d classes, from %d to %d", sums, len(p.center), p.began, p.next)
	}
	lists := [][]float64{p.losses, p.rules[:], p.sums[:], p.mix, p.center, {p.count, p.gap}}
	for _, w := range p.proposals {
		if len(w) != len(p.experts)+1 {
			return fmt.Errorf("%d weights for %d experts", len(w), len(p.experts))
		}
		lists = append(lists, w)
	}
	return linear.Finite(lists...)
}
