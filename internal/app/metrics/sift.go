package metrics

import "github.com/prometheus/client_golang/prometheus"

// Sift shows a worker that forwards some records of a stream.
type Sift struct {
	records *prometheus.CounterVec
	p       prometheus.Histogram
	age     *late
}

// NewSift returns a Sift that is registered with reg.
func NewSift(reg prometheus.Registerer) *Sift {
	m := maker{reg, "streamsvm_"}
	return &Sift{
		records: m.counters("sift_records_total", "Records decided on, by the decision.", "decision"),
		p: m.histogram("sift_probability", "Probabilities with which records with a decision of the model were forwarded.",
			[]float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, .99}),
		age: m.gauge("sift_model_age_examples", "Records of this worker's partitions between what the model in use has learned from and what is sifted."),
	}
}

// Sifted counts the records of a transaction: forwarded after a choice, dropped,
// and forwarded without one. ps are the probabilities of the choices.
func (s *Sift) Sifted(forwarded, dropped, unjudged int, ps []float64) {
	s.records.WithLabelValues("forwarded").Add(float64(forwarded))
	s.records.WithLabelValues("dropped").Add(float64(dropped))
	s.records.WithLabelValues("unjudged").Add(float64(unjudged))
	for _, p := range ps {
		s.p.Observe(p)
	}
}

// Aged sets how many records the model has not seen.
func (s *Sift) Aged(n int64) { s.age.Set(float64(n)) }
