package vec

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exactFMA is a·b+c rounded once, by arbitrary precision.
func exactFMA(a, b, c float32) float32 {
	x, y, z := float64(a), float64(b), float64(c)
	s := math.FMA(x, y, z)
	if math.IsNaN(s) || math.IsInf(s, 0) || s == 0 {
		return float32(s)
	}
	n := func(v float64) *big.Float { return new(big.Float).SetPrec(700).SetFloat64(v) }
	p := n(x)
	p.Mul(p, n(y)).Add(p, n(z))
	v, _ := p.Float32()
	return v
}

func TestFMA(t *testing.T) {
	const seed = 6
	rng := rand.New(rand.NewPCG(seed, 0))
	draw := func() float32 {
		switch rng.IntN(5) {
		case 0:
			return specials[rng.IntN(len(specials))]
		case 1: // few bits: products and sums that are ties
			return math.Float32frombits(rng.Uint32()&0xff800000&^0x20000000 | 0x20000000 | rng.Uint32()&7<<rng.IntN(21))
		case 2: // near the subnormals
			return float32(rng.NormFloat64()) * float32(math.Ldexp(1, -60-rng.IntN(70)))
		case 3:
			return math.Float32frombits(rng.Uint32())
		}
		return 1 + float32(rng.IntN(9)-4)*0x1p-23
	}
	slow := 0
	for range 300_000 {
		a, b, c := draw(), draw(), draw()
		if u := math.Float64bits(float64(a)*float64(b) + float64(c)); u<<35 == 1<<63 {
			slow++
		}
		got, want := fma(a, b, c), exactFMA(a, b, c)
		if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
			t.Fatalf("fma(%x, %x, %x) = %x, want %x", math.Float32bits(a), math.Float32bits(b), math.Float32bits(c), math.Float32bits(got), math.Float32bits(want))
		}
	}
	if slow < 500 {
		t.Errorf("only %d sums looked like ties", slow)
	}
}

// plainExp is expScale.of written down as the assembly has it.
func plainExp(e expScale, s float32) float32 {
	t := exactFMA(s, e.hi, 0x1.8p23)
	n := t - 0x1.8p23
	r := exactFMA(s, e.hi, -n)
	r = exactFMA(s, e.lo, r)
	y := exp2c6
	for _, c := range []float32{exp2c5, exp2c4, exp2c3, exp2c2, exp2c1, exp2c0} {
		y = exactFMA(y, r, c)
	}
	switch {
	case t != t:
		return nan32
	case s > e.limit:
		return 0
	}
	return math.Float32frombits(math.Float32bits(y) + math.Float32bits(t)<<23)
}

func TestExpOperations(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		gamma := float32(math.Exp(40 * rng.NormFloat64()))
		e := newExpScale(gamma)
		s := float32(rng.Float64() * 1.02 * float64(e.limit))
		switch i % 4 {
		case 0:
			s = math.Float32frombits(rng.Uint32() >> 1)
		case 1: // few units of 2^n
			s = float32(rng.Float64() * 3 / math.Abs(float64(e.hi)))
		}
		if got, want := e.of(s), plainExp(e, s); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("gamma %x, s %x: %x, want %x", math.Float32bits(gamma), math.Float32bits(s), math.Float32bits(got), math.Float32bits(want))
		}
	}
}

func ulp32(x float64) float64 {
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-24, -149))
}

func TestExpError(t *testing.T) {
	const seed, n = 8, 4096
	rng := rand.New(rand.NewPCG(seed, 0))
	p, one := NewPanels(1), []float32{0}
	for range n {
		p.Append(one)
	}
	worst := 0.0
	out := make([]float32, n)
	for round := range 300 {
		k := Kernel{Kind: Laplacian, Gamma: float32(math.Exp(15 * rng.NormFloat64()))}
		width := []float64{87.3, 1, 10}[round%3]
		s := make([]float32, n)
		for i := range s {
			s[i] = float32(rng.Float64() * width / float64(k.Gamma))
			p.Set(i, s[i:i+1])
		}
		k.Block(out, n, one, 1, p, 0, n)
		for i, got := range out {
			want := math.Exp(-float64(k.Gamma) * float64(s[i]))
			if want < 0x1p-125 {
				continue
			}
			worst = max(worst, math.Abs(float64(got)-want)/ulp32(want))
		}
	}
	t.Logf("largest error %.3f ulp", worst)
	if worst > 2 {
		t.Errorf("largest error %.3f ulp, want ≤ 2", worst)
	}
}

// TestSums compares the pure-Go sums with one exact fused multiply-add after
// the other.
func TestSums(t *testing.T) {
	const seed, rows = 9, 9
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 400 {
		m := mixes[round%len(mixes)]
		dim := rng.IntN(40)
		p := randomPanels(rng, m, dim, rows)
		x := make([]float32, dim)
		m.fill(rng, x)
		for _, kind := range []KernelKind{RBF, Linear, Laplacian} {
			var got [rows]float32
			Kernel{Kind: kind}.sums(got[:], x, p.data, 0)
			z := make([]float32, dim)
			for j := range rows {
				p.Row(z, j)
				var want float32
				for f := range x {
					d := x[f] - z[f]
					switch kind {
					case RBF:
						want = exactFMA(d, d, want)
					case Linear:
						want = exactFMA(x[f], z[f], want)
					default:
						want = exactFMA(float32(math.Abs(float64(d))), 1, want)
					}
				}
				if math.Float32bits(got[j]) != math.Float32bits(want) && (want == want || got[j] == got[j]) {
					t.Fatalf("kind %d, %+v, dim %d, column %d: %x, want %x", kind, m, dim, j, math.Float32bits(got[j]), math.Float32bits(want))
				}
			}
		}
	}
}
