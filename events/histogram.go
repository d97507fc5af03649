package events

import (
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/stream"
)

// A Histogram counts, for each field whose value can be recovered from a vector, how often
// it fell into each bin: between quantiles for numbers, one bin for each category, and
// one for missing values. It depends only on the vectors.
type Histogram struct {
	schema *Schema
	n      uint64
	bins   []int    // number of bins of each field
	counts []uint64 // of all fields, one after the other; missing values last
}

// NewHistogram returns an empty histogram. Without a schema it takes the bins
// from the first state that is read into it.
func NewHistogram(s *Schema) *Histogram {
	if s == nil {
		s = new(Schema)
	}
	h := &Histogram{schema: s}
	for i := range s.Fields {
		n, _ := s.Fields[i].bins()
		h.bins, h.counts = append(h.bins, n), append(h.counts, make([]uint64, n)...)
	}
	return h
}

// bins returns the number of bins of a field, and the index of the bin for unknown
// categories, or -1.
func (f *Field) bins() (n, unknown int) {
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

// Add counts a vector that the schema made.
func (h *Histogram) Add(x stream.Vec) {
	h.n++
	at := 0
	for i, n := range h.bins {
		if n > 0 {
			h.counts[at+h.schema.Fields[i].bin(x, n)]++
			at += n
		}
	}
}

// bin returns the index of the bin, of n, that x falls into.
func (f *Field) bin(x stream.Vec, n int) int {
	if f.Type == Categorical {
		if k := nonzero(x, f.at, f.at+f.width()); k >= 0 {
			return k
		}
		return n - 1
	}
	if len(f.MissingIndicator) > 0 && f.MissingIndicator[0] && value(x, f.at+1) != 0 {
		return n - 1
	}
	v, k := float64(value(x, f.at)), 0
	if f.Centered {
		v = float64(float32(v + f.Means[0]))
	}
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

// nonzero returns the position, from 0, of the first feature in [from, to) that is not
// 0, or -1.
func nonzero(x stream.Vec, from, to int) int {
	if !x.Sparse() {
		from, to = min(from, len(x.Val)), min(to, len(x.Val))
		for k, v := range x.Val[from:to] {
			if v != 0 {
				return k
			}
		}
		return -1
	}
	k, _ := slices.BinarySearch(x.Idx, int32(from))
	for ; k < len(x.Idx) && int(x.Idx[k]) < to; k++ {
		if x.Val[k] != 0 {
			return int(x.Idx[k]) - from
		}
	}
	return -1
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

// N returns how many vectors were counted.
func (h *Histogram) N() uint64 { return h.n }

// Join adds the counts of another histogram with the same schema.
func (h *Histogram) Join(g *Histogram) {
	h.n += g.n
	for k, n := range g.counts {
		h.counts[k] += n
	}
}

// Clear sets all counts to 0.
func (h *Histogram) Clear() {
	h.n = 0
	clear(h.counts)
}

// Thresholds of Drift: a stability index, and the factor by which missing or unknown
// values may become more frequent unless they stay rare.
const (
	mostPSI    = 0.25
	mostFactor = 5.0
	rareShare  = 0.02
)

// Drift returns a description of the first field whose values differ from the ones counted
// in before. It is empty if none differs, or if one of the histograms has counted fewer
// than 500 vectors.
func (h *Histogram) Drift(before *Histogram) string {
	if h.n < psiLeast || before.n < psiLeast {
		return ""
	}
	at := 0
	for i := range h.schema.Fields {
		f := &h.schema.Fields[i]
		n, unknown := f.bins()
		if n == 0 {
			continue
		}
		now, then := h.counts[at:at+n], before.counts[at:at+n]
		at += n
		for _, rare := range []struct {
			name string
			bin  int
		}{{"missing", n - 1}, {"unknown", unknown}} {
			if rare.bin < 0 {
				continue
			}
			a, b := float64(now[rare.bin])/float64(h.n), float64(then[rare.bin])/float64(before.n)
			if a > rareShare && a > mostFactor*b {
				return fmt.Sprintf("%.1f %% of the values of %s are %s, %.1f %% before", 100*a, f.Name, rare.name, 100*b)
			}
		}
		// Without any change the expected index is about the number of bins over the vectors.
		chance := float64(n-1) * (1/float64(h.n) + 1/float64(before.n))
		if index := compare.PSI(compare.Shares(now), compare.Shares(then)); index > mostPSI+2*chance {
			return fmt.Sprintf("the stability index of %s is %.2f", f.Name, index)
		}
	}
	return ""
}

// State describes the counts, which must match the schema of h.
func (h *Histogram) State(f *state.Fields) {
	want := len(h.counts)
	f.Uint64("examples", &h.n)
	f.Uint64s("counts", &h.counts)
	if f.Decoding() && f.Err() == nil && want > 0 && len(h.counts) != want {
		f.Fail("counts", fmt.Errorf("%d, want %d", len(h.counts), want))
	}
}
