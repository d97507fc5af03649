package algostest

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// Moons draws n points of two interleaved half circles, one for each class, with
// noise of standard deviation .1. A quarter of the examples is unlabelled. In
// regression the label is a linear function of the point, with noise.
func Moons(n int, task algos.Task, seed uint64) []*stream.Example {
	r := rand.New(rand.NewPCG(seed, 0x6d6f6f6e73))
	xs := make([]*stream.Example, n)
	for i := range xs {
		a := r.Float64() * math.Pi
		y := float64(2*r.IntN(2) - 1)
		u, v := math.Cos(a), math.Sin(a)
		if y < 0 {
			u, v = 1-u, .5-v
		}
		u += .1 * r.NormFloat64()
		v += .1 * r.NormFloat64()
		if task == algos.Regress {
			y = u - 2*v + .1*r.NormFloat64()
		}
		x := &stream.Example{Seq: uint64(i + 1), Labelled: r.IntN(4) > 0}
		if x.Labelled {
			x.Y = y
		}
		x.X.Val = []float32{float32(u), float32(v)}
		xs[i] = x
	}
	return xs
}

// moons draws the examples of the suite: Moons, or with more than two classes one
// blob for each, on a circle.
func (s *suite) moons(n int, seed uint64) []*stream.Example {
	if s.classes <= 2 {
		return Moons(n, s.task, seed)
	}
	return blobs(n, s.classes, seed)
}

func (s *suite) odd(n int, seed uint64) []*stream.Example { return odd(s.moons(n, seed), seed) }

func blobs(n, classes int, seed uint64) []*stream.Example {
	r := rand.New(rand.NewPCG(seed, 0x626c6f6273))
	xs := make([]*stream.Example, n)
	for i := range xs {
		k := r.IntN(classes)
		a := 2 * math.Pi * float64(k) / float64(classes)
		x := &stream.Example{Seq: uint64(i + 1), Labelled: r.IntN(4) > 0}
		if x.Labelled {
			x.Y = float64(k)
		}
		x.X.Val = []float32{float32(math.Cos(a) + .2*r.NormFloat64()), float32(math.Sin(a) + .2*r.NormFloat64())}
		xs[i] = x
	}
	return xs
}

// odd makes a stream of xs with examples of many forms: dense, sparse, empty, all
// zero, of rising dimension, repeated, unlabelled.
func odd(xs []*stream.Example, seed uint64) []*stream.Example {
	r := rand.New(rand.NewPCG(seed, 0x6f6464))
	for i, x := range xs {
		switch r.IntN(8) {
		case 0:
			clear(x.X.Val)
		case 1:
			x.X = stream.Vec{}
		case 2:
			x.X = stream.Vec{Idx: []int32{}, Val: []float32{}}
		case 3:
			x.X = stream.Vec{Idx: []int32{1}, Val: x.X.Val[:1]}
		case 4:
			// A new feature, sometimes with a much larger index.
			j := int32(2 + i/8 + i/100*200)
			x.X = stream.Vec{Idx: []int32{0, j}, Val: x.X.Val}
		case 5:
			if i > 0 {
				x.X = xs[i-1].X.Clone()
			}
		case 6:
			x.X.Val[0] = float32(math.Copysign(0, -1))
		}
	}
	return xs
}

func clone(xs []*stream.Example) []*stream.Example {
	out := make([]*stream.Example, len(xs))
	for i, x := range xs {
		c := *x
		c.X = x.X.Clone()
		out[i] = &c
	}
	return out
}

func equal(a, b *stream.Example) bool {
	return a.Seq == b.Seq && a.ID == b.ID && a.Labelled == b.Labelled &&
		math.Float64bits(a.Y) == math.Float64bits(b.Y) &&
		(a.X.Idx == nil) == (b.X.Idx == nil) && slices.Equal(a.X.Idx, b.X.Idx) &&
		slices.EqualFunc(a.X.Val, b.X.Val, func(v, w float32) bool { return math.Float32bits(v) == math.Float32bits(w) })
}

// probes are points at which models are compared.
func probes(seed uint64) []stream.Vec {
	var xs []stream.Vec
	for _, x := range odd(Moons(100, algos.Classify, seed), seed) {
		xs = append(xs, x.X)
	}
	return xs
}

// farProbes are points with features that no example has.
func farProbes() []stream.Vec {
	wide := stream.Vec{Val: make([]float32, 1500)}
	wide.Val[1], wide.Val[1499] = 1, -2
	return []stream.Vec{wide, {Idx: []int32{3, 70000}, Val: []float32{1, 1}}}
}
