package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// ReliabilityBin is one row of a reliability table: examples with similar
// probabilities.
type ReliabilityBin struct {
	Examples    uint64 `json:"examples"`
	Probability Number `json:"probability"` // mean
	Share       Number `json:"share"`       // share of positive labels
}

// Probability has the measures of predicted probabilities, over the examples that
// had one; NaN if none had. With more than two classes, ECE and Reliability use the
// largest of the probabilities, and count a label as positive if that was its own
// probability.
type Probability struct {
	// LogLoss is the mean of −ln of the probability of the label. A coin has ln 2 =
	// 0.69.
	LogLoss Number `json:"log_loss"`
	// Brier is the mean of (probability − 1)² over positive labels and probability²
	// over negative ones. With more than two classes it is the mean over examples
	// of the sum over classes of the squared distance from 1 for the label's class,
	// from 0 for others: from 0 to 2.
	Brier Number `json:"brier"`
	// BrierSkill is 1 − Brier/(Brier of always predicting the share of positive
	// labels): 1 is perfect, 0 as good as that share. It is NaN if a class is
	// missing, and with more than two classes.
	BrierSkill Number `json:"brier_skill"`
	// ECE, the expected calibration error, is the mean over examples of the
	// distance between mean probability and share of positive labels in their row
	// of Reliability.
	ECE Number `json:"ece"`
	// ECENoise is roughly the ECE that would result by chance if each probability
	// were right and labels independent.
	ECENoise Number `json:"ece_noise"`
	// Reliability has at most 15 rows with about equally many examples. Over all
	// examples, probabilities in the same bin of a histogram stay together; bins
	// are 1/16 of an octave wide.
	Reliability []ReliabilityBin `json:"reliability"`
}

// calibration accumulates the sums for the measures of probabilities, over all
// examples and in a ring of the latest ones.
type calibration struct {
	n           uint64
	loss, brier float64
	positive    uint64
	cells       []cell // a histogram over all; nil before the first

	size  int
	probs []float64 // the ring: example i, counted from 0, is at i mod size
	hits  []bool    // the label was positive

	several        bool      // more than two classes
	losses, briers []float64 // ring, with more than two classes
}

// cell counts the examples of approximately one probability.
type cell struct {
	n, positive uint64
	sum         float64 // sum of their probabilities
}

const (
	reliabilityBins = 15

	octaveCells = 16 // a power of two: the first bits of the mantissa
	minProb     = 20 // probabilities below 2^-minProb, and those as close to 1, share a cell
	halfCells   = (minProb-1)*octaveCells + 1
)

// cellOf returns the index of the cell of a probability, increasing with it.
func cellOf(p float64) int {
	a := min(p, 1-p)
	i := 0
	if a >= 1.0/(1<<minProb) {
		const shift = 52 - 4 // 2^4 = octaveCells
		i = min(1+int(math.Float64bits(a)>>shift)-(expBias-minProb)*octaveCells, halfCells-1)
	}
	upper := int(one(!(p < 0.5))) // without a branch: −1 − i is the complement of i
	return i ^ -upper + 2*halfCells*upper
}

// probabilityLoss returns −ln of the probability of the label, at most 36.
func probabilityLoss(p float64, positive bool) float64 {
	return -linear.Log(max(either(positive, p, 1-p), 0x1p-52))
}

// either returns a if yes, else b, without a branch.
func either(yes bool, a, b float64) float64 {
	x, y := math.Float64bits(a), math.Float64bits(b)
	if yes {
		y = x
	}
	return math.Float64frombits(y)
}

func (c *calibration) add(p float64, positive bool) {
	c.put(p, positive, probabilityLoss(p, positive), compare.Brier(p, positive))
}

// addClass adds the probabilities of more than two classes and the class of the
// label. A class without a probability has probability 0.
func (c *calibration) addClass(probs []float64, class int) {
	best, p := 0, 0.0
	for k, q := range probs {
		if q > probs[best] {
			best = k
		}
		if k == class {
			p = q
		}
	}
	c.put(probs[best], best == class, probabilityLoss(p, true), compare.BrierClasses(probs, class))
}

