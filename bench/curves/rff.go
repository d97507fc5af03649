package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/baseline/online"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// fourier returns k pairs of frequencies of random Fourier features for the
// Gaussian kernel exp(−γ‖x−z‖²) (Rahimi and Recht, NIPS 2007).
func fourier(k, dim int, gamma float64, seed uint64) *vec.Panels {
	w := vec.NewPanels(dim)
	row := make([]float32, dim)
	for j := range k {
		vec.Normals(row, seed, uint64(j*dim))
		for i := range row {
			// The kernel's spectrum is normal with variance 2γ; in turns.
			row[i] *= float32(math.Sqrt(2*gamma) / (2 * math.Pi))
		}
		w.Append(row)
	}
	return w
}

// mapped returns the examples in features cos(2π⟨w,x⟩)/√k, sin(2π⟨w,x⟩)/√k.
func (s set) mapped(w *vec.Panels) set {
	norm := float32(1 / math.Sqrt(float64(w.Len())))
	out := make(set, len(s))
	row, k := make([]float32, w.Dim()), w.Len()
	cosine, sine := make([]float32, k), make([]float32, k) // phases
	for j := range sine {
		sine[j] = -0.25
	}
	for i, x := range s {
		x.X.Dense(row)
		z := make([]float32, 2*k)
		vec.Cos(z[:k], k, row, 1, w, cosine, 0, k)
		vec.Cos(z[k:], k, row, 1, w, sine, 0, k)
		for j := range z {
			z[j] *= norm
		}
		y := *x
		y.X = stream.Vec{Val: z}
		out[i] = &y
	}
	return out
}

// measureRFF learns a linear model on random features, from as many passes as
// epochs say (10 at most), for each number of pairs. A pair costs an inner
// product for each example, as a kernel value does; what the linear model costs
// is in the seconds only.
func (c *config) measureRFF(ctx context.Context, train, test set, seed uint64) (points []point, err error) {
	dim := 0
	for _, x := range append(train[:len(train):len(train)], test...) {
		dim = max(dim, x.X.Dim())
	}
	for _, k := range c.rff {
		start := cpu()
		w := fourier(k, dim, c.gamma, seed)
		z := train.mapped(w)
		l, err := online.Spec.New(algos.Env{Seed: seed}, map[string]string{"average": "linear"})
		if err != nil {
			return nil, err
		}
		r := rng.New(seed, "curves.order")
		for range int(math.Ceil(min(c.epochs, 10))) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if _, err := algos.Feed(ctx, l, z.shuffled(r)...); err != nil {
				return nil, err
			}
		}
		report, err := l.Finish(ctx)
		if err != nil {
			return nil, err
		}
		took := cpu() - start
		points = append(points, point{
			iterations: report.Step, evals: float64(k) * float64(len(train)), seconds: took,
			err: test.mapped(w).errorRate(l.Model()), objective: math.NaN(),
		})
	}
	return points, nil
}

// setRFF takes the values of -rff; setGamma comes first.
func (c *config) setRFF(text string) error {
	if text == "" {
		return nil
	}
	for _, word := range strings.Split(text, ",") {
		k, err := strconv.Atoi(word)
		if err != nil || k < 1 || k > 1<<14 || k%vec.Width != 0 {
			return fmt.Errorf("-rff: %q is not a multiple of %d up to 16384", word, vec.Width)
		}
		c.rff = append(c.rff, k)
	}
	if c.gamma == 0 {
		return errors.New("-rff needs -set gamma=")
	}
	return nil
}

// setGamma takes the kernel width from -set.
func (c *config) setGamma(sets []string) error {
	for _, pair := range sets {
		if text, ok := strings.CutPrefix(pair, "gamma="); ok {
			g, err := strconv.ParseFloat(text, 64)
			if err != nil || !(g > 0) {
				return fmt.Errorf("-set %s: not a kernel width", pair)
			}
			c.gamma = g
		}
	}
	return nil
}
