// Package engine runs a learner over a stream: warm-up, preprocessing, tuning, late
// labels, test-then-train evaluation, snapshots and publication. Package trainer is
// its public face.
//
// Engine does the learning. It is a state machine without goroutines, clocks
// or I/O, so that equal streams give equal bits. Run feeds an Engine from a source
// through a bounded queue, and takes its snapshots to the checkpoint store and the
// model topic.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/internal/tune"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Config is everything besides the stream that the state depends on; see
// trainer.Options.
type Config struct {
	Spec algos.Spec
	// Preset names the learner's preset; Options overrides its values, as text.
	Preset  string
	Options map[string]string
	Task    algos.Task
	Seed    uint64
	// Scale is one of prep.Scales. Span is the averaging length of scale running,
	// in examples; 0 is prep.DefaultSpan.
	Scale   string
	Span    int
	HashDim int
	// ClassWeight is parsed by ParseClassWeights.
	ClassWeight string
	// Costs are parsed by ParseCosts. The state depends on them only through the mean cost.
	Costs string
	// Warmup is the number of examples before learning begins; 0 chooses it by what
	// has to be fitted (see tuneWarmup).
	Warmup int
	Tune   bool
	Window int
	// Labels reports whether the i-th example keeps its label; otherwise the label is
	// hidden. Kept describes Labels, empty if Labels is nil. It is part of the state,
	// which refuses to continue with another one.
	Labels func(i uint64) bool
	Kept   string
	Join   Join
	// Delay is the number of examples between each example and its label, if there
	// is no Join; see trainer.Options.
	Delay int
	// Signature goes into published models, with the dimension of the stream added.
	// Only its schema is part of the state, because the same examples may come in
	// another codec. Its labels determine whether there are two classes or more.
	// MaxClasses bounds the number; 0 is DefaultMaxClasses.
	Signature  codec.Signature
	MaxClasses int
	// Gate is the rule that chooses the champion, see contrib/gate; empty for no
	// gate.
	Gate string
	// VersionEvery is the number of examples between published versions, for learners
	// that take it into account; 0 if it is not known.
	VersionEvery int
	// PublishEvery, if not 0, measures the predictions that subscribers would get with a
	// version every PublishEvery records, instead of the predictions they get from the
	// versions that Run publishes. It is not part of the state.
	PublishEvery uint64
	Log          *slog.Logger
}

// Default warm-up, in examples: with tuning, and for fitting a scale only.
const (
	tuneWarmup  = 4000
	scaleWarmup = 1000
)

// Counts are the numbers of records consumed, by outcome; see trainer.Counts.
type Counts struct {
	Consumed             uint64
	Labelled, Unlabelled uint64
	Learned, SampledOut  uint64
	Dead                 uint64
	Tombstones           uint64
	Joined, Late         uint64 // see JoinStats
	Pending              uint64
}

// Item is one record on its way into an Engine: an example, or the error from decoding
// it.
type Item struct {
	Partition stream.Partition
	Offset    int64
	// Of the Example of a label, only Y and Labelled count.
	Example stream.Example
	// Key joins examples and labels; empty if the record has none.
	Key string
	Err *stream.RecordError
	// Sifted and Source come from the headers of a forwarded record. Sifted.P is 0,
	// and Source has no topic, for records that were not forwarded.
	Sifted sift.Header
	Source sift.Source
	// Tombstone: the record has no value and is skipped.
	Tombstone bool
}