func (c *calibration) put(p float64, positive bool, loss, brier float64) {
	at := int(c.n % uint64(c.size))
	c.n++
	if len(c.probs) < c.size {
		c.probs, c.hits = append(c.probs, 0), append(c.hits, false)
	}
	c.probs[at], c.hits[at] = p, positive
	if c.several {
		if len(c.losses) < len(c.probs) {
			c.losses, c.briers = append(c.losses, 0), append(c.briers, 0)
		}
		c.losses[at], c.briers[at] = loss, brier
	}
	c.loss += loss
	c.brier += brier
	if c.cells == nil {
		c.cells = make([]cell, 2*halfCells)
	}
	b := &c.cells[cellOf(p)]
	b.n++
	b.sum += p
	c.positive += one(positive)
	b.positive += one(positive)
}

// all returns the measures over all examples, window the measures over the ring.
func (c *calibration) all() Probability {
	m := noProbability()
	m.set(c.n, c.positive, c.loss, c.brier)
	m.reliability(c.cells, c.n)
	if c.several {
		m.BrierSkill = Number(math.NaN())
	}
	return m
}

func (c *calibration) window() Probability {
	m := measureProbabilities(c.probs, func(i int) bool { return c.hits[i] })
	if c.several && len(c.probs) > 0 {
		var loss, brier float64
		for i := range c.losses {
			loss, brier = loss+c.losses[i], brier+c.briers[i]
		}
		n := float64(len(c.probs))
		m.LogLoss, m.Brier, m.BrierSkill = Number(loss/n), Number(brier/n), Number(math.NaN())
	}
	return m
}

// measureProbabilities returns the measures of probabilities; label says whether a
// label was positive. The table distinguishes all different probabilities.
func measureProbabilities(probs []float64, label func(i int) bool) Probability {
	m := noProbability()
	cells := make([]cell, len(probs))
	var positive uint64
	var loss, sum float64
	for i, p := range probs {
		cells[i] = cell{n: 1, sum: p}
		if label(i) {
			cells[i].positive = 1
			positive++
		}
		loss += probabilityLoss(p, label(i))
		sum += compare.Brier(p, label(i))
	}
	slices.SortFunc(cells, func(a, b cell) int { return cmp.Compare(a.sum, b.sum) })
	cells = joinEqual(cells)
	m.set(uint64(len(probs)), positive, loss, sum)
	m.reliability(cells, uint64(len(probs)))
	return m
}

// joinEqual joins sorted cells of one example each that have the same probability.
func joinEqual(cells []cell) []cell {
	k := 0
	for i := range cells {
		if i > 0 && cells[k-1].sum == float64(cells[k-1].n)*cells[i].sum {
			cells[k-1].n++
			cells[k-1].positive += cells[i].positive
			cells[k-1].sum = float64(cells[k-1].n) * cells[i].sum
			continue
		}
		cells[k] = cells[i]
		k++
	}
	return cells[:k]
}

func (m *Probability) set(n, positive uint64, loss, brier float64) {
	if n == 0 {
		return
	}
	all := float64(n)
	share := float64(positive) / all
	m.LogLoss, m.Brier = Number(loss/all), Number(brier/all)
	if positive > 0 && positive < n {
		m.BrierSkill = Number(1 - brier/all/(share*(1-share)))
	}
}

