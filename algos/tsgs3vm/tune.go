package tsgs3vm

import (
	"math"

	"github.com/streamsvm/streamsvm/algos/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	// leastTuned is the number of labels from which on there is something to
	// choose by.
	leastTuned = 16
	// tuneFolds is the number of folds of the cross-validation.
	tuneFolds = 5
	// tuneSweeps bounds the passes of a solve, tuneTol ends it.
	tuneSweeps, tuneTol = 40, 0.03
	// tunePrior is how many standard errors of the error an end of an axis
	// must be better than its middle.
	tunePrior = 1
)

// tuneC are the candidates for c, tuneWidth those for gamma in units of 1/the
// median squared distance: narrower than that suggests, because there will be
// more points.
var (
	tuneC     = [...]float64{0.1, 0.5, 2, 10, 50, 250, 1000}
	tuneWidth = [...]float64{0.2, 0.6, 2, 6, 20}
)

// tune chooses c and gamma by cross-validation on the
// labels held, where they have doubled since it last did; where last is set,
// one more will do.
func (l *Learner) tune(last bool) {
	openC := math.IsNaN(l.opt.C) && math.IsNaN(l.opt.Lambda)
	openGamma := math.IsNaN(l.opt.Gamma)
	n := l.pools.Labelled.Len()
	due := n >= max(2*l.tuned, leastTuned) || last && n >= max(l.tuned+1, leastTuned)
	if !openC && !openGamma || !due || n > l.opt.Tuning || uint64(n) != l.labelled {
		return
	}
	l.tuned = n
	pool := examples(l.pools.Labelled)
	g := newGrid(pool, l.opt, l.seed)
	if g == nil {
		return
	}
	gammas, cs := []float64{l.gamma}, []float64{l.c}
	if openGamma {
		center := hinge.Gamma(g.xs, l.opt.Kernel == string(samplers.Laplacian))
		gammas = gammas[:0]
		for _, w := range tuneWidth {
			gammas = append(gammas, center*w)
		}
	}
	switch {
	case openC:
		cs = tuneC[:]
	case !math.IsNaN(l.opt.Lambda):
		cs = []float64{1 / (l.opt.Lambda * float64(n))}
	}
	gamma, c := g.search(gammas, cs)
	if openC {
		l.c = c
	}
	if gamma != l.gamma {
		if l.setGamma(gamma) != nil {
			return
		}
	}
	l.solver.restart(l, last)
}

// grid is a cross-validation over kernel widths and weights. Kernel values are
// those of the features, not of the kernel that they stand for: a large weight
// fits their noise, too, and the choice should know that.
type grid struct {
	xs   []stream.Vec
	opt  Options
	seed uint64
	y    []float64
	fold []int
	gram []float32
}

// newGrid returns nil where a class has too few labels to go by.
func newGrid(pool []*stream.Example, o Options, seed uint64) *grid {
	g := &grid{opt: o, seed: seed, fold: dealFolds(pool, tuneFolds)}
	positive := 0
	for _, x := range pool {
		g.xs = append(g.xs, x.X)
		g.y = append(g.y, x.Y)
		if x.Y > 0 {
			positive++
		}
	}
	if min(positive, len(pool)-positive) < 2 {
		return nil
	}
	return g
}

// setGamma computes the kernel values.
func (g *grid) setGamma(gamma float64) error {
	m, size := g.opt.Block, g.opt.Features
	feats, err := samplers.NewFeatures(samplers.Spectrum(g.opt.Kernel), gamma, m, g.seed, g.opt.Cache<<20)
	if err != nil {
		return err
	}
	n := len(g.xs)
	z := make([]float32, n*size)
	var p samplers.Points
	p.Pack(g.xs)
	for b := 0; b < size/m; b++ {
		feats.Map(z[b*m:], size, &p, uint64(b))
	}
	rows := vec.NewPanels(size)
	for i := range n {
		rows.Append(z[i*size : (i+1)*size])
	}
	g.gram = make([]float32, n*n)
	vec.Kernel{Kind: vec.Linear}.Block(g.gram, n, z, n, rows, 0, n)
	for i, v := range g.gram {
		g.gram[i] = float32(float64(v)*(2/float64(size)) + g.opt.Bias)
	}
	return nil
}

// search returns the best pair: fewest errors, with a prior for the middle of
// each axis; of equals the one with the smaller hinge loss.
func (g *grid) search(gammas, cs []float64) (gamma, c float64) {
	n := len(g.y)
	wrong := make([]float64, len(gammas)*len(cs))
	loss := make([]float64, len(wrong))
	least := math.Inf(1)
	for i, w := range gammas {
		if g.setGamma(w) != nil {
			for j := range cs {
				wrong[i*len(cs)+j] = math.Inf(1)
			}
			continue
		}
		for fold := 1; fold <= tuneFolds; fold++ {
			a, s := make([]float64, n), make([]float64, n)
			for j, c := range cs {
				g.solve(fold, c, a, s)
				for k, f := range g.fold {
					if f != fold {
						continue
					}
					if (s[k] >= 0) != (g.y[k] > 0) {
						wrong[i*len(cs)+j]++
					}
					loss[i*len(cs)+j] += max(0, 1-float64(g.y[k]*s[k]))
				}
			}
		}
	}
	for _, w := range wrong {
		least = min(least, w)
	}
	p := (least + 1) / float64(n+2)
	unit := tunePrior * math.Sqrt(p*(1-p)*float64(n))
	best, low, hinge := -1, 0.0, 0.0
	for k := range wrong {
		far := place(k/len(cs), len(gammas)) + place(k%len(cs), len(cs))
		v := wrong[k] + float64(unit*far)
		if best < 0 || v < low || v == low && loss[k] < hinge {
			best, low, hinge = k, v, loss[k]
		}
	}
	return gammas[best/len(cs)], cs[best%len(cs)]
}

// place returns the squared distance of position i from the middle of n, 1 at
// the ends.
func place(i, n int) float64 {
	if n == 1 {
		return 0
	}
	d := 2*float64(i)/float64(n-1) - 1
	return float64(d * d)
}

// solve fits the points outside a fold from the given start, s = Kαy.
func (g *grid) solve(fold int, c float64, a, s []float64) {
	n := len(g.y)
	for range tuneSweeps {
		worst := 0.0
		for i, y := range g.y {
			if g.fold[i] == fold {
				continue
			}
			row := g.gram[i*n : (i+1)*n]
			q := max(float64(row[i]), 1e-3)
			next := min(max(a[i]+(1-float64(y*s[i]))/q, 0), c)
			if t := next - a[i]; t != 0 {
				a[i] = next
				vec.AxpyMixed(t*y, row, s)
				worst = max(worst, math.Abs(t)*q)
			}
		}
		if worst < tuneTol {
			return
		}
	}
}
