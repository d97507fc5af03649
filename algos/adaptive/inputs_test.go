package adaptive

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/testkit/pointtest"
	"github.com/streamsvm/streamsvm/stream"
)

func same(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

// Gradient experts take features whose scale has a meaning as they are, or without a schema those
// that are mostly 0, and their published functions, of standardised features, predict the same.
func TestGradientRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	schema := []bool{true, false, true, true}
	for _, env := range []algos.Env{{Scaled: schema}, {Scaled: schema, Task: algos.Regress}, {}, {Task: algos.Regress}} {
		env.Seed = 1
		made, err := Spec.New(env, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := made.(*Learner)
		var xs []*stream.Example
		for i := range 700 {
			flag, number, rare := min(r.IntN(3), 1), math.Exp(4*r.NormFloat64()), r.IntN(40)/39
			v := []float32{float32(flag), float32(number), float32(rare), 0, 7}
			x := &stream.Example{Seq: uint64(i + 1), Labelled: true, X: stream.Vec{Val: v}, Y: float64(2*(flag^rare) - 1)}
			if i%2 > 0 {
				x.X = stream.Vec{Idx: []int32{0, 1, 2}, Val: v[:3]}
			}
			xs = append(xs, x)
		}
		if _, err := algos.Feed(t.Context(), l, xs...); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l.inputs.asinh == nil {
			t.Error("no feature has heavy tails")
		}
		n := 0
		for _, x := range xs[:100] {
			in := input{x: x}
			l.prepare(&in)
			row := make([]float32, 5)
			for k, j := range in.row.Idx {
				row[j] = in.row.Val[k]
			}
			for j, v := range row {
				raw := float32(0)
				if j < len(x.X.Val) {
					raw = x.X.Val[j]
				}
				want := float64(in.z.Val[j])
				asIs := j == 2 || j == 3 || j == 0 && env.Scaled != nil
				if asIs {
					want = want*math.Sqrt(l.inputs.m2[j]/l.inputs.n) + l.inputs.mean[j]
				}
				if j == 3 || asIs && raw == 0 {
					want = 0
				}
				if math.Abs(float64(v)-want) > 1e-5 || want == 0 && v != 0 {
					t.Fatalf("feature %d is %v, want %v: %v became %v", j, v, want, x.X, row)
				}
			}
			for _, e := range l.experts {
				f, ok := e.function().(*linearFunction)
				if !ok || e.name[0] != 'o' {
					continue
				}
				var got [1]float64
				f.scores(got[:], &inputBatch{zs: []stream.Vec{in.z}, rows: []stream.Vec{in.z}})
				if want := e.predict(&in).f; math.Abs(got[0]-want) > 1e-5*(1+math.Abs(want)) {
					t.Fatalf("expert %s: %v, published %v", e.name, want, got[0])
				}
				n++
			}
		}
		if n < 200 {
			t.Errorf("%d scores", n)
		}
	}
}

// TestInputs compares with means and deviations of two passes over all that came
// before, of dense examples and of the same ones written sparse.
func TestInputs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const dim = 7
	var dense, sparse inputs
	var past [][]float64
	clipped := 0
	for i := range 1500 {
		d := dim
		if i < 300 {
			d = 4 // there are more features later: they were 0 before
		}
		x, z := pointtest.Both(r, d)
		for j := range d {
			scale, shift := math.Pow(100, float64(j-3)), math.Pow(10, float64(j))
			v := float32(scale*float64(x.Val[j]) + shift)
			if j == 2 {
				v = 0.25 // constant
			}
			if r.IntN(100) == 0 && j != 2 {
				v *= 1000
			}
			x.Val[j] = v
		}
		z.Idx, z.Val = z.Idx[:0], z.Val[:0]
		for j, v := range x.Val {
			if v != 0 || r.IntN(2) == 0 {
				z.Idx, z.Val = append(z.Idx, int32(j)), append(z.Val, v)
			}
		}
		got, other := dense.apply(x), sparse.apply(z)
		if !slices.EqualFunc(got.Val, other.Val, same) || got.Idx != nil || other.Idx != nil {
			t.Fatalf("example %d: dense %v, sparse %v", i, got, other)
		}
		if i%13 == 0 && i > 0 {
			for j, v := range got.Val {
				var mean, square float64
				for _, p := range past {
					mean += p[j] / float64(len(past))
				}
				for _, p := range past {
					square += (p[j] - mean) * (p[j] - mean) / float64(len(past))
				}
				raw := 0.0
				if j < len(x.Val) {
					raw = float64(x.Val[j])
				}
				want := (raw - mean) / math.Sqrt(square)
				if j == 2 {
					want = 0
				}
				if math.Abs(want) > 5 {
					want = math.Copysign(5, want)
					clipped++
				}
				if math.Abs(float64(v)-want) > 1e-5 || want == 0 && v != 0 {
					t.Fatalf("example %d, feature %d: %g, want %g", i, j, v, want)
				}
			}
		}
		dense.observe(x)
		sparse.observe(z)
		row := make([]float64, dim)
		for j, v := range x.Val {
			row[j] = float64(v)
		}
		past = append(past, row)
		if !slices.Equal(dense.mean, sparse.mean) || !slices.Equal(dense.m2, sparse.m2) || len(dense.mean) != d {
			t.Fatalf("example %d: dense %+v, sparse %+v", i, dense, sparse)
		}
	}
	if clipped == 0 {
		t.Error("nothing was clipped")
	}
	// Features that no example has had do not count yet, and what is absent is 0.
	if z := dense.apply(stream.Vec{Idx: []int32{3, 900}, Val: []float32{1, 1}}); len(z.Val) != dim {
		t.Errorf("%d features", len(z.Val))
	}
	if a, b := dense.apply(stream.Vec{}), dense.apply(stream.Vec{Val: make([]float32, dim)}); !slices.EqualFunc(a.Val, b.Val, same) {
		t.Errorf("nothing is %v, zeros are %v", a, b)
	}
}

