package rows

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

var kernels = []kernel.Func{
	{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: .013}},
	{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 3}, Bias: .25},
	{Kernel: vec.Kernel{Kind: vec.Laplacian, Gamma: .1}},
	{Kernel: vec.Kernel{Kind: vec.Linear}, Bias: 1},
	{Kernel: vec.Kernel{Kind: vec.Polynomial, Gamma: .1, Coef0: 1, Degree: 3}},
}

// binary draws a point of up to dim features, sparse or dense, with zeros
// listed and features left out at the end.
func binary(r *rng.Source, dim int) stream.Vec {
	n := 1 + r.IntN(dim)
	var x stream.Vec
	if r.IntN(2) == 0 {
		x.Val = make([]float32, n)
		for k := range x.Val {
			x.Val[k] = float32(r.IntN(2))
		}
		return x
	}
	x.Idx = []int32{}
	for k := range n {
		if r.IntN(8) == 0 {
			x.Idx = append(x.Idx, int32(k))
			x.Val = append(x.Val, float32(min(1, r.IntN(4))))
		}
	}
	return x
}

// Rows from bits have the values that the layout of the points gives, in every
// bit, while points are appended and replaced, features are added, and points
// that are not binary come and go.
func TestBits(t *testing.T) {
	for k, f := range kernels {
		for _, dim := range []int{3, 64, 100, 128, 129, 700, 1024, 1500} {
			r := rng.New(uint64(k), "rows.test")
			b := kernel.New(f)
			c := New(b, 1<<20)
			odd, used := -1, 0
			for step := range 200 {
				x := binary(r, 1+dim*min(step+20, 200)/200)
				if step == 60 {
					x.Val = append([]float32{.5}, x.Val...)
					x.Idx = nil
				}
				i := b.Len()
				switch {
				case step == 100 && odd >= 0:
					i = odd
				case step > 60 && step%3 == 0:
					i = r.IntN(i)
				}
				if i < b.Len() {
					b.Set(i, x)
				} else {
					b.Append(x)
				}
				if step == 60 {
					odd = i
				} else if odd == i {
					odd = -1
				}
				c.Tick()
				c.Changed(i)
				c.Sync()
				if c.Direct() != (odd < 0 && b.Dim() <= bitFeatures) {
					t.Fatalf("kernel %v, %d features: direct is %v with odd point %d", f, b.Dim(), c.Direct(), odd)
				}
				if c.Direct() {
					used++
				}
				j := r.IntN(b.Len())
				want := make([]float32, b.Len())
				b.Between(want, len(want), []int32{int32(j)}, 0, len(want))
				for m, v := range c.Row(j) {
					if math.Float32bits(v) != math.Float32bits(want[m]) {
						t.Fatalf("kernel %v, %d features, step %d: K(%d,%d) is %g, want %g", f, dim, step, j, m, v, want[m])
					}
				}
			}
			if dim <= 700 && used < 100 {
				t.Errorf("bits were used in %d steps only", used)
			}
		}
	}
}

// TestGroupsGo: what machines without the instructions compute is what one point
// at a time gives.
func TestGroupsGo(t *testing.T) {
	for k, f := range kernels {
		for _, dim := range []int{3, 100, 700} {
			r := rng.New(uint64(k), "rows.groups")
			b := kernel.New(f)
			c := New(b, 1<<20)
			for range 5*group + 3 {
				c.Changed(b.Append(binary(r, dim)))
			}
			c.Sync()
			if !c.Direct() {
				t.Fatalf("kernel %v, %d features: no bits", f, dim)
			}
			var a [bitFeatures / 64]uint64
			c.bits.point(&a, 7)
			got, want := make([]float32, 5*group), make([]float32, 5*group)
			c.bits.groupsGo(got, &a, c.bits.words[:5*group*c.bits.width()])
			c.bits.some(want, &a, 0)
			if !slices.Equal(got, want) {
				t.Errorf("kernel %v, %d features: %g, want %g", f, dim, got, want)
			}
		}
	}
}

