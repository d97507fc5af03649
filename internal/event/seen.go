package event

import (
	"math"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/compare"
)

// Seen counts what is noticed in the fields of events. It may be used from many
// goroutines, and is no part of any state.
type Seen struct {
	schema *Schema
	fields []seenField
	// Events is the number of events encoded, Fields that of their fields that
	// the schema does not list.
	Events, Fields atomic.Uint64
}

type seenField struct {
	missing, unknown, invalid, outside atomic.Uint64
	parts                              []atomic.Uint64
}

// NewSeen returns the counts of a schema's fields.
func NewSeen(s *Schema) *Seen {
	n := &Seen{schema: s, fields: make([]seenField, len(s.Fields))}
	for i := range s.Fields {
		n.fields[i].parts = make([]atomic.Uint64, len(s.Fields[i].Shares))
	}
	return n
}

// FieldCounts is what has been noticed of a field.
type FieldCounts struct {
	Field                              string
	Type                               Type
	Missing, Unknown, Invalid, Outside uint64
	// PSI is the population stability index of the values since against those of
	// the first events, Σ (p−q)·ln(p/q) over the parts; NaN where it is not known.
	PSI float64
}

// Counts returns the counts of all fields that are used.
func (n *Seen) Counts() []FieldCounts {
	var list []FieldCounts
	for i := range n.fields {
		f, s := &n.fields[i], &n.schema.Fields[i]
		if s.Type == Ignore {
			continue
		}
		list = append(list, FieldCounts{
			Field: s.Name, Type: s.Type, Missing: f.missing.Load(), Unknown: f.unknown.Load(),
			Invalid: f.invalid.Load(), Outside: f.outside.Load(), PSI: f.psi(s.Shares),
		})
	}
	return list
}

// psiLeast is the number of values from which on an index says something.
const psiLeast = 500

func (f *seenField) psi(shares []float64) float64 {
	now, reference, total := make([]uint64, len(f.parts)), make([]float64, len(f.parts)), uint64(0)
	for k := range f.parts {
		now[k], reference[k] = f.parts[k].Load(), max(shares[k], 1e-4) // an empty part would be infinitely far
		total += now[k]
	}
	if total < psiLeast {
		return math.NaN()
	}
	return compare.PSI(compare.Shares(now), reference)
}

func (n *Seen) missing(i int) {
	if n != nil {
		n.fields[i].missing.Add(1)
	}
}

func (n *Seen) unknown(i int) {
	if n != nil {
		n.fields[i].unknown.Add(1)
	}
}

func (n *Seen) invalid(i int) {
	if n != nil {
		n.fields[i].invalid.Add(1)
	}
}

// partsEach is of how many events one counts for the index: that takes time.
const partsEach = 4

// outside counts a number that is out of the range of its field.
func (n *Seen) outside(i int, f *Field, v float64) {
	if n != nil && len(f.Range) == 2 && (v < f.Range[0] || v > f.Range[1]) {
		n.fields[i].outside.Add(1)
	}
}

// part counts a value in part k of its field.
func (n *Seen) part(i, k int) {
	if n != nil && k < len(n.fields[i].parts) {
		n.fields[i].parts[k].Add(1)
	}
}

// number counts a number in its part.
func (n *Seen) number(i int, f *Field, v float64) {
	if n == nil || len(f.Shares) == 0 {
		return
	}
	k := 0
	for k < len(f.Quantiles) && v > f.Quantiles[k] {
		k++
	}
	n.part(i, k)
}