// reliability makes the table from cells, sorted by probability and with n examples
// in total, and computes the measures that depend on it.
func (m *Probability) reliability(cells []cell, n uint64) {
	if n == 0 {
		return
	}
	var row cell
	var done uint64 // examples in earlier rows
	var variance, ece, noise float64
	for _, c := range cells {
		if c.n == 0 {
			continue
		}
		row.n, row.positive, row.sum = row.n+c.n, row.positive+c.positive, row.sum+c.sum
		variance += max(c.sum*(1-c.sum/float64(c.n)), 0)
		// A row ends at its share of all examples, or at the next cell boundary.
		if (done+row.n)*reliabilityBins < n*uint64(len(m.Reliability)+1) {
			continue
		}
		k := float64(row.n)
		m.Reliability = append(m.Reliability, ReliabilityBin{row.n, Number(row.sum / k), Number(float64(row.positive) / k)})
		ece += math.Abs(row.sum - float64(row.positive))
		// The number of positive examples has this variance. The mean distance of a
		// normal variable from its mean is √(2/π) standard deviations.
		noise += math.Sqrt(2 / math.Pi * variance)
		done += row.n
		row, variance = cell{}, 0
	}
	m.ECE, m.ECENoise = Number(ece/float64(n)), Number(noise/float64(n))
}

func noProbability() Probability {
	nan := Number(math.NaN())
	return Probability{LogLoss: nan, Brier: nan, BrierSkill: nan, ECE: nan, ECENoise: nan}
}

// AddProbability adds the probability that the label is positive, from before the
// example was learned from. It is called after Add, for examples that have one.
func (p *Prequential) AddProbability(prob float64, positive bool) {
	p.calibration.add(prob, positive)
	if p.Costs != nil {
		p.cost += p.Costs.Cost(int(one(p.Costs.Positive(prob))), int(one(positive)))
	}
}

// AddProbabilities is AddProbability for more than two classes: it adds the
// probabilities of the classes known then, and the class of the label.
func (p *Prequential) AddProbabilities(probs []float64, class int) {
	p.calibration.addClass(probs, class)
	p.cost += p.Costs.Cost(p.Costs.Best(probs), class)
}

// calibrationFields describes the measures of probabilities; they are in a state
// only if there were any.
func (p *Prequential) calibrationFields(f *state.Fields) {
	if !f.Next("probability") && (f.Decoding() || p.calibration.n == 0) {
		return
	}
	f.Group("probability", p.calibration.fields)
	if f.Next("cost") || !f.Decoding() && p.Costs != nil {
		f.Float64("cost", &p.cost)
	}
}

func (c *calibration) fields(f *state.Fields) {
	f.Uint64("examples", &c.n)
	f.Uint64("positive", &c.positive)
	f.Float64("log_loss", &c.loss)
	f.Float64("brier", &c.brier)
	f.Float64s("ring", &c.probs)
	f.Bools("ring_positive", &c.hits)
	if c.several {
		f.Float64s("ring_log_loss", &c.losses)
		f.Float64s("ring_brier", &c.briers)
	}
	var at []int32
	var n, positive []uint64
	var sum []float64
	for i, b := range c.cells {
		if b.n > 0 {
			at, n, positive, sum = append(at, int32(i)), append(n, b.n), append(positive, b.positive), append(sum, b.sum)
		}
	}
	f.Int32s("cell", &at)
	f.Uint64s("cell_examples", &n)
	f.Uint64s("cell_positive", &positive)
	f.Float64s("cell_sum", &sum)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if uint64(len(c.probs)) != min(c.n, uint64(c.size)) || len(c.hits) != len(c.probs) || len(n) != len(at) || len(positive) != len(at) || len(sum) != len(at) {
		f.Fail("ring", fmt.Errorf("%d probabilities, %d labels, %d cells after %d examples", len(c.probs), len(c.hits), len(at), c.n))
		return
	}
	if c.several && (len(c.losses) != len(c.probs) || len(c.briers) != len(c.probs)) {
		f.Fail("ring", fmt.Errorf("%d probabilities, %d and %d losses", len(c.probs), len(c.losses), len(c.briers)))
		return
	}
	c.cells = make([]cell, 2*halfCells)
	for k, i := range at {
		if i < 0 || i >= 2*halfCells || k > 0 && i <= at[k-1] || positive[k] > n[k] {
			f.Fail("cell", fmt.Errorf("cell %d is out of order, or holds %d of %d examples", i, positive[k], n[k]))
			return
		}
		c.cells[i] = cell{n[k], positive[k], sum[k]}
	}
}
