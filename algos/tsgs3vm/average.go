package tsgs3vm

import (
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/vec"
)

const (
	// leastShare is what a setting must weigh, relative to the heaviest, to be
	// averaged.
	leastShare = 0.01
	// averageSweeps bounds the passes of a solve on all labels, averageTol ends
	// it.
	averageSweeps, averageTol = 300, 3e-3
	// averagePrior is what tunePrior is for the choice of one setting: smaller,
	// since an average is cautious.
	averagePrior = 0.5
)

// average is a difference of models: the mean of those of all good settings of
// one gamma, less that of the best setting. The errors of 200 labels do not
// tell settings apart that differ by less than a standard error, some two
// points; their mean has fewer errors than the one that happens to have the
// fewest in cross-validation. It costs nothing in prediction: models of one
// gamma have the same features, so that their mean is the mean of their
// coefficients.
//
// The best model goes on learning, and what it differs by fades out as labels
// double, when the settings are compared again.
type average struct {
	w       []float64 // coefficients by feature; nil: there is no other good setting
	b       float64
	cluster float64 // mean weight of the cluster kernel in the settings
}

// averaged returns the coefficients and the bias of a supervised model with
// what averaging adds, and the mean weight of the cluster kernel in it.
func (l *Learner) averaged(w []float64, b float64) ([]float64, float64, float64) {
	share := 2 - float64(l.labelled)/float64(max(l.tuned, 1))
	if l.average.w == nil || !(share > 0) {
		return w, b, l.cluster.weight
	}
	sum := append([]float64(nil), w...)
	vec.Axpy64(share, l.average.w, sum)
	return sum, b + float64(share*l.average.b), float64(share*l.average.cluster) + float64((1-share)*l.cluster.weight)
}

// candidate is a setting with its errors in cross-validation.
type candidate struct {
	settings
	wrong, loss, far float64
	share            float64 // in the average
}

// score returns the errors that a candidate counts for, where unit is their
// standard error and prior that of the ends of an axis.
func (v candidate) score(unit, prior float64) float64 {
	s := v.wrong + float64(prior*unit*v.far)
	if v.cluster.weight > 0 {
		s += float64(caution * unit)
	}
	return s
}

// share sets what each candidate weighs in the average, exp(−s/(t·unit)) with
// its score s above the least and the temperature t, to 0 for all that have
// another gamma than the one that weighs most or are not worth the while.
// It returns that gamma.
func share(all []candidate, unit, t float64) float64 {
	least := math.Inf(1)
	for _, v := range all {
		least = min(least, v.score(unit, averagePrior))
	}
	most, gamma, sum := 0.0, 0.0, 0.0
	for i := range all {
		v := &all[i]
		x := [1]float32{float32((v.score(unit, averagePrior) - least) / (t * unit))}
		vec.Kernel{Kind: vec.RBF, Gamma: 1}.Apply(x[:]) // exp(−x), with equal bits everywhere
		v.share = float64(x[0])
		if i == 0 || v.gamma != all[i-1].gamma {
			sum = 0
		}
		if sum += v.share; sum > most {
			most, gamma = sum, v.gamma
		}
	}
	sum = 0
	for i := range all {
		if all[i].gamma != gamma || all[i].share < leastShare {
			all[i].share = 0
		}
		sum += all[i].share
	}
	for i := range all {
		all[i].share /= sum
	}
	return gamma
}

// mean returns the mean of the models of the candidates less that of the best
// one, all learned from all labels.
func (g *grid) mean(all []candidate, best settings) average {
	n, size := len(g.y), g.opt.Features
	var out average
	members := 0
	for _, v := range all {
		if v.share > 0 {
			members++
		}
	}
	if members < 2 || g.setGamma(best.gamma) != nil {
		return out
	}
	points, steps := make([]float64, n), make([]float64, n) // coefficients of z and of t
	a := math.NaN()
	for _, v := range all {
		t := v.share
		if v.c == best.c && v.gamma == best.gamma && v.cluster.weight == best.cluster.weight {
			t--
		}
		if t == 0 {
			continue
		}
		if k := v.cluster.weight; k != a {
			a = k
			g.weigh(a)
		}
		alpha, s := make([]float64, n), make([]float64, n)
		g.solve(0, v.c, alpha, s, averageSweeps, averageTol)
		for i, y := range g.y {
			c := float64(t * y * alpha[i])
			out.b += c
			points[i] += c / (1 + a)
			if a > 0 {
				steps[i] += float64(c*a) / ((1 + a) * g.spread * float64(len(g.marks)))
			}
		}
		out.cluster += float64(v.share * a)
	}
	out.w = make([]float64, size)
	for i, c := range points {
		vec.AxpyMixed(c, g.z[i*size:(i+1)*size], out.w)
	}
	u := len(g.marks)
	for j := range u {
		c := 0.0
		for i, v := range steps {
			c += float64(v * g.t[i*u+j])
		}
		vec.AxpyMixed(c, g.zu[j*size:(j+1)*size], out.w)
	}
	return out
}

func (v *average) fields(f *state.Fields) {
	f.Float64s("w", &v.w)
	f.Float64("b", &v.b)
	f.Float64("cluster", &v.cluster)
}
