package adaptive

import (
	"testing"

	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/stream"
)

// BenchmarkParts gives the time that each part of the panel takes for an example,
// with ten features: what a machine takes to predict it, to learn from it, and to
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
	m := l.machines[growing]
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
	vecs := func(xs []*stream.Example) (vs []stream.Vec) {
		for _, x := range xs {
			vs = append(vs, x.X)
		}
		return vs
	}
	dst := make([]float64, tick)
	for i, w := range standard.windows {
		name := names[k64+i]
		k := m.with(w, l.cutting.Newest(w))
		each(name+"/predict", func(xs []*stream.Example) { k.score(dst, vecs(xs)) })
		each(name+"/learn", func(xs []*stream.Example) {
			for _, x := range xs {
				if err := k.add(x); err != nil {
					b.Fatal(err)
				}
			}
			if err := k.step(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
		part(name+"/choose", func(i int) {
			if i%(chosenFor*w) == 0 {
				if err := k.choose(b.Context(), l.env, l.cutting.Newest(w), false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	each("m/predict", func(xs []*stream.Example) { m.score(dst, vecs(xs)) })
	linear := func(from, to int) func(i int) {
		return func(i int) {
			x := xs[i%len(xs)]
			z := l.inputs.apply(x.X)
			if from >= r1 {
				z = l.waves.of(z)
			}
			for e := from; e < to; e++ {
				o := l.linear[e-l1]
				o.learn(z, o.score(z), x.Y, 1)
			}
		}
	}
	part("l1 l01 a3 a1", linear(l1, r1))
	part("r1 r01", linear(r1, numExperts))
	for _, e := range l.experts[numExperts-1:] {
		in := make([]input, tick)
		each(e.name, func(xs []*stream.Example) {
			for i, x := range xs {
				in[i] = input{x: x, i: i}
				l.prepare(&in[i])
			}
			e.begin(in)
			for i := range in {
				if err := e.learn(&in[i], e.predict(&in[i])); err != nil {
					b.Fatal(err)
				}
			}
			if err := e.step(b.Context()); err != nil {
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
		l.mixer.learn(lane, lane, i%2, 1)
	})
	each("latest version", func(xs []*stream.Example) { l.versionScores(vecs(xs)) })
}
