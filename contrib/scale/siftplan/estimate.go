package siftplan

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
)

// Estimate is a trainer's knowledge of a sifted stream, from the forwarded records
// alone: each record represents as many as its weight says. It depends only on the
// records in their order and on the budget passed to Plan.
type Estimate struct {
	n      uint64         // examples since the sums last faded
	all    float64        // Σ w
	count  float64        // examples
	below  float64        // Σ w of margins below 1
	near   [cells]float64 // Σ w of margins from 1 to 1+DefaultBand, in parts
	weight [Bins]float64  // Σ w by the margin that the worker saw
	needed [Bins]float64  // the part of weight with a margin below 1 when they were learned
	// Sources are the positions after the records that have arrived.
	Sources stream.Offsets
}

const (
	cells = 32
	// All sums are multiplied by fade after every fadeEvery examples.
	fade, fadeEvery = 0.9, 1000
	// LeastBudget is the smallest share of the stream that a plan forwards.
	LeastBudget = 0.005
)

// Add adds an example of weight w. now is its margin just before it was learned,
// seen its margin when it was forwarded, or NaN if there was no model.
func (e *Estimate) Add(now, seen, w float64) {
	if now-now != 0 {
		return
	}
	if e.n++; e.n == fadeEvery {
		e.n = 0
		for _, sum := range e.sums() {
			for i := range sum {
				sum[i] *= fade
			}
		}
		e.all, e.count, e.below = fade*e.all, fade*e.count, fade*e.below
	}
	e.all += w
	e.count++
	if now < 1 {
		e.below += w
	} else if k := int((now - 1) / DefaultBand * cells); now < 1+DefaultBand && k < cells {
		e.near[k] += w
	}
	if seen-seen == 0 {
		b := bin(seen)
		e.weight[b] += w
		if now < 1 {
			e.needed[b] += w
		}
	}
}

// Note records the source position of a record.
func (e *Estimate) Note(p stream.Partition, offset int64) {
	if e.Sources == nil {
		e.Sources = stream.Offsets{}
	}
	e.Sources[p] = max(e.Sources[p], offset+1)
}

// sums returns the sums that are lists.
func (e *Estimate) sums() [][]float64 {
	return [][]float64{e.near[:], e.weight[:], e.needed[:]}
}

// band returns the largest S, up to DefaultBand, such that the forwarded part of the
// stream beyond the margin is no more than the part below it.
func (e *Estimate) band() float64 {
	sum := 0.0
	for k, w := range e.near {
		if sum += w; sum > e.below {
			return DefaultBand * float64(k) / cells
		}
	}
	return DefaultBand
}

// Forwarded returns the share of the stream that has been forwarded recently; 1 while
// nothing is known.
func (e *Estimate) Forwarded() float64 {
	if e.all == 0 {
		return 1
	}
	return min(1, e.count/e.all)
}

// Free returns the share of the stream that would be forwarded under a plan without a
// bound, by a worker with the default probability for records without interest; 1 while
// nothing is known.
func (e *Estimate) Free() float64 {
	if e.all == 0 {
		return 1
	}
	sum := e.below
	for k := range int(math.Round(e.band() / DefaultBand * cells)) {
		sum += e.near[k]
	}
	return DefaultLeast + float64((1-DefaultLeast)*sum/e.all)
}

