package metrics

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/delta"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// refresh is the least time between two looks at the engine: windowed measures cost
// more than a batch of records.
const refresh = 250 * time.Millisecond

// Trainer is a hook of a run that Prometheus can collect.
type Trainer struct {
	now  func() time.Time
	last time.Time // on the learning goroutine
	view atomic.Pointer[view]
	src  atomic.Pointer[stream.Source]

	dead, decided                                 *prometheus.CounterVec
	checkpoints, published, publishedBytes        prometheus.Counter
	checkpointTook, publishTook                   prometheus.Histogram
	checkpointBytes, checkpointTime               *late
	modelVersion, modelBytes, modelTime, champion *late
}

// view holds the values that metrics need from an engine.
type view struct {
	counts              engine.Counts
	queued              int64
	report              algos.Report
	measures            []stream.Measure
	classes             []eval.Class // of more than two, over the window
	support, unlabelled float64      // NaN if there are none: no kernel model, no join
	clipped             prep.Clipped
	gate                *promote.Report // nil without
	waits               bool            // there is no model, since no two labels differ
	fields              []codec.FieldCount
	events              uint64
	unlisted            uint64
}

// put sends a value of a metric.
type put func(value float64, labels ...string)

// metric is a metric computed from a view.
type metric struct {
	*prometheus.Desc
	kind prometheus.ValueType
	send func(v *view, put put)
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// one returns a metric without labels.
func one[N int | int64 | uint64 | float64](name string, kind prometheus.ValueType, help string, of func(v *view) N) metric {
	return metric{desc(name, help), kind, func(v *view, put put) { put(float64(of(v))) }}
}

// table lists the metrics of the engine.
var table = append([]metric{
	one("records_consumed_total", counter, "Records consumed over the life of the state, restarts included.", func(v *view) uint64 { return v.counts.Consumed }),
	{desc("records_total", "Records consumed, by outcome.", "fate"), counter, func(v *view, put put) {
		put(float64(v.counts.Learned), "learned")
		put(float64(v.counts.SampledOut), "sampled_out")
		put(float64(v.counts.Dead), "dead")
		put(float64(v.counts.Tombstones), "tombstone")
		if !math.IsNaN(v.unlabelled) {
			put(float64(v.counts.Joined), "joined")
			put(float64(v.counts.Late), "late")
		}
	}},
	one("records_pending", gauge, "Records that wait for the end of the warm-up, to be joined, or to be learned from.", func(v *view) uint64 { return v.counts.Pending }),
	one("queue_records", gauge, "Records fetched that wait to be learned.", func(v *view) int64 { return v.queued }),
	{desc("examples_total", "Records that are examples, by whether they have a label.", "labelled"), counter, func(v *view, put put) {
		put(float64(v.counts.Labelled), "true")
		put(float64(v.counts.Unlabelled), "false")
	}},
	one("join_examples_without_label_total", counter, "Examples whose label did not come in time.", func(v *view) float64 { return v.unlabelled }),
	one("clipped_values_total", counter, "Feature values that were clipped after scaling.", func(v *view) uint64 { return v.clipped.Values }),
	one("clipped_examples_total", counter, "Examples of which a feature value was clipped after scaling.", func(v *view) uint64 { return v.clipped.Examples }),
	one("model_waits_for_labels", gauge, "1 while nothing is published because no two labels of the examples differ, else 0.", func(v *view) int { return map[bool]int{true: 1}[v.waits] }),
	{desc("gate_examples", "Examples on which the challenger has been compared with the champion."), gauge, gated(func(g *promote.Report, put put) { put(float64(g.Examples)) })},
	{desc("gate_gain", "By how much the mean loss of the champion is higher than the challenger's, and bounds of that.", "bound"), gauge, gated(func(g *promote.Report, put put) {
		put(float64(g.Gain), "")
		put(float64(g.Low), "low")
		put(float64(g.High), "high")
	})},
	{desc("gate_waits", "1; the label says why the challenger is not the champion.", "why"), gauge, gated(func(g *promote.Report, put put) {
		if g.Waits != "" {
			put(1, g.Waits)
		}
	})},
	{desc("champion_accuracy", "Share of right predictions of the champions, each while it was the champion."), gauge, gated(func(g *promote.Report, put put) { put(float64(g.Served.Accuracy)) })},
	one("sample_examples", gauge, "Examples that the learner holds.", func(v *view) int { return v.report.Sample }),
	one("steps_total", counter, "Steps of the learner.", func(v *view) uint64 { return v.report.Step }),
	one("model_support_vectors", gauge, "Support vectors of the model.", func(v *view) float64 { return v.support }),
	one("objective", gauge, "Regularised risk on the sample.", func(v *view) float64 { return v.report.Objective }),
	one("objective_gap", gauge, "Upper bound on the distance of the objective from its minimum.", func(v *view) float64 { return v.report.Certificate }),
	{desc("learner", "Further numbers of the learner.", "name"), gauge, func(v *view, put put) {
		for _, g := range v.report.Gauges {
			put(g.Value, g.Name)
		}
	}},
	// Of more than two classes.
	{desc("class_recall", "Share of the examples of the class that are predicted to be of it, in the window.", "class"), gauge, classes(func(c *eval.Class) float64 { return float64(c.Recall) })},
	{desc("class_precision", "Share of the examples predicted to be of the class that are, in the window.", "class"), gauge, classes(func(c *eval.Class) float64 { return float64(c.Precision) })},
}, slices.Concat(
	predictions("prequential_", "each example predicted before it was learned from"),
	predictions("published_", "each example predicted when it arrived, by the version published last"))...)

func gated(send func(*promote.Report, put)) func(*view, put) {
	return func(v *view, put put) {
		if v.gate != nil {
			send(v.gate, put)
		}
	}
}

func classes(of func(*eval.Class) float64) func(*view, put) {
	return func(v *view, put put) {
		for i := range v.classes {
			put(of(&v.classes[i]), v.classes[i].Label)
		}
	}
}

// predictions returns the metrics for the measures of predictions, which have the same
// names as in published models. how says how the predictions were made.
func predictions(prefix, how string) (list []metric) {
	for name, help := range map[string]string{
		"accuracy": "Share of right predictions", "balanced_accuracy": "Mean of the shares of right predictions on each class", "auc": "Area under the ROC curve",
		"majority": "Share of labels that are of the class that was more frequent before", "no_change": "Share of labels that are the label before",
		"log_loss": "Mean of the negative logarithms of the labels' probabilities", "brier": "Mean squared error of probabilities",
		"ece": "Expected calibration error in 15 bins", "ece_noise": "What the expected calibration error would be by chance",
		"mae": "Mean absolute error", "rmse": "Root of the mean squared error", "r2": "Explained share of the variance",
	} {
		name = prefix + name
		list = append(list, metric{desc(name, help+", "+how+".", "over"), gauge, func(v *view, put put) {
			for _, m := range v.measures {
				if m.Name == name {
					put(m.Value, "all")
				} else if m.Name == name+"_window" {
					put(m.Value, "window")
				}
			}
		}})
	}
	return list
}

// NewTrainer returns a Trainer that is registered with reg.
func NewTrainer(reg prometheus.Registerer) *Trainer {
	m, buckets := maker{reg, "streamsvm_"}, prometheus.ExponentialBuckets(0.001, 4, 9)
	t := &Trainer{
		now:             time.Now,
		dead:            m.counters("records_refused_total", "Records that could not be used since the process started, by the stage that refused them and the reason.", "stage", "reason"),
		decided:         m.counters("gate_decisions_total", "Decisions of the gate since the process started: candidates promoted or rejected, champions demoted.", "verdict"),
		checkpoints:     m.counter("checkpoints_total", "Checkpoints written since the process started."),
		checkpointTook:  m.histogram("checkpoint_duration_seconds", "Time from taking a snapshot until it is durable.", buckets),
		checkpointBytes: m.gauge("checkpoint_size_bytes", "Size of the newest checkpoint."),
		checkpointTime:  m.gauge("checkpoint_timestamp_seconds", "When the newest checkpoint was taken, in Unix time."),
		published:       m.counter("models_published_total", "Models published since the process started."),
		publishedBytes:  m.counter("models_published_bytes_total", "Bytes of the payloads published, fulls and deltas."),
		publishTook:     m.histogram("publish_duration_seconds", "Time to publish a model.", buckets),
		modelVersion:    m.gauge("model_version", "Version of the newest model published."),
		modelBytes:      m.gauge("model_size_bytes", "Size of the newest model published."),
		modelTime:       m.gauge("model_timestamp_seconds", "When the newest model published was made, in Unix time."),
		champion:        m.gauge("champion_version", "Version that the gate has made the champion."),
	}
	// A counter that appears with its first increase would hide that increase, so
	// all are there from the start.
	for _, stage := range []stream.Stage{stream.StageDecode, stream.StageLabel, stream.StageFeature, stream.StageWeight, stream.StageLearn} {
		for _, reason := range stream.Reasons() {
			t.dead.WithLabelValues(string(stage), string(reason))
		}
	}
	m.lag(func() stream.Lagger {
		if src := t.src.Load(); src != nil {
			l, _ := (*src).(stream.Lagger)
			return l
		}
		return nil
	})
	reg.MustRegister(collector(func(send send) {
		if v := t.view.Load(); v != nil {
			for _, m := range table {
				m.send(v, func(value float64, labels ...string) { send(m.Desc, m.kind, value, labels...) })
			}
		}
	}))
	registerFields(reg, func() ([]codec.FieldCount, uint64, uint64) {
		if v := t.view.Load(); v != nil {
			return v.fields, v.events, v.unlisted
		}
		return nil, 0, 0
	})
	return t
}

// Started implements engine.StartedHook.
func (t *Trainer) Started(e *engine.Engine, src stream.Source) {
	t.src.Store(&src)
	t.Consumed(e, 0)
}

// Consumed implements engine.ConsumedHook.
func (t *Trainer) Consumed(e *engine.Engine, queued int64) {
	now := t.now()
	if !t.last.IsZero() && now.Sub(t.last) < refresh && queued > 0 {
		return
	}
	t.last = now
	s := e.Prequential().Summary()
	s.Name(e.Classes())
	v := &view{
		counts: e.Counts(), queued: queued, report: e.Report(), measures: e.Prequential().Measures(), classes: s.Window.Classes,
		support: math.NaN(), unlabelled: math.NaN(), clipped: e.Clipped(), gate: e.Gate(), waits: e.OneLabel() != nil,
	}
	if p := e.AsPublished(); p != nil && p.Examples > 0 {
		v.measures = append(v.measures, p.List(len(p.Classes) > 0)...)
	}
	v.fields, v.events, v.unlisted = e.Fields()
	if p := e.Predictor(); p != nil && p.Info().Support >= 0 {
		v.support = float64(p.Info().Support)
	}
	if j := e.Join(); j != nil {
		v.unlabelled = float64(j.Missing)
	}
	t.view.Store(v)
}

// Dead implements engine.DeadHook.
func (t *Trainer) Dead(why *stream.RecordError) {
	t.dead.WithLabelValues(string(why.Stage), string(why.Reason.Known())).Inc()
}

// Checkpointed implements engine.CheckpointedHook.
func (t *Trainer) Checkpointed(_ string, h checkpoint.Header, bytes int64, took time.Duration) {
	t.checkpoints.Inc()
	t.checkpointTook.Observe(took.Seconds())
	t.checkpointBytes.Set(float64(bytes))
	t.checkpointTime.Set(unix(h.Created))
}

// Published implements engine.PublishedHook.
func (t *Trainer) Published(u *stream.Update, took time.Duration) {
	t.published.Inc()
	t.publishTook.Observe(took.Seconds())
	t.modelVersion.Set(float64(u.Version))
	t.publishedBytes.Add(float64(len(u.Payload)))
	size := len(u.Payload)
	if u.Kind == stream.Delta {
		size, _ = delta.Size(u.Payload) // the trainer has just made it
	}
	t.modelBytes.Set(float64(size))
	t.modelTime.Set(unix(u.Created))
}

// Decided implements engine.DecidedHook.
func (t *Trainer) Decided(d promote.Decision) { t.decided.WithLabelValues(d.Verdict).Inc() }

// Promoted implements trainer.HookPromoted.
func (t *Trainer) Promoted(_ string, u *stream.Update, _ stream.Promotion) {
	t.champion.Set(float64(u.Version))
}
