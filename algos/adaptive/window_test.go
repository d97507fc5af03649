package adaptive

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/testkit/oracle"
	"github.com/streamsvm/streamsvm/internal/testkit/pointtest"
	"github.com/streamsvm/streamsvm/stream"
)

// disc draws points of the plane, of which those in a disc that moves with t are
// of class +1; a tenth of the labels is wrong.
func disc(r *rand.Rand, t float64, sparse bool) *stream.Example {
	u, v := 2*r.NormFloat64(), 2*r.NormFloat64()
	x := &stream.Example{Y: -1, Labelled: true, X: stream.Vec{Val: []float32{float32(u), float32(v)}}}
	if a, b := u-math.Sin(t), v-math.Cos(t); a*a+b*b < 4 != (r.Float64() < 0.1) {
		x.Y = 1
	}
	if sparse {
		x.X.Idx = []int32{0, 1}
	}
	return x
}

// newest is what a window holds, by place: example t takes place t mod size.
type newest struct {
	size int
	all  []*stream.Example
}

func (n *newest) held() []*stream.Example {
	out := make([]*stream.Example, min(n.size, len(n.all)))
	for t := max(0, len(n.all)-n.size); t < len(n.all); t++ {
		out[t%n.size] = n.all[t]
	}
	return out
}

// checkWindow compares all that a window holds with the examples it should. tol
// is what the gradient may differ by from that of the kernel values kept.
func checkWindow(t *testing.T, w *window, held []*stream.Example, tol float64) {
	t.Helper()
	if len(w.y) != len(held) || w.basis.Len() != len(held) {
		t.Fatalf("%d points, want %d", len(w.y), len(held))
	}
	k := kernelMatrix(w, held)
	for i, x := range held {
		if w.y[i] != x.Y {
			t.Fatalf("place %d: label %g, want %g", i, w.y[i], x.Y)
		}
		kept, exact, size := x.Y, x.Y, 1.0
		for j, a := range w.box.A {
			if got := float64(w.row(i)[j]); math.Abs(got-k[i][j]) > 1e-5*(1+math.Abs(k[i][j])) || w.row(i)[j] != w.row(j)[i] {
				t.Fatalf("K[%d][%d] = %g, want %g", i, j, got, k[i][j])
			}
			kept -= float64(w.row(i)[j]) * a
			exact -= k[i][j] * a
			size += math.Abs(k[i][j] * a)
		}
		if g := w.box.G[i]; math.Abs(g-kept) > tol*size || math.Abs(g-exact) > 1e-5*size {
			t.Fatalf("gradient %d is %.12g, by the kernel values kept %.12g, exactly %.12g", i, g, kept, exact)
		}
		if ya := x.Y * w.box.A[i]; ya < 0 || ya > w.c {
			t.Fatalf("y·a = %g at place %d is not in [0,%g]", ya, i, w.c)
		}
	}
}

// kernelMatrix returns K with its bias, in float64.
func kernelMatrix(w *window, xs []*stream.Example) [][]float64 {
	k := make([][]float64, len(xs))
	for i, x := range xs {
		for _, z := range xs {
			k[i] = append(k[i], pointtest.Kernel(w.basis.Func.Kernel, x.X, z.X)+1)
		}
	}
	return k
}

// dual returns Σ y a − ½ a'Ka.
func dual(k [][]float64, y, a []float64) (sum float64) {
	for i := range a {
		sum += y[i] * a[i]
		for j := range a {
			sum -= a[i] * k[i][j] * a[j] / 2
		}
	}
	return sum
}

