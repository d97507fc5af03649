package kernel

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/testkit/pointtest"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

var funcs = []Func{
	{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 0.05}, Bias: 1},
	{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 0.5}},
	{Kernel: vec.Kernel{Kind: vec.Linear, Gamma: 1}, Bias: 0.5},
	{Kernel: vec.Kernel{Kind: vec.Polynomial, Gamma: 0.1, Coef0: 1, Degree: 3}},
	{Kernel: vec.Kernel{Kind: vec.Laplacian, Gamma: 0.1}, Bias: 1},
}

// TestValues compares kernel values with their definition, in both layouts,
// for points and arguments of growing and of unequal dimensions.
func TestValues(t *testing.T) {
	for _, f := range funcs {
		for _, dim := range []int{1, 3, 40, 1024, 1200, 1500} { // those of 1200 features are dense, those of 1500 are sparse
			r := rand.New(rand.NewPCG(uint64(dim), 1))
			b := New(f)
			var points []stream.Vec
			for i := range 150 {
				x := pointtest.Random(r, max(1, dim*(i+30)/180), i%3 == 0 && dim != 1200 || dim == 1500)
				points = append(points, x)
				if got := b.Append(x); got != i {
					t.Fatalf("point %d has index %d", i, got)
				}
			}
			if b.Sparse() != (dim == 1500) {
				t.Fatalf("dim %d: sparse %v", dim, b.Sparse())
			}
			replaced := pointtest.Random(r, dim, true)
			b.Set(77, replaced)
			points[77] = replaced
			xs := []stream.Vec{pointtest.Random(r, dim, false), pointtest.Random(r, dim, true), pointtest.Random(r, dim+7, false), {Idx: []int32{}}, points[5]}
			if dim == 3 { // an index far out must not cost more than one nearby
				xs = append(xs, stream.Vec{Idx: []int32{0, 50_000_000}, Val: []float32{1, 0.5}})
			}
			for from, to := range map[int]int{0: 150, 3: 4, 60: 131, 64: 128} {
				ld := to - from + 3
				got := make([]float32, ld*len(xs))
				b.Block(got, ld, xs, from, to)
				for i, x := range xs {
					for j := from; j < to; j++ {
						want := pointtest.Kernel(f.Kernel, x, points[j]) + float64(f.Bias)
						if d := math.Abs(float64(got[i*ld+j-from]) - want); !(d <= 2e-5*(1+math.Abs(want))) {
							t.Fatalf("%v dim %d: K(%d, %d) = %v, want %v", f, dim, i, j, got[i*ld+j-from], want)
						}
					}
				}
			}
			idx := []int32{9, 0, 149, 77}
			between := make([]float32, len(idx)*150)
			b.Between(between, 150, idx, 0, 150)
			for i, p := range idx {
				row := make([]float32, 150)
				b.Block(row, 150, []stream.Vec{b.Row(int(p))}, 0, 150)
				for j := range row {
					if row[j] != between[i*150+j] {
						t.Fatalf("%v dim %d: Between and Block differ at (%d, %d)", f, dim, p, j)
					}
				}
				if want := pointtest.Kernel(f.Kernel, points[p], points[p]) + float64(f.Bias); math.Abs(b.Diag(int(p))-want) > 1e-5*(1+want) {
					t.Errorf("%v: Diag(%d) = %v, want %v", f, p, b.Diag(int(p)), want)
				}
			}
		}
	}
}

