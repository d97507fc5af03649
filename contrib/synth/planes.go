package synth

import (
	"github.com/streamsvm/streamsvm/internal/rng"
)

// sign returns +1 if yes, else −1.
func sign(yes bool) float64 {
	if yes {
		return 1
	}
	return -1
}

// sea: x is uniform in [0,10)³, and the label is +1 if x₁+x₂ ≤ θ; x₃ is irrelevant.
// θ changes abruptly after every block of examples.
func sea() kind {
	thetas := [...]float64{8, 9, 7, 9.5}
	return kind{
		Info: Info{
			Name:    "sea",
			Summary: "three features, of which two matter, and a threshold that changes abruptly",
			Reference: "Street, Kim, \"A streaming ensemble algorithm (SEA) for large-scale classification\", KDD 2001: " +
				"+1 where x1+x2 <= theta, theta = 8, 9, 7, 9.5 in turn, 10 % noise",
			Options: append(shared(0.1),
				Option{Name: "block", Default: 15000, Max: 1 << 53, Integer: true, Doc: "examples until theta changes; 0: never"},
				Option{Name: "concept", Default: 1, Min: 1, Max: 4, Integer: true, Doc: "the first of the four thresholds"}),
		},
		make: func(s settings, _ *rng.Source) concept {
			first, block := uint64(s["concept"])-1, uint64(s["block"])
			return concept{3, func(i uint64, d *draw, x []float32) float64 {
				for k := range x {
					x[k] = float32(10 * d.uniform())
				}
				k := first
				if block > 0 {
					k += i / block
				}
				return sign(float64(x[0])+float64(x[1]) <= thetas[k%uint64(len(thetas))])
			}}
		},
	}
}

// hyperplaneConcept: x is uniform in [0,1)^dim, and the label is +1 if Σ w_j x_j ≥
// ½ Σ w_j. The first weights drift: each step adds ±magnitude to each of them, and
// the sign of each flips with probability reverse.
type hyperplaneConcept struct {
	w, step            []float64
	at                 uint64 // the example that w belongs to
	magnitude, reverse float64
	r                  *rng.Source
}

func hyperplane() kind {
	return kind{
		Info: Info{
			Name:    "hyperplane",
			Summary: "a hyperplane through the middle of the unit cube that rotates slowly",
			Reference: "Hulten, Spencer, Domingos, \"Mining time-changing data streams\", KDD 2001, section 5; " +
				"options as in MOA's HyperplaneGenerator, whose magnitude is 0 by default",
			Options: append(shared(0.05),
				Option{Name: "dim", Default: 10, Min: 1, Max: 1 << 20, Integer: true, Doc: "features"},
				Option{Name: "drifting", Default: 2, Max: 1 << 20, Integer: true, Doc: "features whose weight drifts, at most dim"},
				Option{Name: "magnitude", Default: 0.001, Max: 1, Doc: "change of a drifting weight per example"},
				Option{Name: "reverse", Default: 0.1, Max: 1, Doc: "probability per example that a weight's drift turns round"}),
		},
		make: func(s settings, r *rng.Source) concept { return concept{s.int("dim"), newHyperplane(s, r).example} },
	}
}

func newHyperplane(s settings, r *rng.Source) *hyperplaneConcept {
	c := &hyperplaneConcept{
		w: make([]float64, s.int("dim")), step: make([]float64, min(s.int("drifting"), s.int("dim"))),
		magnitude: s["magnitude"], reverse: s["reverse"], r: r,
	}
	for k := range c.w {
		c.w[k] = r.Float64()
	}
	for k := range c.step {
		c.step[k] = c.magnitude
	}
	return c
}

// advance lets the weights drift up to example i.
func (c *hyperplaneConcept) advance(i uint64) {
	if c.magnitude == 0 {
		c.at = i
	}
	for ; c.at < i; c.at++ {
		for k, s := range c.step {
			c.w[k] += s
			if c.r.Float64() < c.reverse {
				c.step[k] = -s
			}
		}
	}
}

func (c *hyperplaneConcept) example(i uint64, d *draw, x []float32) float64 {
	c.advance(i)
	f := 0.0
	for k := range x {
		x[k] = float32(d.uniform())
		f += float64(c.w[k] * (float64(x[k]) - 0.5))
	}
	return sign(f >= 0)
}

// checkerboard: x is uniform in the unit square, coloured like a checkerboard that
// may rotate about its centre.
func checkerboard() kind {
	return kind{
		Info: Info{
			Name:    "checkerboard",
			Summary: "a checkerboard on the unit square, which may rotate",
			Reference: "Ho, Kleinberg, \"Building projectable classifiers of arbitrary complexity\", ICPR 1996; rotating: " +
				"Elwell, Polikar, \"Incremental learning of concept drift in nonstationary environments\", IEEE Trans. Neural Networks 22, 2011",
			Options: append(shared(0),
				Option{Name: "squares", Default: 4, Min: 1, Max: 1000, Integer: true, Doc: "squares along a side"},
				Option{Name: "rotation", Min: -1, Max: 1, Doc: "turns of the board per example"}),
		},
		make: func(s settings, _ *rng.Source) concept {
			squares, rotation := s["squares"], s["rotation"]
			return concept{2, func(i uint64, d *draw, x []float32) float64 {
				x[0], x[1] = float32(d.uniform()), float32(d.uniform())
				a, b := float64(x[0]), float64(x[1])
				if rotation != 0 {
					sin, cos := sinCos(moved(rotation, i))
					a, b = a-0.5, b-0.5
					a, b = float64(cos*a)+float64(sin*b)+0.5, float64(cos*b)-float64(sin*a)+0.5
				}
				return sign((floor(a*squares)+floor(b*squares))&1 == 0)
			}}
		},
	}
}

// moons: two interleaving half circles of radius 1, the upper one about (0,0) with
// label +1, the lower one about (1,½) with label −1, with normal noise on both
// coordinates. All of it may rotate about (½,¼).
func moons() kind {
	return kind{
		Info: Info{
			Name:      "moons",
			Summary:   "two interleaving half circles, which may rotate",
			Reference: "make_moons of Pedregosa et al., \"Scikit-learn: machine learning in Python\", JMLR 12, 2011",
			Options: append(shared(0),
				Option{Name: "spread", Default: 0.1, Max: 10, Doc: "standard deviation of the noise on each coordinate"},
				Option{Name: "rotation", Min: -1, Max: 1, Doc: "turns of both per example"}),
		},
		make: func(s settings, _ *rng.Source) concept {
			spread, rotation := s["spread"], s["rotation"]
			return concept{2, func(i uint64, d *draw, x []float32) float64 {
				upper := d.intn(2) == 0
				b, a := sinCos(d.uniform() / 2)
				if !upper {
					a, b = 1-a, 0.5-b
				}
				a += float64(spread * d.normal())
				b += float64(spread * d.normal())
				if rotation != 0 {
					sin, cos := sinCos(moved(rotation, i))
					a, b = a-0.5, b-0.25
					a, b = float64(cos*a)-float64(sin*b)+0.5, float64(cos*b)+float64(sin*a)+0.25
				}
				x[0], x[1] = float32(a), float32(b)
				return sign(upper)
			}}
		},
	}
}
