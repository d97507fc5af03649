package kernel

import (
	"sync"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Bounds of what is packed for a vec.Score where the points are in sparse rows.
const (
	packDim    = 4096
	packValues = 16 << 20 // 64 MiB
)

// scored is an Expansion with a vec.Score, for vectors that it takes.
type scored struct {
	*Expansion
	score   *vec.Score
	offset  float64   // what is added to each of its decisions
	batches sync.Pool // of *scoreBatch
}

type scoreBatch struct {
	rows vec.Rows
	at   []int // where the rows' decisions go
	f    []float64

	// Vectors that the Score does not take, and where they come from.
	others   []stream.Vec
	othersAt []int
}

// Compile returns the same function in a form that decides several times
// faster: for an RBF kernel by vec.Score, where its range allows, so that
// decisions differ from e's by about 1e-7 of the sum of the coefficients'
// absolute values. Decision and Decisions of the result agree in every bit. e
// must not change as long as the result is in use.
func (e *Expansion) Compile() algos.Model {
	b := e.basis
	n, dim := b.Len(), b.Dim()
	if b.Func.Kind != vec.RBF || n == 0 {
		return e
	}
	p := b.panels
	if p == nil {
		if dim > packDim || n > packValues/max(dim, 1) {
			return e
		}
		p = vec.NewPanels(dim)
		row := make([]float32, dim)
		for i := range n {
			b.rows.row(i).Dense(row)
			p.Append(row)
		}
	}
	s := vec.NewScore(b.Func.Gamma, p, e.coef)
	if s == nil {
		return e
	}
	sum := 0.0
	for _, c := range e.coef {
		sum += c
	}
	return &scored{Expansion: e, score: s, offset: e.offset + float64(float64(b.Func.Bias)*sum)}
}

// Decision returns f(x).
func (s *scored) Decision(x stream.Vec) float64 {
	var f [1]float64
	s.Decisions(f[:], []stream.Vec{x})
	return f[0]
}

// Decisions sets dst[i] = f(xs[i]).
func (s *scored) Decisions(dst []float64, xs []stream.Vec) {
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
		s.Expansion.Decisions(f, b.others)
		for k, i := range b.othersAt {
			dst[i] = f[k]
		}
		clear(b.others) // or what they point to would live on
		b.others, b.othersAt = b.others[:0], b.othersAt[:0]
	}
}

// room returns scratch for n decisions.
func (b *scoreBatch) room(n int) []float64 {
	if cap(b.f) < n {
		b.f = make([]float64, n, 2*n)
	}
	return b.f[:n]
}

func (s *scored) flush(b *scoreBatch, dst []float64) {
	f := b.room(b.rows.Len())
	s.score.Decide(f, &b.rows)
	for k, i := range b.at {
		dst[i] = f[k] + s.offset
	}
	b.rows.Reset()
	b.at = b.at[:0]
}
