package metrics

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm"
	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/internal/delta"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
)

// values returns all metrics as name{label values} → value; of a histogram the
// number of observations.
func values(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "," + l.GetValue()
			}
			switch {
			case m.GetCounter() != nil:
				all[name] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				all[name] = m.GetGauge().GetValue()
			case m.GetHistogram() != nil:
				all[name] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return all
}

// lagging is a source that knows its lag.
type lagging struct{}

func (lagging) Fetch(_ context.Context, dst []stream.Record) ([]stream.Record, error) {
	return dst, io.EOF
}
func (lagging) Close() error { return nil }
func (lagging) Lag() map[stream.Partition]int64 {
	return map[stream.Partition]int64{{Topic: "t", ID: 3}: 17}
}

func TestTrainer(t *testing.T) {
	reg := NewRegistry("v9")
	m := NewTrainer(reg)
	if v := values(t, reg); v["streamsvm_build_info,"+runtime.Version()+",v9"] != 1 || v["streamsvm_checkpoints_total"] != 0 {
		t.Errorf("before anything happens: %v", v)
	}
	spec, err := registry.Lookup("sbp")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.NewEngine(engine.Config{Spec: spec, Seed: 1, Warmup: 20})
	if err != nil {
		t.Fatal(err)
	}
	gen, err := synth.New("moons", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	items := make([]engine.Item, 300)
	for i := range items {
		items[i].Partition, items[i].Offset = stream.Partition{Topic: "t"}, int64(i)
		gen.Next(&items[i].Example)
		if i%10 == 9 {
			items[i].Err = &stream.RecordError{Topic: "t", Offset: int64(i), Stage: stream.StageLabel, Reason: stream.ReasonLabel, Err: errors.New("no")}
			m.Dead(items[i].Err)
		}
	}
	if _, err := e.Consume(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	if err := e.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1_700_000_000_500)
	src := stream.Source(lagging{})
	m.src.Store(&src)
	m.Consumed(e, 12)
	m.Checkpointed("p", checkpoint.Header{Created: at}, 1000, time.Second)
	m.Published(&stream.Update{Kind: stream.Full, Version: 3, Created: at, Payload: make([]byte, 33)}, time.Second)
	patch := delta.Diff(make([]byte, 33), make([]byte, 44))
	m.Published(&stream.Update{Kind: stream.Delta, Version: 4, Base: 3, Created: at, Payload: patch}, time.Second)
	all, window := e.Prequential().Accuracy()
	v := values(t, reg)
	for name, want := range map[string]float64{
		"streamsvm_records_consumed_total":              300,
		"streamsvm_records_total,learned":               270,
		"streamsvm_records_total,sampled_out":           0,
		"streamsvm_records_total,dead":                  30,
		"streamsvm_records_refused_total,label,label":   30,
		"streamsvm_records_refused_total,syntax,decode": 0,
		"streamsvm_examples_total,true":                 270,
		"streamsvm_lag_records,3,t":                     17,
		"streamsvm_queue_records":                       12,
		"streamsvm_sample_examples":                     float64(e.Report().Sample),
		"streamsvm_steps_total":                         float64(e.Report().Step),
		"streamsvm_objective":                           e.Report().Objective,
		"streamsvm_model_support_vectors":               float64(e.Predictor().Info().Support),
		"streamsvm_prequential_accuracy,all":            all,
		"streamsvm_prequential_accuracy,window":         window,
		"streamsvm_checkpoints_total":                   1,
		"streamsvm_checkpoint_duration_seconds":         1,
		"streamsvm_checkpoint_size_bytes":               1000,
		"streamsvm_checkpoint_timestamp_seconds":        1_700_000_000.5,
		"streamsvm_models_published_total":              2,
		"streamsvm_models_published_bytes_total":        float64(33 + len(patch)),
		"streamsvm_model_version":                       4,
		"streamsvm_model_size_bytes":                    44,
		"streamsvm_model_timestamp_seconds":             1_700_000_000.5,
	} {
		if got, ok := v[name]; !ok || got != want {
			t.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
		}
	}
}

// TestJoin: what became of labels that came on a topic of their own.
func TestJoin(t *testing.T) {
	reg := NewRegistry("v9")
	m := NewTrainer(reg)
	spec, err := registry.Lookup("online")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.NewEngine(engine.Config{Spec: spec, Seed: 1, Scale: "none", Join: engine.Join{Topic: "labels", Window: 3}})
	if err != nil {
		t.Fatal(err)
	}
	example := func(key string) engine.Item {
		return engine.Item{Partition: stream.Partition{Topic: "t"}, Key: key, Example: stream.Example{X: stream.Vec{Val: []float32{1, 2}}}}
	}
	label := func(key string) engine.Item {
		return engine.Item{Partition: stream.Partition{Topic: "labels"}, Key: key, Example: stream.Example{Y: 1, Labelled: true}}
	}
	items := []engine.Item{
		label("b"), example("a"), example("b"), label("a"), label("a"), example("c"), example("d"), example("e"), example("f"),
		label("d"), example("g"), label("g"), label("c"), label("x"), example("h"),
	}
	if _, err := e.Consume(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	if err := e.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Consumed(e, 0)
	v := values(t, reg)
	for name, want := range map[string]float64{
		"streamsvm_join_examples_without_label_total": 1, // c
		"streamsvm_records_total,joined":              4,
		"streamsvm_records_total,late":                2,
		"streamsvm_records_total,learned":             3,
		"streamsvm_records_total,sampled_out":         1,
		"streamsvm_records_pending":                   5,
	} {
		if got, ok := v[name]; !ok || got != want {
			t.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
		}
	}
	if got, ok := v["streamsvm_objective"]; ok {
		t.Errorf("online computes no objective, but it is shown as %v", got)
	}
}

func TestPredictor(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	p := NewPredictor(reg)
	p.Updated(&stream.Update{Version: 8, Created: time.UnixMilli(2000)}, 999)
	p.Scored(10, 2, time.Millisecond)
	v := values(t, reg)
	for name, want := range map[string]float64{
		"streamsvm_subscriber_updates_total": 1, "streamsvm_subscriber_model_version": 8,
		"streamsvm_subscriber_model_timestamp_seconds": 2, "streamsvm_predictions_total": 10, "streamsvm_predictions_refused_total": 2,
		"streamsvm_prediction_duration_seconds":     1,
		"streamsvm_subscriber_received_bytes_total": 999,
	} {
		if v[name] != want {
			t.Errorf("%s is %v, want %v", name, v[name], want)
		}
	}
}
