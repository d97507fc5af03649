package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// codes lists what this CPU can run beside the pure-Go code.
func codes(t testing.TB) []code {
	var cs []code
	for c := generic + 1; c <= best(); c++ {
		cs = append(cs, c)
	}
	if len(cs) == 0 {
		t.Skip("no assembly for this CPU in this build")
	}
	return cs
}

var guard32 = math.Float32frombits(0x7fedcba9)

// guarded returns n elements inside a larger slice of guard words, and a
// function that tells whether the guards are intact.
func guarded(n, offset int) ([]float32, func() bool) {
	all := make([]float32, offset+n+67)
	for i := range all {
		all[i] = guard32
	}
	return all[offset : offset+n : offset+n], func() bool {
		for i, v := range all {
			if (i < offset || i >= offset+n) && math.Float32bits(v) != math.Float32bits(guard32) {
				return false
			}
		}
		return true
	}
}

// A mix draws features: mostly ordinary ones, with special values at rate.
type mix struct {
	rate  float64
	scale float32
}

var specials = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1,
	math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 1e-40, -3e-39, 0x1p-126, -0x1p-126, 0x1p-75, 0x1p-63,
	math.MaxFloat32, -math.MaxFloat32, 1e19, -2e19, 1 + 0x1p-23, 1 - 0x1p-24, 0x1p24, 0x1p24 + 2,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xffc12345),
}

func (m mix) fill(rng *rand.Rand, dst []float32) {
	for i := range dst {
		switch {
		case rng.Float64() < m.rate:
			dst[i] = specials[rng.IntN(len(specials))]
		case m.rate > 0.2 && rng.IntN(4) == 0:
			dst[i] = math.Float32frombits(rng.Uint32())
		default:
			dst[i] = m.scale * float32(rng.NormFloat64())
		}
	}
}

var mixes = []mix{{0, 1}, {0, 1e-21}, {0, 1e-3}, {0, 1e5}, {0.003, 1}, {0.5, 1}}

func randomPanels(rng *rand.Rand, m mix, dim, n int) *Panels {
	p := NewPanels(dim)
	row := make([]float32, dim)
	for range n {
		m.fill(rng, row)
		p.Append(row)
	}
	// Guard words on both sides of the packed rows.
	data, _ := guarded(len(p.data), 1+rng.IntN(20))
	copy(data, p.data)
	p.data = data
	return p
}

var kernels = []Kernel{
	{Kind: RBF, Gamma: 0.1}, {Kind: RBF, Gamma: 1e-30}, {Kind: RBF, Gamma: 3e38}, {Kind: RBF, Gamma: math.SmallestNonzeroFloat32},
	{Kind: RBF, Gamma: 0}, {Kind: RBF, Gamma: -1}, {Kind: RBF, Gamma: float32(math.Inf(1))}, {Kind: RBF, Gamma: float32(math.NaN())},
	{Kind: RBF, Gamma: 20}, {Kind: RBF, Gamma: 1e4},
	{Kind: Linear},
	{Kind: Polynomial, Gamma: 0.5, Coef0: 1, Degree: 3}, {Kind: Polynomial, Gamma: 1, Coef0: float32(math.Copysign(0, -1)), Degree: 1},
	{Kind: Polynomial, Gamma: 1e3, Coef0: -7, Degree: 10}, {Kind: Polynomial, Gamma: 1, Degree: 0},
	{Kind: Laplacian, Gamma: 0.3}, {Kind: Laplacian, Gamma: 1e-20}, {Kind: Laplacian, Gamma: 1e20},
}

func same32(a, b []float32) (int, bool) {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i, false
		}
	}
	return 0, true
}

// checkBlock runs one block on every code and compares bits with the pure-Go
// code's.
func checkBlock(t testing.TB, rng *rand.Rand, k Kernel, m mix, dim, n, rows, from, to int) {
	t.Helper()
	p := randomPanels(rng, m, dim, rows)
	x, _ := guarded(n*dim, 1+rng.IntN(20))
	m.fill(rng, x)
	ld := to - from + rng.IntN(3)
	size := 0
	if n > 0 {
		size = (n-1)*ld + to - from
	}
	offset := rng.IntN(20)
	want, _ := guarded(size, offset)
	k.blockOn(generic, want, ld, x, n, p, from, to)
	for _, c := range codes(t) {
		got, intact := guarded(size, offset)
		k.blockOn(c, got, ld, x, n, p, from, to)
		if i, ok := same32(got, want); !ok {
			t.Fatalf("%+v %+v dim %d, row %d of %d, column %d of %d to %d: %s gives %x (%g), Go %x (%g)", k, m, dim, i/ld, n,
				from+i%ld, from, to, c, math.Float32bits(got[i]), got[i], math.Float32bits(want[i]), want[i])
		}
		if !intact() {
			t.Fatalf("%+v dim %d, %d rows, columns %d to %d: %s writes outside its slice", k, dim, n, from, to, c)
		}
	}
}

