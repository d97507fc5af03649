package compare

import "math"

// Brier returns the squared error of the probability of a positive label, in [0,1].
func Brier(p float64, positive bool) float64 {
	y := 0 // compiled without a branch, which labels would make hard to predict
	if positive {
		y = 1
	}
	d := p - float64(y)
	return float64(d * d)
}

// BrierClasses returns the sum of the squared errors of the probabilities of all
// classes, in [0,2]. A class without a probability counts as having probability 0.
func BrierClasses(p []float64, class int) float64 {
	sum := 0.0
	for k, v := range p {
		sum += Brier(v, k == class)
	}
	if class >= len(p) {
		sum++
	}
	return sum
}

// Shares returns the share of each bin of a histogram. Half a count is added to each
// bin, because PSI of an empty one is infinite.
func Shares(counts []uint64) []float64 {
	total := 0.5 * float64(len(counts))
	for _, n := range counts {
		total += float64(n)
	}
	shares := make([]float64, len(counts))
	for k, n := range counts {
		shares[k] = (float64(n) + 0.5) / total
	}
	return shares
}

// PSI returns the population stability index of two histograms with the same bins,
// given as shares: Σ (p−q)·ln(p/q). A value above 0.25 is usually called a large change.
func PSI(p, q []float64) float64 {
	sum := 0.0
	for k := range p {
		sum += float64((p[k] - q[k]) * math.Log(p[k]/q[k]))
	}
	return sum
}