// TestWideInputs: of wide examples each feature is divided by its largest size.
// TestHeavyTails: a logarithm makes no difference to a stream with heavy tails, once there have
// been a few examples. Inputs and neighbours are those of the mapped examples.
func TestHeavyTails(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	var raw, logs []*stream.Example
	for i := range 3000 {
		a, b, c := 2*r.NormFloat64(), 2*r.NormFloat64(), r.NormFloat64()
		x := stream.Example{Seq: uint64(i + 1), Labelled: true, Y: 1, X: stream.Vec{Val: []float32{float32(a), float32(b), float32(c)}}}
		if a-b+c+r.NormFloat64() < 0 {
			x.Y = -1
		}
		y := x
		y.X.Val = []float32{float32(1000 * math.Exp(a)), float32(math.Exp(b)), float32(c)}
		raw, logs = append(raw, &y), append(logs, &x)
	}
	losses := make([]float64, 2)
	for k, xs := range [][]*stream.Example{raw, logs} {
		l, scores := versions(t, algos.Env{Seed: 1}, xs, 1000)
		for i, f := range scores {
			losses[k] += math.Log1p(math.Exp(-xs[1000+i].Y*f[0])) / float64(len(scores))
		}
		in := l.(*Learner).inputs
		if k == 1 {
			if in.asinh != nil {
				t.Errorf("logarithms: %v", in.asinh)
			}
			continue
		}
		if len(in.asinh) != 3 || in.asinh[0].Size == 0 || in.asinh[1].Size == 0 || in.asinh[2].Size > 0 {
			t.Fatalf("asinh: %v", in.asinh)
		}
		want := inputs{asinh: in.asinh}
		for _, x := range xs {
			want.observe(x.X)
		}
		for j, m := range want.mean {
			if math.Abs(m-in.mean[j]) > 1e-9 || math.Abs(want.m2[j]-in.m2[j]) > 1e-6*want.m2[j] {
				t.Errorf("feature %d: mean %g, sum %g; want %g, %g", j, in.mean[j], in.m2[j], m, want.m2[j])
			}
		}
	}
	if t.Logf("log loss %.4f, of logarithms %.4f", losses[0], losses[1]); losses[0] > losses[1]*1.03 {
		t.Errorf("log loss %.4f, of logarithms %.4f", losses[0], losses[1])
	}
	l := newPanel(t, nil)
	followed(t, l, raw[:512], func() int { return 100 })
	for _, e := range l.experts {
		if near, ok := e.expert.(*nearExpert); ok && !near.second {
			for i, x := range raw[:512] {
				p := near.points.Row(i)
				for j, v := range l.inputs.apply(x.X).Val {
					if math.Abs(float64(p.Val[1+j]-v)) > .5/roundTo || near.y[i] != x.Y {
						t.Fatalf("neighbour %d is %v, label %g", i, p.Val, near.y[i])
					}
				}
			}
		}
	}
}

