package adaptive

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/internal/expansion"
	"github.com/streamsvm/streamsvm/algos/internal/hinge"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// window is a kernel SVM on the newest examples, few enough that all kernel
// values between them are kept. It maximises
//
//	Σ_i y_i a_i − ½ a'Ka,   0 ≤ y_i a_i ≤ C w_i,
//
// the dual of ½‖f‖² + C Σ_i w_i max(0, 1 − y_i f(x_i)), by pairs of coefficients. A
// new example takes the place of the oldest one and begins with a = 0; the
// others stay where they were, which is near the maximum.
type window struct {
	size   int // most examples
	c      float64
	target target
	basis  *kernel.Basis
	y      []float64 // of numbers, less the target's mean
	weight weight.List
	box    hinge.Box
	next   int // place of the oldest example, once all are taken
	fresh  int // examples since the last step
	evals  int64

	model *expansion.Expansion // nil: to be made
}

const (
	pairsEach = 8    // pairs a new example may move
	pairsAll  = 10   // pairs, per example, when all are new
	enough    = 0.02 // violation of a condition, in units of the margin, that is as good as none
	ticks     = 16   // steps in which a window is replaced, if they are not closer than ticks
)

func newWindow(size int, c float64, f kernel.Func, t target) *window {
	return &window{size: size, c: c, target: t, basis: kernel.New(f)}
}

// bounds returns those of coefficient i.
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

// row returns the kernel values of a point with all.
func (w *window) row(i int) []float32 { return w.box.Gram[i*w.box.Stride:][:len(w.y)] }

// fill learns from the examples, of which there are no more than the size.
func (w *window) fill(xs []*stream.Example) {
	for _, x := range xs {
		w.basis.Append(x.X)
		w.y = append(w.y, x.Y)
		w.weight.Set(len(w.y)-1, len(w.y), x.Importance())
		lo, hi := w.bounds(len(w.y) - 1)
		w.box.A, w.box.G = append(w.box.A, 0), append(w.box.G, x.Y)
		w.box.Lo, w.box.Hi = append(w.box.Lo, lo), append(w.box.Hi, hi)
	}
	w.gram(len(xs))
	w.ascend(pairsAll, len(xs))
}

// gram computes all kernel values, with room for n points.
func (w *window) gram(n int) {
	w.box.Stride = n
	w.box.Gram = make([]float32, n*n)
	all := make([]int32, len(w.y))
	for i := range all {
		all[i] = int32(i)
	}
	w.basis.Between(w.box.Gram, n, all, 0, len(all))
	w.ridge()
	w.evals += int64(len(all) * len(all))
}

// add takes an example in. The model changes with the next step.
func (w *window) add(x *stream.Example) {
	i, sparse := len(w.y), w.basis.Sparse()
	b := &w.box
	if i < w.size {
		w.basis.Append(x.X)
		w.y = append(w.y, x.Y)
		w.weight.Set(i, i+1, x.Importance())
		lo, hi := w.bounds(i)
		b.A, b.G, b.Lo, b.Hi = append(b.A, 0), append(b.G, 0), append(b.Lo, lo), append(b.Hi, hi)
		if i == b.Stride {
			w.gram(min(w.size, max(2*i, first)))
		}
	} else {
		i = w.next
		w.next = (w.next + 1) % w.size
		if a := b.A[i]; a != 0 {
			vec.AxpyMixed(a, w.row(i), b.G)
			b.A[i] = 0
		}
		w.basis.Set(i, x.X)
		w.y[i] = x.Y
		w.weight.Set(i, len(w.y), x.Importance())
		b.Lo[i], b.Hi[i] = w.bounds(i)
	}
	if w.basis.Sparse() != sparse { // the last bits depend on the layout
		w.gram(b.Stride)
	}
	row := w.row(i)
	w.basis.Block(row, len(row), []stream.Vec{x.X}, 0, len(row))
	row[i] += w.diagonal(i)
	for j, k := range row {
		b.Gram[j*b.Stride+i] = k
	}
	w.evals += int64(len(row))
	b.G[i] = x.Y - vec.DotMixed(row, b.A)
	w.fresh++
}

