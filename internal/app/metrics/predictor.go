package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/stream"
)

// Predictor shows a subscriber that predicts.
type Predictor struct {
	updates, predictions, refused, skipped prometheus.Counter
	fulls, deltas, received                prometheus.Counter
	version, bytes, created                *late
	took                                   prometheus.Histogram
	untrusted                              atomic.Pointer[func() uint64]
}

// NewPredictor returns a Predictor that is registered with reg.
func NewPredictor(reg prometheus.Registerer) *Predictor { return newPredictor(reg, "streamsvm_") }

// NewShadow is NewPredictor for a model that is only tried.
func NewShadow(reg prometheus.Registerer) *Predictor { return newPredictor(reg, "streamsvm_shadow_") }

func newPredictor(reg prometheus.Registerer, prefix string) *Predictor {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	p := &Predictor{
		updates:     counter(prefix+"subscriber_updates_total", "Models taken into use since the process started."),
		fulls:       counter(prefix+"subscriber_fulls_total", "Fulls that have come from the model topic."),
		deltas:      counter(prefix+"subscriber_deltas_total", "Deltas that have come from the model topic and were applied."),
		received:    counter(prefix+"subscriber_received_bytes_total", "Bytes of their payloads."),
		predictions: counter(prefix+"predictions_total", "Predictions made."),
		refused:     counter(prefix+"predictions_refused_total", "Records or requests that could not be scored."),
		skipped:     counter(prefix+"predictions_tombstones_total", "Records without a value that were skipped."),
		version:     newLate(prefix+"subscriber_model_version", "Version of the model in use."),
		bytes:       newLate(prefix+"subscriber_model_size_bytes", "Size of the model in use."),
		created:     newLate(prefix+"subscriber_model_timestamp_seconds", "When the model in use was made, in Unix time."),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "prediction_duration_seconds", Help: "Time to score a batch.", Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10),
		}),
	}
	untrusted := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: prefix + "subscriber_untrusted_updates_total", Help: "Updates of the model refused because no trusted key has signed them as they are.",
	}, func() float64 {
		if n := p.untrusted.Load(); n != nil {
			return float64((*n)())
		}
		return 0
	})
	reg.MustRegister(untrusted, p.updates, p.fulls, p.deltas, p.received, p.predictions, p.refused, p.skipped, p.version, p.bytes, p.created, p.took)
	return p
}

// Follows says where to ask how many updates have been refused for want of a
// signature.
func (p *Predictor) Follows(untrusted func() uint64) { p.untrusted.Store(&untrusted) }

// Updated says that the model of u, of the given size, is in use from now on.
func (p *Predictor) Updated(u *stream.Update, bytes int) {
	p.updates.Inc()
	p.version.Set(float64(u.Version))
	p.bytes.Set(float64(bytes))
	p.created.Set(unix(u.Created))
}

// Received says in what form models came: so many further fulls and deltas,
// with payloads of so many bytes.
func (p *Predictor) Received(fulls, deltas, bytes uint64) {
	p.fulls.Add(float64(fulls))
	p.deltas.Add(float64(deltas))
	p.received.Add(float64(bytes))
}

// Skipped says that n records without a value were skipped.
func (p *Predictor) Skipped(n int) { p.skipped.Add(float64(n)) }

// Scored says that n predictions were made in a batch and m refused.
func (p *Predictor) Scored(n, m int, took time.Duration) {
	p.predictions.Add(float64(n))
	p.refused.Add(float64(m))
	p.took.Observe(took.Seconds())
}
