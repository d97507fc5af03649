package adaptive

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// The stack without forgetting is a filter for logistic regression with the prior
// N(0, spread): it must end near the maximum of the posterior, which Newton's method
// finds on all examples at once.
func TestStackAgainstLogisticRegression(t *testing.T) {
	const n, dim, spread = 4000, 5, 0.5
	r := rand.New(rand.NewPCG(7, 7))
	truth := []float64{1, -0.5, 0.3, 0, 0.2}
	s := newStack(dim, spread, 1)
	var xs [][]float64
	var ys []float64
	for range n {
		x, f := make([]float64, dim), 0.0
		for j := range x {
			if x[j] = r.NormFloat64(); j == dim-1 {
				x[j] = 1
			}
			f += truth[j] * x[j]
		}
		y := 0.0
		if r.Float64() < 1/(1+math.Exp(-f)) {
			y = 1
		}
		xs, ys = append(xs, x), append(ys, y)
		s.learn([][]float64{x}, int(y), 1)
	}
	w := mat.NewVecDense(dim, nil)
	for range 20 {
		h, g := mat.NewSymDense(dim, nil), mat.NewVecDense(dim, nil)
		for j := range dim {
			h.SetSym(j, j, 1/spread)
			g.SetVec(j, -w.AtVec(j)/spread)
		}
		for i, x := range xs {
			v := mat.NewVecDense(dim, x)
			p := 1 / (1 + math.Exp(-mat.Dot(w, v)))
			h.SymRankOne(h, p*(1-p), v)
			g.AddScaledVec(g, ys[i]-p, v)
		}
		var step mat.VecDense
		if err := step.SolveVec(h, g); err != nil {
			t.Fatal(err)
		}
		w.AddVec(w, &step)
	}
	for j, v := range s.w {
		if math.Abs(v-w.AtVec(j)) > 0.03 {
			t.Errorf("weights %.3f, the posterior's maximum is at %.3f", s.w, w.RawVector().Data)
			break
		}
	}
}

// The filter's matrix stays symmetric and within its bound, whatever comes.
func TestStackMatrix(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := newStack(4, ownSpread, ownKeep)
	for i := range 20000 {
		x := []float64{6, r.NormFloat64(), 0, 1}
		if i%3 == 0 {
			x[0], x[1] = -6, 6
		}
		s.learn([][]float64{x}, i%2, 1+float64(i%50))
		var trace float64
		for a := range 4 {
			trace += s.p[a*4+a]
			for b := range a {
				if s.p[a*4+b] != s.p[b*4+a] {
					t.Fatalf("after %d examples: %v", i, s.p)
				}
			}
			if !(s.p[a*4+a] >= 0) {
				t.Fatalf("after %d examples: %v", i, s.p)
			}
		}
		if trace > 4*ownSpread*(1+1e-12) {
			t.Fatalf("after %d examples the trace is %g", i, trace)
		}
	}
}

// Scores whose log odds have two slopes are calibrated to those.
func TestCalibrator(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	truth := calibration{square: 4, slope: 3, outer: 0.5, offset: -0.4}
	c := newCalibrator()
	for range 300_000 {
		s := 2 * r.NormFloat64()
		y := 0.0
		if r.Float64() < 1/(1+math.Exp(-truth.logOdds(s))) {
			y = 1
		}
		c.learn(s, linear.Sigmoid(c.raw(c.parts(s))), y, 1e-4, ownOffset, 1)
	}
	for _, s := range []float64{-5, -2, -0.5, 0, 0.3, 1, 3} {
		if got, want := c.logOdds(s), truth.logOdds(s); math.Abs(got-want) > 0.1 {
			t.Errorf("score %g has log odds %.3f, want %.3f: %+v", s, got, want, c.calibration)
		}
	}
	if f := c.logOdds(1e9); f != c.logOdds(8*math.Sqrt(c.square)) || f > mostOdds {
		t.Errorf("the largest score has log odds %g", f)
	}
	// An outlier is learned from as if it were at the bound of scores.
	if c.learn(1e16, 1, 1, 1e-4, ownOffset, 1); math.Abs(c.logOdds(1)-truth.logOdds(1)) > 0.1 || c.square > 4.2 {
		t.Errorf("after an outlier: %+v", c.calibration)
	}
	// Scores that are 0 at first do not keep r at 0.
	c = newCalibrator()
	for n := range 60 {
		if c.learn(float64(min(n/20, 1)), 0.5, 1, 1e-4, ownOffset, 1); n == 59 && c.square < 0.2 {
			t.Errorf("r² is %g", c.square)
		}
	}
}

