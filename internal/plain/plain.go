// Package plain holds what the plain, documented form of a model is made of:
// values for encoding/json, as docs/formats/plain.md describes them.
package plain

import "fmt"

// Options of an export.
type Options struct {
	// Features is the least number of features that the exported form has to
	// cover. Only models that hold numbers for features they have not seen look
	// at it.
	Features int
	// Numbers bounds how many numbers of vectors the export may hold, which
	// take about 12 bytes each.
	Numbers int
}

// Exporter is a model that has a plain form: a struct for encoding/json whose
// field "kind" says how it is to be read.
type Exporter interface {
	Export(Options) (any, error)
}

// LimitError says that an export would be larger than it is allowed to be.
type LimitError struct {
	What       string
	Numbers    uint64
	MaxNumbers int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s are %d numbers, more than the limit of %d", e.What, e.Numbers, e.MaxNumbers)
}

// Check returns a *LimitError if rows times cols numbers are too many; neither
// is negative.
func (o Options) Check(what string, rows, cols int) error {
	if n := uint64(rows) * uint64(cols); n > uint64(max(o.Numbers, 0)) {
		return &LimitError{what, n, o.Numbers}
	}
	return nil
}

// Float is a number of a vector. Those of 32 bits are written with the digits
// that tell them from other numbers of 32 bits.
type Float interface{ ~float32 | ~float64 }

// Sparse is a vector that lists its features, counted from 0; all others
// are 0.
type Sparse[F Float] struct {
	Index []int32 `json:"index"`
	Value []F     `json:"value"`
}

// Vector returns the shorter plain form of a vector: a list of all its numbers
// or a Sparse. It shares no memory with dense.
func Vector[F Float](dense []F) any {
	set := 0
	for _, v := range dense {
		if v != 0 {
			set++
		}
	}
	if 2*set >= len(dense) {
		return append(make([]F, 0, len(dense)), dense...)
	}
	s := Sparse[F]{make([]int32, 0, set), make([]F, 0, set)}
	for j, v := range dense {
		if v != 0 {
			s.Index = append(s.Index, int32(j))
			s.Value = append(s.Value, v)
		}
	}
	return s
}
