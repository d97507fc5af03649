package adaptive

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// window is a kernel SVM on the newest examples, which are few enough to keep all
// kernel values between them. It maximises
//
//	Σ_i y_i a_i − ½ a'Ka,   0 ≤ y_i a_i ≤ C w_i,
//
// the dual of ½‖f‖² + C Σ_i w_i max(0, 1 − y_i f(x_i)), by pairs of coefficients. New
// examples replace the oldest ones and start with a = 0; the other coefficients are
// kept, which is a start near the maximum.
type window struct {
	size    int // limit in examples
	c       float64
	target  target
	basis   *kernel.Basis
	y       []float64 // labels; of a regression, minus the target's mean
	weight  weight.List
	box     hinge.Box
	room    int               // capacity in points
	next    int               // index of the oldest example, once the window is full
	pending []*stream.Example // since the last step
	evals   int64

	model *expansion.Expansion // nil: out of date
	at    []int                // scratch: indices of new examples
}

const (
	pairsEach = 8    // pair updates per new example
	pairsAll  = 10   // pair updates per example when all are new
	enough    = 0.02 // tolerated violation of an optimality condition, in units of the margin
	ticks     = 16   // steps per replacement of the whole window, but no closer than ticks
)

func newWindow(size int, c float64, f kernel.Func, t target) *window {
	return &window{size: size, c: c, target: t, basis: kernel.New(f)}
}

// bounds returns the bounds of coefficient i.
func (w *window) bounds(i int) (lo, hi float64) {
	c := w.c * w.weight.At(i)
	switch {
	case w.target.number:
		return math.Inf(-1), math.Inf(1)
	case w.y[i] > 0:
		return 0, c
	}
	return -c, 0
}

// row returns the kernel values of point i with all points.
func (w *window) row(i int) []float32 { return w.box.Gram[i*w.box.Stride:][:len(w.y)] }

// fill learns from the examples, at most size of them.
func (w *window) fill(xs []*stream.Example) {
	w.hold(xs)
	w.ascend(pairsAll, len(xs))
}

// hold takes the examples, with coefficients of 0.
func (w *window) hold(xs []*stream.Example) {
	for _, x := range xs {
		w.basis.Append(x.X)
		w.y = append(w.y, x.Y)
		w.weight.Set(len(w.y)-1, len(w.y), x.Importance())
		lo, hi := w.bounds(len(w.y) - 1)
		w.box.A, w.box.G = append(w.box.A, 0), append(w.box.G, x.Y)
		w.box.Lo, w.box.Hi = append(w.box.Lo, lo), append(w.box.Hi, hi)
	}
	w.gram(len(xs))
}

// restart begins anew, with other labels and perhaps another c.
func (w *window) restart(y []float64) {
	copy(w.y, y)
	copy(w.box.G, y)
	clear(w.box.A)
	w.rebound()
}

// rebound computes the bounds anew.
func (w *window) rebound() {
	for i := range w.y {
		w.box.Lo[i], w.box.Hi[i] = w.bounds(i)
	}
}

// gram computes all kernel values, with capacity for n points.
func (w *window) gram(n int) {
	w.room = n
	w.box.Stride = n + line // avoids a power of two: columns would share cache sets
	w.box.Gram = room(w.box.Gram, n*w.box.Stride)
	all := make([]int32, len(w.y))
	for i := range all {
		all[i] = int32(i)
	}
	w.basis.Between(w.box.Gram, w.box.Stride, all, 0, len(all))
	w.ridge()
	w.evals += int64(len(all) * len(all))
}

const (
	line       = 16  // kernel values in a cache line
	columnRows = 128 // rows whose cache lines stay cached while columns are written
)

// add takes an example, to be learned from in the next step.
func (w *window) add(x *stream.Example) { w.pending = append(w.pending, x) }

// step learns from the pending examples, once there are enough of them.
func (w *window) step() {
	if len(w.pending) < max(tick, len(w.y)/ticks/tick*tick) {
		return
	}
	for rest := w.pending; len(rest) > 0; {
		n := min(len(rest), w.size) // an index is replaced once per call
		w.replace(rest[:n])
		rest = rest[n:]
	}
	w.ascend(pairsEach, len(w.pending))
	clear(w.pending)
	w.pending, w.model = w.pending[:0], nil
}

