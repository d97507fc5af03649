package sbp

import (
	"math"
	"slices"
	"sync"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/kernel/rows"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// arrive adds the pending examples to the buffer. First it evicts examples to make
// room. Then one sweep over the support vectors computes the responses of the new
// examples. Other responses change only by the contributions that are removed.
func (l *Learner) arrive() {
	if len(l.Pending()) == 0 {
		return
	}
	if !l.Ready() {
		l.setGamma()
	}
	l.rows.Tick()
	d := l.Take()
	for _, slot := range d.Slots {
		if slot >= 0 {
			l.since++
		}
	}
	slots, examples := d.Last()
	if len(slots) == 0 {
		return
	}
	l.fresh = true
	l.evict(d.Gone)
	xs := make([]stream.Vec, len(slots))
	for q, i := range slots {
		x := examples[q]
		xs[q] = x.X
		if i < len(l.y) {
			l.basis.Set(i, x.X)
			l.y[i], l.a[i], l.lag[i] = x.Y, 0, 0
		} else {
			l.basis.Append(x.X)
			l.y = append(l.y, x.Y)
			l.a, l.lag = append(l.a, 0), append(l.lag, 0)
			l.u, l.sumU = append(l.u, 0), append(l.sumU, 0)
		}
		l.rows.Changed(i)
	}
	l.rows.Sync()
	for _, i := range slots {
		if d := l.basis.Diag(i); d > l.maxDiag {
			l.maxDiag = d
			l.firstScale()
		}
	}
	l.sweep(slots, xs)
}

// firstScale sets the first ν once the magnitude of kernel values is known.
func (l *Learner) firstScale() {
	if !l.fixed && l.step == 0 {
		l.nu = firstNu * math.Sqrt(l.maxDiag)
	}
}

func (l *Learner) setGamma() {
	f := l.opt.Func(l.opt.Bias, l.Vecs())
	l.basis, l.cold = kernel.New(f), kernel.New(f)
	l.rows = rows.New(l.basis, l.opt.CacheMB<<20)
}

// evict freezes the members that leave. Members without a coefficient need no work.
func (l *Learner) evict(slots []int) {
	for _, i := range slots {
		if l.a[i] != 0 || l.lag[i] != 0 {
			l.freeze(i)
		}
	}
}

// subtract subtracts a·Φ from the iterate and the corresponding part from the
// average. f is ⟨w,Φ⟩, sum is ⟨S,Φ⟩ with the sum S of the iterates, k has the
// kernel values with the buffer, and diag is K of the point itself.
func (l *Learner) subtract(a, lag, f, sum, diag float64, k []float32) {
	alpha := l.scale * a
	l.r2 = max(0, l.r2-float64(2*alpha*f)+float64(float64(alpha*alpha)*diag))
	sigma := float64(l.sumS*a) - lag
	l.sumW += float64(float64(alpha*sigma)*diag) - float64(alpha*sum) - float64(sigma*f)
	l.sum2 += float64(float64(sigma*sigma)*diag) - float64(2*sigma*sum)
	vec.AxpyMixed(-a, k, l.u)
	vec.AxpyMixed(lag-float64(l.sumS*a), k, l.sumU)
	l.removed++
}

// freeze turns example i into a frozen one, whose coefficient no longer changes. If
// there are Frozen of them, the oldest one is removed first. To keep its contribution
// small, w shrinks with each freeze, unless the projections since the last freeze
// have shrunk it enough.
func (l *Learner) freeze(i int) {
	l.shrunk -= coldSpans / float64(l.opt.Frozen)
	if l.shrunk < 0 {
		l.scale *= math.Exp(l.shrunk)
		l.sumW *= math.Exp(l.shrunk)
		l.r2 *= math.Exp(2 * l.shrunk)
		l.shrunk = 0
	}
	at := l.cold.Len()
	if at == l.opt.Frozen {
		at = l.coldNext
		l.thaw(at)
		l.cold.Set(at, l.basis.Row(i))
		l.coldNext = (at + 1) % l.opt.Frozen
	} else {
		l.cold.Append(l.basis.Row(i))
		l.coldA, l.coldLag = append(l.coldA, 0), append(l.coldLag, 0)
	}
	l.coldA[at], l.coldLag[at] = float64(l.a[i]*l.y[i]), float64(l.lag[i]*l.y[i])
	l.a[i], l.lag[i] = 0, 0
}

// thaw removes the contribution of a frozen example from the model.
func (l *Learner) thaw(j int) {
	x := []stream.Vec{l.cold.Row(j)}
	l.block, l.own = room(l.block, len(l.y)), room(l.own, len(l.coldA))
	k, own := l.block, l.own
	l.basis.Block(k, len(k), x, 0, len(k))
	l.cold.Block(own, len(own), x, 0, len(own))
	l.rows.Evals += int64(len(k) + len(own))
	f, lag := vec.DotMixed(own, l.coldA), vec.DotMixed(own, l.coldLag)
	for i, a := range l.a {
		if a != 0 || l.lag[i] != 0 {
			f += float64(float64(a*l.y[i]) * float64(k[i]))
			lag += float64(float64(l.lag[i]*l.y[i]) * float64(k[i]))
		}
	}
	l.subtract(l.coldA[j], l.coldLag[j], l.scale*f, float64(l.sumS*f)-lag, float64(own[j]), k)
	l.coldA[j], l.coldLag[j] = 0, 0
}

// sweepCols is the number of support vectors whose kernel values are in memory at a
// time.
const sweepCols = 1024

// sweep computes the responses of new examples, in the iterate and in the average,
// from the kernel values with the support vectors.
func (l *Learner) sweep(slots []int, xs []stream.Vec) {
	idx, a, lag := l.ahead[:0], l.coefs[:0], l.lags[:0]
	for i, v := range l.a {
		if v != 0 || l.lag[i] != 0 {
			idx = append(idx, int32(i))
			a = append(a, float64(v*l.y[i]))
			lag = append(lag, float64(l.lag[i]*l.y[i]))
		}
	}
	l.ahead, l.coefs, l.lags = idx, a, lag
	for _, i := range slots {
		l.u[i], l.sumU[i] = 0, 0
	}
	if len(idx) > 0 {
		l.swept.Pick(kernel.Part{Basis: l.basis, Idx: idx})
		l.sweepOver(l.swept, a, lag, slots, xs)
	}
	if len(l.coldA) > 0 {
		l.sweepOver(l.cold, l.coldA, l.coldLag, slots, xs)
	}
}

// sweeping is scratch memory for the kernel values of a piece.
type sweeping struct{ block, x []float32 }

var sweepings = sync.Pool{New: func() any { return &sweeping{block: make([]float32, rows.Block*sweepCols)} }}

// sweepOver adds the contributions of the points of b to the responses. Pieces of
// sweepCols points are summed separately, on several processors, and added in order.
func (l *Learner) sweepOver(b *kernel.Basis, a, lag []float64, slots []int, xs []stream.Vec) {
	pieces := (len(a) + sweepCols - 1) / sweepCols
	for len(xs) > 0 {
		n := min(len(xs), rows.Block)
		l.parts = slices.Grow(l.parts[:0], pieces*n)[:pieces*n]
		par.Split(pieces, 1, b.Work(n*len(a)), func(lo, hi int) {
			s := sweepings.Get().(*sweeping)
			defer sweepings.Put(s)
			for p := lo; p < hi; p++ {
				from, to := p*sweepCols, min(len(a), (p+1)*sweepCols)
				s.x = b.Values(s.x, s.block, to-from, xs[:n], from, to)
				for r := range n {
					k := s.block[r*(to-from) : (r+1)*(to-from)]
					l.parts[p*n+r] = [2]float64{vec.DotMixed(k, a[from:to]), vec.DotMixed(k, lag[from:to])}
				}
			}
		})
		for at, v := range l.parts {
			i := slots[at%n]
			l.u[i] += v[0]
			l.sumU[i] += float64(l.sumS*v[0]) - v[1]
		}
		l.rows.Evals += int64(n * len(a))
		slots, xs = slots[n:], xs[n:]
	}
}

// room returns n undefined values, in the memory of s if they fit.
func room(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n, n+n/4)
	}
	return s[:n]
}
