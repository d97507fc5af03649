package normal

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// example returns features, some of them 0, a target and a weight.
func example(r *rand.Rand, dim, heads int) (z []float32, t, w float64) {
	z = make([]float32, dim)
	for j := range z {
		if r.IntN(4) > 0 {
			z[j] = float32(r.NormFloat64())
		}
	}
	if t = r.NormFloat64(); heads > 1 {
		t = float64(r.IntN(heads))
	}
	return z, t, math.Exp(r.NormFloat64())
}

func encoded(t *testing.T, s *Sums) []byte {
	t.Helper()
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The sums are those of the definition, to rounding, and where they are stored and
// restored changes no bit.
func TestSums(t *testing.T) {
	const dim, n = 7, 5*Block + 11
	for _, heads := range []int{1, 3} {
		for _, half := range []float64{0, 100} {
			s, err := New(dim, heads, half)
			if err != nil {
				t.Fatal(err)
			}
			again, _ := New(dim, heads, half)
			r := rand.New(rand.NewPCG(1, uint64(heads)))
			low, rhs, mass, square := make([]float64, dim*dim), make([]float64, heads*dim), 0.0, 0.0
			for i := range n {
				z, y, w := example(r, dim, heads)
				s.Add(z, y, w)
				again.Add(z, y, w)
				if r.IntN(10) == 0 {
					b := encoded(t, again)
					again, _ = New(2, 1, 5)
					if err := again.UnmarshalBinary(b); err != nil {
						t.Fatal(err)
					}
				}
				if half > 0 {
					w *= math.Exp2(-Block * float64(n/Block-i/Block) / half)
				}
				for j := range dim {
					for k := range dim {
						low[j*dim+k] += w * float64(z[j]) * float64(z[k])
					}
					if heads == 1 {
						rhs[j] += w * y * float64(z[j])
					} else {
						rhs[int(y)*dim+j] += w * float64(z[j])
					}
				}
				mass += w
				if heads == 1 {
					square += w * y * y
				}
			}
			if !bytes.Equal(encoded(t, s), encoded(t, again)) {
				t.Errorf("%d heads, half-life %g: sums that were stored differ", heads, half)
			}
			near := func(what string, got, want float64) {
				if math.Abs(got-want) > 1e-12*(1+math.Abs(want)+mass) {
					t.Errorf("%d heads, half-life %g: %s is %v, want %v", heads, half, what, got, want)
				}
			}
			near("mass", s.Mass(), mass)
			near("square", s.square, square)
			for j := range dim {
				for k := range j + 1 {
					near(fmt.Sprint("z z ", j, k), s.low.Row(j)[k], low[j*dim+k])
				}
			}
			for i := range rhs {
				near(fmt.Sprint("rhs ", i), s.rhs[i], rhs[i])
			}
		}
	}
}

// Sums that were widened, at whatever moment, are those of examples whose further
// features are 0, bit for bit; so are narrower ones that are added.
func TestWiden(t *testing.T) {
	const narrow, wide, n = 4, 9, 3*Block + 5
	for _, heads := range []int{1, 3} {
		for _, at := range []int{0, 10, Block, n} {
			r := rand.New(rand.NewPCG(1, uint64(heads)))
			want, _ := New(wide, heads, 50)
			got, _ := New(narrow, heads, 50)
			for i := range n + 1 {
				if i == at {
					got.Widen(wide)
				}
				if i == n {
					break
				}
				z, y, w := example(r, narrow, heads)
				z = append(z, make([]float32, wide-narrow)...)
				want.Add(z, y, w)
				got.Add(z, y, w)
			}
			if string(encoded(t, got)) != string(encoded(t, want)) {
				t.Errorf("%d targets, widened after %d examples: other bits", heads, at)
			}
		}
		r := rand.New(rand.NewPCG(2, uint64(heads)))
		few, _ := New(narrow, heads, 0)
		padded, _ := New(wide, heads, 0)
		others := [3]*Sums{}
		for k := range others {
			others[k], _ = New(wide, heads, 0)
		}
		for range n {
			z, y, w := example(r, narrow, heads)
			few.Add(z, y, w)
			padded.Add(append(z, make([]float32, wide-narrow)...), y, w)
			z, y, w = example(r, wide, heads)
			for _, o := range others {
				o.Add(z, y, w)
			}
		}
		for k, o := range []*Sums{padded, few} {
			if err := others[k].Merge(o); err != nil {
				t.Fatal(err)
			}
		}
		if string(encoded(t, others[0])) != string(encoded(t, others[1])) {
			t.Errorf("%d targets: narrower sums add up to other bits", heads)
		}
		if err := few.Merge(others[2]); err != nil {
			t.Fatal(err)
		}
		if string(encoded(t, few)) != string(encoded(t, others[0])) {
			t.Errorf("%d targets: narrower sums that others are added to have other bits", heads)
		}
	}
}

// Sums of other targets or half-lives are not added, and states that
// cannot be are refused.
func TestRefused(t *testing.T) {
	s, _ := New(4, 2, 0)
	for _, o := range [][3]float64{{4, 1, 0}, {4, 2, 9}} {
		other, err := New(int(o[0]), int(o[1]), o[2])
		if err != nil {
			t.Fatal(err)
		}
		if s.Merge(other) == nil {
			t.Errorf("sums of %v are added", o)
		}
	}
	for _, o := range [][3]float64{{0, 1, 0}, {MaxDim + 1, 1, 0}, {1, 0, 0}, {1, 1, -1}, {1, 1, math.NaN()}} {
		if _, err := New(int(o[0]), int(o[1]), o[2]); err == nil {
			t.Errorf("New(%v) is no error", o)
		}
	}
	s.Add([]float32{1, 2, 3, 4}, 1, 1)
	good := encoded(t, s)
	for _, change := range []func(*Sums){
		func(s *Sums) { s.dim = 5 }, func(s *Sums) { s.heads = 3 }, func(s *Sums) { s.mass = -1 }, func(s *Sums) { s.low[0] = math.NaN() },
		func(s *Sums) { s.rhs[0] = math.Inf(1) }, func(s *Sums) { s.low = s.low[1:] }, func(s *Sums) { s.n = 0 },
	} {
		bad := new(Sums)
		if err := bad.UnmarshalBinary(good); err != nil {
			t.Fatal(err)
		}
		change(bad)
		if err := new(Sums).UnmarshalBinary(encoded(t, bad)); err == nil {
			t.Error("a state is accepted that cannot be")
		}
	}
}

func FuzzDecode(f *testing.F) {
	s, _ := New(3, 2, 10)
	s.Add([]float32{1, 0, 3}, 1, 2)
	good, err := state.Append(nil, s.Fields)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := new(Sums)
		if s.UnmarshalBinary(data) == nil {
			ridge := make([]float64, s.Dim())
			for j := range ridge {
				ridge[j] = 1
			}
			_, _ = s.Solve(ridge)
		}
	})
}