func TestWideInputs(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	var dense, sparse inputs
	dense.n, dense.mean, dense.m2 = 3, []float64{1}, []float64{2} // forgotten
	dense.widen()
	sparse.widen()
	most := map[int]float64{}
	for i := range 300 {
		x, z := pointtest.Both(r, 700)
		if i%2 == 0 {
			x.Val[5] *= 100
			for k, j := range z.Idx {
				z.Val[k] = x.Val[j]
			}
		}
		got, other := dense.apply(x), sparse.apply(z)
		if !slices.Equal(other.Idx, z.Idx) || got.Idx != nil || len(got.Val) != len(x.Val) {
			t.Fatal("another form")
		}
		back := make([]float32, 700)
		for k, j := range other.Idx {
			back[j] = other.Val[k]
		}
		for j, v := range x.Val {
			want := 0.0
			if m := most[j]; m > 0 {
				want = min(max(float64(v)/m, -5), 5)
			}
			if math.Abs(float64(got.Val[j])-want) > 1e-6 || got.Val[j] != back[j] {
				t.Fatalf("example %d, feature %d: dense %g, sparse %g, want %g", i, j, got.Val[j], back[j], want)
			}
		}
		dense.observe(x)
		sparse.observe(z)
		for j, v := range x.Val {
			most[j] = max(most[j], math.Abs(float64(v)))
		}
	}
}

// TestFourier: products of random features are on average the RBF kernel of width
// 4/d plus the product of the inputs by d; 256 of them are off by their Monte
// Carlo error.
func TestFourier(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, dim := range []int{1, 8, 40} {
		const seeds, pairs = 60, 30
		var square float64
		var drawn []*fourier
		for seed := range uint64(seeds) {
			drawn = append(drawn, newFourier(dim, seed))
		}
		for range pairs {
			x, z := stream.Vec{Val: make([]float32, dim)}, stream.Vec{Val: make([]float32, dim)}
			var distance, inner float64
			for j := range dim {
				x.Val[j] = float32(r.NormFloat64())
				z.Val[j] = x.Val[j] + float32(0.7*r.NormFloat64())
				distance += math.Pow(float64(x.Val[j])-float64(z.Val[j]), 2)
				inner += float64(x.Val[j]) * float64(z.Val[j]) / float64(dim)
			}
			want := math.Exp(-4 / float64(dim) * distance)
			mean := 0.0
			for _, w := range drawn {
				a, b := w.of(x), w.of(z)
				if len(a.Val) != 256+dim || a.Idx != nil {
					t.Fatalf("%d features", len(a.Val))
				}
				var cosines, rest float64
				for i, v := range a.Val {
					if i < 256 {
						cosines += float64(v) * float64(b.Val[i])
					} else {
						rest += float64(v) * float64(b.Val[i])
					}
				}
				if math.Abs(rest-inner) > 1e-5*(1+math.Abs(inner)) {
					t.Fatalf("the inputs' product by d is %g, want %g", rest, inner)
				}
				mean += cosines / seeds
				square += (cosines - want) * (cosines - want) / (seeds * pairs)
			}
			// Var 2cos·cos ≤ 1 for any pair.
			if e := math.Abs(mean - want); e > 4.5/math.Sqrt(256*seeds) {
				t.Errorf("%d features: %g on average, want %g", dim, mean, want)
			}
		}
		if e := math.Sqrt(square); e > 1/math.Sqrt(256) || e < 0.3/math.Sqrt(256) {
			t.Errorf("%d features: the standard error is %g, for 256 waves %g is right", dim, e, 0.7/16)
		}
	}
}

