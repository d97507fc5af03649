package adaptive

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
)

// drawn returns n examples of a normal number, one with few values, a constant, and a skewed one.
func drawn(r *rand.Rand, n int) []stream.Vec {
	zs := make([]stream.Vec, n)
	for i := range zs {
		zs[i].Val = []float32{float32(r.NormFloat64()), float32(r.IntN(3)), 2, float32(math.Exp(2 * r.NormFloat64()))}
	}
	return zs
}

// raw are inputs that splines take as they are.
var raw = &inputs{wide: true, most: make([]float64, 40)}

func splinesOf(zs []stream.Vec) *splines {
	xs := make([]*stream.Example, len(zs))
	for i, z := range zs {
		xs[i] = &stream.Example{X: z}
	}
	return fitSplines(raw, xs, make([]bool, len(zs[0].Val)))
}

// TestSplines compares linear functions of splines with functions that they can represent
// exactly.
func TestSplines(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := splinesOf(drawn(r, 500))
	if d := s.count(); d != 4 || !slices.Equal(s.paired, []int{0, 1, 2, 3}) {
		t.Fatalf("%d features, pairs of %v", d, s.paired)
	}
	knots := func(j int) (fine, coarse []float64) {
		a, b := s.of(j)
		return exportKnots(a), exportKnots(b)
	}
	limited := func(z stream.Vec, j int) float64 {
		k, _ := knots(j)
		return min(max(float64(z.Val[j]), k[0]), k[len(k)-1])
	}
	if k, c := knots(0); len(k) != 17 || len(c) != 5 {
		t.Errorf("knots %v, %v", k, c)
	}
	if k, c := knots(1); !slices.Equal(k, []float64{0, 1, 2}) || !slices.Equal(k, c) {
		t.Errorf("knots %v, %v of few values", k, c)
	}
	if k, c := knots(2); !slices.Equal(k, []float64{2}) || !slices.Equal(k, c) {
		t.Errorf("knots %v, %v of a constant", k, c)
	}
	table := func(of func(w []float64)) []float64 {
		w := make([]float64, s.size())
		of(w)
		return w
	}
	for _, c := range []struct {
		name string
		w    []float64
		want func(z stream.Vec) float64
	}{
		{"sum", table(func(w []float64) {
			for j := range 4 {
				k, _ := knots(j)
				copy(w[j*fineEach:], k)
			}
		}), func(z stream.Vec) float64 { return limited(z, 0) + limited(z, 1) + limited(z, 2) + limited(z, 3) }},
		{"product", table(func(w []float64) { // of features 3 and 0: the fourth pair
			_, a := knots(3)
			_, b := knots(0)
			for i, u := range a {
				for k, v := range b {
					w[len(s.fine)+(3*coarseEach+i)*coarseEach+k] = u * v
				}
			}
		}), func(z stream.Vec) float64 { return limited(z, 3) * limited(z, 0) }},
		{"count", table(func(w []float64) {
			for i := range w {
				w[i] = 1
			}
		}), func(stream.Vec) float64 { return 4 + 6 }},
	} {
		zs := append(drawn(r, 200), stream.Vec{Val: []float32{s.fine[3], 1, 2, s.fine[3*fineEach+8]}}, stream.Vec{Val: []float32{9, 2.5, 3, 1e30}}, stream.Vec{Val: []float32{0, .25, 2, 1}}, stream.Vec{Val: []float32{-9, -1, 1, 0}})
		room := new(stream.Vec)
		for i, v := range s.ofAll(room, raw, zs, zs) {
			if !slices.IsSorted(v.Idx) {
				t.Fatalf("%s: %v", c.name, v.Idx)
			}
			for _, u := range v.Val {
				if u != 0 && u < 1e-12 || u > 1 {
					t.Errorf("%s of %v: %v", c.name, zs[i].Val, v.Val)
				}
			}
			if got, want := linear.Dot(c.w, v), c.want(zs[i]); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("%s of %v: %g, want %g", c.name, zs[i].Val, got, want)
			}
		}
	}
	// Of standardised inputs there may be more, or fewer.
	s.columns = nil
	for n, want := range map[int]int{1: 2, 4: 2*4 + 4*6, 9: 2*4 + 4*6} {
		z := []stream.Vec{{Val: make([]float32, n)}}
		if v := s.ofAll(new(stream.Vec), new(inputs), z, z)[0]; len(v.Idx) != want {
			t.Errorf("of %d features: %v", n, v)
		}
	}
}

