// Package plain has the building blocks for the exported JSON form of models, which
// docs/formats/plain.md documents.
package plain

import "fmt"

// Options are the options of an export.
type Options struct {
	// Features is the smallest number of features that the export must cover. It
	// only matters for models that have numbers for features they have not seen.
	Features int
	// Numbers bounds how many numbers the vectors of the export may have; each
	// takes about 12 bytes.
	Numbers int
}

// Exporter is a model that has a plain form: a struct for encoding/json whose field
// "kind" says how to read it.
type Exporter interface {
	Export(Options) (any, error)
}

// LimitError says that an export would be larger than allowed.
type LimitError struct {
	What       string
	Numbers    uint64
	MaxNumbers int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s are %d numbers, more than the limit of %d", e.What, e.Numbers, e.MaxNumbers)
}

// Check returns a *LimitError if rows times cols numbers are too many; neither is
// negative.
func (o Options) Check(what string, rows, cols int) error {
	if n := uint64(rows) * uint64(cols); n > uint64(max(o.Numbers, 0)) {
		return &LimitError{what, n, o.Numbers}
	}
	return nil
}

// Float is an element of a vector. A float32 is written with as many digits as
// distinguish it from other float32.
type Float interface{ ~float32 | ~float64 }

// Sparse is a vector that lists its nonzero features, counted from 0.
type Sparse[F Float] struct {
	Index []int32 `json:"index"`
	Value []F     `json:"value"`
}

// Vector returns the shorter plain form of a vector: a list of all its numbers, or
// a Sparse. It shares no memory with dense.
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
