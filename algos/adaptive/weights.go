package adaptive

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// An RBF kernel treats all features alike, and a feature that says nothing is noise in every
// distance. So features are weighted by how much a first function changes with them, the
// root mean square of ∂f/∂x_j, as in recursive feature machines (Radhakrishnan, Beaglehole,
// Pandit and Belkin, Science 383, 2024) with the diagonal of the average gradient outer product.
const (
	weighings   = 2       // times that weights are computed, each from the function before
	leastWeight = 1. / 32 // of a feature; the largest is 1
	gradients   = 256     // most examples at which the gradient is computed
	ofEachClass = 32      // fewest examples of a class
)

// scaling is a scaling of the features with the options that suit it.
type scaling struct {
	transform *prep.Transform
	examples  []*stream.Example // scaled
	choice    choice
	loss      float64     // of choice, on the newest examples
	lanes     [][]float64 // the examples' labels for each of several classes; otherwise one lane
}

// scaled returns copies of the examples with their features and labels scaled.
func scaled(xs []*stream.Example, by *prep.Transform, t target) []*stream.Example {
	own := make([]*stream.Example, len(xs))
	for i, x := range xs {
		c := *x
		c.X, c.Y = by.Apply(x.X), x.Y-t.center
		own[i] = &c
	}
	return own
}

// newScaling scales xs and chooses options. lanes may be nil, for the examples' own labels.
func newScaling(xs []*stream.Example, lanes [][]float64, by *prep.Transform, t target, seed uint64) scaling {
	s := scaling{transform: by, examples: scaled(xs, by, t), lanes: lanes}
	if lanes == nil {
		s.lanes = [][]float64{labelsOf(s.examples)}
	}
	s.choice, s.loss = choose(s.examples, s.lanes, t, seed, false)
	return s
}

// orLaplacian returns s or, if that has a smaller loss, s with a Laplacian kernel.
func (s scaling) orLaplacian(t target, seed uint64) scaling {
	if c, loss := choose(s.examples, s.lanes, t, seed, true); loss < s.loss {
		s.choice, s.loss = c, loss
	}
	return s
}

// weighted returns s or, if that has a smaller loss, s with weighted features.
func (s scaling) weighted(xs []*stream.Example, t target, seed uint64) scaling {
	best, last := s, s
	var weights []float64
	for range weighings {
		next := last.slopes(t)
		if next == nil {
			break
		}
		for j, w := range weights {
			next[j] *= w
		}
		weights = normalised(next)
		by := s.transform.Weighted(weights)
		if by == nil {
			break
		}
		if last = newScaling(xs, s.lanes, by, t, seed); last.loss < best.loss {
			best = last
		}
	}
	return best
}

// slopes returns the root mean square of the function's derivative by each feature, of several
// classes that of all their functions. A function has learned from the older examples, as those on
// which options are tried. If a class is rare, its few examples say too little of the features; nil:
// all classes are.
func (s scaling) slopes(t target) []float64 {
	xs, test := split(s.examples, t)
	n, to := len(xs), len(s.examples)-len(test)
	w := newWindow(max(1, n), s.choice.c, kernelOf(s.choice.gamma), t)
	w.hold(xs)
	dim := 0
	for _, x := range s.examples {
		dim = max(dim, x.X.Dim())
	}
	var out []float64
	gradient := make([]float64, dim)
	for _, y := range s.lanes {
		if !t.number && rare(y[to-n:]) {
			continue
		}
		if out == nil {
			out = make([]float64, dim)
		}
		w.restart(y[to-n : to])
		w.ascend(pairsAll, n)
		for p := 0; p < len(xs); p += 1 + len(xs)/gradients {
			clear(gradient)
			sum, row := 0.0, w.row(p)
			for i, a := range w.box.A {
				if s.choice.gamma > 0 {
					a = float64(a * (float64(row[i]) - float64(w.basis.Func.Bias))) // ∂k/∂x is 2γ(x_i − x)k
				}
				axpy(a, xs[i].X, gradient)
				sum += a
			}
			if s.choice.gamma > 0 {
				axpy(-sum, xs[p].X, gradient)
			}
			for j, g := range gradient {
				out[j] += float64(g * g)
			}
		}
	}
	for j, v := range out {
		out[j] = math.Sqrt(v)
	}
	return out
}

// rare reports whether a class has too few of the labels.
func rare(y []float64) bool {
	positive := 0
	for _, v := range y {
		if v > 0 {
			positive++
		}
	}
	return min(positive, len(y)-positive) < ofEachClass
}

func labelsOf(xs []*stream.Example) []float64 {
	y := make([]float64, len(xs))
	for i, x := range xs {
		y[i] = x.Y
	}
	return y
}

// normalised divides weights by the largest, and raises those that are too small.
func normalised(weights []float64) []float64 {
	var most float64
	for _, w := range weights {
		most = max(most, w)
	}
	for j, w := range weights {
		if weights[j] = 1; most > 0 {
			weights[j] = max(w/most, leastWeight)
		}
	}
	return weights
}

// axpy adds a·x to y.
func axpy(a float64, x stream.Vec, y []float64) {
	if x.Idx == nil {
		vec.AxpyMixed(a, x.Val, y[:len(x.Val)])
		return
	}
	for k := 0; k < len(x.Idx); {
		j, n := int(x.Idx[k]), 8
		for k+n <= len(x.Idx) && int(x.Idx[k+n-1])-j < n {
			n *= 2
		}
		if n /= 2; n < 8 {
			y[j] += float64(a * float64(x.Val[k]))
			k++
			continue
		}
		vec.AxpyMixed(a, x.Val[k:k+n], y[j:j+n]) // as all are neighbours
		k += n
	}
}