// TestWindowOptimum: a window that goes on replacing its examples is near the
// optimum of its problem all the time, and reaches it when it is let; its gradient
// stays exact, and its model is that of the newest examples as of the last step.
func TestWindowOptimum(t *testing.T) {
	for _, c := range []struct {
		size, fill int
		c, gamma   float64
		adds       int
		sparse     bool
	}{
		{64, 40, 4, 0.5, 5000, false},
		{100, 100, 0.5, 0.1, 1000, true},
		{150, 16, 32, 2, 1000, false},
		{90, 50, 2, 0, 1000, false}, // linear
		{544, 300, 4, 0.5, 600, false},
	} {
		r := rand.New(rand.NewPCG(uint64(c.size), uint64(c.fill)))
		w := newWindow(c.size, c.c, kernelOf(c.gamma), target{})
		n := &newest{size: c.size}
		for range c.fill {
			n.all = append(n.all, disc(r, 0, c.sparse))
		}
		w.fill(n.all)
		checkWindow(t, w, n.held(), 1e-12)
		probes := make([]stream.Vec, 20)
		for i := range probes {
			probes[i] = disc(r, 0, i%2 == 0).X
		}
		before, after := make([]float64, len(probes)), make([]float64, len(probes))
		steps := 0
		for i := 0; i < c.adds || len(w.pending) > 0; i++ {
			w.expansion().Decisions(before, probes)
			x := disc(r, float64(i)/500, c.sparse)
			n.all = append(n.all, x)
			w.add(x)
			w.expansion().Decisions(after, probes)
			for k := range before {
				if before[k] != after[k] {
					t.Fatalf("%+v: adding example %d changed the model", c, i)
				}
			}
			fresh := len(w.pending)
			w.step()
			if len(w.pending) > 0 {
				if fresh >= max(16, len(w.y)/16) {
					t.Fatalf("%+v: no step after %d examples", c, fresh)
				}
				continue
			}
			if steps++; steps%20 > 0 {
				continue
			}
			held := n.held()
			for k, p := range probes {
				want, size := 0.0, 0.0
				for j, a := range w.box.A {
					v := a * (pointtest.Kernel(w.basis.Func.Kernel, held[j].X, p) + 1)
					want, size = want+v, size+math.Abs(v)
				}
				if got := w.expansion().(*expansion.Expansion).Decision(probes[k]); math.Abs(got-want) > 1e-5*(1+size) {
					t.Fatalf("%+v: after %d examples f = %g, want %g", c, i, got, want)
				}
			}
		}
		held := n.held()
		checkWindow(t, w, held, 1e-12)
		if c.size > 300 { // the oracle takes its time
			continue
		}
		k := kernelMatrix(w, held)
		best := oracle.Solve(k, w.y, 1/(c.c*float64(len(held))), 1e-3, 20000)
		if best.Gap > 1.1e-3*best.Objective {
			t.Fatalf("%+v: the oracle has a gap of %g in %g", c, best.Gap, best.Objective)
		}
		most := best.Objective * c.c * float64(len(held)) // ½‖f‖² + C Σ loss
		live := dual(k, w.y, w.box.A)
		pairs := w.box.Ascend(1000000, 1e-4)
		full := dual(k, w.y, w.box.A)
		t.Logf("%+v: dual optimum %.4f, while running %.4f, after %d more pairs %.4f", c, most, live, pairs, full)
		if live < 0.95*most {
			t.Errorf("%+v: the dual objective is %g, its maximum %g", c, live, most)
		}
		if math.Abs(full-most) > 0.002*most {
			t.Errorf("%+v: the maximum found is %g, should be %g", c, full, most)
		}
		checkWindow(t, w, held, 1e-12)
	}
}

// TestWindowLayouts: a point far out, which changes the layout of the points,
// changes no kernel value by more than rounding, and what was stored before or
// after is restored to the bit.
func TestWindowLayouts(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	w := newWindow(70, 4, kernelOf(0.5), target{})
	n := &newest{size: 70}
	for range 20 {
		n.all = append(n.all, disc(r, 0, false))
	}
	w.fill(n.all)
	for i := range 200 {
		x := disc(r, 0, i%3 == 0)
		if i == 90 {
			x.X = stream.Vec{Idx: []int32{1, 5000}, Val: []float32{1, 2}}
		}
		n.all = append(n.all, x)
		w.add(x)
		w.step()
		if i%11 > 0 && i != 90 {
			continue
		}
		// The values change by rounding as the layout does; the gradient does not.
		before := *n
		before.all = n.all[:len(n.all)-len(w.pending)]
		checkWindow(t, w, before.held(), 1e-6)
		data, err := state.Append(nil, w.fields)
		if err != nil {
			t.Fatal(err)
		}
		again := newWindow(70, 4, kernelOf(0.5), target{})
		if err := state.Decode(data, again.fields); err != nil {
			t.Fatal(err)
		}
		for j := range w.y {
			for l, k := range w.row(j) {
				if got := again.row(j)[l]; got != k {
					t.Fatalf("after %d examples K[%d][%d] = %g, restored %g", i, j, l, k, got)
				}
			}
		}
		if twice, err := state.Append(nil, again.fields); err != nil || !bytes.Equal(data, twice) {
			t.Fatalf("the state changes as it is restored: %v", err)
		}
		w = again
	}
	if !w.basis.Sparse() {
		t.Error("the points were to be sparse in the end")
	}
}

