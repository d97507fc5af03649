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
	s := &Sift{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "streamsvm_sift_records_total", Help: "Records decided on, by the decision."}, []string{"decision"}),
		p: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "streamsvm_sift_probability", Help: "Probabilities with which records with a decision of the model were forwarded.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, .99},
		}),
		age: newLate("streamsvm_sift_model_age_examples", "Records of this worker's partitions between what the model in use has learned from and what is sifted."),
	}
	reg.MustRegister(s.records, s.p, s.age)
	return s
}

// Sifted says what has become of the records of a transaction: so many were
// forwarded after a choice, dropped, and forwarded without one. ps are the
// probabilities of the choices.
func (s *Sift) Sifted(forwarded, dropped, unjudged int, ps []float64) {
	s.records.WithLabelValues("forwarded").Add(float64(forwarded))
	s.records.WithLabelValues("dropped").Add(float64(dropped))
	s.records.WithLabelValues("unjudged").Add(float64(unjudged))
	for _, p := range ps {
		s.p.Observe(p)
	}
}

// Aged says how many records the model has not seen.
func (s *Sift) Aged(n int64) { s.age.Set(float64(n)) }