// replace adds new examples with coefficients 0, in free space or in place of the
// oldest ones.
func (w *window) replace(xs []*stream.Example) {
	b, sparse := &w.box, w.basis.Sparse()
	w.at = w.at[:0]
	for range xs {
		i := len(w.y) + len(w.at)
		if i >= w.size {
			i = w.next
			w.next = (w.next + 1) % w.size
			if a := b.A[i]; a != 0 {
				vec.AxpyMixed(a, w.row(i), b.G)
			}
		}
		w.at = append(w.at, i)
	}
	for k, x := range xs {
		i := w.at[k]
		if i == len(w.y) {
			w.basis.Append(x.X)
			w.y = append(w.y, 0)
			b.A, b.G, b.Lo, b.Hi = append(b.A, 0), append(b.G, 0), append(b.Lo, 0), append(b.Hi, 0)
		} else {
			w.basis.Set(i, x.X)
		}
		w.weight.Set(i, len(w.y), x.Importance())
		w.y[i], b.A[i] = x.Y, 0
		b.Lo[i], b.Hi[i] = w.bounds(i)
	}
	if n := len(w.y); n > w.room || w.basis.Sparse() != sparse { // the last bits depend on the layout
		w.gram(min(w.size, max(2*n, w.room)))
	} else {
		w.cross(xs)
	}
	for k, i := range w.at {
		b.G[i] = xs[k].Y - vec.DotMixed(w.row(i), b.A)
	}
}

// cross computes the rows and columns of new examples.
func (w *window) cross(xs []*stream.Example) {
	n, b := len(w.y), &w.box
	vecs := samplers.Vecs(xs)
	for k := 0; k < len(xs); { // runs of neighbours
		from := k
		for k++; k < len(xs) && w.at[k] == w.at[k-1]+1; k++ {
		}
		w.basis.Block(b.Gram[w.at[from]*b.Stride:], b.Stride, vecs[from:k], 0, n)
	}
	w.evals += int64(n * len(xs))
	for _, i := range w.at {
		b.Gram[i*b.Stride+i] += w.diagonal(i)
	}
	for from := 0; from < n; from += columnRows {
		to := min(n, from+columnRows)
		for k := 0; k < len(w.at); {
			i := w.at[k]
			row := func(i int) []float32 { return b.Gram[i*b.Stride+from : i*b.Stride+to] }
			if k+3 < len(w.at) && w.at[k+3] == i+3 { // four neighbours at a time
				r0, r1, r2, r3 := row(i), row(i+1), row(i+2), row(i+3)
				r1, r2, r3 = r1[:len(r0)], r2[:len(r0)], r3[:len(r0)]
				for j, v := range r0 {
					at := b.Gram[(from+j)*b.Stride+i:][:4]
					at[0], at[1], at[2], at[3] = v, r1[j], r2[j], r3[j]
				}
				k += 4
				continue
			}
			for j, v := range row(i) {
				b.Gram[(from+j)*b.Stride+i] = v
			}
			k++
		}
	}
}

// decide sets dst to the decisions of the model after the last step. Few decisions take less time
// than a copy of sparse points.
func (w *window) decide(dst []float64, xs []stream.Vec) {
	if w.basis.Sparse() {
		expansion.Brief(w.basis, w.box.A, w.target.center).Decisions(dst, xs)
		return
	}
	w.expansion().Decisions(dst, xs)
}

// expansion returns the model after the last step.
func (w *window) expansion() algos.Model {
	if w.model == nil {
		w.model = expansion.New(w.basis, w.box.A, w.target.center)
	}
	return w.model
}

func (w *window) fields(f *state.Fields) {
	f.Group("points", w.basis.Fields)
	f.Float64s("y", &w.y)
	w.weight.Fields(f, len(w.y))
	f.Float64s("a", &w.box.A)
	f.Float64s("g", &w.box.G)
	f.Int("room", &w.room)
	f.Int("next", &w.next)
	columns.Examples(f, "pending", &w.pending)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	w.model = nil
	f.Fail("points", w.check())
	if f.Err() != nil {
		return
	}
	w.gram(w.room)
}

// check validates a decoded state and derives the bounds.
func (w *window) check() error {
	n, b := len(w.y), &w.box
	if n < 1 || n > w.size || w.basis.Len() != n || len(b.A) != n || len(b.G) != n || w.room < n || w.room > w.size || w.next < 0 || w.next >= w.size {
		return errors.New("lengths do not agree")
	}
	b.Lo, b.Hi = make([]float64, n), make([]float64, n)
	for i, y := range w.y {
		if !w.target.number && y != 1 && y != -1 || y-y != 0 {
			return fmt.Errorf("label %g", y)
		}
		b.Lo[i], b.Hi[i] = w.bounds(i)
		if a, g := b.A[i], b.G[i]; !(a >= b.Lo[i] && a <= b.Hi[i]) || a-a != 0 || g-g != 0 {
			return fmt.Errorf("coefficient %g, gradient %g", a, g)
		}
	}
	for _, x := range w.pending {
		if !x.Labelled || !w.target.number && x.Y != 1 && x.Y != -1 || x.Y-x.Y != 0 || !kernel.Finite(x.X) {
			return errors.New("a pending example is not valid")
		}
	}
	return nil
}

