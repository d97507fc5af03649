package tsgs3vm

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	// leastTuned is the smallest number of labels for tuning.
	leastTuned = 16
	// tuneFolds is the number of folds of the cross-validation.
	tuneFolds = 5
	// settledTuned is the number of labels at the last choice from which gamma and c move
	// by at most one place of their grids.
	settledTuned = 128
	// tuneSweeps bounds the passes of a solve, tuneTol is its tolerance.
	tuneSweeps, tuneTol = 40, 0.03
	// tunePrior is the number of standard errors by which the end of an axis must be
	// better than the middle.
	tunePrior = 1
	// caution is the number of standard errors by which a cluster kernel must be
	// better than the plain kernel, so that useless unlabelled examples do no harm.
	caution = 0.5
	// rarely defines rare classes: with weighted examples, a class is rare if it has
	// less than 1/rarely of the examples.
	rarely = 12
)

// tuneC are the candidates for c. tuneWidth are the candidates for gamma in units of
// 1/median squared distance; their kernels are narrower than this unit because more
// points will come. rareWidth replaces tuneWidth if a class is rare and examples have
// weights: its points will stay few, and with a narrow kernel and large weights the
// model would be a peak at each of them.
var (
	tuneC     = [...]float64{0.1, 0.5, 2, 10, 50, 250, 1000}
	tuneWidth = [...]float64{0.2, 0.6, 2, 6, 20}
	rareWidth = [...]float64{0.02, 0.06, 0.2, 0.6, 2}
)

// tune chooses c, gamma and the cluster kernel by cross-validation on the stored labels,
// once their number has doubled since the last choice, or a choice of the cluster kernel
// is due. If last is set, one more label is enough.
func (l *Learner) tune(last bool) {
	openC := math.IsNaN(l.opt.C) && math.IsNaN(l.opt.Lambda)
	openGamma := math.IsNaN(l.opt.Gamma)
	n := l.Len()
	due := n >= 2*l.tuned || last && n > l.tuned || l.surveyDue(last)
	if !openC && !openGamma && !l.opt.wantsCluster() || !due || n < leastTuned || n > l.opt.Tuning || uint64(n) != l.labelled {
		return
	}
	before := l.tuned
	l.tuned, l.surveyed = n, l.unlab+l.Skipped()
	pool := l.Sample()
	g := newGrid(pool, l.opt, l.seed, l.classes)
	if g == nil {
		return
	}
	d, ok := l.solver.(*dual)
	if ok { // the features of the solver will change
		d.wait()
		d.ready, g.z = false, d.held
	}
	gammas, cs := []float64{l.gamma}, []float64{l.c}
	if openGamma {
		center := kernel.AutoGamma(g.xs, l.opt.Kernel == string(rff.Laplacian))
		gammas = gammas[:0]
		widths := tuneWidth[:]
		if g.ranks {
			widths = rareWidth[:]
		}
		for _, w := range widths {
			gammas = append(gammas, center*w)
		}
		if before >= settledTuned {
			g.near = l.gamma
		}
	}
	switch {
	case openC:
		cs = tuneC[:]
		if before >= settledTuned {
			g.nearC = l.c
		}
	case !math.IsNaN(l.opt.Lambda):
		cs = []float64{1 / (l.opt.Lambda * float64(n))}
	}
	weights, marks := l.clusters()
	g.marks = marks
	best, mean := g.search(gammas, cs, weights)
	if ok {
		d.held = g.z
	}
	if openC {
		l.c = best.c
	}
	if best.gamma != l.gamma {
		if l.setGamma(best.gamma) != nil {
			return
		}
	}
	l.cluster, l.averages = best.cluster, mean
	if l.classes > 0 && g.at(best.gamma) == nil {
		for k, alpha := range g.fit(best.c) {
			copy(d.arms[k].a, alpha)
		}
	}
	l.solver.restart(l, last)
}

