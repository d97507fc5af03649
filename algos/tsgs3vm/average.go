package tsgs3vm

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/vec"
)

const (
	// leastShare is the smallest weight of a setting in the average, relative to the
	// best setting.
	leastShare = 0.01
	// averageSweeps bounds the passes of a solve on all labels; averageTol is its
	// tolerance.
	averageSweeps, averageTol = 300, 3e-3
	// averagePrior takes the place of tunePrior when models are averaged. It is
	// smaller, since an average is cautious by itself.
	averagePrior = 0.5
)

// average is the difference between two models: the mean of the models of all good
// settings with the same gamma, and the model of the best setting. With 200 labels,
// error counts cannot distinguish settings that differ by less than a standard
// error, about two percentage points. The mean of such models has fewer errors than
// the model that happens to be best in cross-validation. It costs nothing in
// prediction: models with the same gamma have the same features, so their mean has
// the mean coefficients.
//
// The best model continues to learn. The difference fades to 0 while the number of
// labels doubles; then the settings are compared again.
type average struct {
	w       []float64 // coefficients by feature; nil if there is no other good setting
	b       float64
	cluster float64 // mean weight of the cluster kernel in the settings
}

// averaged returns the coefficients and the bias of supervised model k plus its
// difference, and the mean weight of the cluster kernel in the result.
func (l *Learner) averaged(k int, w []float64, b float64) ([]float64, float64, float64) {
	v := &l.averages[k]
	share := 2 - float64(l.labelled)/float64(max(l.tuned, 1))
	if v.w == nil || !(share > 0) {
		return w, b, l.cluster.weight
	}
	sum := append([]float64(nil), w...)
	vec.Axpy64(share, v.w, sum)
	return sum, b + float64(share*v.b), float64(share*v.cluster) + float64((1-share)*l.cluster.weight)
}

// candidate is a setting with its errors in cross-validation.
type candidate struct {
	settings
	wrong, loss, far float64
	share            float64 // in the average
}

// score returns the errors of a candidate plus the penalties of the prior. unit is the
// standard error of the errors, and prior the penalty for the end of an axis, in units.
func (v candidate) score(unit, prior float64) float64 {
	s := v.wrong + float64(prior*unit*v.far)
	if v.cluster.weight > 0 {
		s += float64(caution * unit)
	}
	return s
}

// share computes the weight of each candidate in the average: exp(−s/(t·unit)), where
// s is its score minus the smallest score and t the temperature. Of the groups with
// the same gamma, only the heaviest gets weights. The others and candidates with
// negligible weight get 0. It returns the gamma of the heaviest group.
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

// mean returns for each classifier the weighted mean of the candidates' models minus the
// model of the best settings. All are trained on all labels.
func (g *grid) mean(all []candidate, best settings) []average {
	out := make([]average, len(g.signs))
	members := 0
	for _, v := range all {
		if v.share > 0 {
			members++
		}
	}
	if members < 2 || g.at(best.gamma) != nil {
		return out
	}
	part := func(v candidate) float64 {
		if v.c == best.c && v.gamma == best.gamma && v.cluster.weight == best.cluster.weight {
			return v.share - 1
		}
		return v.share
	}
	all = slices.DeleteFunc(slices.Clone(all), func(v candidate) bool { return part(v) == 0 })
	for k, y := range g.signs {
		out[k] = g.meanOf(all, part, y)
	}
	return out
}

// meanOf returns the sum of the models of one classifier, with the labels y, times their parts.
func (g *grid) meanOf(all []candidate, part func(v candidate) float64, y []float64) (out average) {
	n, size := len(g.y), g.opt.Features
	points, steps := make([]float64, n), make([]float64, n) // coefficients of z and of t
	for len(all) > 0 {
		a, k := all[0].cluster.weight, 1
		for k < len(all) && all[k].cluster.weight == a {
			k++
		}
		g.weigh(a)
		alphas := make([][]float64, k)
		par.Each(k, func(j int) {
			alphas[j] = make([]float64, n)
			g.solve(y, 0, all[j].c, alphas[j], make([]float64, n), averageSweeps, averageTol)
		})
		for j, alpha := range alphas {
			for i, y := range y {
				c := float64(part(all[j]) * y * alpha[i])
				out.b += c
				points[i] += c / (1 + a)
				if a > 0 {
					steps[i] += float64(c*a) / ((1 + a) * g.spread * float64(len(g.marks)))
				}
			}
			out.cluster += float64(all[j].share * a)
		}
		all = all[k:]
	}
	out.w = make([]float64, size)
	for i, c := range points {
		vec.AxpyMixed(c, g.z.row(i, size), out.w)
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
