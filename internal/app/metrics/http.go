package metrics

import "github.com/prometheus/client_golang/prometheus"

// HTTP shows what a server refuses, and what it holds.
type HTTP struct{ rejected *prometheus.CounterVec }

// NewHTTP returns an HTTP that is registered with reg. Refusals have one of the
// reasons; held returns how many bytes of requests and answers are held.
func NewHTTP(reg prometheus.Registerer, reasons []string, held func() int64) *HTTP {
	h := &HTTP{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "streamsvm_http_rejected_total", Help: "Requests and connections refused because of a limit, by reason.",
	}, []string{"reason"})}
	for _, r := range reasons {
		h.rejected.WithLabelValues(r)
	}
	reg.MustRegister(h.rejected, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "streamsvm_http_in_flight_bytes", Help: "Bytes of requests and their answers held, of those that are limited.",
	}, func() float64 { return float64(held()) }))
	return h
}

// Rejected says that a request or a connection was refused.
func (h *HTTP) Rejected(reason string) { h.rejected.WithLabelValues(reason).Inc() }