// grid is a cross-validation over kernel widths and weights. Its kernel values are
// computed from the random features, not with the kernel that they approximate: a large
// weight also fits the noise of the features, and the choice should account for that.
type grid struct {
	xs    []stream.Vec
	opt   options
	seed  uint64
	y     []float64
	signs [][]float64 // labels, ±1, by classifier: y itself if there are two classes
	v     weight.List
	fold  []int

	ranks bool    // settings are judged by their ranking of the examples, not by errors
	count float64 // number of examples that can be wrong

	gamma       float64 // of the kernel values
	near, nearC float64 // try only this gamma, this c, and their neighbours; 0: all

	rows *vec.Panels // of a band

	marks  []*stream.Example
	plain  []float32 // products of features
	walk   []float64 // ⟨t(x),t(z)⟩/n, divided by the spread
	z      bands     // features of the points
	zu     []float32 // features of the landmarks
	t      []float64 // affinities of the points to the landmarks
	spread float64
	gram   []float32
}

// settings are a choice of gamma, c and cluster kernel.
type settings struct {
	gamma, c float64
	cluster  cluster
}

// newGrid returns nil if only one class has more than one label. classes is 0 for two.
func newGrid(pool []*stream.Example, o options, seed uint64, classes int) *grid {
	g := &grid{xs: samplers.Vecs(pool), opt: o, seed: seed, fold: dealFolds(pool, tuneFolds), v: weight.Of(pool)}
	counts := make([]int, max(classes, 2))
	for _, x := range pool {
		g.y = append(g.y, x.Y)
		counts[max(int(x.Y), 0)]++ // −1 is class 0
	}
	g.signs = [][]float64{g.y}
	if g.count = float64(len(pool)); classes > 0 {
		g.signs = make([][]float64, classes)
		for k := range g.signs {
			a := arm{class: k + 1}
			for _, y := range g.y {
				g.signs[k] = append(g.signs[k], a.sign(y))
			}
		}
	}
	slices.Sort(counts)
	rare := counts[len(counts)-2]
	if rare < 2 {
		return nil
	}
	if classes == 0 && g.v != nil && rarely*rare < len(pool) {
		g.ranks, g.count = true, float64(rare)
	}
	return g
}

// disorder returns the number of wrongly ranked examples of the rarer class in a fold.
// Each example of that class counts as the share of the other class on its wrong side,
// with ties counting half. The sum over folds is the size of the class times 1 − AUC.
func (g *grid) disorder(fold int, s []float64) float64 {
	var of [2][]float64
	for k, f := range g.fold {
		if f == fold {
			class := 0
			if g.y[k] > 0 {
				class = 1
			}
			of[class] = append(of[class], s[k])
		}
	}
	halves := 0
	for _, a := range of[1] {
		for _, b := range of[0] {
			switch {
			case a < b:
				halves += 2
			case a == b:
				halves++
			}
		}
	}
	if halves == 0 {
		return 0
	}
	return float64(halves) / float64(2*max(len(of[0]), len(of[1])))
}

// band is the number of rows and of columns of kernel values computed together.
// Values on one side of the diagonal are copied from the other, by symmetry.
const band = 64

// bands is memory for features, a band of rows at a time.
type bands [][]float32

// row returns row i, which has size features, making room for it if necessary.
func (z *bands) row(i, size int) []float32 {
	for i >= len(*z)*band {
		*z = append(*z, make([]float32, band*size))
	}
	return (*z)[i/band][i%band*size:][:size:size]
}

// at computes the kernel values for a gamma unless they are there.
func (g *grid) at(gamma float64) error {
	if g.gamma == gamma {
		return nil
	}
	return g.setGamma(gamma)
}

