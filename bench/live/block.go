package main

import (
	"fmt"
	"math"
)

// block has the measurements of a block of examples.
type block struct {
	scored, right  int
	hinge          float64
	steps          int
	longest        float64
	certificate    float64 // the largest, 0 before the first
	ratio          float64 // the largest of a certificate to its bound
	bounded, given bool    // there was a bound, a certificate
	examples       uint64  // at the end, since the start of the stream
	seconds        float64
	sample         int
	support, bytes int
	heap           float64
}

func (b *block) score(f, y float64) {
	b.scored++
	if (f >= 0) == (y > 0) {
		b.right++
	}
	b.hinge += max(0, 1-y*f)
}

// step records a step with its certificate and bound, which are NaN if there is
// none. If there is a bound, a missing certificate counts as infinite.
func (b *block) step(certificate, bound, seconds float64) {
	b.steps++
	b.longest = max(b.longest, seconds)
	if !math.IsNaN(certificate) {
		b.certificate, b.given = max(b.certificate, certificate), true
	}
	if math.IsNaN(bound) {
		return
	}
	b.bounded = true
	switch {
	case math.IsNaN(certificate):
		b.ratio = math.Inf(1)
	case certificate > 0: // 0 of 0 is within the bound
		b.ratio = max(b.ratio, certificate/bound)
	}
}

func (b *block) accuracy() float64 { return float64(b.right) / float64(b.scored) }

// falls lists the pairs of an earlier and a later block in which the later one is
// worse by more than four standard deviations of the difference of two binomial
// shares. For each later block it takes the earlier one with the largest difference.
func falls(blocks []block) [][2]int {
	var out [][2]int
	for j := range blocks {
		worst, by := -1, 0.0
		for i := range j {
			a, b := &blocks[i], &blocks[j]
			if a.scored == 0 || b.scored == 0 {
				continue
			}
			d := a.accuracy() - b.accuracy()
			if d > 4*math.Sqrt(variance(a)+variance(b)) && d > by {
				worst, by = i, d
			}
		}
		if worst >= 0 {
			out = append(out, [2]int{worst, j})
		}
	}
	return out
}

// variance returns the variance of a block's accuracy. It is never 0, since a block
// without errors might have had one.
func variance(b *block) float64 {
	n := float64(b.scored)
	p := (float64(b.right) + 1) / (n + 2)
	return p * (1 - p) / n
}

// complaints lists the falls of accuracy and the certificates above their bounds.
func complaints(blocks []block) []string {
	var out []string
	for _, f := range falls(blocks) {
		a, b := &blocks[f[0]], &blocks[f[1]]
		out = append(out, fmt.Sprintf("accuracy %.4f in the block up to %d, %.4f in that up to %d", a.accuracy(), a.examples, b.accuracy(), b.examples))
	}
	for i := range blocks {
		if b := &blocks[i]; b.ratio > 1 {
			out = append(out, fmt.Sprintf("a certificate of %.3g times its bound in the block up to %d", b.ratio, b.examples))
		}
	}
	return out
}