func TestBlockSameBitsOverLengths(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	for length := range 201 {
		for _, k := range kernels[:1:1] {
			checkBlock(t, rng, k, mixes[0], 5, 1, length, 0, length)
			checkBlock(t, rng, k, mixes[0], length, 7, 20, 1, 18)
		}
		k, m := kernels[rng.IntN(len(kernels))], mixes[rng.IntN(len(mixes))]
		from := rng.IntN(length + 1)
		checkBlock(t, rng, k, m, 1+rng.IntN(9), rng.IntN(20), 200, from, length)
		checkBlock(t, rng, k, m, length, rng.IntN(9), 130, rng.IntN(64), 64+rng.IntN(66))
	}
}

func TestBlockSameBits(t *testing.T) {
	const seed = 2
	for ki, k := range kernels {
		for mi, m := range mixes {
			t.Run(fmt.Sprintf("%d/%d", ki, mi), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, uint64(ki*100+mi)))
				for _, n := range []int{1, 2, 3, 4, 5, 6, 8, 11, 55} {
					dim := 1 + rng.IntN(12)
					from := rng.IntN(200)
					to := from + rng.IntN(321-from)
					checkBlock(t, rng, k, m, dim, n, 320, from, to)
				}
				checkBlock(t, rng, k, m, 1+rng.IntN(3), 2, 64*70, rng.IntN(3), 64*70)
			})
		}
	}
}

func TestBlockDependsOnItsRowsOnly(t *testing.T) {
	const seed, dim, rows, n = 3, 11, 333, 13
	rng := rand.New(rand.NewPCG(seed, 0))
	p := randomPanels(rng, mixes[0], dim, rows)
	x := make([]float32, n*dim)
	mixes[0].fill(rng, x)
	for _, k := range []Kernel{kernels[0], {Kind: Linear}, kernels[11], kernels[15]} {
		whole := make([]float32, n*rows)
		k.Block(whole, rows, x, n, p, 0, rows)
		piece := make([]float32, rows)
		for range 300 {
			r, from := rng.IntN(n), rng.IntN(rows)
			to := from + rng.IntN(rows-from+1)
			k.Block(piece, rows, x[r*dim:], 1, p, from, to)
			if i, ok := same32(piece[:to-from], whole[r*rows+from:][:to-from]); !ok {
				t.Fatalf("%+v row %d, columns %d to %d: value %d is %g alone, %g in the block", k, r, from, to, i, piece[i], whole[r*rows+from+i])
			}
		}
	}
}

// TestAppendKeepsValues extends a kernel row while rows arrive.
func TestAppendKeepsValues(t *testing.T) {
	const seed, dim, rows = 17, 7, 300
	rng := rand.New(rand.NewPCG(seed, 0))
	k := kernels[0]
	all := randomPanels(rng, mixes[0], dim, rows)
	x, row := make([]float32, dim), make([]float32, dim)
	mixes[0].fill(rng, x)
	want, got := make([]float32, rows), make([]float32, rows)
	k.Block(want, rows, x, 1, all, 0, rows)
	p := NewPanels(dim)
	for done := 0; done < rows; {
		for range 1 + rng.IntN(40) {
			if p.Len() < rows {
				all.Row(row, p.Len())
				p.Append(row)
			}
		}
		if rng.IntN(4) == 0 && p.Len() > done { // the last one is dropped again
			p.Truncate(p.Len() - 1)
		}
		k.Block(got[done:], p.Len()-done, x, 1, p, done, p.Len())
		done = p.Len()
	}
	if i, ok := same32(got, want); !ok {
		t.Errorf("value %d is %g in the extended row, %g in the whole one", i, got[i], want[i])
	}
}

