// Package metrics shows a training run, and a subscriber, to Prometheus.
package metrics

import (
	"math"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

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

// refresh bounds how often the state of the engine is looked at: windowed
// measures cost more than a batch of records does.
const refresh = 250 * time.Millisecond

// NewRegistry returns a registry with the metrics of the process and of the
// build.
func NewRegistry(version string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "streamsvm_build_info", Help: "1; what is running is in the labels.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), info)
	return reg
}

// Trainer is a hook of a run whose observations Prometheus can collect.
type Trainer struct {
	now  func() time.Time
	last time.Time // on the learning goroutine
	view atomic.Pointer[view]

	mu  sync.Mutex
	src stream.Source

	dead                    *prometheus.CounterVec
	checkpoints, published  prometheus.Counter
	deltas, publishedBytes  prometheus.Counter
	checkpointTook, pubTook prometheus.Histogram
	checkpointBytes         *late
	checkpointTime          *late
	modelVersion            *late
	modelBytes, modelTime   *late
	championVersion         *late
	decided                 *prometheus.CounterVec
}

// view is what Collect sees of an engine.
type view struct {
	counts  engine.Counts
	queued  int64
	report  algos.Report
	summary eval.Summary
	support int
	nonzero int
	join    *engine.JoinStats // nil without
	clipped prep.Clipped
	gate    *promote.Report // nil without
	waits   bool            // there is no model, since no two labels differ
	// Of events.
	fields   []codec.FieldCount
	unlisted uint64
}

// NewTrainer returns a Trainer that is registered with reg.
func NewTrainer(reg prometheus.Registerer) *Trainer {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)})
	}
	t := &Trainer{
		now: time.Now,
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streamsvm_records_refused_total", Help: "Records that could not be used since the process started, by the stage that refused them and the reason.",
		}, []string{"stage", "reason"}),
		checkpoints:     counter("streamsvm_checkpoints_total", "Checkpoints written since the process started."),
		checkpointTook:  histogram("streamsvm_checkpoint_duration_seconds", "Time from taking a snapshot until it is durable."),
		checkpointBytes: newLate("streamsvm_checkpoint_size_bytes", "Size of the newest checkpoint."),
		checkpointTime:  newLate("streamsvm_checkpoint_timestamp_seconds", "When the newest checkpoint was taken, in Unix time."),
		published:       counter("streamsvm_models_published_total", "Models published since the process started."),
		deltas:          counter("streamsvm_model_deltas_published_total", "Those of the models published that went out as deltas."),
		publishedBytes:  counter("streamsvm_models_published_bytes_total", "Bytes of the payloads published, fulls and deltas."),
		pubTook:         histogram("streamsvm_publish_duration_seconds", "Time to publish a model."),
		modelVersion:    newLate("streamsvm_model_version", "Version of the newest model published."),
		modelBytes:      newLate("streamsvm_model_size_bytes", "Size of the newest model published."),
		modelTime:       newLate("streamsvm_model_timestamp_seconds", "When the newest model published was made, in Unix time."),
		championVersion: newLate("streamsvm_champion_version", "Version that the gate has made the champion."),
		decided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streamsvm_gate_decisions_total", Help: "What the gate has decided since the process started: challengers promoted or rejected, champions demoted.",
		}, []string{"verdict"}),
	}
	// What is likely is there from the start, or the first increase would not
	// be seen.
	for stage, reasons := range map[stream.Stage][]stream.Reason{
		stream.StageDecode: {stream.ReasonEmpty, stream.ReasonTooLarge, stream.ReasonSyntax, stream.ReasonType, stream.ReasonMissing,
			stream.ReasonDuplicate, stream.ReasonOrder, stream.ReasonIndex, stream.ReasonDimension, stream.ReasonSchema},
		stream.StageLabel:   {stream.ReasonSyntax, stream.ReasonType, stream.ReasonMissing, stream.ReasonNotFinite, stream.ReasonLabel},
		stream.StageFeature: {stream.ReasonLimit, stream.ReasonDimension, stream.ReasonNotFinite},
		stream.StageWeight:  {stream.ReasonSyntax},
		stream.StageLearn:   {stream.ReasonLimit},
	} {
		for _, r := range reasons {
			t.dead.WithLabelValues(string(stage), string(r))
		}
	}
	reg.MustRegister(t.dead, t.checkpoints, t.checkpointTook, t.checkpointBytes, t.checkpointTime,
		t.published, t.deltas, t.publishedBytes, t.pubTook, t.modelVersion, t.modelBytes, t.modelTime, t.championVersion, t.decided, guarded{collector{t}})
	return t
}

// Started implements engine.StartedHook.
func (t *Trainer) Started(e *engine.Engine, src stream.Source) {
	t.mu.Lock()
	t.src = src
	t.mu.Unlock()
	t.Consumed(e, 0)
}

