// Package metrics exports the state of trainers and prediction services to Prometheus.
package metrics

import (
	"errors"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// NewRegistry returns a registry with the metrics of the process and of the build.
func NewRegistry(version string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "streamsvm_build_info", Help: "1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), info)
	return reg
}

// maker makes and registers metrics whose names start with prefix.
type maker struct {
	reg    prometheus.Registerer
	prefix string
}

func (m maker) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: m.prefix + name, Help: help})
	m.reg.MustRegister(c)
	return c
}

func (m maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.prefix + name, Help: help}, labels)
	m.reg.MustRegister(c)
	return c
}

func (m maker) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: m.prefix + name, Help: help, Buckets: buckets})
	m.reg.MustRegister(h)
	return h
}

// gauge makes a gauge that is absent until it is set: 0 would be a time or a size
// like any other.
func (m maker) gauge(name, help string) *late {
	g, d := new(late), prometheus.NewDesc(m.prefix+name, help, nil, nil)
	m.reg.MustRegister(collector(func(send send) {
		if v := g.Load(); v != nil {
			send(d, prometheus.GaugeValue, *v)
		}
	}))
	return g
}

type late struct{ atomic.Pointer[float64] }

func (g *late) Set(v float64) { g.Store(&v) }

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// collector sends metrics that are computed when they are collected. It is
// unchecked, because the set of metrics depends on the learner and the schema.
type collector func(send)

// send sends a metric unless its value is NaN.
type send func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)

// Describe implements prometheus.Collector.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A panic becomes an error, because the
// registry calls Collect on goroutines of its own, where nobody could recover.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	defer func() {
		if v := recover(); v != nil {
			err := crash.Caught(v)
			ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		}
	}()
	c(func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		if !math.IsNaN(value) {
			ch <- prometheus.MustNewConstMetric(d, kind, value, labels...)
		}
	})
}

// Gatherer returns reg for a handler. Panics of collectors continue on the
// goroutine of the request.
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

// lag registers the lag of a source, nil before there is one.
func (m maker) lag(source func() stream.Lagger) {
	lag := prometheus.NewDesc(m.prefix+"lag_records", "Records between the position and the end of the partition. A trainer's position is what it has read: queue_records wait before it.", []string{"topic", "partition"}, nil)
	m.reg.MustRegister(collector(func(send send) {
		if l := source(); l != nil {
			for p, n := range l.Lag() {
				send(lag, prometheus.GaugeValue, float64(n), p.Topic, strconv.Itoa(int(p.ID)))
			}
		}
	}))
}

// fieldMetrics are the metrics of a field of events.
var fieldMetrics = []struct {
	*prometheus.Desc
	kind  prometheus.ValueType
	value func(*codec.FieldCount) float64
}{
	{desc("field_missing_total", "Events without a value in the field.", "field"), prometheus.CounterValue, func(f *codec.FieldCount) float64 { return float64(f.Missing) }},
	{desc("field_unknown_categories_total", "Events with a category that the first events did not have.", "field"), prometheus.CounterValue, func(f *codec.FieldCount) float64 { return float64(f.Unknown) }},
	{desc("field_invalid_total", "Events with a value of another type in the field.", "field"), prometheus.CounterValue, func(f *codec.FieldCount) float64 { return float64(f.Invalid) }},
	{desc("field_out_of_range_total", "Events with a number outside the range of the first events.", "field"), prometheus.CounterValue, func(f *codec.FieldCount) float64 { return float64(f.Outside) }},
	{desc("field_psi", "Population stability index of the field against the first events; above 0.25 much has changed.", "field"), prometheus.GaugeValue, func(f *codec.FieldCount) float64 { return f.PSI }},
}

var fieldUnlisted = desc("event_unlisted_fields_total", "Values of fields that the schema does not list.")

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("streamsvm_"+name, help, labels, nil)
}

// mostFields bounds the fields that have metrics.
const mostFields = 200

// registerFields registers the counts that fields returns.
func registerFields(reg prometheus.Registerer, fields func() (fields []codec.FieldCount, events, unlisted uint64)) {
	reg.MustRegister(collector(func(send send) {
		list, _, unlisted := fields()
		if list == nil {
			return
		}
		for i := range list[:min(len(list), mostFields)] {
			for _, m := range fieldMetrics {
				send(m.Desc, m.kind, m.value(&list[i]), list[i].Name)
			}
		}
		send(fieldUnlisted, prometheus.CounterValue, float64(unlisted))
	}))
}

// RegisterFields registers the counts of the fields of events. current returns the
// decoder in use, nil before there is one.
func RegisterFields(reg prometheus.Registerer, current func() stream.Decoder) {
	registerFields(reg, func() ([]codec.FieldCount, uint64, uint64) { return codec.FieldCounts(current()) })
}
