package expansion

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/plain"
	"github.com/streamsvm/streamsvm/internal/testkit/pointtest"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

var funcs = []kernel.Func{
	{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 0.05}, Bias: 1},
	{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 0.5}},
	{Kernel: vec.Kernel{Kind: vec.Linear, Gamma: 1}, Bias: 0.5},
	{Kernel: vec.Kernel{Kind: vec.Polynomial, Gamma: 0.1, Coef0: 1, Degree: 3}},
	{Kernel: vec.Kernel{Kind: vec.Laplacian, Gamma: 0.1}, Bias: 1},
}

// TestExpansion: decisions agree with the sum they stand for, do not depend on
// their company, and survive encoding to the bit.
func TestExpansion(t *testing.T) {
	for _, f := range funcs {
		for _, dim := range []int{2, 30, 1500} {
			r := rand.New(rand.NewPCG(uint64(dim), 2))
			b := kernel.New(f)
			var points []stream.Vec
			var coef []float64
			for i := range min(1300, 450_000/dim) {
				x := pointtest.Random(r, dim, i%2 == 0 || dim > 1024)
				points = append(points, x)
				b.Append(x)
				c := r.NormFloat64()
				if i%3 == 0 {
					c = 0
				}
				coef = append(coef, c)
			}
			e := New(b, coef, 0)
			data, err := e.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			m, err := Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			again, err := m.AppendBinary(nil)
			if err != nil || string(again) != string(data) {
				t.Fatalf("%v dim %d: encoding is not stable: %v", f, dim, err)
			}
			var xs []stream.Vec
			for i := range 150 {
				xs = append(xs, pointtest.Random(r, dim+i%20/19, i%4 == 0))
			}
			got := make([]float64, len(xs))
			e.Decisions(got, xs)
			other := make([]float64, len(xs))
			m.Decisions(other, xs)
			for i, x := range xs {
				if one := e.Decision(x); one != got[i] || other[i] != got[i] {
					t.Fatalf("%v dim %d: decision %d is %v in company, %v alone, %v decoded", f, dim, i, got[i], one, other[i])
				}
				if i%30 != 0 {
					continue
				}
				want, size := 0.0, 0.0
				for j, c := range coef {
					k := pointtest.Kernel(f.Kernel, x, points[j]) + float64(f.Bias)
					want += c * k
					size += math.Abs(c * k)
				}
				if math.Abs(got[i]-want) > 1e-5*(1+size) {
					t.Errorf("%v dim %d: decision %d is %v, want %v", f, dim, i, got[i], want)
				}
			}
		}
	}
}