// Plan returns the plan that forwards at most a share budget of the stream; 1 sets
// no bound. Under a bound, probabilities are proportional to the square root of the
// share of each bin that is still needed, which minimizes the variance of the result
// for a given number of records (Neyman 1934).
func (e *Estimate) Plan(budget float64) Plan {
	p := Plan{S: e.band()}
	if budget >= 1 {
		return p
	}
	budget = max(budget, LeastBudget)
	least := 0.02
	if budget < 0.1 {
		least = min(0.01, budget/2)
	}
	var total float64
	for _, w := range e.weight {
		total += w
	}
	var root, share [Bins]float64
	for b := range root {
		prior := 10.0
		if b <= bin(math.Nextafter(1, 0)) {
			prior = 0.5
		}
		root[b] = math.Sqrt((0.5 + e.needed[b]) / (prior + e.weight[b]))
		if share[b] = 1 / float64(Bins); total > 0 {
			share[b] = e.weight[b] / total
		}
	}
	fill := func(kappa float64) (sum float64) {
		for b := range p.P {
			p.P[b] = max(least, min(1, kappa*root[b]))
			sum += float64(share[b] * p.P[b])
		}
		return sum
	}
	lo, hi := 1e-6, 1e6
	for range 100 {
		if p.Kappa = math.Sqrt(lo * hi); fill(p.Kappa) > budget {
			hi = p.Kappa
		} else {
			lo = p.Kappa
		}
	}
	p.Kappa = lo
	fill(lo)
	return p
}

// Fields describes the state.
func (e *Estimate) Fields(f *state.Fields) {
	f.Uint64("n", &e.n)
	f.Float64("all", &e.all)
	f.Float64("count", &e.count)
	f.Float64("below", &e.below)
	for i, name := range []string{"near", "weight", "needed"} {
		list := e.sums()[i]
		f.Float64s(name, &list)
		if f.Decoding() && f.Err() == nil {
			if len(list) != len(e.sums()[i]) {
				f.Fail(name, fmt.Errorf("%d sums", len(list)))
				return
			}
			copy(e.sums()[i], list)
		}
	}
	e.sourceFields(f)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	for _, sum := range append(e.sums(), []float64{e.all, e.count, e.below}) {
		for _, v := range sum {
			if !(v >= 0) || math.IsInf(v, 1) {
				f.Fail("all", errors.New("a sum that cannot have been stored"))
				return
			}
		}
	}
}

func (e *Estimate) sourceFields(f *state.Fields) {
	ps := e.Sources.Partitions()
	var read stream.Offsets
	f.List("sources", len(ps), 3, func(n int) { ps, read = make([]stream.Partition, n), stream.Offsets{} }, func(f *state.Fields, i int) {
		next, id := e.Sources[ps[i]], int64(ps[i].ID)
		f.String("topic", &ps[i].Topic)
		f.Int64("partition", &id)
		f.Int64("next", &next)
		if f.Decoding() {
			ps[i].ID = int32(id)
			read[ps[i]] = next
		}
	})
	if f.Decoding() {
		e.Sources = read
	}
}

func init() { sift.NewTracker = func() sift.Tracker { return new(Estimate) } }

// Positions implements sift.Tracker.
func (e *Estimate) Positions() stream.Offsets { return e.Sources }

// Measures implements sift.Tracker.
func (e *Estimate) Measures(budget float64) []stream.Measure {
	if budget == 0 {
		budget = 1
	}
	p := e.Plan(budget)
	return p.Measures()
}

// Next implements sift.Tracker.
func (e *Estimate) Next(budget, excess float64, catchesUp bool) float64 {
	return nextBudget(budget, e.Forwarded(), e.Free(), excess, catchesUp)
}

const (
	lessBudget, moreBudget = 0.8, 1.1
	leastChange            = 0.1 // per version
)

// nextBudget returns the share of the stream to request, 0 for no bound. budget is
// the present one, forwarded the share that arrives now, free the share that would
// be forwarded without a bound, and excess the age of the consumed records as a
// multiple of the target: above 1 the trainer is behind. The further behind it is,
// the less it requests, so that a few versions suffice even if they are rare. While
// it catches up the budget stays; the number of waiting records shows that long
// before their age does.
func nextBudget(budget, forwarded, free, excess float64, catchesUp bool) float64 {
	switch {
	case excess > 1 && budget > 0 && catchesUp:
		return budget
	case excess > 1:
		if budget == 0 {
			budget = forwarded
		}
		return max(LeastBudget, budget*max(leastChange, min(lessBudget, 1/excess)))
	case budget == 0 || moreBudget*budget >= free:
		return 0
	}
	return moreBudget * budget
}
