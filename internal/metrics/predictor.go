package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/stream"
)

// Predictor shows a subscriber that predicts.
type Predictor struct {
	updates, predictions, refused prometheus.Counter
	version, bytes, created       prometheus.Gauge
	took                          prometheus.Histogram
}

// NewPredictor returns a Predictor that is registered with reg.
func NewPredictor(reg prometheus.Registerer) *Predictor {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	p := &Predictor{
		updates:     counter("streamsvm_subscriber_updates_total", "Models taken into use since the process started."),
		predictions: counter("streamsvm_predictions_total", "Predictions made."),
		refused:     counter("streamsvm_predictions_refused_total", "Records or requests that could not be scored."),
		version:     gauge("streamsvm_subscriber_model_version", "Version of the model in use."),
		bytes:       gauge("streamsvm_subscriber_model_size_bytes", "Size of the model in use."),
		created:     gauge("streamsvm_subscriber_model_timestamp_seconds", "When the model in use was made, in Unix time."),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "streamsvm_prediction_duration_seconds", Help: "Time to score a batch.", Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10),
		}),
	}
	reg.MustRegister(p.updates, p.predictions, p.refused, p.version, p.bytes, p.created, p.took)
	return p
}

// Updated says that the model of u, of the given size, is in use from now on.
func (p *Predictor) Updated(u *stream.Update, bytes int) {
	p.updates.Inc()
	p.version.Set(float64(u.Version))
	p.bytes.Set(float64(bytes))
	p.created.Set(unix(u.Created))
}

// Scored says that n predictions were made in a batch and m refused.
func (p *Predictor) Scored(n, m int, took time.Duration) {
	p.predictions.Add(float64(n))
	p.refused.Add(float64(m))
	p.took.Observe(took.Seconds())
}
