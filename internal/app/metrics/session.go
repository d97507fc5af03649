package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/stream"
)

// Session shows a member of a consumer group that writes in transactions.
type Session struct {
	ended *prometheus.CounterVec
	took  prometheus.Histogram
}

// NewSession returns a Session that is registered with reg; of a shadow, if that
// is said.
func NewSession(reg prometheus.Registerer, l stream.Lagger, shadow bool) *Session {
	prefix := "streamsvm_"
	if shadow {
		prefix = "streamsvm_shadow_"
	}
	s := &Session{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "transactions_total", Help: "Transactions, by how they ended."}, []string{"result"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "transaction_duration_seconds", Help: "Time to write and end a transaction.", Buckets: prometheus.ExponentialBuckets(1e-3, 2, 15),
		}),
	}
	reg.MustRegister(s.ended, s.took, guarded{lags{prometheus.NewDesc(prefix+"lag_records", "Records between the position and the end of the partition.", []string{"topic", "partition"}, nil), l}})
	return s
}

// Ended says that a transaction has been committed, or has been undone.
func (s *Session) Ended(committed bool, took time.Duration) {
	result := "aborted"
	if committed {
		result = "committed"
	}
	s.ended.WithLabelValues(result).Inc()
	s.took.Observe(took.Seconds())
}

type lags struct {
	desc *prometheus.Desc
	of   stream.Lagger
}

// Describe implements prometheus.Collector.
func (l lags) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

// Collect implements prometheus.Collector.
func (l lags) Collect(ch chan<- prometheus.Metric) {
	for p, n := range l.of.Lag() {
		ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, float64(n), p.Topic, strconv.Itoa(int(p.ID)))
	}
}
