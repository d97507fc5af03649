package events

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/stream"
)

// Statistics counts the issues in the fields of events. Any number of goroutines may use
// it. It is for displays, and not part of any state.
type Statistics struct {
	schema           *Schema
	issues           [][issueKinds]atomic.Uint64 // of each field
	events, unlisted atomic.Uint64

	mu        sync.Mutex
	histogram *Histogram
}

// NewStatistics returns empty statistics.
func NewStatistics(s *Schema) *Statistics {
	return &Statistics{schema: s, issues: make([][issueKinds]atomic.Uint64, len(s.Fields)), histogram: NewHistogram(s)}
}

// histogramEvery is the sampling interval of the histogram: one event in so many is
// added, because adding takes time.
const histogramEvery = 8

// Add counts an event that was encoded as x.
func (s *Statistics) Add(row *Row, x stream.Vec) {
	s.AddRefused(row)
	if row.Unlisted > 0 {
		s.unlisted.Add(uint64(row.Unlisted))
	}
	if (s.events.Add(1)-1)%histogramEvery == 0 {
		s.mu.Lock()
		s.histogram.Add(x)
		s.mu.Unlock()
	}
}

// AddRefused counts the issues of an event that was refused.
func (s *Statistics) AddRefused(row *Row) {
	for _, i := range row.Issues {
		s.issues[i.Field][i.Kind].Add(1)
	}
}

// Events returns the number of events that were encoded, and the number of their
// fields that the schema does not list.
func (s *Statistics) Events() (events, unlisted uint64) { return s.events.Load(), s.unlisted.Load() }

// FieldStatistics counts the issues of one field.
type FieldStatistics struct {
	Name string
	Type Type
	// Missing, Unknown, Invalid and Outside are the numbers of events with the
	// issue.
	Missing, Unknown, Invalid, Outside uint64
	// PSI is the population stability index of the values against the events from which the
	// schema was inferred: below 0.1 little has changed, above 0.25 much. It is NaN for types
	// without a histogram, and for fewer than 500 values.
	PSI float64
}

// Fields returns the statistics of all fields in use.
func (s *Statistics) Fields() []FieldStatistics {
	var list []FieldStatistics
	s.mu.Lock()
	defer s.mu.Unlock()
	at := 0
	for i, bins := range s.histogram.bins {
		f, n := &s.schema.Fields[i], &s.issues[i]
		counts := s.histogram.counts[at : at+bins]
		if at += bins; f.Type == Ignore {
			continue
		}
		list = append(list, FieldStatistics{
			Name: f.Name, Type: f.Type, Missing: n[Missing].Load(), Unknown: n[Unknown].Load(),
			Invalid: n[Invalid].Load(), Outside: n[Outside].Load(), PSI: f.psi(counts),
		})
	}
	return list
}

// psiLeast is the number of values below which an index is meaningless.
const psiLeast = 500

// psi returns the stability index of the values in the bins. The last bin counts
// missing values and is left out.
func (f *Field) psi(counts []uint64) float64 {
	if len(f.Reference) == 0 || len(counts) != len(f.Reference)+1 {
		return math.NaN()
	}
	total := uint64(0)
	for _, n := range counts[:len(f.Reference)] {
		total += n
	}
	if total < psiLeast {
		return math.NaN()
	}
	q := make([]float64, len(f.Reference))
	for k, share := range f.Reference {
		q[k] = max(share, 1e-4)
	}
	return compare.PSI(compare.Shares(counts[:len(q)]), q)
}