// kernelOf returns the kernel of a choice's gamma, with a bias.
func kernelOf(g float64) kernel.Func {
	k := vec.Kernel{Kind: vec.RBF, Gamma: float32(g)}
	switch {
	case g < 0:
		k = vec.Kernel{Kind: vec.Laplacian, Gamma: float32(-g)}
	case g == 0:
		k = vec.Kernel{Kind: vec.Linear}
	}
	return kernel.Func{Kernel: k, Bias: 1}
}

// tried is the largest number of examples that options are tried on; of a regression, it includes
// those on which they are compared. With manyScores, their log loss counts too.
const (
	tried       = 1024
	triedNumber = 1536
	manyScores  = 512
)

// split returns the examples to try options on, and the newest third, on which they are compared.
func split(xs []*stream.Example, t target) (fit, test []*stream.Example) {
	if t.number {
		xs = xs[max(0, len(xs)-triedNumber):]
	}
	n := 2 * len(xs) / 3
	return xs[max(0, n-tried):n], xs[n:]
}

// choice holds the options of a kernel learner.
type choice struct {
	c, gamma float64 // gamma 0: linear kernel; −γ: Laplacian kernel
}

// scratch is reused memory for trying options.
type scratch struct{ gram, cross []float32 }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// room returns n numbers with arbitrary values, in the memory of s if that is large enough.
func room(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}

// choose chooses the options with the smallest loss on the newest third, after training on the
// examples before. Of equal options, the first in the order of γ, then C, wins. It also returns the
// loss, the sum over the lanes: see lossOf; of a regression, the sum of squared errors.
func choose(xs []*stream.Example, lanes [][]float64, t target, seed uint64, laplacian bool) (choice, float64) {
	if t.number {
		return chooseNumber(xs, t, seed, laplacian)
	}
	fit, test := split(xs, t)
	n, to := len(fit), len(xs)-len(test)
	gammas, cs := gammasOf(fit, seed, laplacian, 1./4, 1, 4, 16), []float64{0.5, 4, 32}
	losses := make([]float64, len(gammas)*len(cs))
	par.Each(len(gammas), func(i int) {
		w := newWindow(max(1, n), cs[0], kernelOf(gammas[i]), target{})
		s := scratches.Get().(*scratch)
		defer func() { s.gram = w.box.Gram; scratches.Put(s) }()
		w.box.Gram, s.cross = s.gram, room(s.cross, len(test)*n)
		cross, scores := s.cross, make([]float64, len(test))
		w.hold(fit)
		w.basis.Block(cross, n, samplers.Vecs(test), 0, n)
		for _, y := range lanes {
			w.restart(y[to-n : to])
			for k, c := range cs {
				w.c = c
				w.rebound()
				w.ascend(pairsAll, n)
				for j := range test {
					scores[j] = vec.DotMixed(cross[j*n:(j+1)*n], w.box.A)
				}
				losses[i*len(cs)+k] += lossOf(scores, y[to:], test)
			}
		}
	})
	best := 0
	for i, v := range losses {
		if v < losses[best] {
			best = i
		}
	}
	return choice{c: cs[best%len(cs)], gamma: gammas[best/len(cs)]}, losses[best]
}

// lossOf returns the weight of the errors and, with enough scores, the log loss that they have as log
// odds, times the best of a few factors. Errors alone vary much between samples; of few scores, the log
// loss says less than the errors. y holds the labels of xs.
func lossOf(scores, y []float64, xs []*stream.Example) float64 {
	var errors, square float64
	for i, x := range xs {
		square += float64(scores[i] * scores[i])
		if (scores[i] >= 0) != (y[i] > 0) {
			errors += x.Importance()
		}
	}
	if len(xs) < manyScores {
		return errors
	}
	least, unit := math.Inf(1), math.Sqrt(float64(len(xs))/max(square, 1e-300))
	for factor := 0.25; factor <= 16; factor *= 2 {
		sum := 0.0
		for i, x := range xs {
			sum += float64(x.Importance() * linear.Softplus(-factor*unit*scores[i]*y[i]))
		}
		least = min(least, sum)
	}
	return errors + least
}

// gammasOf returns the candidates for gamma: the widths in units of 1/median distance, or of
// a quarter of it for a Laplacian kernel, which is near a sum over features if γ is small.
func gammasOf(xs []*stream.Example, seed uint64, laplacian bool, widths ...float64) []float64 {
	unit, sign := kernel.SampledGamma(samplers.Vecs(xs), 300, seed, laplacian), 1.
	if laplacian {
		unit, sign = unit/4, -1
	}
	for i, w := range widths { // as a float32 may hold it
		widths[i] = float64(sign * min(max(float64(w*unit), 1e-30), 1e30))
	}
	return widths
}

func (c *choice) fields(f *state.Fields) {
	f.Float64("c", &c.c)
	f.Float64("gamma", &c.gamma)
	if f.Decoding() && f.Err() == nil && !(c.c > 0 && c.c < math.Inf(1) && c.gamma-c.gamma == 0) {
		f.Fail("c", fmt.Errorf("%g, %g", c.c, c.gamma))
	}
}
