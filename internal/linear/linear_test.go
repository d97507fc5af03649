package linear_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	. "github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/testkit/pointtest"
)

func TestDotAndAxpy(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n, d := r.IntN(200), r.IntN(200)
		w := pointtest.Weights(r, n, 0.8)
		x, s := pointtest.Both(r, d)
		got := Dot(w, x)
		if other := Dot(w, s); math.Float64bits(other) != math.Float64bits(got) {
			t.Fatalf("%d weights, %d features: %g dense, %g sparse", n, d, got, other)
		}
		exact, size := new(big.Float).SetPrec(300), 0.0
		for j := range min(n, d) {
			p := new(big.Float).SetPrec(300).Mul(big.NewFloat(w[j]), big.NewFloat(float64(x.Val[j])))
			exact.Add(exact, p)
			size += math.Abs(w[j] * float64(x.Val[j]))
		}
		want, _ := exact.Float64()
		if math.Abs(got-want) > 1e-14*size {
			t.Fatalf("%g, want %g", got, want)
		}
		sq := 0.0
		for _, v := range x.Val {
			sq += float64(v) * float64(v)
		}
		if a, b := Square(x), Square(s); a != b || math.Abs(a-sq) > 1e-13*sq {
			t.Fatalf("square %g dense, %g sparse, want %g", a, b, sq)
		}

		c := r.NormFloat64()
		a, b := Grow(append([]float64(nil), w...), d), Grow(append([]float64(nil), w...), d)
		if len(a) != max(n, d) {
			t.Fatalf("grown to %d", len(a))
		}
		Axpy(c, x, a)
		Axpy(c, s, b)
		for j := range a {
			want := 0.0
			if j < n {
				want = w[j]
			}
			if j < d {
				want += float64(c * float64(x.Val[j]))
			}
			if a[j] != want || b[j] != want {
				t.Fatalf("weight %d: %g dense, %g sparse, want %g", j, a[j], b[j], want)
			}
		}
	}
}

func TestSoftplus(t *testing.T) {
	for x := -750.0; x < 750; x += 0.0137 {
		e := math.Exp(-math.Abs(x))
		want := math.Max(x, 0) + math.Log1p(e)
		if got := Softplus(x); math.Abs(got-want) > 1e-14*want && x > -700 || x <= -700 && got != 0 {
			t.Fatalf("%v: %v, want %v", x, got, want)
		}
	}
	if Softplus(math.Inf(1)) != math.Inf(1) || Softplus(math.Inf(-1)) != 0 || !math.IsNaN(Softplus(math.NaN())) {
		t.Errorf("%v %v %v", Softplus(math.Inf(1)), Softplus(math.Inf(-1)), Softplus(math.NaN()))
	}
}

func TestExpNeg(t *testing.T) {
	for x := 0.0; x < 750; x += 0.0371 {
		if got, want := ExpNeg(x), math.Exp(-x); math.Abs(got-want) > 2e-15*want && x < 700 || x >= 700 && got != 0 {
			t.Fatalf("exp(-%g) = %g, want %g", x, got, want)
		}
	}
}

// A factor solves the system that it was made of, and leaves coordinates out
// that depend on others.
func TestCholesky(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	const n = 12
	for _, singular := range []bool{false, true} {
		var x [20][n]float64
		a := make(Lower, Triangle(n))
		for k := range x {
			for j := range x[k] {
				x[k][j] = r.NormFloat64()
			}
			if singular {
				x[k][7] = x[k][2]
			}
			for i := range n {
				for j := range a.Row(i) {
					a.Row(i)[j] += x[k][i] * x[k][j]
				}
			}
		}
		want, b := make([]float64, n), make([]float64, n)
		for j := range want {
			want[j] = r.NormFloat64()
		}
		if singular {
			want[7] = 0
		}
		for i := range n {
			for j, v := range a.Row(i) {
				b[i] += v * want[j]
				if j < i {
					b[j] += v * want[i]
				}
			}
		}
		if f := append(Lower(nil), a...); f.Cholesky(n, 1e-12, false) == singular {
			t.Fatalf("singular %v", singular)
		}
		a.Cholesky(n, 1e-12, true)
		a.Solve(b)
		for j := range want {
			if math.Abs(b[j]-want[j]) > 1e-11 {
				t.Errorf("singular %v: x[%d] = %g, want %g", singular, j, b[j], want[j])
			}
		}
	}
}