// TestFieldsKeepPoints: points come back as they were, to the bit, in each form
// that they are stored in: in full, as the non-zeros of a packed row, as a sparse
// row.
func TestFieldsKeepPoints(t *testing.T) {
	for _, c := range []struct {
		dim    int
		sparse bool
		forms  string
	}{{5, false, "full"}, {1200, false, "full"}, {5, false, "planes"}, {60, true, "non-zeros"}, {1500, true, "sparse"}} {
		for _, n := range []int{0, 1, 40} {
			r := rand.New(rand.NewPCG(uint64(n), 2))
			b := New(funcs[0])
			for i := range n {
				x := pointtest.Random(r, c.dim, c.sparse)
				if c.sparse && i%3 == 0 {
					x = stream.Vec{Idx: []int32{int32(c.dim - 1)}, Val: []float32{1}}
				}
				b.Append(x)
			}
			if c.forms == "planes" {
				b = b.InPlanes()
			}
			data, err := state.Append(nil, b.Fields)
			if err != nil {
				t.Fatal(err)
			}
			if n > 0 && (c.forms == "planes") != bytes.Contains(data, []byte("planes")) {
				t.Errorf("%s, %d points: in another form", c.forms, n)
			}
			d := New(Func{})
			if err := state.Decode(data, d.Fields); err != nil {
				t.Fatalf("%s, %d points: %v", c.forms, n, err)
			}
			if !d.Equal(b) {
				t.Fatalf("%s: %d points of %d, %v became %d of %d, %v", c.forms, n, b.Dim(), b.Func, d.Len(), d.Dim(), d.Func)
			}
			for i := range n {
				x, y := b.Row(i), d.Row(i)
				if d.Set(i, stream.Vec{}); !slices.Equal(x.Idx, y.Idx) || !slices.Equal(x.Val, y.Val) || d.Equal(b) {
					t.Errorf("%s, point %d of %d: %v became %v", c.forms, i, n, x, y)
				}
				d.Set(i, x)
			}
			xs := []stream.Vec{pointtest.Random(r, c.dim, false), pointtest.Random(r, c.dim, true)}
			before, after := make([]float32, 2*n), make([]float32, 2*n)
			b.Block(before, n, xs, 0, n)
			d.Block(after, n, xs, 0, n)
			if !slices.Equal(before, after) {
				t.Errorf("%s: kernel values %g became %g", c.forms, before, after)
			}
		}
	}
}

// Truncated and flipped encodings give errors or valid points, never a panic.
func TestDecodeHostile(t *testing.T) {
	for _, dim := range []int{3, 4, 1100} {
		r := rand.New(rand.NewPCG(1, 1))
		b := New(funcs[0])
		for range 5 {
			b.Append(pointtest.Random(r, dim, dim > 10))
		}
		if dim == 4 {
			b = b.InPlanes()
		}
		data, err := state.Append(nil, b.Fields)
		if err != nil {
			t.Fatal(err)
		}
		try := func(data []byte) error {
			c := New(Func{})
			err := state.Decode(data, c.Fields)
			if err == nil && c.Len() > 0 {
				c.Row(c.Len() - 1)
			}
			return err
		}
		if err := try(data); err != nil {
			t.Fatal(err)
		}
		step := 1 + len(data)/2000
		for n := 0; n < len(data); n += step {
			if try(data[:n]) == nil {
				t.Fatalf("%d of %d bytes decode", n, len(data))
			}
		}
		for i := range data {
			if i > 200 && i%step > 0 {
				continue // features, of which one is like another
			}
			for bit := range 8 {
				flipped := append([]byte(nil), data...)
				flipped[i] ^= 1 << bit
				_ = try(flipped)
			}
		}
	}
}

// TestDecodeClaims: numbers of points that nothing on the wire vouches for are
// refused at once, not counted through.
func TestDecodeClaims(t *testing.T) {
	for i, c := range [][2]int{{0, 1 << 40}, {4, 1 << 62}, {2, math.MinInt64}, {1, 3}, {-1, 0}, {4, 1 << 62}, {2, math.MinInt64}, {1, 3}} {
		dim, n, no, yes, f := c[0], c[1], false, true, funcs[0]
		data, err := state.Append(nil, func(s *state.Fields) {
			s.Group("kernel", f.fields)
			s.Int("dim", &dim)
			s.Int("points", &n)
			s.Bool("sparse", &no)
			s.Bool("full", &yes)
			if i < 5 {
				s.Float32s("val", &[]float32{})
			} else {
				s.Bytes("planes", &[]byte{1, 2, 3, 4})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Decode(data, New(Func{}).Fields); err == nil {
			t.Errorf("%d points of %d features with no or one number were accepted", n, dim)
		}
	}
}