// Neighbours are those that a sort of all distances finds, in both windows, dense and
// sparse, and after the state was stored.
func TestNeighbours(t *testing.T) {
	for _, dim := range []int{3, 70} {
		r := rand.New(rand.NewPCG(5, uint64(dim)))
		var e neighbours
		var zs []stream.Vec
		var ys []float64
		for i := range 3000 {
			z := stream.Vec{Val: make([]float32, dim)}
			for j := range z.Val {
				z.Val[j] = float32(r.NormFloat64())
			}
			if i%97 == 0 {
				few, many := votesOf(&e, z)
				if few.ok != (i >= nearLeast) || many.ok != (few.ok && dim <= nearDim) {
					t.Fatalf("%d points: %v, %v", i, few, many)
				}
				for _, w := range []struct {
					score
					size int
				}{{few, nearFew}, {many, nearMany}} {
					from := max(0, len(ys)-w.size)
					if want := slowVote(z, zs[from:], ys[from:]); w.ok && math.Abs(w.f-want) > 1e-3 {
						t.Fatalf("%d features, %d points, window %d: %g, want %g", dim, i, w.size, w.f, want)
					}
				}
				data, err := state.Append(nil, e.fields)
				if err != nil {
					t.Fatal(err)
				}
				var read neighbours
				if err := state.Decode(data, read.fields); err != nil {
					t.Fatal(err)
				}
				if a, b := votesOf(&read, z); a != few || b != many {
					t.Fatalf("restored: %v, %v, was %v, %v", a, b, few, many)
				}
			}
			y := float64(2*r.IntN(2) - 1)
			e.add(z, y)
			zs, ys = append(zs, onGrid(z)), append(ys, y)
		}
	}
}

// onGrid returns z with each number rounded to a multiple of 1/32.
func onGrid(z stream.Vec) stream.Vec {
	out := stream.Vec{Val: make([]float32, len(z.Val))}
	for j, v := range z.Val {
		out.Val[j] = float32(math.Round(float64(32*v))) / 32
	}
	return out
}

func votesOf(e *neighbours, z stream.Vec) (few, many score) {
	var s search
	s.begin(e, z)
	v := s.votes(0)
	return e.score(&v[0]), e.score(&v[1])
}

func slowVote(z stream.Vec, zs []stream.Vec, ys []float64) float64 {
	type point struct{ d, y float64 }
	var all []point
	for i, p := range zs {
		var d float64
		for j := range p.Val {
			d += math.Pow(float64(p.Val[j])-float64(z.Val[j]), 2)
		}
		all = append(all, point{math.Sqrt(d), ys[i]})
	}
	for i := range min(nearest, len(all)) {
		for j := i + 1; j < len(all); j++ {
			if all[j].d < all[i].d {
				all[i], all[j] = all[j], all[i]
			}
		}
	}
	var sum, positive float64
	for _, p := range all[:min(nearest, len(all))] {
		w := 1 / (p.d + all[nearest/2].d/10)
		sum += w
		if p.y > 0 {
			positive += w
		}
	}
	p := (nearest*positive/sum + 0.5) / (nearest + 1)
	return math.Log(p / (1 - p))
}
