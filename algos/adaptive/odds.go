package adaptive

import "github.com/streamsvm/streamsvm/internal/linear"

// With two classes there is one lane of log odds: of +1. With more there is a lane for each
// class, and probabilities are the softmax over lanes. All lanes share the weights.

// chances sets p, which may be f, to the probabilities for log odds f: of +1, or of each class.
func chances(p, f []float64) {
	if len(f) == 1 {
		p[0] = linear.Sigmoid(f[0])
		return
	}
	top, sum := f[0], 0.0
	for _, v := range f {
		top = max(top, v)
	}
	for k, v := range f {
		p[k] = linear.ExpNeg(top - v)
		sum += p[k]
	}
	for k := range p {
		p[k] /= sum
	}
}

// logLoss is −ln of the probability of y given log odds f. y is 1 or 0, or a class number.
func logLoss(f []float64, y int) float64 {
	switch {
	case len(f) == 1 && y > 0:
		return linear.Softplus(-f[0])
	case len(f) == 1:
		return linear.Softplus(f[0])
	}
	top, sum := f[0], 0.0
	for _, v := range f {
		top = max(top, v)
	}
	for _, v := range f {
		sum += linear.ExpNeg(top - v)
	}
	return linear.Log(sum) + (top - f[y])
}

// wanted is the target probability of lane k.
func wanted(lanes, lane, y int) float64 {
	if lanes == 1 {
		return float64(y)
	}
	if lane == y {
		return 1
	}
	return 0
}

// logOddsOf sets the rows of x, one for each lane, to the experts' calibrated log odds and a
// final 1. An expert without a score gets 0, which favours no class.
func logOddsOf[C interface{ logOdds(float64) float64 }](x [][]float64, scores [][]score, by [][]C) [][]float64 {
	for k, row := range x {
		for e, s := range scores[k] {
			row[e] = 0
			if s.ok {
				row[e] = by[k][e].logOdds(s.f)
			}
		}
		row[len(row)-1] = 1
	}
	return x
}

// learnCalibrations updates the calibrators with an example. p is scratch, one number per lane.
func learnCalibrations(list [][]*calibrator, scores [][]score, y int, rate, fraction, weight float64, p []float64) {
	for e := range list[0] {
		for k := range list {
			p[k] = 0
			if s := scores[k][e]; s.ok {
				p[k] = list[k][e].raw(list[k][e].parts(s.f))
			}
		}
		chances(p, p)
		for k := range list {
			if s := scores[k][e]; s.ok {
				list[k][e].learn(s.f, p[k], wanted(len(list), k, y), rate, fraction, weight)
			}
		}
	}
}

func newCalibrators(lanes, experts int) [][]*calibrator {
	list := make([][]*calibrator, lanes)
	for k := range list {
		for range experts {
			c := newCalibrator()
			list[k] = append(list[k], &c)
		}
	}
	return list
}

func newRows(lanes, n int) [][]float64 {
	x := make([][]float64, lanes)
	for k := range x {
		x[k] = make([]float64, n)
	}
	return x
}

// mixInto sets dst to ⟨w, x⟩ of each lane, bounded by ±mostLogOdds.
func mixInto(dst, w []float64, x [][]float64) {
	for k, row := range x {
		dst[k] = bounded(dot(w, row), mostLogOdds)
	}
}