// step moves the coefficients, now and then.
func (w *window) step() {
	if w.fresh < max(tick, len(w.y)/ticks/tick*tick) {
		return
	}
	w.ascend(pairsEach, w.fresh)
	w.fresh, w.model = 0, nil
}

// expansion returns the model as of the last step.
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
	f.Int("room", &w.box.Stride)
	f.Int("next", &w.next)
	f.Int("fresh", &w.fresh)
	// The model is as of the last step, the coefficients may be later.
	var data []byte
	if !f.Decoding() {
		var err error
		data, err = w.expansion().AppendBinary(nil)
		f.Fail("model", err)
	}
	f.Bytes("model", &data)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	m, err := expansion.Decode(data)
	if err != nil {
		f.Fail("model", err)
		return
	}
	w.model = m.(*expansion.Expansion)
	f.Fail("points", w.check())
	if f.Err() != nil {
		return
	}
	w.gram(w.box.Stride)
}

// check refuses what cannot have been stored, and completes the rest.
func (w *window) check() error {
	n, b := len(w.y), &w.box
	if n < 1 || n > w.size || w.basis.Len() != n || len(b.A) != n || len(b.G) != n || b.Stride < n || b.Stride > w.size || w.next < 0 || w.next >= w.size || w.fresh < 0 {
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
	return nil
}

// kernelOf returns the kernel of width g, or for 0 the linear one, with a bias.
func kernelOf(g float64) kernel.Func {
	k := vec.Kernel{Kind: vec.RBF, Gamma: float32(g)}
	if g == 0 {
		k = vec.Kernel{Kind: vec.Linear}
	}
	return kernel.Func{Kernel: k, Bias: 1}
}

// block is the most examples that options are chosen on.
const block = 1536

// choice are the options of a machine.
type choice struct {
	c, gamma float64 // gamma 0: a linear kernel
}

// choose chooses the options: a machine learns from the first two thirds of the
// newest examples, and its errors on the others count. Of equal ones the first
// in the order of γ, then C, is taken.
func choose(xs []*stream.Example, wide bool, seed uint64) choice {
	xs = xs[max(0, len(xs)-block):]
	n := 2 * len(xs) / 3
	fit, test := xs[:n], xs[n:]
	gammas, cs := []float64{0}, []float64{0.1, 0.5, 2, 10, 50}
	if !wide {
		g := kernel.SampledGamma(samplers.Vecs(fit), 300, seed)
		gammas, cs = []float64{g / 4, g, 4 * g, 16 * g}, []float64{0.5, 4, 32}
	}
	for i, g := range gammas { // as a float32 may hold it
		gammas[i] = min(max(g, 1e-30), 1e30)
		if wide {
			gammas[i] = 0
		}
	}
	right := make([]float64, len(gammas)*len(cs))
	parallel(len(gammas), func(i int) {
		w := newWindow(max(1, n), cs[0], kernelOf(gammas[i]), target{})
		cross := make([]float32, len(test)*n)
		for k, c := range cs {
			if w.c = c; k == 0 {
				w.fill(fit)
				w.basis.Block(cross, n, samplers.Vecs(test), 0, n)
			} else {
				for j := range w.y {
					w.box.Lo[j], w.box.Hi[j] = w.bounds(j)
				}
				w.box.Ascend(pairsAll*n, enough)
			}
			for j, x := range test {
				if (vec.DotMixed(cross[j*n:(j+1)*n], w.box.A) >= 0) == (x.Y > 0) {
					right[i*len(cs)+k] += x.Importance()
				}
			}
		}
	})
	best := 0
	for i, r := range right {
		if r > right[best] {
			best = i
		}
	}
	return choice{c: cs[best%len(cs)], gamma: gammas[best/len(cs)]}
}

func (c *choice) fields(f *state.Fields) {
	f.Float64("c", &c.c)
	f.Float64("gamma", &c.gamma)
	if f.Decoding() && f.Err() == nil && !(c.c > 0 && c.c < math.Inf(1) && c.gamma >= 0 && c.gamma < math.Inf(1)) {
		f.Fail("c", fmt.Errorf("%g, %g", c.c, c.gamma))
	}
}
