package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/stream"
)

// Sums shows a process that sums records.
type Sums struct {
	reg     prometheus.Registerer
	records *prometheus.CounterVec
}

// NewSums returns a Sums that is registered with reg.
func NewSums(reg prometheus.Registerer) *Sums {
	return &Sums{reg, maker{reg, "streamsvm_"}.counters("sum_records_total", "Records whose sums have been written, by what became of them.", "fate")}
}

// Session adds the session that reads the records.
func (s *Sums) Session(l stream.Lagger) *Session { return NewSession(s.reg, l, false) }

// Summed counts the records of a transaction.
func (s *Sums) Summed(summed, unlabelled, dead, tombstones uint64) {
	s.records.WithLabelValues("summed").Add(float64(summed))
	s.records.WithLabelValues("unlabelled").Add(float64(unlabelled))
	s.records.WithLabelValues("dead").Add(float64(dead))
	s.records.WithLabelValues("tombstone").Add(float64(tombstones))
}