// TestOnePass compares the linear experts with their formulas, on dense and on
// sparse inputs.
func TestOnePass(t *testing.T) {
	const dim = 9
	for _, rate := range []float64{0, 0.3} {
		r := rand.New(rand.NewPCG(4, 4))
		dense, sparse := onePass{rate: rate}, onePass{rate: rate}
		w, g := make([]float64, dim+1), make([]float64, dim+1) // the last one is the bias
		for i := range 2000 {
			x, z := pointtest.Both(r, dim)
			row := []float64{}
			for _, v := range x.Val {
				row = append(row, float64(v))
			}
			row = append(row, 1)
			want, square := 0.0, 0.0
			for j, v := range row {
				want, square = want+w[j]*v, square+v*v
			}
			got := dense.score(x)
			if other := sparse.score(z); got != other || math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
				t.Fatalf("rate %g, example %d: dense %g, sparse %g, want %g", rate, i, got, other, want)
			}
			y := float64(2*r.IntN(2) - 1)
			if x.Val[0] > 0.3 {
				y = 1
			}
			dense.learn(x, got, y, 1)
			sparse.learn(z, got, y, 1)
			if y*want >= 1 {
				continue
			}
			for j, v := range row {
				if rate == 0 {
					w[j] += (1 - y*want) / square * y * v
				} else if v != 0 {
					g[j] += v * v
					w[j] += rate * y * v / math.Sqrt(g[j])
				}
			}
		}
		if !slices.Equal(dense.w, sparse.w) || dense.b != sparse.b {
			t.Errorf("rate %g: dense %v, sparse %v", rate, dense, sparse)
		}
	}
}

// Linear experts look at widest features at most: one index far out does not make
// weights for all below it.
func TestWidest(t *testing.T) {
	in := inputs{wide: true}
	far := stream.Vec{Idx: []int32{3, widest - 1, widest, 1 << 30}, Val: []float32{2, 1, 5, 7}}
	in.observe(far)
	if z := in.apply(far); len(in.most) != widest || z.Dim() != widest || len(z.Val) != 2 || z.Val[0] != 1 {
		t.Errorf("%d sizes, %d features up to %d: %v", len(in.most), len(z.Val), z.Dim(), z.Val)
	}
	if z := in.apply(stream.Vec{Val: make([]float32, widest+5)}); len(z.Val) != widest {
		t.Errorf("%d features of a dense example", len(z.Val))
	}
}

// The linear experts and neighbours learn from a word or category when it occurs first.
func TestNewFeatures(t *testing.T) {
	id := func(i int) stream.Vec { return stream.Vec{Idx: []int32{1, int32(600 + i)}, Val: []float32{1, 3}} }
	for _, n := range []int{0, 3} {
		made, err := Spec.New(algos.Env{Seed: 1, Classes: n}, nil)
		if err != nil {
			t.Fatal(err)
		}
		heads := map[int]*Learner{}
		if c, ok := made.(*classes); ok {
			heads[0], heads[1] = c.heads[0], c.heads[1]
		} else {
			heads[1] = made.(*Learner)
		}
		for i := range 700 {
			x := &stream.Example{Seq: uint64(i + 1), Labelled: true, X: id(i), Y: float64(i % 2)}
			if n == 0 {
				x.Y = 2*x.Y - 1
			}
			if _, err := algos.Feed(t.Context(), made, x); err != nil {
				t.Fatal(err)
			}
		}
		for k, l := range heads {
			for _, e := range l.experts {
				if !slices.Contains([]string{"l1", "ada", "o0.5", "o2", "n512"}, e.name) {
					continue
				}
				score := func(x stream.Vec) float64 {
					in := input{x: &stream.Example{X: x}}
					l.prepare(&in)
					e.begin([]input{in}, true)
					return e.predict(&in).f
				}
				for _, i := range []int{0, 692, 693, 698, 699} { // an id that is new weighs nothing
					if i == 0 && e.name == "n512" {
						continue // its neighbours are newer
					}
					if f, without := score(id(i)), score(id(9999)); (f > without) != (i%2 == k) {
						t.Errorf("%d classes, head %d: %s gives id %d %v, a new one %v", n, k, e.name, i, f, without)
					}
				}
			}
		}
	}
}
