package synth

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// moved returns how far something that moves by rate per example has moved at
// example i.
func moved(rate float64, i uint64) float64 { return float64(rate * float64(i)) }

// floor returns the largest integer not above v.
func floor(v float64) int { return int(math.Floor(v)) }

// bounce returns where a point that starts at v in [0,1] is after moving by way,
// reflected at both ends.
func bounce(v, way float64) float64 {
	v += way
	v -= 2 * math.Floor(v/2) // [0, 2)
	if v > 1 {
		return 2 - v
	}
	return v
}

// rbfConcept: a centroid is drawn by weight. The example has its class and lies in
// a random direction from its centre, at a normally distributed distance with the
// centroid's standard deviation. Drifting centroids move at a constant speed and
// bounce off the sides of the unit cube.
//
// Two things differ from MOA. The classes of the centroids alternate, so that both
// classes exist. A centroid that reaches a side is reflected, where MOA puts it
// onto the side; so its position is a function of time.
type rbfConcept struct {
	centroids []centroid
	total     float64 // sum of the weights
	speed     float64
}

type centroid struct {
	centre, way []float64 // way: direction of the drift, nil if there is none
	y           float64
	spread      float64
	weight      float64
}

func rbf() kind {
	return kind{
		Info: Info{
			Name:    "rbf",
			Summary: "a mixture of spherical clusters of both classes that drift through the unit cube",
			Reference: "RandomRBFGeneratorDrift of Bifet, Holmes, Kirkby, Pfahringer, \"MOA: massive online analysis\", JMLR 11, 2010; " +
				"Bifet, Holmes, Pfahringer, Kirkby, Gavaldà, \"New ensemble methods for evolving data streams\", KDD 2009",
			Options: append(shared(0),
				Option{Name: "dim", Default: 10, Min: 1, Max: 1 << 20, Integer: true, Doc: "features"},
				Option{Name: "centroids", Default: 50, Min: 2, Max: 1 << 20, Integer: true, Doc: "clusters"},
				Option{Name: "drifting", Default: 50, Max: 1 << 20, Integer: true, Doc: "clusters that drift, at most all"},
				Option{Name: "speed", Default: 0.0001, Max: 1, Doc: "distance that a cluster drifts per example"},
				Option{Name: "spread", Default: 1, Min: 0, Max: 100, Doc: "largest standard deviation of a cluster"}),
		},
		make: func(s settings, r *rng.Source) concept { return concept{s.int("dim"), newRBF(s, r).example} },
	}
}

func newRBF(s settings, r *rng.Source) *rbfConcept {
	c := &rbfConcept{speed: s["speed"]}
	var d draw
	d.seed(r.Uint64(), 0)
	for k := range s.int("centroids") {
		m := centroid{centre: make([]float64, s.int("dim")), y: sign(k%2 == 0)}
		for j := range m.centre {
			m.centre[j] = d.uniform()
		}
		m.spread = float64(s["spread"] * d.uniform())
		m.weight = d.uniform()
		c.total += m.weight
		if k < s.int("drifting") && c.speed > 0 {
			m.way = make([]float64, s.int("dim"))
			d.direction(m.way)
		}
		c.centroids = append(c.centroids, m)
	}
	return c
}

// direction sets way to a random unit vector, drawn as MOA does: each component is
// uniform in [−1, 1) before scaling.
func (d *draw) direction(way []float64) {
	for {
		sum := 0.0
		for j := range way {
			way[j] = float64(2*d.uniform()) - 1
			sum += float64(way[j] * way[j])
		}
		if sum > 0 {
			sum = math.Sqrt(sum)
			for j := range way {
				way[j] /= sum
			}
			return
		}
	}
}