// A packed expansion decides the same as it did but for its coefficients, by no more
// than is said; of a compiled one no bit changes but those of the constant. It takes
// a part of the bytes, which are read again to the same.
func TestPack(t *testing.T) {
	for _, f := range funcs {
		for _, dim := range []int{1, 30, 1500} {
			for _, offset := range []float64{0, 0.25} {
				r := rand.New(rand.NewPCG(uint64(dim), 5))
				b := kernel.New(f)
				var coef []float64
				size := 0.0
				for range 300 {
					p := pointtest.Random(r, dim, dim > 30)
					for k, v := range p.Val {
						p.Val[k] = float32(math.Round(float64(v) * 8))
					}
					b.Append(p)
					coef = append(coef, 20*r.NormFloat64())
					size += math.Abs(coef[len(coef)-1])
				}
				e := New(b, coef, offset)
				plain, err := e.AppendBinary(nil)
				if err != nil {
					t.Fatal(err)
				}
				p := e.Pack()
				data, err := p.AppendBinary(nil)
				if err != nil {
					t.Fatal(err)
				}
				if dim > 1 && len(data) > len(plain)/2 || len(data) >= len(plain) {
					t.Errorf("%v dim %d: %d bytes, %d before", f, dim, len(data), len(plain))
				}
				m, err := Decode(data)
				if err != nil {
					t.Fatal(err)
				}
				again, err := m.(*Expansion).Pack().AppendBinary(nil)
				if err != nil || !bytes.Equal(again, data) {
					t.Errorf("%v dim %d: written again, the bytes are others: %v", f, dim, err)
				}
				old, fast := e.Compile(), m.(*Expansion).Compile()
				compiled := old.(*Expansion).fast != nil
				for range 50 {
					x := pointtest.Random(r, dim, dim > 30)
					if got := m.Decision(x); got != p.Decision(x) {
						t.Fatalf("%v dim %d: %g, decoded %g", f, dim, p.Decision(x), got)
					}
					if f.Kind != vec.RBF && f.Kind != vec.Laplacian {
						continue
					}
					if d := math.Abs(m.Decision(x) - e.Decision(x)); d > size*0x1p-24+1e-12*size {
						t.Errorf("%v dim %d: a decision moves by %g", f, dim, d)
					}
					if d := math.Abs(old.Decision(x) - fast.Decision(x)); compiled && d > 1e-13*(size+1) {
						t.Errorf("%v dim %d: a compiled decision moves by %g", f, dim, d)
					}
				}
			}
		}
	}
	b := kernel.New(funcs[0])
	b.Append(stream.Vec{Val: []float32{1}})
	for _, c := range []float64{1e39, 1e-60} {
		if e := New(b, []float64{c}, 0); e.Pack() != algos.Model(e) {
			t.Errorf("a coefficient of %g is packed", c)
		}
	}
	if e := New(kernel.New(funcs[0]), nil, 0); e.Pack() != algos.Model(e) {
		t.Error("no points are packed")
	}
}

// An offset is added to every decision, alone and in company, and survives
// encoding; without one the encoding is that of models that know of none.
func TestOffset(t *testing.T) {
	for _, dim := range []int{2, 1500} {
		r := rand.New(rand.NewPCG(uint64(dim), 3))
		b := kernel.New(funcs[0])
		var coef []float64
		for range 130 {
			b.Append(pointtest.Random(r, dim, dim > 10))
			coef = append(coef, r.NormFloat64())
		}
		xs := []stream.Vec{{}, pointtest.Random(r, dim, true), pointtest.Random(r, dim, false), pointtest.Random(r, dim+9, true)}
		plain := New(b, coef, 0)
		base, err := plain.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, offset := range []float64{0, -2.5, 1e-9} {
			e := New(b, coef, offset)
			data, err := e.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if offset == 0 != bytes.Equal(data, base) || !bytes.HasPrefix(data, base) {
				t.Fatalf("offset %g: %d bytes, %d without", offset, len(data), len(base))
			}
			m, err := Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.(*Expansion).offset; got != offset {
				t.Fatalf("offset %g, decoded %g", offset, got)
			}
			want, got := make([]float64, len(xs)), make([]float64, len(xs))
			plain.Decisions(want, xs)
			m.Decisions(got, xs)
			for i, x := range xs {
				if got[i] != want[i]+offset || e.Decision(x) != got[i] {
					t.Errorf("dim %d, offset %g: f(x_%d) = %g in company, %g alone, want %g", dim, offset, i, got[i], e.Decision(x), want[i]+offset)
				}
			}
			if offset == 0 {
				continue
			}
			for n := len(base) + 1; n < len(data); n++ {
				if _, err := Decode(data[:n]); err == nil {
					t.Errorf("%d of %d bytes decode", n, len(data))
				}
			}
		}
		for _, offset := range []float64{math.NaN(), math.Inf(-1)} {
			data, err := New(b, coef, offset).AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decode(data); err == nil {
				t.Errorf("an offset of %g is accepted", offset)
			}
		}
	}
}

// Coefficients and points that do not agree in number are refused, and zeros
// are not counted.
func TestLengths(t *testing.T) {
	b := kernel.New(funcs[0])
	for i := range 3 {
		b.Append(stream.Vec{Val: []float32{float32(i), 1}})
	}
	for _, coef := range [][]float64{{1, 2, 3}, {1, 2}, {1, 2, 3, 4}, nil} {
		data, err := View(b, coef, 0).AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(data); (err == nil) != (len(coef) == 3) {
			t.Errorf("%d coefficients for 3 points: %v", len(coef), err)
		}
	}
	if n := Nonzero([]float64{0, 1, 0, -1e-300, math.Copysign(0, -1)}); n != 2 {
		t.Errorf("%d coefficients are not 0, want 2", n)
	}
}

