package metrics

import (
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
}

// NewPredictor returns a Predictor that is registered with reg.
func NewPredictor(reg prometheus.Registerer) *Predictor {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	p := &Predictor{
		updates:     counter("streamsvm_subscriber_updates_total", "Models taken into use since the process started."),
		fulls:       counter("streamsvm_subscriber_fulls_total", "Fulls that have come from the model topic."),
		deltas:      counter("streamsvm_subscriber_deltas_total", "Deltas that have come from the model topic and were applied."),
		received:    counter("streamsvm_subscriber_received_bytes_total", "Bytes of their payloads."),
		predictions: counter("streamsvm_predictions_total", "Predictions made."),
		refused:     counter("streamsvm_predictions_refused_total", "Records or requests that could not be scored."),
		skipped:     counter("streamsvm_predictions_tombstones_total", "Records without a value that were skipped."),
		version:     newLate("streamsvm_subscriber_model_version", "Version of the model in use."),
		bytes:       newLate("streamsvm_subscriber_model_size_bytes", "Size of the model in use."),
		created:     newLate("streamsvm_subscriber_model_timestamp_seconds", "When the model in use was made, in Unix time."),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "streamsvm_prediction_duration_seconds", Help: "Time to score a batch.", Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10),
		}),
	}
	reg.MustRegister(p.updates, p.fulls, p.deltas, p.received, p.predictions, p.refused, p.skipped, p.version, p.bytes, p.created, p.took)
	return p
}

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