func (c *rbfConcept) example(i uint64, d *draw, x []float32) float64 {
	m := &c.centroids[len(c.centroids)-1]
	left := float64(d.uniform() * c.total)
	for k := range c.centroids {
		if left -= c.centroids[k].weight; left < 0 {
			m = &c.centroids[k]
			break
		}
	}
	// The direction goes through x, which is float32. Its length need not be exact,
	// but it must be the same everywhere.
	sum := 0.0
	for sum == 0 {
		for j := range x {
			x[j] = float32(float64(2*d.uniform()) - 1)
			sum += float64(float64(x[j]) * float64(x[j]))
		}
	}
	length := float64(m.spread*d.normal()) / math.Sqrt(sum)
	for j := range x {
		v := m.centre[j]
		if m.way != nil {
			v = bounce(v, float64(moved(c.speed, i)*m.way[j]))
		}
		x[j] = float32(v + float64(length*float64(x[j])))
	}
	return m.y
}

// waveform: class k of three is a random convex combination of two of three
// triangular waves, sampled at 21 places with standard normal noise. The label is
// +1 for one class and −1 for the two others: the problem in the book has three
// classes, this one two.
func waveform() kind {
	return kind{
		Info: Info{
			Name:    "waveform",
			Summary: "one of three classes of noisy waves against the two others",
			Reference: "Breiman, Friedman, Olshen, Stone, \"Classification and regression trees\", 1984, pages 43-49; " +
				"binary here: class \"positive\" against the rest, so that a third of the labels is +1",
			Options: append(shared(0),
				Option{Name: "positive", Default: 1, Min: 1, Max: 3, Integer: true, Doc: "the class with label +1"},
				Option{Name: "irrelevant", Max: 1 << 20, Integer: true, Doc: "further features of pure noise; 19 is usual"}),
		},
		make: func(s settings, _ *rng.Source) concept {
			positive := s.int("positive") - 1
			return concept{waves + s.int("irrelevant"), func(_ uint64, d *draw, x []float32) float64 {
				class := d.intn(3)
				u := d.uniform()
				pair := wavePairs[class]
				for k := range x {
					v := d.normal()
					if k < waves {
						v += float64(u*wave(pair[0], k+1)) + float64((1-u)*wave(pair[1], k+1))
					}
					x[k] = float32(v)
				}
				return sign(class == positive)
			}}
		},
	}
}

// waves is the number of places where the waves are sampled.
const waves = 21

// wave returns wave k of 0, 1, 2 at place m from 1 to 21: triangles of height 6
// whose peaks are at places 7, 15 and 11.
func wave(k, m int) float64 {
	m -= [...]int{7, 15, 11}[k]
	return float64(max(6-max(m, -m), 0))
}

// wavePairs are the pairs of waves that make up the classes.
var wavePairs = [3][2]int{{0, 1}, {0, 2}, {1, 2}}

// rare: standard normal features, around 0 for one class and around a point on the
// diagonal for the other. The best rule is linear, and its AUC is Φ(distance/√2).
func rare() kind {
	return kind{
		Info: Info{
			Name:      "rare",
			Summary:   "two normal clouds that overlap, one of them with few examples",
			Reference: "the textbook problem of discriminant analysis: Hastie, Tibshirani, Friedman, \"The elements of statistical learning\", 2009, section 4.3",
			Options: append(shared(0),
				Option{Name: "dim", Default: 4, Min: 1, Max: 1 << 20, Integer: true, Doc: "features"},
				Option{Name: "share", Default: 0.01, Max: 1, Doc: "probability of label +1"},
				Option{Name: "distance", Default: 1.31, Max: 100, Doc: "between the centres, in standard deviations"}),
		},
		make: func(s settings, _ *rng.Source) concept {
			shift := s["distance"] / math.Sqrt(s["dim"])
			return concept{s.int("dim"), func(_ uint64, d *draw, x []float32) float64 {
				positive := d.uniform() < s["share"]
				for k := range x {
					v := d.normal()
					if positive {
						v += shift
					}
					x[k] = float32(v)
				}
				return sign(positive)
			}}
		},
	}
}
