package kernel

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"math"
	"runtime"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// function is f(x) = Σ_j coef[j]·(K(point j, x) + Bias) + offset.
type function struct {
	basis  *Basis
	coef   []float64
	offset float64
}

func (e *function) decision(x stream.Vec) float64 {
	var f [1]float64
	e.basis.Decide(f[:], []stream.Vec{x}, e.coef, e.offset)
	return f[0]
}

// reduce keeps the constant that Bias adds.
func (e *function) reduce(tol float64, most int) (reduced *function, near float64, ok bool) {
	n := e.basis.Len()
	xs, scores := make([]stream.Vec, n), make([]float64, n)
	for i := range xs {
		xs[i] = e.basis.Row(i)
	}
	c := e.basis.Constant(e.coef)
	e.basis.Decide(scores, xs, e.coef, -c)
	points, coef, near, ok := Reduce(e.basis, e.coef, scores, tol, most)
	if !ok {
		return nil, 0, false
	}
	return &function{points, coef, e.offset + c}, near, true
}

// smooth returns a function over n points of a cube, with coefficients of both
// signs as a classifier has them.
func smooth(f Func, sparse bool, n, dim int, seed uint64) *function {
	b := New(f)
	if sparse {
		b = NewSparse(f)
	}
	r := rng.New(seed, "reduce")
	coef := make([]float64, n)
	for i := range n {
		v := stream.Vec{Val: make([]float32, dim)}
		for k := range v.Val {
			v.Val[k] = float32(2*r.Float64() - 1)
		}
		if sparse {
			v.Idx = make([]int32, dim)
			for k := range v.Idx {
				v.Idx[k] = int32(3 * k)
			}
		}
		b.Append(v)
		coef[i] = r.Float64()
		if dim > 0 && float64(v.Val[0])+0.3*(2*r.Float64()-1) < 0 {
			coef[i] = -coef[i]
		}
	}
	return &function{b, coef, 0.25}
}

// exactDecision is f(x) in float64.
func exactDecision(e *function, x stream.Vec) float64 {
	k := e.basis.Func
	f := e.offset
	dim := max(x.Dim(), e.basis.Dim())
	xv, zv := make([]float32, dim), make([]float32, dim)
	x.Dense(xv)
	for i, c := range e.coef {
		e.basis.Row(i).Dense(zv)
		s := 0.0
		for g, v := range xv {
			switch d := float64(v) - float64(zv[g]); k.Kind {
			case vec.RBF:
				s += d * d
			case vec.Laplacian:
				s += math.Abs(d)
			default:
				s += float64(v) * float64(zv[g])
			}
		}
		switch k.Kind {
		case vec.RBF, vec.Laplacian:
			s = math.Exp(-float64(k.Gamma) * s)
		case vec.Polynomial:
			s = math.Pow(float64(k.Gamma)*s+float64(k.Coef0), float64(k.Degree))
		}
		f += c * (s + float64(k.Bias))
	}
	return f
}

// root returns √K(x,x).
func root(k vec.Kernel, x stream.Vec) float64 {
	switch k.Kind {
	case vec.Polynomial:
		return math.Sqrt(math.Pow(float64(k.Gamma)*squaredNorm(x)+float64(k.Coef0), float64(k.Degree)))
	case vec.Linear:
		return math.Sqrt(squaredNorm(x))
	}
	return 1
}

var reducible = []struct {
	name   string
	f      Func
	sparse bool
	dim    int
	tol    float64
}{
	{"rbf", Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 0.5}, Bias: 1}, false, 3, 0.05},
	{"rbf sparse", Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 0.5}, Bias: 1}, true, 3, 0.05},
	{"laplacian", Func{Kernel: vec.Kernel{Kind: vec.Laplacian, Gamma: 0.05}}, false, 1, 0.2},
	{"laplacian sparse", Func{Kernel: vec.Kernel{Kind: vec.Laplacian, Gamma: 0.05}}, true, 1, 0.2},
	{"polynomial", Func{Kernel: vec.Kernel{Kind: vec.Polynomial, Gamma: 0.5, Coef0: 1, Degree: 3}, Bias: 0.5}, false, 3, 0.01},
	{"polynomial sparse", Func{Kernel: vec.Kernel{Kind: vec.Polynomial, Gamma: 0.5, Coef0: 1, Degree: 3}}, true, 3, 0.01},
	{"linear", Func{Kernel: vec.Kernel{Kind: vec.Linear}, Bias: 1}, false, 5, 0.01},
	{"linear sparse", Func{Kernel: vec.Kernel{Kind: vec.Linear}, Bias: 1}, true, 5, 0.01},
}