// Pieces of rows have the values of the points whatever is held, while points are
// appended and truncated, and more rows are asked for than there is room for.
func TestEach(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for k, bytes := range []int{0, 40 * 4 * 5000, 1 << 30, 0, 1 << 30} {
		runtime.GOMAXPROCS(1 + k%3)
		r := rng.New(uint64(bytes), "rows.each")
		b := kernel.New(kernels[1])
		c := New(b, bytes)
		last := int64(0)
		for step := range 12 {
			old := b.Len()
			if step%4 == 3 {
				old -= 1500
				c.Truncate(old)
				b.Truncate(old)
			}
			for range 500 + r.IntN(1000) {
				x := stream.Vec{Val: make([]float32, 3)}
				for k := range x.Val {
					x.Val[k] = r.Float32()
				}
				b.Append(x)
			}
			n := b.Len()
			for _, from := range []int{old, 0} {
				var idx []int32
				for i := range n {
					if i < 100 || r.IntN(20) == 0 {
						idx = append(idx, int32(i))
					}
				}
				want := make([]float32, n)
				var one sync.Mutex // pieces may come at the same time
				seen := make([]int, n)
				c.Each(idx, from, n, true, func(i, at int, k []float32) {
					one.Lock()
					defer one.Unlock()
					b.Between(want, n, []int32{idx[i]}, at, at+len(k))
					for j, v := range k {
						if seen[at+j] != i {
							t.Errorf("column %d: row %d, want %d", at+j, i, seen[at+j])
						}
						seen[at+j]++
						if v != want[j] {
							t.Errorf("K(%d,%d) is %g, want %g", idx[i], at+j, v, want[j])
						}
					}
				})
				for j, rows := range seen[from:] {
					if rows != len(idx) {
						t.Fatalf("column %d has %d rows of %d", from+j, rows, len(idx))
					}
				}
				if t.Failed() {
					return
				}
			}
			if c.held > c.limit() {
				t.Fatalf("%d rows held, limit %d", c.held, c.limit())
			}
			if c.Evals == last {
				t.Error("no value was computed")
			}
			last = c.Evals
		}
	}
}

// A restored cache counts the same values as the one that was stored, and
// delivers the same.
func TestRestore(t *testing.T) {
	r := rng.New(3, "rows.restore")
	b := kernel.New(kernels[1])
	point := func() stream.Vec { return stream.Vec{Val: []float32{r.Float32(), r.Float32()}} }
	c := New(b, 30*4*60)
	for round := range 40 {
		c.Tick()
		for range 3 {
			if i := r.IntN(60); i < b.Len() {
				b.Set(i, point())
				c.Changed(i)
			} else {
				c.Changed(b.Append(point()))
			}
		}
		c.Sync()
		d := New(b, 30*4*60)
		data, err := state.Append(nil, c.Fields)
		if err == nil {
			err = state.Decode(data, d.Fields)
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			i := r.IntN(b.Len())
			if round%2 == 0 && !c.Has(int32(i)) {
				c.Fetch([]int32{int32(i)})
				d.Fetch([]int32{int32(i)})
			}
			x, y := c.Row(i), d.Row(i)
			want := make([]float32, b.Len())
			b.Between(want, len(want), []int32{int32(i)}, 0, len(want))
			if !slices.Equal(x, want) || !slices.Equal(y, want) {
				t.Fatalf("round %d: row %d is wrong", round, i)
			}
		}
		if c.Evals != d.Evals {
			t.Fatalf("round %d: %d values, %d after a restart", round, c.Evals, d.Evals)
		}
		c = d
	}
}

// Directories that do not fit the points, or themselves, are refused.
func TestRestoreRefuses(t *testing.T) {
	b := kernel.New(kernels[1])
	for i := range 3 {
		b.Append(stream.Vec{Val: []float32{float32(i), 1}})
	}
	for _, c := range []struct {
		held          []int32
		tick, changed []uint64
		ok            bool
	}{
		{[]int32{2, 0}, []uint64{1, 1}, []uint64{1, 1, 1}, true},
		{[]int32{2, 0}, []uint64{1}, []uint64{1, 1, 1}, false},
		{[]int32{2}, []uint64{1, 1}, []uint64{1, 1, 1}, false},
		{[]int32{2, 0}, []uint64{1, 1}, []uint64{1, 1}, false},
		{[]int32{2, 0}, []uint64{1, 1}, []uint64{1, 1, 1, 1}, false},
		{[]int32{0, 1, 2, 0}, []uint64{1, 1, 1, 1}, []uint64{1, 1, 1}, false},
		{[]int32{2, 2}, []uint64{1, 1}, []uint64{1, 1, 1}, false},
		{[]int32{3}, []uint64{1}, []uint64{1, 1, 1}, false},
		{[]int32{-1}, []uint64{1}, []uint64{1, 1, 1}, false},
	} {
		data, err := state.Append(nil, func(f *state.Fields) {
			now, evals := uint64(1), int64(0)
			f.Int32s("held", &c.held)
			f.Uint64s("tick", &c.tick)
			f.Uint64s("changed", &c.changed)
			f.Uint64("now", &now)
			f.Int64("evals", &evals)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Decode(data, New(b, 1<<20).Fields); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
