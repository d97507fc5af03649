package kernel

import (
	"sync"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Bounds on converting sparse points for a vec.Score.
const (
	packDim    = 4096
	packValues = 16 << 20 // 64 MiB
)

// Compiled is f(x) = Σ_j coef[j]·(K(point j, x) + Bias) + offset with an RBF
// kernel, evaluated by a vec.Score for the vectors that it accepts. It is
// immutable.
type Compiled struct {
	basis    *Basis
	coef     []float64
	offset   float64
	score    *vec.Score
	constant float64   // added to each decision of score
	batches  sync.Pool // of *scoreBatch
}

type scoreBatch struct {
	rows vec.Rows
	at   []int // index in dst of each row's decision
	f    []float64

	// The vectors that the Score does not accept, and their indices.
	others   []stream.Vec
	othersAt []int
}

// Compile returns the function in a form that decides several times faster than
// Decide, or nil if there is none. The points must not change while it is in use.
// Its decisions differ by about 1e-7 of the sum of the coefficients' absolute
// values.
func Compile(b *Basis, coef []float64, offset float64) *Compiled {
	n, dim := b.Len(), b.Dim()
	if b.Func.Kind != vec.RBF || n == 0 {
		return nil
	}
	p := b.panels
	if p == nil {
		if dim > packDim || n > packValues/max(dim, 1) {
			return nil
		}
		p = vec.NewPanels(dim)
		row := make([]float32, dim)
		for i := range n {
			b.rows.row(i).Dense(row)
			p.Append(row)
		}
	}
	s := vec.NewScore(b.Func.Gamma, p, coef)
	if s == nil {
		return nil
	}
	return &Compiled{basis: b, coef: coef, offset: offset, score: s, constant: offset + b.Constant(coef)}
}

// Decide sets dst[i] = f(xs[i]). The bits of dst[i] do not depend on the other
// vectors. It is safe for concurrent use.
func (s *Compiled) Decide(dst []float64, xs []stream.Vec) {
	b, _ := s.batches.Get().(*scoreBatch)
	if b == nil {
		b = new(scoreBatch)
	}
	defer s.batches.Put(b)
	for i, x := range xs {
		if !s.score.Append(&b.rows, x.Idx, x.Val) {
			b.others, b.othersAt = append(b.others, x), append(b.othersAt, i)
			continue
		}
		b.at = append(b.at, i)
		if b.rows.Full() {
			s.flush(b, dst)
		}
	}
	s.flush(b, dst)
	if len(b.others) > 0 {
		f := b.room(len(b.others))
		s.basis.Decide(f, b.others, s.coef, s.offset)
		for k, i := range b.othersAt {
			dst[i] = f[k]
		}
		clear(b.others) // so that the vectors can be freed
		b.others, b.othersAt = b.others[:0], b.othersAt[:0]
	}
}

// room returns scratch memory for n decisions.
func (b *scoreBatch) room(n int) []float64 {
	if cap(b.f) < n {
		b.f = make([]float64, n, 2*n)
	}
	return b.f[:n]
}

func (s *Compiled) flush(b *scoreBatch, dst []float64) {
	f := b.room(b.rows.Len())
	s.score.Decide(f, &b.rows)
	for k, i := range b.at {
		dst[i] = f[k] + s.constant
	}
	b.rows.Reset()
	b.at = b.at[:0]
}
