package adaptive

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// BenchmarkParts gives the time that each part of the panel takes for an example,
// with ten features: what a kernel learner takes to predict it, to learn from it, and to
// choose its options, which is for all examples until it is done again.
func BenchmarkParts(b *testing.B) {
	g, err := synth.New("hyperplane", 7, map[string]string{"magnitude": "0.01", "drifting": "10"})
	if err != nil {
		b.Fatal(err)
	}
	xs := make([]*stream.Example, 8192)
	for i := range xs {
		xs[i] = new(stream.Example)
		g.Next(xs[i])
	}
	l := newPanel(b, nil)
	followed(b, l, xs, func() int { return 256 })
	m := l.kernels[growing]
	part := func(name string, do func(i int)) {
		b.Run(name, func(b *testing.B) {
			for i := range b.N {
				do(i)
			}
		})
	}
	// each calls do every tick with the examples since the last one.
	each := func(name string, do func(xs []*stream.Example)) {
		part(name, func(i int) {
			if i %= len(xs); i%tick == tick-1 {
				do(xs[i+1-tick : i+1])
			}
		})
	}
	dst := make([]float64, tick)
	for i, w := range standard.windows {
		name := names[k64+i]
		k := m.with(w, l.detector.Newest(w), nil)
		each(name+"/predict", func(xs []*stream.Example) { k.model().Decisions(dst, samplers.Vecs(scaled(xs, k.transform, k.target))) })
		each(name+"/learn", func(xs []*stream.Example) {
			for _, x := range xs {
				if err := k.add(x, k.transform.Apply(x.X)); err != nil {
					b.Fatal(err)
				}
			}
			if err := k.step(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
		part(name+"/choose", func(i int) {
			if i%(chosenFor*w) == 0 {
				if err := k.choose(b.Context(), l.env, l.detector.Newest(w), false, nil, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	each("m/predict", func(xs []*stream.Example) { m.model().Decisions(dst, samplers.Vecs(scaled(xs, m.transform, m.target))) })
	linear := func(from, to int) func(i int) {
		return func(i int) {
			x := xs[i%len(xs)]
			z := l.inputs.apply(x.X)
			if from >= r1 {
				z = l.fourier.of(z)
			}
			for e := from; e < to; e++ {
				o := l.linear[e-l1]
				o.learn(z, o.score(z), x.Y, 1)
			}
		}
	}
	part("l1 ada", linear(l1, r1))
	part("r1", linear(r1, numExperts))
	for _, e := range l.experts[numExperts:] {
		in := make([]input, tick)
		each(e.name, func(xs []*stream.Example) {
			for i, x := range xs {
				in[i] = input{x: x, i: i}
				l.prepare(&in[i])
			}
			e.begin(in, true)
			for i := range in {
				if err := e.learn(&in[i], e.predict(&in[i])); err != nil {
					b.Fatal(err)
				}
			}
			if err := e.step(b.Context(), l.detector.Seen()); err != nil {
				b.Fatal(err)
			}
		})
	}
	scores := make([]score, len(l.experts))
	part("aggregation", func(i int) {
		for e := range scores {
			scores[e] = score{float64((i+e)%7 - 3), true}
		}
		lane := [][]score{scores}
		l.mixer.predict(lane)
		l.mixer.learn(lane, lane, nil, i%2, 1, 1)
	})
	each("latest version", func(xs []*stream.Example) { l.versionScores(samplers.Vecs(xs), nil) })
}

// BenchmarkStream gives the time of an example with 18 features, of two classes and
// of ten on the same rows: the whole learner, with its beginning.
func BenchmarkStream(b *testing.B) {
	for _, classes := range []int{2, 10} {
		b.Run(fmt.Sprintf("classes=%d", classes), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			xs := make([]*stream.Example, 30000)
			for i := range xs {
				x := &stream.Example{Seq: uint64(i), Labelled: true, X: stream.Vec{Val: make([]float32, 18)}}
				for j := range x.X.Val {
					x.X.Val[j] = float32(r.NormFloat64())
				}
				turn := math.Atan2(float64(x.X.Val[0])+0.3*r.NormFloat64(), float64(x.X.Val[1])) / math.Pi
				if x.Y = math.Floor((turn + 1) / 2 * float64(classes)); classes == 2 {
					x.Y = 2*x.Y - 1
				}
				xs[i] = x
			}
			for b.Loop() {
				l, err := Spec.New(algos.Env{Seed: 3, Log: slog.New(slog.DiscardHandler), Classes: classes}, nil)
				if err != nil {
					b.Fatal(err)
				}
				out := make([]float64, 64*classes)
				for block := range slices.Chunk(xs, 64) {
					if _, _, err := l.(algos.Sequential).Follow(b.Context(), out, block); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N*len(xs)), "µs/example")
		})
	}
}