// TestWindowRefuses: states that no window has had are refused.
func TestWindowRefuses(t *testing.T) {
	build := func() *window {
		r := rand.New(rand.NewPCG(9, 9))
		w := newWindow(30, 4, kernelOf(0.5), target{})
		for range 45 {
			if len(w.y) == 0 {
				w.fill([]*stream.Example{disc(r, 0, false), disc(r, 0, false)})
			}
			w.add(disc(r, 0, false))
			w.step()
		}
		return w
	}
	for name, c := range map[string]struct {
		good   bool
		change func(*window)
	}{
		"as it is":              {true, func(*window) {}},
		"a label of 0":          {false, func(w *window) { w.y[3] = 0 }},
		"a label too few":       {false, func(w *window) { w.y = w.y[:29] }},
		"a gradient too many":   {false, func(w *window) { w.box.G = append(w.box.G, 0) }},
		"a large coefficient":   {false, func(w *window) { w.box.A[0] = w.y[0] * 4.001 }},
		"the other sign":        {false, func(w *window) { w.box.A[0] = -w.y[0] }},
		"a coefficient of NaN":  {false, func(w *window) { w.box.A[0] = math.NaN() }},
		"an endless gradient":   {false, func(w *window) { w.box.G[5] = math.Inf(-1) }},
		"no room":               {false, func(w *window) { w.room = 29 }},
		"room without bounds":   {false, func(w *window) { w.room = 31 }},
		"the next one beyond":   {false, func(w *window) { w.next = 30 }},
		"the next one before":   {false, func(w *window) { w.next = -1 }},
		"pending, no label":     {false, func(w *window) { w.pending[0].Labelled = false }},
		"pending, a label of 0": {false, func(w *window) { w.pending[0].Y = 0 }},
		"pending, endless":      {false, func(w *window) { w.pending[0].X.Val[0] = float32(math.Inf(1)) }},
	} {
		w := build()
		c.change(w)
		data, err := state.Append(nil, w.fields)
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Decode(data, newWindow(30, 4, kernelOf(0.5), target{}).fields); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLoss: the loss of many scores does not depend on their unit, and is smaller for scores that say
// how sure they are; that of few is the weight of the errors. Options are tried on the examples just
// before those on which they are compared.
func TestLoss(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 12))
	const n = 2000
	xs, odds, twice, signs := make([]*stream.Example, n), make([]float64, n), make([]float64, n), make([]float64, n)
	errors, exact := 0., 0.
	for i := range xs {
		odds[i] = 2 * r.NormFloat64()
		xs[i] = &stream.Example{Seq: uint64(i), Y: -1, Labelled: true, Weight: float32(1 + i%2)}
		if r.Float64() < 1/(1+math.Exp(-odds[i])) {
			xs[i].Y = 1
		}
		w, y := xs[i].Importance(), xs[i].Y
		if odds[i]*y < 0 {
			errors += w
		}
		exact += w * math.Log1p(math.Exp(-odds[i]*y))
		twice[i], signs[i] = odds[i]*1e6, math.Copysign(1, odds[i])
	}
	got := lossOf(odds, labelsOf(xs), xs)
	if got < errors+0.97*exact || got > errors+1.01*exact {
		t.Errorf("loss %g, want about %g + %g", got, errors, exact)
	}
	if other := lossOf(twice, labelsOf(xs), xs); math.Abs(other-got) > 1e-9*got {
		t.Errorf("in other units %g, want %g", other, got)
	}
	if other := lossOf(signs, labelsOf(xs), xs); other < got+0.05*exact {
		t.Errorf("of signs %g, of log odds %g", other, got)
	}
	few := 0.
	for i, x := range xs[:manyScores-1] {
		if odds[i]*x.Y < 0 {
			few += x.Importance()
		}
	}
	if got := lossOf(odds[:manyScores-1], labelsOf(xs), xs[:manyScores-1]); got != few {
		t.Errorf("of few scores %g, want %g", got, few)
	}
	for _, c := range []struct{ n, fit, test int }{{1, 0, 1}, {64, 42, 22}, {1536, 1024, 512}, {2000, 1024, 667}} {
		fit, test := split(xs[:c.n], target{})
		if len(fit) != c.fit || len(test) != c.test || test[len(test)-1] != xs[c.n-1] || c.fit > 0 && fit[c.fit-1].Seq+1 != test[0].Seq {
			t.Errorf("of %d examples %d to fit and %d to test", c.n, len(fit), len(test))
		}
	}
	if fit, test := split(xs, target{number: true}); len(fit) != 1024 || len(test) != 512 {
		t.Errorf("of numbers %d to fit and %d to test", len(fit), len(test))
	}
}

// TestChoose: the width and C that are chosen are those with the fewest errors
// on the last third, recomputed for each by a window of its own.
func TestChoose(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	var xs []*stream.Example
	for range 300 {
		xs = append(xs, disc(r, 0, false))
	}
	got, _ := choose(xs, [][]float64{labelsOf(xs)}, target{}, 1, false)
	errors := func(c choice) (n int) {
		w := newWindow(200, c.c, kernelOf(c.gamma), target{})
		w.fill(xs[:200])
		w.box.Ascend(1000000, enough)
		for _, x := range xs[200:] {
			if (w.expansion().Decision(x.X) >= 0) != (x.Y > 0) {
				n++
			}
		}
		return n
	}
	mine, best := errors(got), 100
	for _, g := range []float64{got.gamma / 16, got.gamma / 4, got.gamma, got.gamma * 4, got.gamma * 16} {
		for _, c := range []float64{0.5, 4, 32} {
			best = min(best, errors(choice{c, g}))
		}
	}
	t.Logf("%+v: %d errors in 100, the fewest are %d", got, mine, best)
	// The grid is not known here, and its windows start from each other's.
	if mine > best+4 {
		t.Errorf("%+v makes %d errors in 100, others %d", got, mine, best)
	}
}