// TestNumbers: splines of wide examples take the numbers of a schema, dense or sparse, and map
// heavy tails.
func TestNumbers(t *testing.T) {
	in := &inputs{wide: true, most: make([]float64, 900), asinh: []prep.Asinh{{}, {}, {Size: 2}}}
	dense, sparse := make([]float32, 900), stream.Vec{Idx: []int32{2, 7, 700}, Val: []float32{4, 5, 1}}
	dense[2], dense[7], dense[700] = 4, 5, 1
	scaled := make([]bool, 2000)
	for j := range scaled {
		scaled[j] = j != 1 && j != 2 && j != 7 && j != 899 && j != 1500
	}
	for _, x := range []stream.Vec{{Val: dense}, sparse} {
		s := fitSplines(in, []*stream.Example{{X: x}}, scaled)
		if !slices.Equal(s.columns, []int32{1, 2, 7, 899}) || s.count() != 4 {
			t.Fatalf("numbers %v, %d", s.columns, s.count())
		}
		if v := s.numbers(in, x, stream.Vec{}); !slices.Equal(v.Val, []float32{0, float32(math.Asinh(2)), 5, 0}) {
			t.Errorf("numbers %v of %v", v, x)
		}
		p := s.preprocessing(in)
		if !slices.Equal(p.Index, s.columns) || !slices.Equal(p.Factor, []float64{1, 1, 1, 1}) || !slices.Equal(p.AsinhSize, []float64{0, 2, 0, 0}) || p.Fill || !p.OnlyListed || p.Clip[1] < 1e30 {
			t.Errorf("preprocessing %+v", p)
		}
		if s := fitSplines(in, []*stream.Example{{X: x}}, nil); s != nil {
			t.Errorf("without a schema: %v", s)
		}
	}
}

// Products are of the first features with more than two values, then of others.
func TestPaired(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	zs := make([]stream.Vec, 100)
	for i := range zs {
		for j := range 40 {
			v := float32(r.IntN(2))
			if j%3 == 0 {
				v = r.Float32()
			}
			zs[i].Val = append(zs[i].Val, v)
		}
	}
	want := []int{0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39}
	if s := splinesOf(zs); !slices.Equal(s.paired, want) {
		t.Errorf("pairs of %v, want %v", s.paired, want)
	}
}