// TestReduceNear: no point moves by more than what is claimed, and others, between
// the points and outside them, hardly more.
func TestReduceNear(t *testing.T) {
	const seed, n = 11, 300
	for _, c := range reducible {
		t.Run(c.name, func(t *testing.T) {
			e := smooth(c.f, c.sparse, n, c.dim, seed)
			r, near, ok := e.reduce(c.tol, n/2)
			if !ok {
				t.Fatal("not reduced")
			}
			t.Logf("%d points: %d within %.3g", n, r.basis.Len(), near)
			if near > c.tol {
				t.Errorf("near %g, tolerance %g", near, c.tol)
			}
			if c.f.Kind == vec.Linear && r.basis.Len() != 1 {
				t.Errorf("%d points for a weight vector", r.basis.Len())
			}
			moved := func(x stream.Vec) float64 { return math.Abs(exactDecision(e, x) - exactDecision(r, x)) }
			for i := range n {
				x := e.basis.Row(i)
				// Scores have float32 kernel values.
				rounding := 4e-7 * (size(e) + size(r)) * math.Pow(root(c.f.Kernel, x)+1, 2)
				if d := moved(x); d > near+rounding {
					t.Fatalf("moved by %g at point %d, at most %g claimed", d, i, near)
				}
				if d := math.Abs(e.decision(x) - r.decision(x)); d > near+rounding {
					t.Fatalf("decision moved by %g at point %d, at most %g claimed", d, i, near)
				}
			}
			random := rng.New(seed, "probes")
			for range 300 {
				x := stream.Vec{Val: make([]float32, c.dim)}
				for g := range x.Val {
					x.Val[g] = float32(2*random.Float64() - 1)
				}
				if c.sparse {
					x.Idx = make([]int32, c.dim)
					for k := range x.Idx {
						x.Idx[k] = int32(3 * k)
					}
				}
				if d := moved(x); d > 3*c.tol {
					t.Fatalf("moved by %g at %v, tolerance %g", d, x, c.tol)
				}
			}
		})
	}
}

func size(e *function) float64 {
	s := 0.0
	for _, c := range e.coef {
		s += math.Abs(c)
	}
	return s
}

// TestReduceProjects: f' agrees with f at the points kept, which is where the
// derivative of ‖f−f'‖² by the coefficients is 0.
func TestReduceProjects(t *testing.T) {
	for _, c := range reducible[:6] {
		e := smooth(c.f, c.sparse, 400, c.dim, 12)
		r, _, ok := e.reduce(c.tol, 200)
		if !ok {
			t.Fatal(c.name)
		}
		for i := range r.basis.Len() {
			x := r.basis.Row(i)
			if d := math.Abs(exactDecision(e, x) - exactDecision(r, x)); d > 4e-7*(size(e)+size(r))*math.Pow(root(c.f.Kernel, x)+1, 2) {
				t.Errorf("%s: off by %g at a point kept", c.name, d)
			}
		}
	}
}

func TestReduceAllPoints(t *testing.T) {
	f := Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 500}, Bias: 1}
	e := smooth(f, false, 200, 3, 13)
	r, near, ok := e.reduce(1e-3, 200)
	if !ok || near > 1e-3 || r.basis.Len() < 150 {
		t.Fatalf("%v, near %g", ok, near)
	}
	if r, _, ok := e.reduce(1e-3, 100); ok {
		t.Errorf("%d points of a kernel matrix near the identity", r.basis.Len())
	}
	if _, _, ok := e.reduce(1e-30, 200); ok {
		t.Error("nearer than rounding allows")
	}
}

func TestReduceMergesEqualPoints(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		f := Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 1}, Bias: 1}
		b := New(f)
		if sparse {
			b = NewSparse(f)
		}
		for i := range 300 {
			b.Append(stream.Vec{Val: []float32{float32(i % 3), float32(i%3) - 5}})
		}
		coef := make([]float64, 300)
		for i := range coef {
			coef[i] = float64(i%7) - 2.5
		}
		e := &function{basis: b, coef: coef}
		r, near, ok := e.reduce(1e-3, 10)
		if !ok || r.basis.Len() != 3 || near > 1e-3 {
			t.Fatalf("ok %v, near %g", ok, near)
		}
		for i := range 3 {
			x := e.basis.Row(i)
			if d := math.Abs(exactDecision(e, x) - exactDecision(r, x)); d > 1e-4 {
				t.Errorf("off by %g", d)
			}
		}
	}
}

