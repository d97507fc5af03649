package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

var (
	fieldMissing  = desc("field_missing_total", "Events without a value in the field.", "field")
	fieldUnknown  = desc("field_unknown_categories_total", "Events with a category that the first events did not have.", "field")
	fieldInvalid  = desc("field_invalid_total", "Events with a value of another type in the field.", "field")
	fieldOutside  = desc("field_out_of_range_total", "Events with a number outside the range of the first events.", "field")
	fieldPSI      = desc("field_psi", "Population stability index of the field against the first events; above 0.25 much has changed.", "field")
	fieldUnlisted = desc("event_unlisted_fields_total", "Values of fields that the schema does not list.")
)

// mostFields bounds the names that are shown; those beyond are one.
const mostFields = 200

// collectFields sends what the codec has noticed in the fields of events.
func collectFields(ch chan<- prometheus.Metric, fields []codec.FieldCount, unlisted uint64) {
	if fields == nil {
		return
	}
	send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		if !math.IsNaN(v) {
			ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
		}
	}
	if len(fields) > mostFields {
		rest := codec.FieldCount{Name: "_other", PSI: math.NaN()}
		for _, f := range fields[mostFields:] {
			rest.Missing += f.Missing
			rest.Unknown += f.Unknown
			rest.Invalid += f.Invalid
			rest.Outside += f.Outside
		}
		fields = append(fields[:mostFields:mostFields], rest)
	}
	for _, f := range fields {
		send(fieldMissing, prometheus.CounterValue, float64(f.Missing), f.Name)
		send(fieldUnknown, prometheus.CounterValue, float64(f.Unknown), f.Name)
		send(fieldInvalid, prometheus.CounterValue, float64(f.Invalid), f.Name)
		send(fieldOutside, prometheus.CounterValue, float64(f.Outside), f.Name)
		send(fieldPSI, prometheus.GaugeValue, f.PSI, f.Name)
	}
	send(fieldUnlisted, prometheus.CounterValue, float64(unlisted))
}

// decoded collects the fields of whatever decoder is in use.
type decoded struct{ current func() stream.Decoder }

// Describe implements prometheus.Collector; what there is depends on the schema.
func (decoded) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (d decoded) Collect(ch chan<- prometheus.Metric) {
	if dec := d.current(); dec != nil {
		fields, _, unlisted := codec.FieldCounts(dec)
		collectFields(ch, fields, unlisted)
	}
}

// RegisterFields registers what the decoder in use, nil before there is one,
// notices in the fields of events.
func RegisterFields(reg prometheus.Registerer, current func() stream.Decoder) {
	reg.MustRegister(guarded{decoded{current}})
}