// Engine is the complete state of training.
type Engine struct {
	cfg    Config
	scaled []bool // see algos.Env; from the schema
	// decoder is the decoder of Run, kept for views; not part of the state.
	decoder stream.Decoder
	// refused, if not nil, is called for each record that cannot be used, with its
	// index in the call of Consume, before the record is counted. An error ends
	// that call.
	refused func(i int, why *stream.RecordError) error
	// lent: the caller reuses the memory of items after Consume and flush; see
	// borrow.
	lent bool
	// current is the record being consumed; nil outside of Consume.
	current *Item
	// scored, if not nil, is called with each prequential prediction.
	scored  func(decision, probability, label float64)
	tuning  func(share float64) // see TuningHook
	answers answers

	counts      Counts
	monitor     monitor
	offsets     stream.Offsets // may be behind for partition at, see positions
	at          stream.Partition
	next        int64
	ahead       bool // at and next have not been stored in offsets yet
	admission   admission
	classes     *classes // nil for two classes and for regression
	version2    bool     // a state of version 2 is being read
	finished    bool
	warm        []*stream.Example // the warm-up; non-nil until learning begins
	started     bool
	options     map[string]string // of the learner, complete, as tuned
	noted       uint64            // see noteEarly
	tuned       []tune.Row
	transform   *prep.Transform
	learner     algos.Learner
	join        *joiner // nil without late labels
	preq        *eval.Prequential
	curve       *eval.Curve
	weights     classWeights
	sifted      sift.Tracker             // nil unless the stream is sifted
	calib       *calibrate.Online        // for two classes; else nil
	costOf      map[string]float64       // by label; nil without costs
	soft        *calibrate.OnlineSoftmax // for more than two; else nil
	weighted    bool                     // an example had a weight other than 1
	steps       uint64
	promotion   promote.Gate       // nil without a gate
	published   *promote.Published // nil if not measured; not part of the state
	clipsLogged int                // number of clipped features logged so far; not part of the state

	block    []*stream.Example // preprocessed examples that have not been scored yet, at most blockSize
	preds    []prediction      // their predictions, where made already
	inBlock  int               // number of labelled examples in block
	newClass bool              // block has an example of a class that the learner does not know
	requests []request         // waiting examples whose predictions have not been computed yet
	spare    []stream.Example  // memory for the next copies made by own
	decs     []float64
	vecs     []stream.Vec
}

// blockSize is the largest number of examples scored in one call.
const blockSize = 256

// NewEngine returns an Engine that has not consumed any record.
func NewEngine(cfg Config) (*Engine, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Window == 0 {
		cfg.Window = 1000
	}
	if cfg.Task == "" {
		cfg.Task = cfg.Spec.Tasks[0]
	}
	if !slices.Contains(cfg.Spec.Tasks, cfg.Task) {
		return nil, fmt.Errorf("learner %s does not do task %s", cfg.Spec.Name, cfg.Task)
	}
	if cfg.MaxClasses == 0 {
		cfg.MaxClasses = DefaultMaxClasses
	}
	// For more than two classes, learners that do not support them are wrapped in
	// one-vs-rest.
	cfg.Spec = ovr.Spec(cfg.Spec)
	if cfg.Scale == "" {
		cfg.Scale = "auto"
	}
	if cfg.Scale == "auto" && cfg.Spec.OwnScale {
		cfg.Scale = "none"
	}
	opts, err := cfg.Spec.WithPreset(cfg.Preset, cfg.Options)
	if err != nil {
		return nil, err
	}
	cfg.Tune = cfg.Tune && tunable(cfg.Spec, opts)
	if cfg.Warmup == 0 {
		switch {
		case cfg.Tune:
			cfg.Warmup = tuneWarmup
		case cfg.Scale != "none":
			cfg.Warmup = scaleWarmup
		}
	}
	if err := cfg.Join.Validate(); err != nil {
		return nil, err
	}
	if cfg.ClassWeight == "" {
		cfg.ClassWeight = "auto"
	}
	e := &Engine{
		cfg: cfg, options: opts, offsets: stream.Offsets{},
		preq:  eval.New(cfg.Task == algos.Regress, cfg.Window),
		curve: eval.NewCurve(),
	}
	if e.scaled, err = cfg.Signature.Scaled(); err != nil {
		return nil, err
	}
	if cfg.Task == algos.Classify {
		if e.classes, err = newClasses(&cfg.Signature, cfg.MaxClasses); err != nil {
			return nil, err
		}
		if e.classes != nil {
			e.preq, e.soft = eval.NewClasses(cfg.Window), calibrate.NewOnlineSoftmax()
		} else {
			e.calib = calibrate.NewOnline()
		}
	}
	switch {
	case cfg.Delay < 0 || cfg.Delay > MaxJoinWindow:
		return nil, fmt.Errorf("a label delay of %d examples, want 0 to %d", cfg.Delay, MaxJoinWindow)
	case cfg.Delay > 0 && cfg.Join.Used():
		return nil, errors.New("labels cannot both be joined and be delayed")
	case cfg.Delay > 0 || cfg.Join.Used():
		e.join = newJoiner(cfg.Join.Window, cfg.Delay)
	}
	// If the signature fixes the dimension, others are refused from the first record on.
	e.admission.dim = cfg.Signature.Dim
	if e.admission.limits, err = limits(e.cfg, e.env(), opts); err != nil {
		return nil, err
	}
	if err := e.checkClassWeights(); err != nil {
		return nil, err
	}
	if err := e.checkCosts(); err != nil {
		return nil, err
	}
	if cfg.Gate != "" {
		if e.promotion, err = newGate(cfg.Gate, cfg.Task == algos.Regress, e.classes != nil, cfg.Signature.Schema); err != nil {
			return nil, err
		}
	}
	if cfg.PublishEvery > 0 {
		e.measurePublished()
	}
	if cfg.Warmup == 0 {
		return e, e.start(context.Background())
	}
	return e, nil
}

