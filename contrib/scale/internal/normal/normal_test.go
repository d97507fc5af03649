package normal

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// row returns a row of an example and its weight. Some weights have many bits.
func row(r *rand.Rand, dim, heads int) ([]int16, uint64) {
	z, v := make([]float32, dim-1), make([]int16, dim+heads)
	for j := range z {
		z[j] = float32(math.Cos(r.NormFloat64() * 3))
	}
	v[0] = One
	Round(v[1:], z)
	for k, one := dim, r.IntN(heads+1); k < len(v); k++ {
		v[k] = -One
		if k == dim+one {
			v[k] = One
		}
	}
	return v, Weight([]float64{1, 1, 1, 20, .3, 1 / .7, 4095, 1e9, 0}[r.IntN(9)])
}

func encoded(t testing.TB, s *Sums) []byte {
	t.Helper()
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sumsOf(t testing.TB, dim, heads int, hinge bool) *Sums {
	t.Helper()
	s, err := New(dim, heads, hinge)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Features are rounded to the nearest of 4,095 numbers, those a little beyond 1 too.
func TestRound(t *testing.T) {
	z := []float32{0, 1, -1, 1 + 3e-7, -1 - 3e-7, .5 / One, 1.5 / One, -.6 / One, .3}
	row := make([]int16, len(z))
	Round(row, z)
	if want := []int16{0, One, -One, One, -One, 0, 2, -1, 614}; !slices.Equal(row, want) {
		t.Errorf("%v, want %v", row, want)
	}
	for j, v := range z {
		if v != float32(row[j]) {
			t.Errorf("%v is not %d", v, row[j])
		}
	}
	for w, want := range map[float64]uint64{1: 256, 1e9: 4095 * 256, 0: 1, 1. / 3: 85, 20: 20 * 256} {
		if got := Weight(w); got != want {
			t.Errorf("weight %g is %d units, want %d", w, got, want)
		}
	}
}

// The sums are those of the definition, exactly: over a block whose sums are the largest
// that 32 bits hold, over weights of many bits, and over several blocks.
func TestSums(t *testing.T) {
	const dim = 21
	for _, heads := range []int{1, 3} {
		for _, hinge := range []bool{false, true} {
			s, r := sumsOf(t, dim, heads, hinge), rand.New(rand.NewPCG(1, uint64(heads)))
			want := make([][]big.Int, len(s.grams))
			for k := range want {
				want[k] = make([]big.Int, len(s.grams[k].low))
			}
			for i := range 3*block + 7 {
				v, w := row(r, dim, heads)
				if i < block {
					w = 1 << 19
					for j := range v {
						v[j] = One
					}
				}
				s.Count(w)
				for k := range s.grams {
					if hinge && i%3 == k {
						continue
					}
					v := v[:s.grams[k].size]
					s.Add(k, v, w)
					at := 0
					for j := range v {
						for c := range j + 1 {
							p := big.NewInt(int64(v[j]) * int64(v[c]))
							want[k][at].Add(&want[k][at], p.Mul(p, big.NewInt(int64(w))))
							at++
						}
					}
				}
			}
			encoded(t, s)
			for k := range want {
				for i := range want[k] {
					if got := big.NewInt(int64(s.grams[k].low[i])); got.Cmp(&want[k][i]) != 0 {
						t.Fatalf("%d targets, hinge %v: number %d of matrix %d is %v, want %v", heads, hinge, i, k, got, &want[k][i])
					}
				}
			}
		}
	}
}

// However examples are split, shuffled and merged, and wherever sums are stored and
// restored, the bytes are the same.
func TestSplits(t *testing.T) {
	const dim, n = 18, 1300
	for _, heads := range []int{1, 4} {
		for _, hinge := range []bool{false, true} {
			r := rand.New(rand.NewPCG(3, uint64(heads)))
			rows, weights := make([][]int16, n), make([]uint64, n)
			for i := range rows {
				rows[i], weights[i] = row(r, dim, heads)
			}
			var want []byte
			for _, parts := range []int{1, 3, 17, 100} {
				list := make([]*Sums, parts)
				for p := range list {
					list[p] = sumsOf(t, dim, heads, hinge)
				}
				for _, i := range r.Perm(n) {
					p := r.IntN(parts)
					s := list[p]
					s.Count(weights[i])
					for k := range s.grams {
						if !hinge || (i+k)%3 > 0 {
							s.Add(k, rows[i][:s.grams[k].size], weights[i])
						}
					}
					if r.IntN(50) == 0 {
						list[p] = new(Sums)
						if err := list[p].UnmarshalBinary(encoded(t, s)); err != nil {
							t.Fatal(err)
						}
					}
				}
				for len(list) > 1 { // a random tree
					a, b := r.IntN(len(list)), r.IntN(len(list)-1)
					if b >= a {
						b++
					}
					if err := list[a].Merge(list[b]); err != nil {
						t.Fatal(err)
					}
					list = slices.Delete(list, b, b+1)
				}
				got := encoded(t, list[0])
				if want == nil {
					want = got
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%d targets, hinge %v: %d parts have other sums", heads, hinge, parts)
				}
			}
		}
	}
}

// A target that is added was −1 for the examples before.
func TestAddHead(t *testing.T) {
	const dim = 18
	few, many, r := sumsOf(t, dim, 2, false), sumsOf(t, dim, 3, false), rand.New(rand.NewPCG(1, 1))
	for i := range 100 {
		v, w := row(r, dim, 2)
		if i == 70 {
			few.AddHead()
		}
		for _, s := range []*Sums{few, many} {
			s.Count(w)
			s.Add(0, append(v, -One)[:s.grams[0].size], w)
		}
	}
	if !bytes.Equal(encoded(t, few), encoded(t, many)) {
		t.Error("other sums")
	}
}

// Sums of another form are not added, nor are sums that could overflow, and states that
// cannot be are refused.
func TestRefused(t *testing.T) {
	s := sumsOf(t, 4, 2, false)
	for _, o := range []*Sums{sumsOf(t, 4, 1, false), sumsOf(t, 5, 2, false), sumsOf(t, 4, 2, true)} {
		if s.Merge(o) == nil {
			t.Errorf("sums of %d, %d, %v are added", o.dim, o.heads, o.hinge)
		}
	}
	for _, o := range [][2]int{{0, 1}, {MaxDim + 1, 1}, {1, 0}} {
		if _, err := New(o[0], o[1], false); err == nil {
			t.Errorf("New(%v) is no error", o)
		}
	}
	s.Count(256)
	s.Add(0, []int16{One, 3, -5, One, 0, One}, 256)
	good := encoded(t, s)
	for i, change := range []func(*Sums){
		func(s *Sums) { s.dim = 5 }, func(s *Sums) { s.heads = 3 }, func(s *Sums) { s.heads = -1 }, func(s *Sums) { s.weight++ }, func(s *Sums) { s.weight = 1 << 63 },
		func(s *Sums) { s.grams[0].low[0]++ }, func(s *Sums) { s.grams[0].low[2] = 1 << 62 }, func(s *Sums) { s.grams[0].low = s.grams[0].low[1:] }, func(s *Sums) { s.n = 257 },
		func(s *Sums) { s.grams[0].low[0] = 1 << 63 },
	} {
		bad := new(Sums)
		if err := bad.UnmarshalBinary(good); err != nil {
			t.Fatal(err)
		}
		change(bad)
		if err := new(Sums).UnmarshalBinary(encoded(t, bad)); err == nil {
			t.Errorf("state %d, which cannot be, is accepted", i)
		}
	}
	full := sumsOf(t, 1, 1, false)
	full.weight = maxWeights/2 + 1
	full.grams[0].low[0] = full.weight * One * One
	if !full.Full() || full.Merge(full) == nil || int64(full.grams[0].low[0]) < 0 {
		t.Error("sums overflow")
	}
}

func FuzzDecode(f *testing.F) {
	for _, hinge := range []bool{false, true} {
		s := sumsOf(f, 3, 2, hinge)
		s.Count(300)
		s.Add(0, []int16{One, 7, -One, One, 0}[:s.grams[0].size], 300)
		good, err := state.Append(nil, s.Fields)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(good)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := new(Sums)
		if s.UnmarshalBinary(data) == nil {
			ridge := make([]float64, s.Dim())
			for j := range ridge {
				ridge[j] = 1
			}
			if sol, err := s.Solve(ridge); err == nil {
				s.At(sol.X, ridge)
			}
			_ = fmt.Sprint(s.Mass(), s.Active(), s.Full())
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	const dim = 1025
	s, r := sumsOf(b, dim, 1, false), rand.New(rand.NewPCG(1, 1))
	v, _ := row(r, dim, 1)
	for b.Loop() {
		s.Add(0, v, 256)
	}
}
