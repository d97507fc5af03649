package adaptive

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/internal/plain"
	"github.com/streamsvm/streamsvm/stream"
)

// TestExportNeighbours: the exported points of both windows give the same votes, however
// often the ring has been filled. Every example comes three times, with different labels,
// so that the order counts.
func TestExportNeighbours(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	e := &neighbours{}
	var x []float32
	for n := 1; n <= 2*nearMany+100; n++ {
		if n%3 == 1 {
			x = []float32{float32(r.NormFloat64()), float32(r.NormFloat64()), 0}
		}
		e.add(stream.Vec{Val: x}, math.Copysign(1, r.NormFloat64()))
		if !slices.Contains([]int{nearLeast, nearFew, nearFew + 100, nearMany - 1, nearMany, nearMany + 100, 2*nearMany - 100, 2*nearMany + 100}, n) {
			continue
		}
		for range 20 {
			z := stream.Vec{Val: []float32{float32(r.NormFloat64()), float32(r.NormFloat64()), 0}}
			few, many := votesOf(e, z)
			for second, want := range []score{few, many} {
				form, err := nearFunction{e, second == 1}.export(plain.Options{Numbers: math.MaxInt})
				if err != nil {
					t.Fatal(err)
				}
				m := form.(exportedNeighbours)
				if want := min(n, []int{nearFew, nearMany}[second]); len(m.Points) != want {
					t.Fatalf("%d points of %d in window %d, want %d", len(m.Points), n, second, want)
				}
				if got := exportedVote(m, z.Val); !want.ok || !(math.Abs(got-want.f) <= 1e-3) {
					t.Fatalf("after %d points, window %d: %g, want %v", n, second, got, want)
				}
			}
		}
	}
	if _, err := (nearFunction{e, false}).export(plain.Options{Numbers: 100}); err == nil {
		t.Error("more numbers than allowed are exported")
	}
}

// exportedVote computes what docs/formats/plain.md says.
func exportedVote(m exportedNeighbours, x []float32) float64 {
	type neighbour struct{ d, y float64 }
	var all []neighbour
	for i, p := range m.Points {
		var square float64
		dense, ok := p.([]float32)
		if few, sparse := p.(plain.Sparse[float32]); sparse {
			ok, dense = true, make([]float32, len(x))
			for k, j := range few.Index {
				dense[j] = few.Value[k]
			}
		}
		if !ok || len(dense) != len(x) {
			panic(fmt.Sprintf("a point is a %T", p))
		}
		for j, v := range dense {
			square += math.Pow(float64(v)-float64(x[j]), 2)
		}
		all = append(all, neighbour{math.Sqrt(square), m.Labels[i]})
	}
	slices.SortStableFunc(all, func(a, b neighbour) int { return cmp.Compare(a.d, b.d) })
	var positive, sum float64
	for _, n := range all[:m.Nearest] {
		w := 1 / (n.d + all[m.Nearest/2].d/10 + 1e-9)
		sum += w
		if n.y > 0 {
			positive += w
		}
	}
	k := float64(m.Nearest)
	p := (k*positive/sum + 0.5) / (k + 1)
	return math.Log(p / (1 - p))
}

// TestPackedWeights: published weights have 24 bits, but for those that a float32 cannot hold.
func TestPackedWeights(t *testing.T) {
	w := []float64{1. / 3, -2e300, 3e-300, 0, -5. / 7}
	l := &linearFunction{onZ, slices.Clone(w), 1. / 3}
	got := l.packed()
	for j, v := range got.w {
		small := math.Abs(w[j]) < 1e30 && math.Abs(w[j]) > 1e-30
		if math.Abs(v-w[j]) > 0x1p-24*math.Abs(w[j]) || small != (float64(float32(v)) == v && v != w[j]) && w[j] != 0 {
			t.Errorf("%g became %g", w[j], v)
		}
	}
	if !slices.Equal(l.w, w) || got.b != l.b || got.form != l.form {
		t.Errorf("%v, %v", l, got)
	}
}
