package adaptive

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/linear"
)

// Several rules propose weights, which are frozen during the life of a version. A rule's loss
// is the log loss of its frozen weights, as a subscriber would have seen it. A Hedge mixes
// the rules. Later versions count more.
//
// Experts start at different times. While a version lacks an expert, the expert is charged the
// loss of the leader, and the rule that follows it has no weight and is charged the mean loss
// of the other rules (specialists: Freund, Schapire, Singer, Warmuth, "Using and combining
// predictors that specialize", STOC 1997).
const (
	poolRate    = .03 // learning rate of the Hedge over rules
	poolKeep    = .98 // discount of the rules' losses, per version; see endVersion
	doublingFor = .5  // discount while intervals still double: short lives say little about longer ones
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

// expertOf returns the expert that a rule follows; -1 if it is not a single expert.
func (p *published) expertOf(rule int) int {
	if e, ok := p.names[ruleExperts[rule]]; ok {
		return e
	}
	return -1
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