// Consumed implements engine.ConsumedHook.
func (t *Trainer) Consumed(e *engine.Engine, queued int64) {
	now := t.now()
	if !t.last.IsZero() && now.Sub(t.last) < refresh && queued > 0 {
		return
	}
	t.last = now
	summary := e.Prequential().Summary()
	summary.Name(e.Classes())
	v := &view{counts: e.Counts(), queued: queued, report: e.Report(), summary: summary, join: e.Join(), clipped: e.Clipped(), gate: e.Gate(), waits: e.OneLabel() != nil}
	v.fields, _, v.unlisted = e.Fields()
	if p := e.Predictor(); p != nil {
		info := p.Info()
		v.support, v.nonzero = info.Support, info.Nonzero
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
	t.pubTook.Observe(took.Seconds())
	t.modelVersion.Set(float64(u.Version))
	t.publishedBytes.Add(float64(len(u.Payload)))
	size := len(u.Payload)
	if u.Kind == stream.Delta {
		t.deltas.Inc()
		size, _ = delta.Size(u.Payload) // the trainer has just made it
	}
	t.modelBytes.Set(float64(size))
	t.modelTime.Set(unix(u.Created))
}

// Decided implements engine.DecidedHook.
func (t *Trainer) Decided(d promote.Decision) { t.decided.WithLabelValues(d.Verdict).Inc() }

// Promoted implements trainer.HookPromoted.
func (t *Trainer) Promoted(_ string, u *stream.Update, _ stream.Promotion) {
	t.championVersion.Set(float64(u.Version))
}

// late is a gauge that is not there until it has been set: 0 would be a time,
// or a size, like any other.
type late struct {
	prometheus.Gauge
	known atomic.Bool
}

func newLate(name, help string) *late {
	return &late{Gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})}
}

func (g *late) Set(v float64) {
	g.Gauge.Set(v)
	g.known.Store(true)
}

// Collect implements prometheus.Collector.
func (g *late) Collect(ch chan<- prometheus.Metric) {
	if g.known.Load() {
		g.Gauge.Collect(ch)
	}
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// collector turns the view into metrics.
type collector struct{ *Trainer }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("streamsvm_"+name, help, labels, nil)
}

var (
	consumed = desc("records_consumed_total", "Records consumed over the life of the state, restarts included.")
	fates    = desc("records_total", "Records consumed, by what became of them.", "fate")
	pending  = desc("records_pending", "Records that wait for the end of the warm-up, or to be joined.")
	joins    = desc("join_labels_total", "Labels that came on a topic of their own, by what became of them and by the number of examples, at most, that came between.", "outcome", "delay")
	missing  = desc("join_examples_without_label_total", "Examples that were learned without a label, since none came in time.")
	waiting  = desc("join_waiting_records", "Records that wait to be joined.", "kind")
	labels   = desc("examples_total", "Records that are examples, by whether they have a label.", "labelled")
	skipped  = desc("records_skipped_total", "Records read again but not delivered, since they lie before the checkpoint.")
	lag      = desc("lag_records", "Records between the position and the end of the partition.", "topic", "partition")
	clipped  = desc("clipped_values_total", "Feature values that were clipped after scaling.")
	clipping = desc("clipped_examples_total", "Examples of which a feature value was clipped after scaling.")
	waits    = desc("model_waits_for_labels", "1 while nothing is published since no two labels of the examples differ, else 0.")
	trialOf  = desc("gate_examples", "Examples on which the challenger has been compared with the champion.")
	gain     = desc("gate_gain", "By how much the mean loss of the champion is higher than the challenger's, and bounds of that.", "bound")
	waitsFor = desc("gate_waits", "1; why the challenger is not the champion is in the label.", "why")
	served   = desc("champion_accuracy", "Share of right predictions of the champions, each while it was the champion.")
	queue    = desc("queue_records", "Records fetched that wait to be learned.")
	sample   = desc("sample_examples", "Examples that the learner holds.")
	steps    = desc("steps_total", "Steps of the learner.")
	kernels  = desc("kernel_evaluations_total", "Kernel values computed.")
	support  = desc("model_support_vectors", "Support vectors of the model.")
	nonzero  = desc("model_nonzero_coefficients", "Coefficients of the model that are not 0.")
	object   = desc("objective", "Regularised risk on the sample.")
	cert     = desc("objective_gap", "Upper bound on the distance of the objective from its minimum.")
	gradient = desc("gradient_norm", "Norm of the gradient or direction.")
	stepSize = desc("step_size", "Length of the last step.")
	gauges   = desc("learner", "Further numbers of the learner.", "name")
	// Of more than two classes.
	classCount = desc("class_examples", "Examples of the class in the window of the measures.", "class")
	recall     = desc("class_recall", "Share of them that are predicted to be of the class.", "class")
	precision  = desc("class_precision", "Share of the examples predicted to be of the class that are, in the window.", "class")

	scored   = desc("prequential_examples", "Examples that the measures are over.", "over")
	measures = map[string]*prometheus.Desc{
		"accuracy": measure("accuracy", "Share of right predictions"),
		"hinge":    measure("hinge", "Mean hinge loss"),
		"log_loss": measure("log_loss", "Mean of the negative logarithms of the labels' probabilities"),
		"auc":      measure("auc", "Area under the ROC curve"),
		"kappa":    measure("kappa", "Cohen's kappa"),
		"kappa_t":  measure("kappa_t", "Kappa against predicting the label before"),

		"balanced_accuracy": measure("balanced_accuracy", "Mean of the shares of right predictions on each class"),
		"majority":          measure("majority", "Share of labels that are of the class more frequent before"),
		"no_change":         measure("no_change", "Share of labels that are the label before"),

		"brier":       measure("brier", "Mean squared error of probabilities"),
		"brier_skill": measure("brier_skill", "How much less that is than with the share of positive labels, as a share"),
		"ece":         measure("ece", "Expected calibration error in 15 bins"),
		"ece_noise":   measure("ece_noise", "What the expected calibration error would be by chance"),

		"mae":  measure("mae", "Mean absolute error"),
		"rmse": measure("rmse", "Root of the mean squared error"),
		"r2":   measure("r2", "Explained share of the variance"),
	}
)