// TestAppendFrom compares rows that are copied together with rows that are copied
// one by one, behind others and in memory that has been in use.
func TestAppendFrom(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, dim := range []int{0, 1, 5, 17} {
		from := NewPanels(dim)
		row := make([]float32, dim)
		for range 3*Width + 5 {
			for k := range row {
				row[k] = r.Float32()
			}
			from.Append(row)
		}
		got := NewPanels(dim)
		for _, n := range []int{0, 1, 63, 64, 65, 150} {
			got.Truncate(r.IntN(got.Len() + 1))
			want := NewPanels(dim)
			for i := range got.Len() {
				got.Row(row, i)
				want.Append(row)
			}
			idx := make([]int32, n)
			for i := range idx {
				idx[i] = int32(r.IntN(from.Len()))
				from.Row(row, int(idx[i]))
				want.Append(row)
			}
			got.AppendFrom(from, idx)
			if got.Len() != want.Len() || !slices.Equal(got.data, want.data) {
				t.Fatalf("%d rows of %d features: not those that are copied one by one", n, dim)
			}
		}
	}
}

// TestWidenKeepsValues appends zero features to both sides.
func TestWidenKeepsValues(t *testing.T) {
	const seed, rows = 4, 100
	for ki, k := range kernels {
		for mi, m := range mixes {
			rng := rand.New(rand.NewPCG(seed, uint64(ki*100+mi)))
			for dim := range 5 {
				p := randomPanels(rng, m, dim, rows)
				x := make([]float32, dim)
				m.fill(rng, x)
				for c := generic; c <= best(); c++ {
					before, after := make([]float32, rows), make([]float32, rows)
					k.blockOn(c, before, rows, x, 1, p, 0, rows)
					wide := *p
					wide.Widen(dim + 3)
					k.blockOn(c, after, rows, append(append([]float32(nil), x...), 0, 0, 0), 1, &wide, 0, rows)
					if i, ok := same32(before, after); !ok {
						t.Fatalf("%s %+v %+v dim %d: column %d was %x, is %x", c, k, m, dim, i, math.Float32bits(before[i]), math.Float32bits(after[i]))
					}
				}
			}
		}
	}
}

// TestWidenUnderflow is the case that a sum of −0 would spoil.
func TestWidenUnderflow(t *testing.T) {
	p := NewPanels(1)
	p.Append([]float32{-1e-30})
	for c := generic; c <= best(); c++ {
		var out [1]float32
		Kernel{Kind: Linear}.blockOn(c, out[:], 1, []float32{1e-30}, 1, p, 0, 1)
		if math.Float32bits(out[0]) != 0 {
			t.Errorf("%s: %x, want +0", c, math.Float32bits(out[0]))
		}
	}
}

// TestApply compares it with Block: of a sum with 0 or 1, in the one feature.
func TestApply(t *testing.T) {
	const seed, rows = 13, 203
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, k := range kernels {
		for _, m := range mixes {
			p := randomPanels(rng, m, 1, rows)
			x, sum := []float32{0}, make([]float32, rows)
			for i := range sum {
				p.Row(sum[i:], i)
				switch k.Kind {
				case RBF:
					sum[i] *= sum[i]
				case Laplacian:
					sum[i] = float32(math.Abs(float64(sum[i])))
				default:
					x[0] = 1
				}
			}
			want := make([]float32, rows)
			k.blockOn(generic, want, rows, x, 1, p, 0, rows)
			for c := generic; c <= best(); c++ {
				n, off := rng.IntN(rows+1), rng.IntN(9)
				got, intact := guarded(n, off)
				copy(got, sum)
				k.applyOn(c, got)
				if i, ok := same32(got, want); !ok || !intact() {
					t.Fatalf("%s, %+v, %+v, sum %g: %g, want %g; guards intact: %v", c, k, m, sum[i], got[i], want[i], intact())
				}
			}
		}
	}
}

func TestShift(t *testing.T) {
	const seed = 17
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := range 201 {
		for _, m := range mixes {
			start, _ := guarded(n+1, 0)
			m.fill(rng, start)
			c := start[n]
			want := append([]float32(nil), start[:n]...)
			shiftOn(generic, want, c)
			for i, v := range want {
				if sum := start[i] + c; v != sum && sum == sum {
					t.Fatalf("n %d: element %d is %g, want %g", n, i, v, sum)
				}
			}
			for _, on := range codes(t) {
				got, intact := guarded(n, rng.IntN(9))
				copy(got, start)
				shiftOn(on, got, c)
				if i, ok := same32(got, want); !ok || !intact() {
					t.Fatalf("n %d, %+v, shift %g: %s gives %g for value %d, Go %g; guards intact: %v", n, m, c, on, got[i], i, want[i], intact())
				}
			}
		}
	}
}