// setGamma computes the kernel values for a gamma.
func (g *grid) setGamma(gamma float64) error {
	m, size := g.opt.Block, g.opt.Features
	feats, err := g.opt.draw(gamma, g.seed)
	if err != nil {
		return err
	}
	g.gamma = gamma
	n := len(g.xs)
	if g.rows == nil {
		g.z.row(n-1, size)
		g.rows = vec.NewPanels(size)
		g.gram, g.plain = make([]float32, n*n), make([]float32, n*n)
	}
	par.Split(n, band, float64(n*size), func(from, to int) {
		var p rff.Points
		for i := from; i < to; i += band {
			p.Pack(g.xs[i:min(to, i+band)])
			for k := range size / m {
				feats.Map(g.z[i/band][k*m:], size, &p, uint64(k))
			}
		}
	})
	for at := 0; at < n; at += band {
		end := min(n, at+band)
		g.rows.Truncate(0)
		for j := at; j < end; j++ {
			g.rows.Append(g.z.row(j, size))
		}
		par.Split(end, band, float64(end*band*size)/50, func(from, to int) {
			for i := from; i < to; i += band {
				vec.Kernel{Kind: vec.Linear}.Block(g.plain[i*n+at:], n, g.z[i/band], min(band, end-i), g.rows, 0, end-at)
			}
		})
	}
	for i := range n {
		for j := i/band*band + band; j < n; j++ {
			g.plain[j*n+i] = g.plain[i*n+j]
		}
	}
	if len(g.marks) == 0 {
		return nil
	}
	mean, diag := 0.0, 0.0
	for i, v := range g.plain {
		k := float64(v) * g.scale()
		mean += k
		if i%(n+1) == 0 {
			diag += k
		}
	}
	u := len(g.marks)
	g.zu = mapped(feats, size, g.marks)
	t := affinities(g.z.row, n, g.zu, u, size, m)
	g.t = t
	g.spread = spreadOf(t, n, u, diag/float64(n)-mean/float64(n*n))
	g.walk = make([]float64, n*n)
	for i := range n {
		for j := range i + 1 {
			v := vec.Dot64(t[i*u:(i+1)*u], t[j*u:(j+1)*u]) / (g.spread * float64(u))
			g.walk[i*n+j], g.walk[j*n+i] = v, v
		}
	}
	return nil
}

// scale converts products of features to kernel values.
func (g *grid) scale() float64 { return 2 / float64(g.opt.Features) }

// weigh sets the Gram matrix to the one with a cluster kernel of weight a.
func (g *grid) weigh(a float64) {
	for i, p := range g.plain {
		v := float64(p) * g.scale()
		if a > 0 {
			v = (v + float64(a*g.walk[i])) / (1 + a)
		}
		g.gram[i] = float32(v + g.opt.Bias)
	}
}

