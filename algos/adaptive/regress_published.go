package adaptive

import (
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// The rules that propose weights for versions of a regression.
const (
	agedOwn      = iota // the trainer's own weights
	agedShare           // the trainer's weights by fixed share
	agedLeader          // the expert with the least loss at age
	agedHedge           // by exponential weights
	agedStack           // by least squares, at age
	agedMean            // of all experts
	agedConstant        // the mean of the numbers: no version is worse than that for long
	agedLast            // experts by themselves
	agedRidge
	agedFeatures
	agedKernel
	numAgedRules
)

const numberPrior = 1 // advantage of the trainer's weights, in nats

var agedExperts = [numAgedRules]string{agedConstant: "mean", agedLast: "last", agedRidge: "ridge", agedFeatures: "features", agedKernel: "m"}

// publishedNumbers learns the weights of published versions of a regression, as published
// does for classes: from what the experts of the latest version predict for the examples
// since. The rules are judged by the loss of their frozen weights, in units of the
// mixture's of late, and mixed by a Hedge that counts a version like 250 examples.
type publishedNumbers struct {
	every    uint64
	experts  []entry
	absolute bool

	stack  squares   // at age
	losses []float64 // of the experts, discounted
	weight float64   // of these losses
	rules  []float64 // losses of the rules, discounted
	scale  balance   // mean loss of the mixture, by versions, discounted

	// The latest version.
	versions  uint64      // taken so far
	began     uint64      // examples when it was taken
	next      uint64      // examples at which the next one is due
	proposals [][]float64 // as frozen, by rule
	mix       []float64   // weights of the rules, as frozen
	sums      []float64   // losses of the rules in its life, and of the mixture, last
	count     float64

	f []float64 // scratch
}

func newPublishedNumbers(every int, experts []entry, absolute bool) *publishedNumbers {
	if every <= 0 {
		every = defaultEvery
	}
	n := len(experts)
	return &publishedNumbers{
		every: uint64(every), experts: experts, absolute: absolute, stack: newSquares(n, ageSpread, 1, absolute),
		losses: make([]float64, n), rules: make([]float64, numAgedRules), sums: make([]float64, numAgedRules+1), next: firstVersion, f: make([]float64, n),
	}
}

// learn takes note of what the experts of the latest version predicted for an example of
// number y; nil where there was no version.
func (p *publishedNumbers) learn(scores []score, within *limits, y, weight float64) {
	if scores == nil || p.versions == 0 {
		return
	}
	w := weight * min(1, effective/float64(p.next-p.began))
	predictions(p.f, scores, within, 0)
	var mixed float64
	for r, v := range p.proposals {
		f := dot(v, p.f)
		mixed += float64(p.mix[r] * f)
		p.sums[r] += float64(weight * errorOf(p.absolute, within.clip(f), y))
	}
	p.sums[numAgedRules] += float64(weight * errorOf(p.absolute, within.clip(mixed), y))
	p.count += weight
	p.stack.learn(p.f, y, w)
	for e, v := range p.f {
		p.losses[e] = float64(lossKeep*p.losses[e]) + float64(w*errorOf(p.absolute, v, y))
	}
	p.weight = float64(lossKeep*p.weight) + w
}

// take takes note of a version after so many examples, for which the trainer's own weights
// are those.
func (p *publishedNumbers) take(examples uint64, own, shares []float64) {
	p.settle()
	if p.versions == 0 {
		copy(p.stack.w, own) // there is nothing else to go by
	}
	p.versions++
	p.began, p.next = examples, min(2*examples, examples-examples%p.every+p.every)
	p.proposals, p.mix = p.propose(own, shares), p.mixture()
}

// settle adds the losses of the version that ends to the records.
func (p *publishedNumbers) settle() {
	if p.count == 0 {
		return
	}
	keep := poolKeep
	if p.next <= p.every { // versions grow older: short lives say little about longer ones
		keep = doublingFor
		p.weight *= keep
		for e := range p.losses {
			p.losses[e] *= keep
		}
	}
	n := min(p.count, effective)
	p.scale.n = float64(keep*p.scale.n) + n
	p.scale.mean += float64(n / p.scale.n * (p.sums[numAgedRules]/p.count - p.scale.mean))
	for r := range p.rules {
		loss := 0.0
		if p.scale.mean > 0 {
			loss = min(p.sums[r]/p.count/p.scale.mean, mostLoss)
		}
		p.rules[r] = float64(keep*p.rules[r]) + float64(n*loss)
	}
	clear(p.sums)
	p.count = 0
}

// rate is that of a Hedge on losses in units of the mean one, given the rate on losses that
// are negative log likelihoods.
func (p *publishedNumbers) rate(logLoss float64) float64 {
	if p.absolute {
		return logLoss
	}
	return logLoss / 2
}

// mixture returns the weights of the rules, which sum to 1.
func (p *publishedNumbers) mixture() []float64 {
	rate := p.rate(poolRate)
	losses := slices.Clone(p.rules)
	for r := range losses {
		if r > agedShare {
			losses[r] += numberPrior / rate
		}
	}
	return hedge(losses, rate)
}

// propose returns what the rules propose now.
func (p *publishedNumbers) propose(own, shares []float64) [][]float64 {
	n := len(p.experts)
	out := make([][]float64, numAgedRules)
	for r, name := range agedExperts {
		out[r] = make([]float64, n)
		if name != "" {
			out[r][slices.IndexFunc(p.experts, func(e entry) bool { return e.name == name })] = 1
		}
	}
	least := slices.Min(p.losses)
	out[agedLeader][slices.Index(p.losses, least)] = 1
	out[agedOwn], out[agedShare], out[agedStack], out[agedMean] = own, shares, p.stack.weights(), uniform(n)
	relative := slices.Clone(p.losses)
	for e := range relative {
		if least > 0 {
			relative[e] *= p.weight / least
		}
	}
	out[agedHedge] = hedge(relative, p.rate(expertRate))
	return out
}

// weights returns those of a version to be published now.
func (p *publishedNumbers) weights(own, shares []float64) []float64 {
	if p.versions == 0 {
		return own
	}
	q := *p
	q.losses, q.rules, q.sums = slices.Clone(p.losses), slices.Clone(p.rules), slices.Clone(p.sums)
	q.settle()
	out := make([]float64, len(own))
	mix := q.mixture()
	for r, w := range q.propose(own, shares) {
		for e, v := range w {
			out[e] += float64(mix[r] * v)
		}
	}
	return out
}

func (p *publishedNumbers) fields(f *state.Fields) {
	n := len(p.experts)
	f.Group("stack", p.stack.fields)
	f.Float64s("losses", &p.losses)
	f.Float64("weight", &p.weight)
	f.Float64s("rules", &p.rules)
	f.Float64("versions_weight", &p.scale.n)
	f.Float64("scale", &p.scale.mean)
	f.Uint64("versions", &p.versions)
	f.Uint64("began", &p.began)
	f.Uint64("next", &p.next)
	f.Float64("count", &p.count)
	f.Float64s("sums", &p.sums)
	f.Float64s("mix", &p.mix)
	if f.Decoding() {
		p.proposals = nil
		if f.Err() == nil {
			f.Fail("losses", p.check(n))
		}
		if f.Err() == nil && p.versions > 0 {
			p.proposals = make([][]float64, numAgedRules)
		}
	}
	for r := range p.proposals {
		f.Float64s("proposal", &p.proposals[r])
		if f.Decoding() && f.Err() == nil {
			if len(p.proposals[r]) != n {
				f.Fail("proposal", fmt.Errorf("%d weights for %d experts", len(p.proposals[r]), n))
			}
			f.Fail("proposal", linear.Finite(p.proposals[r]))
		}
	}
}

func (p *publishedNumbers) check(n int) error {
	mixed := 0
	if p.versions > 0 {
		mixed = numAgedRules
	}
	if len(p.mix) != mixed || p.next <= p.began {
		return fmt.Errorf("%d rules, from %d to %d", len(p.mix), p.began, p.next)
	}
	for _, c := range []error{
		checkLosses(p.losses, n), checkLosses(p.rules, numAgedRules), checkLosses(p.sums, numAgedRules+1), checkLosses(p.mix, mixed),
		checkLosses([]float64{p.weight, p.count, p.scale.n, p.scale.mean}, 4),
	} {
		if c != nil {
			return c
		}
	}
	return nil
}