// tunable reports whether tuning has anything to choose: an option that is tunable
// and not given.
func tunable(spec algos.Spec, given map[string]string) bool {
	return slices.ContainsFunc(spec.Options, func(o algos.Option) bool {
		_, ok := given[o.Name]
		return o.Tune != "" && !ok
	})
}

// Consume consumes records in order and learns from them on the learner's schedule.
// How the stream is split into calls does not affect the state. The engine keeps
// the examples' features; the items stay the caller's. It returns the number of
// items consumed. An error is final, except ctx.Err(): then Consume may be called
// again with the remaining items. The same goes for a short count without an error,
// which means that the gate has taken a challenger.
func (e *Engine) Consume(ctx context.Context, items []Item) (int, error) {
	n, err := e.consumeAll(ctx, items)
	e.current = nil
	return n, err
}

func (e *Engine) consumeAll(ctx context.Context, items []Item) (int, error) {
	for i := range items {
		e.current = &items[i]
		err := e.consume(ctx, i, e.current)
		if err == errChallenger {
			return i, nil
		}
		if err != nil {
			return i, err
		}
	}
	return len(items), nil
}

// currentRecord returns the position of the record being consumed, or of the last
// one consumed.
func (e *Engine) currentRecord() (p stream.Partition, offset int64, ok bool) {
	if it := e.current; it != nil {
		return it.Partition, it.Offset, true
	}
	return e.at, e.next - 1, e.at.Topic != ""
}

// errChallenger says that the gate has taken a challenger and that the item was not
// consumed.
var errChallenger = errors.New("a challenger has been taken")