func measure(name, help string) *prometheus.Desc {
	return desc("prequential_"+name, help+", each example predicted before it was learned from.", "over")
}

// Describe implements prometheus.Collector. What there is depends on the
// learner, so that the collector is unchecked.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		if !math.IsNaN(v) {
			ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
		}
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	c.mu.Lock()
	src := c.src
	c.mu.Unlock()
	if l, ok := src.(stream.Lagger); ok {
		for p, n := range l.Lag() {
			send(lag, gauge, float64(n), p.Topic, strconv.Itoa(int(p.ID)))
		}
	}
	if s, ok := src.(stream.Skipper); ok {
		send(skipped, counter, float64(s.Skipped()))
	}
	v := c.view.Load()
	if v == nil {
		return
	}
	n := v.counts
	send(consumed, counter, float64(n.Consumed))
	send(fates, counter, float64(n.Learned), "learned")
	send(fates, counter, float64(n.SampledOut), "sampled_out")
	send(fates, counter, float64(n.Dead), "dead")
	send(fates, counter, float64(n.Tombstones), "tombstone")
	send(pending, gauge, float64(n.Pending))
	if j := v.join; j != nil {
		send(fates, counter, float64(n.Joined), "joined")
		send(fates, counter, float64(n.Late), "late")
		send(joins, counter, float64(j.Early), "joined", "before")
		for i := range j.Joined {
			le := "more"
			if i < len(engine.DelayBounds) {
				le = strconv.FormatUint(engine.DelayBounds[i], 10)
			}
			send(joins, counter, float64(j.Joined[i]), "joined", le)
			send(joins, counter, float64(j.Late[i]), "late", le)
		}
		send(joins, counter, float64(j.Orphans), "orphan", "")
		send(joins, counter, float64(j.Duplicates), "duplicate", "")
		send(missing, counter, float64(j.Missing))
		send(waiting, gauge, float64(j.Examples), "example")
		send(waiting, gauge, float64(j.Labels), "label")
	}
	send(labels, counter, float64(n.Labelled), "true")
	send(labels, counter, float64(n.Unlabelled), "false")
	send(clipped, counter, float64(v.clipped.Values))
	send(clipping, counter, float64(v.clipped.Examples))
	send(waits, gauge, map[bool]float64{true: 1}[v.waits])
	if g := v.gate; g != nil {
		send(trialOf, gauge, float64(g.Examples))
		send(gain, gauge, float64(g.Gain), "")
		send(gain, gauge, float64(g.Low), "low")
		send(gain, gauge, float64(g.High), "high")
		send(served, gauge, float64(g.Served.Accuracy))
		if g.Waits != "" {
			send(waitsFor, gauge, 1, g.Waits)
		}
	}
	send(queue, gauge, float64(v.queued))
	send(sample, gauge, float64(v.report.Sample))
	send(steps, counter, float64(v.report.Step))
	if v.report.KernelEvals >= 0 {
		send(kernels, counter, float64(v.report.KernelEvals))
	}
	if v.support >= 0 {
		send(support, gauge, float64(v.support))
	}
	send(nonzero, gauge, float64(v.nonzero))
	send(object, gauge, v.report.Objective)
	send(cert, gauge, v.report.Certificate)
	send(gradient, gauge, v.report.GradNorm)
	send(stepSize, gauge, v.report.StepSize)
	for _, g := range v.report.Gauges {
		send(gauges, gauge, g.Value, g.Name)
	}
	send(scored, gauge, float64(v.summary.Window.Examples), "window")
	over(send, v.summary.Measures, "all")
	over(send, v.summary.Window.Measures, "window")
	collectFields(ch, v.fields, v.unlisted)
	for _, k := range v.summary.Window.Classes {
		send(classCount, gauge, float64(k.Examples), k.Label)
		send(recall, gauge, float64(k.Recall), k.Label)
		send(precision, gauge, float64(k.Precision), k.Label)
	}
}

func over(send func(*prometheus.Desc, prometheus.ValueType, float64, ...string), m eval.Measures, over string) {
	for _, v := range m.List(false) {
		send(measures[v.Name], prometheus.GaugeValue, v.Value, over)
	}
}
