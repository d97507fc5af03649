package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/streamsvm/streamsvm/internal/crash"
)

// guarded is a collector whose panics become errors: it is called on goroutines of
// the registry's own, where nobody could recover them.
type guarded struct{ prometheus.Collector }

// Collect implements prometheus.Collector.
func (g guarded) Collect(ch chan<- prometheus.Metric) {
	defer func() {
		if v := recover(); v != nil {
			err := crash.Caught(v)
			ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		}
	}()
	g.Collector.Collect(ch)
}

// Gatherer returns reg for a handler: panics of collectors come up on the goroutine
// of the request.
func Gatherer(reg *prometheus.Registry) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		list, err := reg.Gather()
		many, ok := err.(prometheus.MultiError)
		if !ok {
			many = prometheus.MultiError{err}
		}
		for _, err := range many {
			if p := (*crash.Panic)(nil); errors.As(err, &p) {
				panic(p)
			}
		}
		return list, err
	})
}