func TestReduceDegenerate(t *testing.T) {
	for _, kind := range []vec.KernelKind{vec.RBF, vec.Linear, vec.Polynomial, vec.Laplacian} {
		f := Func{Kernel: vec.Kernel{Kind: kind, Gamma: 1, Coef0: 1, Degree: 2}, Bias: 1}
		empty := &function{New(f), nil, 3}
		for _, e := range []*function{
			empty,
			{smooth(f, false, 5, 2, 1).basis, make([]float64, 5), 0},
			{smooth(f, false, 1, 2, 1).basis, []float64{2}, 0},
			{smooth(f, true, 1, 2, 1).basis, []float64{2}, 0},
			{smooth(f, false, 3, 0, 1).basis, []float64{2, 1, -1}, 0}, // no features
			{smooth(f, false, 2, 2, 1).basis, []float64{1e-300, 1}, 0},
		} {
			r, near, ok := e.reduce(1e-3, 5)
			if !ok {
				t.Fatalf("%v: %d points", f, e.basis.Len())
			}
			x := stream.Vec{Val: []float32{0.5, -1}}
			if d := math.Abs(r.decision(x) - e.decision(x)); d > near*2+1e-3 {
				t.Errorf("%v: moved by %g", f, d)
			}
		}
		if r, near, ok := empty.reduce(1e-3, 0); !ok || near != 0 || r.decision(stream.Vec{}) != 3 {
			t.Errorf("%v: nothing was reduced to something", f)
		}
	}
	f := Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 1}}
	e := smooth(f, false, 50, 2, 1)
	for _, tol := range []float64{0, -1, math.NaN()} {
		if _, _, ok := e.reduce(tol, 50); ok {
			t.Errorf("tolerance %g", tol)
		}
	}
	for _, bad := range []float64{math.Inf(1), math.NaN()} {
		coef := append([]float64{}, e.coef...)
		coef[7] = bad
		if _, _, ok := (&function{e.basis, coef, 0}).reduce(0.1, 50); ok {
			t.Errorf("coefficient %g", bad)
		}
	}
	if _, _, ok := smooth(Func{Kernel: vec.Kernel{Kind: vec.Polynomial, Gamma: 1, Coef0: -1, Degree: 2}}, false, 9, 2, 1).reduce(0.1, 9); ok {
		t.Error("a polynomial that is no kernel")
	}
}

// TestReduceGolden pins the bits of a reduction, for all CPUs and builds. A
// change of this number changes published models.
func TestReduceGolden(t *testing.T) {
	h := fnv.New64a()
	for _, c := range reducible {
		e := smooth(c.f, c.sparse, 700, c.dim, 14)
		var first []byte
		for _, procs := range []int{1, 4} {
			old := runtime.GOMAXPROCS(procs)
			r, near, ok := e.reduce(c.tol, 300)
			runtime.GOMAXPROCS(old)
			if !ok {
				t.Fatal(c.name)
			}
			data, err := state.Append(nil, r.basis.Fields)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range append(r.coef, r.offset, near) {
				data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
			}
			if first == nil {
				first = data
			} else if !bytes.Equal(first, data) {
				t.Errorf("%s: not the same twice", c.name)
			}
		}
		h.Write(first)
	}
	if got := h.Sum64(); got != reduceGolden {
		t.Errorf("hash %#x, want %#x", got, uint64(reduceGolden))
	}
}

const reduceGolden = 0x33c42a3950e8f2b7

// TestReduceAgain: a reduced set can be reduced again, and leaves its points as
// they are.
func TestReduceAgain(t *testing.T) {
	for _, c := range reducible {
		e := smooth(c.f, c.sparse, 300, c.dim, 15)
		before, _ := state.Append(nil, e.basis.Fields)
		r, _, ok := e.reduce(c.tol, 150)
		if !ok {
			t.Fatal(c.name)
		}
		if after, _ := state.Append(nil, e.basis.Fields); !bytes.Equal(before, after) {
			t.Errorf("%s: the points have changed", c.name)
		}
		if again, _, ok := r.reduce(c.tol, r.basis.Len()); !ok || again.basis.Len() > r.basis.Len() {
			t.Errorf("%s: not reduced again", c.name)
		}
	}
}

// TestReduceGivesUp: with many features there is nothing to save, and that must
// be seen from a few points.
func TestReduceGivesUp(t *testing.T) {
	e := smooth(Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 0.5}, Bias: 1}, false, 3*probePoints, 40, 16)
	g := newProbe(e.basis, e.coef, probePoints)
	if g.run(0.1, probeSteps, e.basis.Len()/3, probeSlack); !g.hopeless {
		t.Error("goes on")
	}
	if _, _, ok := e.reduce(0.1, e.basis.Len()/3); ok {
		t.Error("reduced")
	}
}
