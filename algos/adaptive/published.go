package adaptive

import (
	"fmt"
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
const (
	effective  = 250   // examples that a version counts as, at most: losses within a version are correlated
	slowForget = .0002 // forgetting rate of the calibrations; at a higher one they follow bursts of labels
	ageForget  = .0005 // forgetting rate of the effect of age
	agePrior   = 200   // weight, in examples, of the prior that age changes nothing
	ageSpread  = .01   // prior variance of the stack's weights
	lossKeep   = .9999 // discount of an expert's losses, per example
	aloneMost  = .01   // the growing SVM is published alone if that costs at most this share of the best rule's loss, and of its gain over the class rates
	aloneAfter = 8     // versions before that is considered
)

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
