package synth

import "github.com/streamsvm/streamsvm/internal/rng"

// friedman: x is uniform in [0,1)^dim, and five features determine a number. After
// every block of examples the five features are replaced by the next five,
// cyclically.
func friedman() kind {
	return kind{
		Info: Info{
			Name:    "friedman",
			Summary: "a number made of five features in a way that is not linear; which five they are may change abruptly",
			Reference: "Friedman, \"Multivariate adaptive regression splines\", Annals of Statistics 19, 1991, with the variance 1 of the noise; " +
				"the change: Ikonomovska, Gama, Džeroski, \"Learning model trees from evolving data streams\", DMKD 23, 2011, global recurrent drift",
			Options: []Option{
				{Name: "noise", Default: 1, Max: 1e6, Doc: "standard deviation of what is added to the number"},
				{Name: "unlabelled", Max: 1, Doc: "probability that a number is withheld"},
				{Name: "dim", Default: 10, Min: 5, Max: 1 << 20, Integer: true, Doc: "features"},
				{Name: "block", Max: 1 << 53, Integer: true, Doc: "examples until other features count; 0: never"},
			},
			Regress: true,
		},
		make: func(s settings, _ *rng.Source) concept {
			block := uint64(s["block"])
			return concept{s.int("dim"), func(i uint64, d *draw, x []float32) float64 {
				for k := range x {
					x[k] = float32(d.uniform())
				}
				shift := uint64(0)
				if block > 0 {
					shift = 5 * (i / block % uint64(len(x))) // offset of the features, without overflow
				}
				at := func(k uint64) float64 { return float64(x[(k+shift)%uint64(len(x))]) }
				sin, _ := sinCos(at(0) * at(1) / 2)
				e := at(2) - 0.5
				return float64(10*sin) + float64(20*float64(e*e)) + float64(10*at(3)) + float64(5*at(4))
			}}
		},
	}
}
