package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// distance returns ‖x−z‖² for a dense z.
func distance(x stream.Vec, z []float32) float64 {
	s := 0.0
	for _, v := range z {
		s += float64(v) * float64(v)
	}
	for k, v := range x.Val {
		g := k
		if x.Idx != nil {
			g = int(x.Idx[k])
		}
		w := 0.0
		if g < len(z) {
			w = float64(z[g])
		}
		s += (float64(v)-w)*(float64(v)-w) - w*w
	}
	return s
}

// A compiled expansion is the same function, within rounding, in both layouts
// and for vectors of any kind; a decision has the same bits in any company.
func TestCompile(t *testing.T) {
	for round, dim := range []int{1, 7, 90, 300, 1500, 5000} {
		r := rand.New(rand.NewPCG(41, uint64(dim)))
		b := New(Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 2 / float32(dim)}, Bias: float32(round % 2)})
		var coef []float64
		var points [][]float32
		size := 0.0
		for range 150 {
			p := random(r, dim, dim > 50)
			b.Append(p)
			points = append(points, make([]float32, dim))
			p.Dense(points[len(points)-1])
			coef = append(coef, r.NormFloat64())
			size += math.Abs(coef[len(coef)-1])
		}
		if dim == 300 { // the sparse layout below its limit
			b.toSparse()
			b.rows.dim = dim
		}
		xs := []stream.Vec{
			{}, {Idx: []int32{}}, {Val: []float32{0, float32(math.Copysign(0, -1))}},
			{Idx: []int32{0, 1 << 30}, Val: []float32{1, 0.5}}, {Val: []float32{100}}, {Idx: []int32{1 << 30}, Val: []float32{100}},
		}
		for i := range 300 {
			xs = append(xs, random(r, dim+i%3, i%4 != 0))
		}
		e := NewOffset(b, coef, -0.25)
		m := e.Compile()
		if _, compiled := m.(*scored); compiled != (dim < 5000) {
			t.Fatalf("dim %d: %T", dim, m)
		}
		got := make([]float64, len(xs))
		m.Decisions(got, xs)
		for i, x := range xs {
			want := -0.25
			for j, c := range coef {
				want += c * (math.Exp(-float64(b.Func.Gamma)*distance(x, points[j])) + float64(b.Func.Bias))
			}
			if math.Abs(got[i]-want) > 1e-6*size {
				t.Errorf("dim %d: f(x_%d) = %g, want %g", dim, i, got[i], want)
			}
			if f := m.Decision(x); math.Float64bits(f) != math.Float64bits(got[i]) {
				t.Errorf("dim %d: f(x_%d) = %v in company, %v alone", dim, i, got[i], f)
			}
		}
		part := make([]float64, len(xs))
		for from := 0; from < len(xs); from += 97 {
			to := min(from+97, len(xs))
			m.Decisions(part[from:to], xs[from:to])
		}
		for i := range xs {
			if math.Float64bits(part[i]) != math.Float64bits(got[i]) {
				t.Errorf("dim %d: f(x_%d) = %v among 97, %v among all", dim, i, part[i], got[i])
			}
		}
		data, err := m.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := DecodeExpansion(data); err != nil || d.Decision(xs[9]) != e.Decision(xs[9]) {
			t.Errorf("dim %d: a compiled model is not encoded as it was: %v", dim, err)
		}
	}
	for _, f := range funcs {
		b := New(f)
		b.Append(stream.Vec{Val: []float32{1, 2}})
		e := NewExpansion(b, []float64{2})
		x := stream.Vec{Val: []float32{0.5, 1}}
		if got, want := e.Compile().Decision(x), e.Decision(x); math.Abs(got-want) > 1e-6*math.Abs(want) {
			t.Errorf("%v: %g, want %g", f, got, want)
		}
	}
	e := NewExpansion(New(funcs[0]), nil)
	if f := e.Compile().Decision(stream.Vec{Val: []float32{1}}); f != 0 {
		t.Errorf("without points: %g", f)
	}
}