// An export of as many numbers as are allowed is made, one of more is refused.
func TestExportLimit(t *testing.T) {
	b := kernel.New(funcs[0])
	for i := range 3 {
		b.Append(stream.Vec{Val: []float32{float32(i), 1}})
	}
	e := New(b, []float64{1, 2, 3}, 0)
	if x, err := e.Export(plain.Options{Numbers: 6}); err != nil || len(x.(exported).Points) != 3 {
		t.Errorf("%+v, %v", x, err)
	}
	var limit *plain.LimitError
	if _, err := e.Export(plain.Options{Numbers: 5}); !errors.As(err, &limit) {
		t.Errorf("5 numbers are to describe 3 points of 2 features: %v", err)
	}
}

// A degree that no kernel has is refused with any kernel: package vec panics at
// negative ones.
func TestDecodeDegree(t *testing.T) {
	for kind, f := range funcs {
		f.Degree = -3
		b := kernel.New(f)
		b.Append(stream.Vec{Val: []float32{1}})
		data, err := View(b, []float64{1}, 0).AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(data); err == nil {
			t.Errorf("kernel %d of degree %d is accepted", kind, f.Degree)
		}
	}
}

// squaredDistance returns ‖x−z‖² for a dense z.
func squaredDistance(x stream.Vec, z []float32) float64 {
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
		f := kernel.Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 2 / float32(dim)}, Bias: float32(round % 2)}
		b := kernel.New(f)
		if dim == 300 { // the sparse layout below its limit
			b = kernel.NewSparse(f)
		}
		var coef []float64
		var points [][]float32
		size := 0.0
		for range 150 {
			p := pointtest.Random(r, dim, dim > 50)
			b.Append(p)
			points = append(points, make([]float32, dim))
			p.Dense(points[len(points)-1])
			coef = append(coef, r.NormFloat64())
			size += math.Abs(coef[len(coef)-1])
		}
		xs := []stream.Vec{
			{}, {Idx: []int32{}}, {Val: []float32{0, float32(math.Copysign(0, -1))}},
			{Idx: []int32{0, 1 << 30}, Val: []float32{1, 0.5}}, {Val: []float32{100}}, {Idx: []int32{1 << 30}, Val: []float32{100}},
		}
		for i := range 300 {
			xs = append(xs, pointtest.Random(r, dim+i%3, i%4 != 0))
		}
		e := New(b, coef, -0.25)
		m := e.Compile()
		if compiled := m.(*Expansion).fast != nil; compiled != (dim < 5000) {
			t.Fatalf("dim %d: %T", dim, m)
		}
		got := make([]float64, len(xs))
		m.Decisions(got, xs)
		for i, x := range xs {
			want := -0.25
			for j, c := range coef {
				want += c * (math.Exp(-float64(b.Func.Gamma)*squaredDistance(x, points[j])) + float64(b.Func.Bias))
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
		if d, err := Decode(data); err != nil || d.Decision(xs[9]) != e.Decision(xs[9]) {
			t.Errorf("dim %d: a compiled model is not encoded as it was: %v", dim, err)
		}
	}
	for _, f := range funcs {
		b := kernel.New(f)
		b.Append(stream.Vec{Val: []float32{1, 2}})
		e := New(b, []float64{2}, 0)
		x := stream.Vec{Val: []float32{0.5, 1}}
		if got, want := e.Compile().Decision(x), e.Decision(x); math.Abs(got-want) > 1e-6*math.Abs(want) {
			t.Errorf("%v: %g, want %g", f, got, want)
		}
	}
	e := New(kernel.New(funcs[0]), nil, 0)
	if f := e.Compile().Decision(stream.Vec{Val: []float32{1}}); f != 0 {
		t.Errorf("without points: %g", f)
	}
}