func (e *Engine) consume(ctx context.Context, i int, it *Item) error {
	if it.Tombstone {
		e.counts.Consumed++
		e.counts.Tombstones++
		e.advance(it)
		return nil
	}
	e.Admit(it)
	// Nothing that can fail because of ctx may come after the counters have
	// changed, or a retry would count twice. So pending work is done first.
	if e.join != nil {
		if err := e.release(ctx); err != nil {
			return err
		}
		if err := e.catchUp(ctx, it); err != nil {
			return err
		}
	} else if it.Err == nil && (!e.lent || len(e.block) == blockSize) {
		if err := e.work(ctx); err != nil {
			return err
		}
	}
	if err := e.publishDue(ctx); err != nil {
		return err
	}
	if taken, err := e.challenge(ctx); err != nil {
		return err
	} else if taken {
		return errChallenger
	}
	if it.Err != nil && e.refused != nil {
		if err := e.refused(i, it.Err); err != nil {
			return err
		}
	}
	// The point of no return: from here on the record counts as consumed, and
	// nothing may fail except the refused hook, which has run.
	e.counts.Consumed++
	e.advance(it)
	e.countSifted(it)
	// Examples are numbered, not records: the learner sees the same sequence that
	// it would see if refused records and separate labels were not in the stream.
	seq := e.counts.Labelled + e.counts.Unlabelled + 1
	if e.join != nil && it.Err == nil && !e.isLabel(it) {
		e.join.seq++
		seq = e.join.seq
	}
	switch {
	case it.Err != nil:
		if !e.isLabel(it) {
			e.ask(i, it)
		}
		e.counts.Dead++
		e.monitor.refuse(e.judged())
	case e.isLabel(it):
		e.join.label(it.Key, it.Example.Y)
	default:
		a := e.ask(i, it)
		x := e.own(&it.Example)
		x.Seq = seq
		if e.join != nil {
			late := e.started && e.join.waits(x, it.Key)
			e.join.example(x, it.Key)
			if late && e.hasModel() {
				e.requestPrediction(x)
			}
			if e.published != nil {
				// A label may come for every example that has a key.
				e.join.newest().published = e.published.Arrive(x.X, x.Labelled || e.join.delay == 0 && it.Key != "")
			}
			if a != nil {
				e.answerArrival(a, late)
			}
		} else {
			pred := noPrediction
			pred.sifted, pred.answer = it.Sifted, a
			e.accept(x, &pred)
		}
	}
	return nil
}

// setMissing reads the label of the examples whose own does not come, as a record of dec.
func (e *Engine) setMissing(ctx context.Context, dec stream.Decoder) error {
	if e.cfg.Join.Missing == "" {
		return nil
	}
	var x stream.Example
	err := stream.DecodeRecord(ctx, dec, nil, &stream.Record{Value: []byte(e.cfg.Join.Missing)}, &x)
	if err == nil && (!x.Labelled || x.Class != "") {
		err = fmt.Errorf("%q is not one of the labels %s", e.cfg.Join.Missing, e.signature().Labels)
	}
	if err != nil {
		return fmt.Errorf("the label of examples without one: %w", err)
	}
	e.join.missing = &x.Y
	return nil
}

// isLabel reports whether the record is the label of another record.
func (e *Engine) isLabel(it *Item) bool {
	if j := &e.cfg.Join; j.Topic != "" {
		return it.Partition.Topic == j.Topic
	}
	return e.cfg.Join.Used() && it.Example.Labelled
}

// release takes examples out of the join that need not wait any longer.
func (e *Engine) release(ctx context.Context) error {
	for e.join != nil && e.join.ready() {
		if err := e.work(ctx); err != nil {
			return err
		}
		e.releaseNext()
	}
	return nil
}

