// Package weight stores the importance weights of lists of examples, at no cost if
// all weights are 1.
package weight

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// List has the weights of a number of examples. It is nil as long as all are 1.
type List []float32

// Of returns the weights of xs.
func Of(xs []*stream.Example) (l List) {
	for i, x := range xs {
		l.Set(i, i+1, x.Importance())
	}
	return l
}

// At returns weight i.
func (l List) At(i int) float64 {
	if l == nil {
		return 1
	}
	return float64(l[i])
}

// Set sets weight i of n to w, which must be a float32 value. The list grows as
// needed.
func (l *List) Set(i, n int, w float64) {
	if *l == nil && w == 1 {
		return
	}
	for len(*l) < n {
		*l = append(*l, 1)
	}
	(*l)[i] = float32(w)
}

// Append appends the weights of m more examples to the n weights of l.
func (l *List) Append(n int, more List, m int) {
	for i := range m {
		l.Set(n+i, n+i+1, more.At(i))
	}
}

// Truncate keeps only the first n weights.
func (l *List) Truncate(n int) {
	if *l != nil {
		*l = (*l)[:n]
	}
}

// Keep keeps only the weights idx, in ascending order.
func (l *List) Keep(idx []int32) {
	if *l == nil {
		return
	}
	for r, i := range idx {
		(*l)[r] = (*l)[i]
	}
	*l = (*l)[:len(idx)]
}

// Sum returns the sum of the weights of n examples.
func (l List) Sum(n int) float64 {
	if l == nil {
		return float64(n)
	}
	var s float64
	for _, w := range l {
		s += float64(w)
	}
	return s
}

// Fields describes the weights of n examples, as "example_weights". They are stored
// only if one is not 1.
func (l *List) Fields(f *state.Fields, n int) { l.Named(f, "example_weights", n) }

// Named is Fields with another name.
func (l *List) Named(f *state.Fields, name string, n int) {
	if f.Decoding() {
		*l = nil
	}
	if !f.Next(name) && (f.Decoding() || *l == nil) {
		return
	}
	f.Float32s(name, (*[]float32)(l))
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if len(*l) != n {
		f.Fail(name, fmt.Errorf("%d for %d examples", len(*l), n))
	}
	for _, w := range *l {
		if !(w > 0) || math.IsInf(float64(w), 1) {
			f.Fail(name, fmt.Errorf("%g", w))
			return
		}
	}
}
