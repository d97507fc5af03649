package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/stream"
)

// HTTP exports what a server refuses, and the bytes that it holds.
type HTTP struct{ rejected *prometheus.CounterVec }

// NewHTTP returns an HTTP that is registered with reg. reasons are the possible
// reasons of refusals. held returns the bytes of requests and answers in memory.
func NewHTTP(reg prometheus.Registerer, reasons []string, held func() int64) *HTTP {
	h := &HTTP{maker{reg, "streamsvm_"}.counters("http_rejected_total", "Requests and connections refused because of a limit, by reason.", "reason")}
	for _, r := range reasons {
		h.rejected.WithLabelValues(r)
	}
	bytes := desc("http_in_flight_bytes", "Bytes of requests and their answers held, of those that are limited.")
	reg.MustRegister(collector(func(send send) { send(bytes, prometheus.GaugeValue, float64(held())) }))
	return h
}

// Rejected counts a refused request or connection.
func (h *HTTP) Rejected(reason string) { h.rejected.WithLabelValues(reason).Inc() }

// Predictor exports the state of a subscriber that predicts.
type Predictor struct {
	updates, predictions, refused, received prometheus.Counter
	version, created                        *late
	took                                    prometheus.Histogram
	untrusted                               atomic.Pointer[func() uint64]
}

// NewPredictor returns a Predictor that is registered with reg.
func NewPredictor(reg prometheus.Registerer) *Predictor {
	return newPredictor(maker{reg, "streamsvm_"})
}

// NewShadow is NewPredictor for a shadow model.
func NewShadow(reg prometheus.Registerer) *Predictor {
	return newPredictor(maker{reg, "streamsvm_shadow_"})
}

func newPredictor(m maker) *Predictor {
	p := &Predictor{
		updates:     m.counter("subscriber_updates_total", "Models taken into use since the process started."),
		received:    m.counter("subscriber_received_bytes_total", "Bytes of the payloads that have come from the model topic, fulls and deltas."),
		predictions: m.counter("predictions_total", "Predictions made."),
		refused:     m.counter("predictions_refused_total", "Records or requests that could not be scored."),
		version:     m.gauge("subscriber_model_version", "Version of the model in use."),
		created:     m.gauge("subscriber_model_timestamp_seconds", "When the model in use was made, in Unix time."),
		took:        m.histogram("prediction_duration_seconds", "Time to score a batch.", prometheus.ExponentialBuckets(1e-5, 4, 10)),
	}
	untrusted := prometheus.NewDesc(m.prefix+"subscriber_untrusted_updates_total", "Updates of the model refused because no trusted key has signed them as they are.", nil, nil)
	m.reg.MustRegister(collector(func(send send) {
		n := uint64(0)
		if f := p.untrusted.Load(); f != nil {
			n = (*f)()
		}
		send(untrusted, prometheus.CounterValue, float64(n))
	}))
	return p
}

// Follows sets the function that returns how many updates lacked a trusted signature.
func (p *Predictor) Follows(untrusted func() uint64) { p.untrusted.Store(&untrusted) }

// Updated records that the model of u is in use from now on, and how many bytes of
// payloads were received for it.
func (p *Predictor) Updated(u *stream.Update, bytes uint64) {
	p.updates.Inc()
	p.received.Add(float64(bytes))
	p.version.Set(float64(u.Version))
	p.created.Set(unix(u.Created))
}

// Scored counts the predictions and refusals of a batch.
func (p *Predictor) Scored(predictions, refused int, took time.Duration) {
	p.predictions.Add(float64(predictions))
	p.refused.Add(float64(refused))
	p.took.Observe(took.Seconds())
}

// Session exports the state of a group member that writes in transactions.
type Session struct {
	ended *prometheus.CounterVec
	took  prometheus.Histogram
}

// NewSession returns a Session that is registered with reg.
func NewSession(reg prometheus.Registerer, l stream.Lagger, shadow bool) *Session {
	m := maker{reg, "streamsvm_"}
	if shadow {
		m.prefix += "shadow_"
	}
	m.lag(func() stream.Lagger { return l })
	return &Session{
		ended: m.counters("transactions_total", "Transactions, by how they ended.", "result"),
		took:  m.histogram("transaction_duration_seconds", "Time to write and end a transaction.", prometheus.ExponentialBuckets(1e-3, 2, 15)),
	}
}

// Ended counts a transaction that was committed or aborted.
func (s *Session) Ended(committed bool, took time.Duration) {
	s.ended.WithLabelValues(map[bool]string{true: "committed", false: "aborted"}[committed]).Inc()
	s.took.Observe(took.Seconds())
}