// start ends the warm-up: it fits the preprocessing, tunes, creates the learner and
// feeds it the examples of the warm-up.
func (e *Engine) start(ctx context.Context) error {
	tr, err := prep.Fit(e.warm, prep.Options{Scale: e.cfg.Scale, Span: e.cfg.Span, HashDim: e.cfg.HashDim, Scaled: e.scaled})
	if err != nil {
		return fmt.Errorf("preprocessing: %w", err)
	}
	scaled := make([]*stream.Example, len(e.warm))
	for i, x := range e.warm {
		c := *x
		c.X = tr.Next(x.X)
		scaled[i] = &c
	}
	// There may be more classes, whose labels still wait in the join. The
	// learner starts with the warm-up's classes; work adds the others as they come.
	if e.classes != nil {
		for _, x := range e.warm {
			if x.Labelled {
				e.classes.known = max(e.classes.known, int(x.Y)+1)
			}
		}
	}
	e.weighWarm(scaled)
	env := e.env()
	options := e.options
	var rows []tune.Row
	if e.cfg.Tune && len(scaled) > 0 {
		res, err := tune.Run(ctx, e.cfg.Spec, env, e.options, scaled, e.tuning)
		if err != nil {
			return fmt.Errorf("tuning: %w", err)
		}
		options, rows = res.Options, res.Table
		if res.Note != "" {
			e.cfg.Log.Info("no option is tuned", "why", res.Note)
		}
	}
	l, err := e.cfg.Spec.New(env, options)
	if err != nil {
		return err
	}
	if e.promotion != nil {
		e.promotion.Warm(e.warm)
	}
	e.transform, e.options, e.tuned, e.learner, e.started = tr, options, rows, l, true
	e.logClipped()
	// From here on it cannot be interrupted: half a warm-up could be neither
	// continued nor repeated.
	ctx = context.WithoutCancel(ctx)
	for _, x := range scaled {
		if err := e.runSteps(ctx); err != nil {
			return err
		}
		if err := e.add(x); err != nil {
			return err
		}
	}
	e.counts.Pending = 0
	e.warm = nil
	return nil
}

// Settle does all work that is due, so that a snapshot contains no unscored
// examples. Run calls it when the stream pauses and before a snapshot. It does not
// affect later states.
func (e *Engine) Settle(ctx context.Context) error {
	if err := e.release(ctx); err != nil {
		return err
	}
	if err := e.work(ctx); err != nil {
		return err
	}
	if !e.started {
		return nil
	}
	if err := e.flush(ctx); err != nil {
		return err
	}
	e.resolvePredictions()
	return nil
}

// Finish ends a bounded stream: it learns from the pending examples, since no more
// labels will come, and lets the learner complete its optimisation. If all labels
// are equal, it returns OneLabel and leaves warm-up and learner unchanged.
func (e *Engine) Finish(ctx context.Context) error {
	if e.join != nil {
		for e.join.len() > 0 {
			if err := e.work(ctx); err != nil {
				return err
			}
			e.releaseNext()
		}
		e.join.end()
	}
	if one := e.OneLabel(); one != nil {
		return one
	}
	if !e.started {
		// A stream shorter than its warm-up would otherwise have no scores at all:
		// learn from two thirds of it, and score the result on the rest.
		n := (2*len(e.warm) + 2) / 3
		rest := e.warm[n:]
		e.warm = e.warm[:n]
		if err := e.start(ctx); err != nil {
			e.warm = e.warm[:n+len(rest)]
			return err
		}
		for _, x := range rest {
			none := noPrediction
			e.push(x, &none)
		}
		if _, err := e.learner.Finish(ctx); err != nil {
			return err
		}
	}
	if err := e.flush(ctx); err != nil {
		return err
	}
	if _, err := e.learner.Finish(ctx); err != nil {
		return err
	}
	e.finished = true
	return nil
}

func (e *Engine) env() algos.Env {
	env := algos.Env{Seed: e.cfg.Seed, Task: e.cfg.Task, Log: e.cfg.Log, PublishEvery: e.cfg.VersionEvery}
	if e.cfg.HashDim == 0 {
		env.Scaled = e.scaled
	}
	if e.classes != nil {
		env.Classes = e.classes.known
	}
	return env
}

// advance records that item it has been consumed. Records arrive in runs from the same
// partition, so the map is rarely written.
func (e *Engine) advance(it *Item) {
	if e.at != it.Partition {
		e.positions()
		e.at = it.Partition
	}
	e.next, e.ahead = it.Offset+1, true
}

// positions brings the offsets up to date and returns them.
func (e *Engine) positions() stream.Offsets {
	if e.ahead {
		e.offsets[e.at], e.ahead = e.next, false
	}
	return e.offsets
}