func TestSplineFields(t *testing.T) {
	nan := float32(math.NaN())
	of := func(change func(s *splines)) *splines {
		s := splinesOf(drawn(rand.New(rand.NewPCG(7, 8)), 50))
		change(s)
		return s
	}
	for name, c := range map[string]struct {
		s  *splines
		ok bool
	}{
		"good":                    {of(func(s *splines) {}), true},
		"far columns":             {of(func(s *splines) { s.columns[3] = 39 }), true},
		"not in order":            {of(func(s *splines) { s.fine[0] = 99 }), false},
		"coarse not in order":     {of(func(s *splines) { s.coarse[4] = -9 }), false},
		"not numbers":             {of(func(s *splines) { s.fine[67] = nan }), false},
		"infinite":                {of(func(s *splines) { s.coarse[19] = float32(math.Inf(1)) }), false},
		"too few":                 {of(func(s *splines) { s.fine = s.fine[:30] }), false},
		"too few coarse":          {of(func(s *splines) { s.coarse = s.coarse[:5] }), false},
		"columns not in order":    {of(func(s *splines) { s.columns[1] = 2 }), false},
		"columns beyond the last": {of(func(s *splines) { s.columns[3] = 40 }), false},
		"no columns":              {of(func(s *splines) { s.columns = nil }), false},
	} {
		data, err := state.Append(nil, func(f *state.Fields) { splineFields(f, &c.s, raw) })
		if err != nil {
			t.Fatal(err)
		}
		var got *splines
		if err := state.Decode(data, func(f *state.Fields) { splineFields(f, &got, raw) }); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		} else if c.ok && (!slices.Equal(got.fine, c.s.fine) || !slices.Equal(got.coarse, c.s.coarse) || !slices.Equal(got.columns, c.s.columns) || len(got.paired) != 4) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestGAM: the expert on splines learns the product of two features among ten, and what it
// learned from before its knots were known.
func TestGAM(t *testing.T) {
	for _, task := range []algos.Task{algos.Classify, algos.Regress} {
		r := rand.New(rand.NewPCG(9, 10))
		xs := make([]*stream.Example, 3000)
		for i := range xs {
			x := &stream.Example{Labelled: true, X: stream.Vec{Val: make([]float32, 10)}}
			for j := range x.X.Val {
				x.X.Val[j] = float32(r.NormFloat64())
			}
			v := x.X.Val
			if x.Y = 100 * float64(v[1]*v[7]); task == algos.Classify {
				x.Y = math.Copysign(1, x.Y)
			}
			xs[i] = x
		}
		l, err := Spec.New(algos.Env{Seed: 3, Log: slog.New(slog.DiscardHandler), Task: task}, nil)
		if err != nil {
			t.Fatal(err)
		}
		a := l.(*Learner)
		gam := func() expert {
			for _, e := range a.experts {
				if e.name == "gam" {
					return e.expert
				}
			}
			return nil
		}
		out := make([]float64, 512)
		for _, block := range [][]*stream.Example{xs[:500], xs[500:512]} {
			if _, _, err := a.Follow(t.Context(), out[:len(block)], block); err != nil {
				t.Fatal(err)
			}
		}
		// With the knots of 512 examples it has learned from all of them.
		var got, want *linearFunction
		switch e := gam().(type) {
		case *gradient:
			again := newGradient(a.env, &a.inputs, e.form, e.rate)
			err = a.learnAgain(again, xs[:512])
			got, want = e.function().(*linearFunction), again.function().(*linearFunction)
		case *fitted:
			again := &fitted{panel: a, form: e.form, rate: e.rate}
			err = again.start(xs[:512])
			got, want = &e.line, &again.line
		}
		if err != nil || len(got.w) == 0 || !slices.Equal(got.w, want.w) || got.b != want.b {
			t.Errorf("task %v: it has not learned again: %v", task, err)
		}
		for block := range slices.Chunk(xs[512:], 64) {
			if _, _, err := a.Follow(t.Context(), out[:len(block)], block); err != nil {
				t.Fatal(err)
			}
		}
		var wrong, square, all float64
		for range 1000 {
			in := input{x: &stream.Example{X: stream.Vec{Val: make([]float32, 10)}}}
			v := in.x.X.Val
			for j := range v {
				v[j] = float32(r.NormFloat64())
			}
			y := 100 * float64(v[1]*v[7])
			a.prepare(&in)
			s := gam().predict(&in)
			if !s.ok {
				t.Fatal("there is no score")
			}
			if (s.f >= 0) != (y >= 0) {
				wrong++
			}
			square, all = square+(s.f-y)*(s.f-y), all+y*y
		}
		if task == algos.Classify && wrong > 150 || task == algos.Regress && square > .6*all {
			t.Errorf("task %v: %g of 1000 wrong, share of squares %g", task, wrong, square/all)
		}
	}
}
