package event

import (
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/stream"
)

// Parts counts, for each field whose values can be told from the vector, how
// often they were in which of its parts: those of its quantiles, or its
// categories. Unlike Seen it is a function of the vectors.
type Parts struct {
	schema *Schema
	n      uint64
	counts []uint64 // of all fields, one after the other, each with missing last
}

// NewParts returns the counts of no vector.
func NewParts(s *Schema) *Parts {
	p := &Parts{schema: s}
	for i := range s.Fields {
		n, _ := s.Fields[i].slots()
		p.counts = append(p.counts, make([]uint64, n)...)
	}
	return p
}

// AnyParts returns counts into which those of any schema can be read.
func AnyParts() *Parts { return &Parts{schema: new(Schema)} }

// slots returns how many parts are counted of a field, missing values included,
// and which of them is for unknown ones, or -1.
func (f *Field) slots() (n, unknown int) {
	switch {
	case f.Type == Numeric && len(f.Quantiles) > 0:
		return len(f.Quantiles) + 2, -1
	case f.Type == Boolean:
		return 3, -1
	case f.Type == Categorical && f.Hash == 0:
		return len(f.Categories) + 2, len(f.Categories)
	}
	return 0, -1
}

// Add counts a vector that the schema has made.
func (p *Parts) Add(x stream.Vec) {
	p.n++
	at := 0
	for i := range p.schema.Fields {
		f := &p.schema.Fields[i]
		n, _ := f.slots()
		if n == 0 {
			continue
		}
		p.counts[at+f.part(x, n)]++
		at += n
	}
}

// part returns the part of n in which x is.
func (f *Field) part(x stream.Vec, n int) int {
	if f.Type == Categorical {
		for k := range f.width() {
			if value(x, f.at+k) != 0 {
				return k
			}
		}
		return n - 1
	}
	if len(f.Gaps) > 0 && f.Gaps[0] && value(x, f.at+1) != 0 {
		return n - 1
	}
	v, k := float64(value(x, f.at)), 0
	if f.Type == Boolean {
		if v > 0.5 {
			k = 1
		}
		return k
	}
	for k < len(f.Quantiles) && v > f.Quantiles[k] {
		k++
	}
	return k
}

func value(x stream.Vec, j int) float32 {
	if !x.Sparse() {
		if j < len(x.Val) {
			return x.Val[j]
		}
		return 0
	}
	if k, ok := slices.BinarySearch(x.Idx, int32(j)); ok {
		return x.Val[k]
	}
	return 0
}

// N returns how many vectors have been counted.
func (p *Parts) N() uint64 { return p.n }

// Join adds the counts of q.
func (p *Parts) Join(q *Parts) {
	p.n += q.n
	for k, n := range q.counts {
		p.counts[k] += n
	}
}

// Clear forgets all counts.
func (p *Parts) Clear() {
	p.n = 0
	clear(p.counts)
}

// Limits of what Changed lets pass: a population stability index, and how much
// rarer missing or unknown values were, unless they are rare now.
const (
	mostPSI   = 0.25
	mostTimes = 5.0
	rareShare = 0.02
)

// Changed says of which field the values are others than they were before, and
// how; it is empty where they are not, and where one of both has counted too few
// to tell.
func (p *Parts) Changed(before *Parts) string {
	if p.n < psiLeast || before.n < psiLeast {
		return ""
	}
	at := 0
	for i := range p.schema.Fields {
		f := &p.schema.Fields[i]
		n, unknown := f.slots()
		if n == 0 {
			continue
		}
		now, then := p.counts[at:at+n], before.counts[at:at+n]
		at += n
		share := func(k int) (a, b float64) {
			return float64(now[k]) / float64(p.n), float64(then[k]) / float64(before.n)
		}
		for _, what := range []struct {
			name string
			part int
		}{{"missing", n - 1}, {"unknown", unknown}} {
			if what.part < 0 {
				continue
			}
			if a, b := share(what.part); a > rareShare && a > mostTimes*b {
				return fmt.Sprintf("%.1f %% of the values of %s are %s, %.1f %% before", 100*a, f.Name, what.name, 100*b)
			}
		}
		sum := compare.PSI(compare.Shares(now), compare.Shares(then))
		// By chance it would be about so many parts over the number of vectors.
		if sum > mostPSI+2*float64(n-1)*(1/float64(p.n)+1/float64(before.n)) {
			return fmt.Sprintf("the stability index of %s is %.2f", f.Name, sum)
		}
	}
	return ""
}

// State describes the counts, which must be those of the schema of p.
func (p *Parts) State(f *state.Fields) {
	was := len(p.counts)
	f.Uint64("examples", &p.n)
	f.Uint64s("counts", &p.counts)
	if f.Decoding() && f.Err() == nil && was > 0 && len(p.counts) != was {
		f.Fail("counts", fmt.Errorf("%d, want %d", len(p.counts), was))
	}
}