// search returns the best combination: fewest errors, with a prior for the middle of
// the axes of gamma and c and one against cluster kernels; the smaller hinge loss
// breaks ties. With a rare class, ranking errors count instead: a model that never
// predicts the class makes few errors. With averaging, gamma is taken from the
// heaviest group of settings, and search also returns their average.
func (g *grid) search(gammas, cs, weights []float64) (settings, []average) {
	n, none := len(g.y), make([]average, len(g.signs))
	var all []candidate
	least := math.Inf(1)
	from, to := around(gammas, g.near)
	fromC, toC := around(cs, g.nearC)
	for i := from; i < to; i++ {
		gamma := gammas[i]
		if g.setGamma(gamma) != nil {
			continue
		}
		for _, a := range weights {
			g.weigh(a)
			at := len(all)
			k := cluster{weight: a}
			if a > 0 {
				k.spread, k.points = g.spread, g.marks
			}
			for j := fromC; j < toC; j++ {
				all = append(all, candidate{settings: settings{gamma, cs[j], k}, far: place(i, len(gammas)) + place(j, len(cs))})
			}
			heads, size := len(g.signs), toC-fromC
			out := make([]float64, size*n*heads) // held-out decisions, by c, point and classifier
			par.Each(tuneFolds*heads, func(i int) {
				fold, h := i/heads+1, i%heads
				alpha, s := make([]float64, n), make([]float64, n)
				for j, c := range cs[fromC:toC] {
					g.solve(g.signs[h], fold, c, alpha, s, tuneSweeps, tuneTol)
					for k, f := range g.fold {
						if f == fold {
							out[(j*n+k)*heads+h] = s[k]
						}
					}
				}
			})
			for fold := 1; fold <= tuneFolds; fold++ {
				for j := range cs[fromC:toC] {
					s := out[j*n*heads:][:n*heads]
					v := &all[at+j]
					if g.ranks {
						v.wrong += g.disorder(fold, s)
					}
					for k, f := range g.fold {
						if f != fold {
							continue
						}
						s := s[k*heads:][:heads]
						if !g.ranks && !g.right(k, s) {
							v.wrong += g.v.At(k)
						}
						for h, f := range s {
							v.loss += float64(g.v.At(k) * max(0, 1-float64(g.signs[h][k]*f)))
						}
					}
				}
			}
			for _, v := range all[at:] {
				least = min(least, v.wrong)
			}
		}
	}
	if len(all) == 0 {
		return settings{gamma: gammas[0], c: cs[0]}, none
	}
	p := (least + 1) / (g.count + 2)
	unit := math.Sqrt(p * (1 - p) * g.count)
	gamma := 0.0
	if g.opt.Temperature > 0 {
		gamma = share(all, unit, g.opt.Temperature)
	}
	best, low := 0, math.Inf(1)
	for k, v := range all {
		if gamma > 0 && v.gamma != gamma {
			continue
		}
		score := v.score(unit, tunePrior)
		if score < low || score == low && v.loss < all[best].loss {
			best, low = k, score
		}
	}
	if gamma == 0 {
		return all[best].settings, none
	}
	return all[best].settings, g.mean(all, all[best].settings)
}

// right reports whether the decisions s of the classifiers predict the label of point k.
func (g *grid) right(k int, s []float64) bool {
	if len(s) == 1 {
		return (s[0] >= 0) == (g.y[k] > 0)
	}
	return algos.Largest(s) == int(g.y[k])
}

// around returns the range of indices of the value nearest to last, as a ratio, and
// its neighbours. If last is 0, the range covers all values.
func around(values []float64, last float64) (from, to int) {
	if last == 0 {
		return 0, len(values)
	}
	k := 0
	for i, v := range values {
		if math.Abs(math.Log(v/last)) < math.Abs(math.Log(values[k]/last)) {
			k = i
		}
	}
	return max(0, k-1), min(len(values), k+2)
}

// place returns the squared distance of position i from the middle of n positions,
// scaled to 1 at the ends.
func place(i, n int) float64 {
	if n == 1 {
		return 0
	}
	d := 2*float64(i)/float64(n-1) - 1
	return float64(d * d)
}

// fit returns each classifier's optimum for the plain kernel and a given c on all points.
func (g *grid) fit(c float64) [][]float64 {
	g.weigh(0)
	alphas := make([][]float64, len(g.signs))
	par.Each(len(alphas), func(h int) {
		alphas[h] = make([]float64, len(g.y))
		g.solve(g.signs[h], 0, c, alphas[h], make([]float64, len(g.y)), averageSweeps, polishTol)
	})
	return alphas
}

// solve fits the points outside a fold with labels ys, or all points if fold is 0. It starts
// from the α in a, with s = Kαy.
func (g *grid) solve(ys []float64, fold int, c float64, a, s []float64, sweeps int, tol float64) {
	n := len(g.y)
	for range sweeps {
		worst := 0.0
		for i, y := range ys {
			if g.fold[i] == fold {
				continue
			}
			row := g.gram[i*n : (i+1)*n]
			q := max(float64(row[i]), 1e-3)
			next := min(max(a[i]+(1-float64(y*s[i]))/q, 0), g.v.At(i)*c)
			if t := next - a[i]; t != 0 {
				a[i] = next
				vec.AxpyMixed(t*y, row, s)
				worst = max(worst, math.Abs(t)*q)
			}
		}
		if worst < tol {
			return
		}
	}
}
