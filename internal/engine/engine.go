// Package engine drives a learner over a stream, behind package trainer.
//
// Engine is the part that decides what is learned: a state machine without
// goroutines, clocks or input and output, so that equal streams give equal
// bits. Run feeds an Engine from a source through a bounded queue and carries
// its snapshots to the checkpoint store and the model topic.
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

// Config is everything that a state depends on besides the stream; see
// trainer.Options.
type Config struct {
	Spec algos.Spec
	// Preset names the learner's preset; Options overrides it, as text.
	Preset  string
	Options map[string]string
	Task    algos.Task
	Seed    uint64
	// Scale is one of prep.Scales; Span, that of the scale running, 0 is
	// prep.DefaultSpan.
	Scale   string
	Span    int
	HashDim int
	// ClassWeight is what ParseClassWeights reads.
	ClassWeight string
	// Warmup 0 is chosen from what there is to decide.
	Warmup int
	Tune   bool
	Window int
	// Labels hides the labels of examples; Kept describes it, so that a state
	// does not go on under others, and is empty without.
	Labels func(i uint64) bool
	Kept   string
	Join   Join
	// Delay, where there is no Join, is the number of examples that come between
	// each example and its label; see trainer.Options.
	Delay int
	// Signature goes into the models, with the dimension of the stream. But for
	// its schema it is no part of the state: the same examples may come in another
	// codec. Its labels say how many classes there are, and of more than two
	// MaxClasses at most; 0 is DefaultMaxClasses.
	Signature  codec.Signature
	MaxClasses int
	// Gate is the rule by which a champion is chosen, see compare.ParseRule; "" chooses
	// none.
	Gate string
	Log  *slog.Logger
}

// The warm-up sizes for tuning and for fitting a scale.
const (
	tuneWarmup  = 4000
	scaleWarmup = 1000
)

// Counts says what became of the records consumed; see trainer.Counts.
type Counts struct {
	Consumed             uint64
	Labelled, Unlabelled uint64
	Learned, SampledOut  uint64
	Dead                 uint64
	Tombstones           uint64
	Joined, Late         uint64 // see JoinStats
	Pending              uint64
}

// Item is one record on its way into an Engine: an example or the reason why
// there is none.
type Item struct {
	Partition stream.Partition
	Offset    int64
	// Example is empty but for Y and Labelled in a record of Join.Topic.
	Example stream.Example
	// Key is what labels are joined by, empty where there is none.
	Key string
	Err *stream.RecordError
	// Sifted and Source are those of a record that was forwarded; none where
	// Sifted.P is 0, or Source names no topic.
	Sifted sift.Header
	Source sift.Source
	// Tombstone: there is no value, and the record is passed over.
	Tombstone bool
}

// Engine is the complete state of training.
type Engine struct {
	cfg    Config
	scaled []bool // see algos.Env; from the schema
	// decoder is that of Run; no part of the state.
	decoder stream.Decoder
	// refused, if not nil, is told of each record that cannot be used, by its
	// index in the call of Consume, before it counts. An error ends that call.
	refused func(i int, why *stream.RecordError) error
	// lent: the memory of items is used again after Consume and flush; see borrow.
	lent bool
	// hand is the record that is being consumed; nil outside of Consume.
	hand *Item
	// scored, if not nil, is told of each prequential decision.
	scored func(decision, probability, label float64)

	counts    Counts
	sight     sight
	offsets   stream.Offsets // but for the latest partition, see positions
	at        stream.Partition
	next      int64
	ahead     bool // at and next are not in offsets yet
	admission admission
	classes   *classes // nil unless there are more than two
	version2  bool     // the state that is read is of version 2
	finished  bool
	warm      []*stream.Example // non-nil until learning begins
	started   bool
	options   map[string]string // complete, as chosen
	tuned     []tune.Row
	transform *prep.Transform
	learner   algos.Learner
	join      *joiner // nil without
	preq      *eval.Prequential
	curve     *eval.Curve
	weights   classWeights
	sifted    *sift.Estimate           // nil unless the stream is sifted
	calib     *calibrate.Online        // of two classes; else nil
	soft      *calibrate.OnlineSoftmax // of more than two; else nil
	steps     uint64
	promotion Promotion // nil without a gate
	clipTold  int       // features of which the log says that they are clipped; no part of the state

	block   []*stream.Example // preprocessed examples that are not yet scored, at most blockSize
	told    []told            // what was foretold of them
	inBlock int               // labelled ones among them
	fresh   bool              // one of them is of a class that the learner does not know
	asked   []asked           // examples that wait for the join's sake and are to be foretold
	room    []stream.Example  // where own puts the next ones
	decs    []float64
	vecs    []stream.Vec
}

// blockSize bounds how many examples are scored in one call.
const blockSize = 256

// NewEngine returns an Engine before the first record.
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
	if err := cfg.Join.validate(); err != nil {
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
		return nil, fmt.Errorf("labels come %d examples later, want 0 to %d", cfg.Delay, MaxJoinWindow)
	case cfg.Delay > 0 && cfg.Join.Topic != "":
		return nil, errors.New("labels cannot both be joined and be delayed")
	case cfg.Delay > 0 || cfg.Join.Topic != "":
		e.join = newJoiner(cfg.Join.Window, cfg.Delay)
	}
	// One that knows what data it is for refuses others from the first record on.
	e.admission.dim = cfg.Signature.Dim
	if e.admission.limits, err = limits(e.cfg, e.env(), opts); err != nil {
		return nil, err
	}
	if err := e.checkClassWeights(); err != nil {
		return nil, err
	}
	if cfg.Gate != "" {
		if e.promotion, err = promote.New(cfg.Gate, cfg.Task == algos.Regress, e.classes != nil, cfg.Signature.Schema); err != nil {
			return nil, err
		}
	}
	if cfg.Warmup == 0 {
		return e, e.start(context.Background())
	}
	return e, nil
}

// tunable reports whether the learner has a tunable option that is not given.
func tunable(spec algos.Spec, given map[string]string) bool {
	for _, o := range spec.Options {
		if _, ok := given[o.Name]; o.Tune != "" && !ok {
			return true
		}
	}
	return false
}

// Consume takes records in, in order, and learns from them as its schedule
// says. Where the calls are cut does not matter to the state. The features of
// the examples then belong to the engine, the items to the caller. It returns
// the number of items consumed. An error is final, except that of ctx, after
// which Consume may be called with the items from there on. So it may where
// there are fewer without an error, when the gate has taken a challenger.
func (e *Engine) Consume(ctx context.Context, items []Item) (int, error) {
	n, err := e.consumeAll(ctx, items)
	e.hand = nil
	return n, err
}

func (e *Engine) consumeAll(ctx context.Context, items []Item) (int, error) {
	for i := range items {
		e.hand = &items[i]
		err := e.consume(ctx, i, e.hand)
		if err == errChallenger {
			return i, nil
		}
		if err != nil {
			return i, err
		}
	}
	return len(items), nil
}

// inHand returns where the record is that is being consumed, or was last.
func (e *Engine) inHand() (p stream.Partition, offset int64, ok bool) {
	if it := e.hand; it != nil {
		return it.Partition, it.Offset, true
	}
	return e.at, e.next - 1, e.at.Topic != ""
}

// errChallenger says that a challenger has been taken, and nothing consumed.
var errChallenger = errors.New("a challenger has been taken")

func (e *Engine) consume(ctx context.Context, i int, it *Item) error {
	if it.Tombstone {
		e.counts.Consumed++
		e.counts.Tombstones++
		e.pass(it)
		return nil
	}
	e.Admit(it)
	// Nothing that can fail on ctx may come after the counters have moved, or
	// a second try would count twice: pending work is done first.
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
	e.counts.Consumed++
	e.pass(it)
	e.passSifted(it)
	// Examples are numbered, not records: the learner sees what it would see
	// without the records that cannot be used between them, and without labels.
	seq := e.counts.Labelled + e.counts.Unlabelled + 1
	if e.join != nil && it.Err == nil && !e.isLabel(it) {
		e.join.seq++
		seq = e.join.seq
	}
	switch {
	case it.Err != nil:
		e.counts.Dead++
		e.sight.refuse(e.judged())
	case e.isLabel(it):
		e.join.label(it.Key, it.Example.Y)
	default:
		x := e.own(&it.Example)
		x.Seq = seq
		if e.join != nil {
			late := e.started && e.join.waits(x, it.Key)
			e.join.example(x, it.Key)
			if late {
				e.foretell(x)
			}
		} else {
			told := untold
			told.sifted = it.Sifted
			e.take(x, told)
		}
	}
	return nil
}

// isLabel reports whether the record holds the label of another one.
func (e *Engine) isLabel(it *Item) bool {
	return e.cfg.Join.Topic != "" && it.Partition.Topic == e.cfg.Join.Topic
}

// release takes the examples in that wait for no label any more.
func (e *Engine) release(ctx context.Context) error {
	for e.join != nil && e.join.ready() {
		if err := e.work(ctx); err != nil {
			return err
		}
		e.takeNext()
	}
	return nil
}

// start ends the warm-up: it fits the preprocessing, tunes, makes the learner
// and feeds it the examples of the warm-up.
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
	if e.classes != nil {
		for _, x := range e.warm {
			if x.Labelled { // more may be known, of labels that wait
				e.classes.told = max(e.classes.told, int(x.Y)+1)
			}
		}
	}
	e.weighWarm(scaled)
	env := e.env()
	options := e.options
	var rows []tune.Row
	if e.cfg.Tune && len(scaled) > 0 {
		res, err := tune.Run(ctx, e.cfg.Spec, env, e.options, scaled)
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
	e.tellClipped()
	// It is not interrupted: the warm-up would neither be over nor begin again.
	ctx = context.WithoutCancel(ctx)
	for _, x := range scaled {
		if err := e.takeSteps(ctx); err != nil {
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

// Settle does all work that is due, so that a snapshot holds no example that
// has not been scored. Run calls it when the stream pauses and before a
// snapshot; it does not change what the state will be later on.
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
	e.answer()
	return nil
}

// Finish ends a bounded stream: what is pending is learned, as no label can
// come any more, and the learner completes its optimisation. If no two labels
// differ then, it returns OneLabel, and leaves the warm-up and the learner as
// they are.
func (e *Engine) Finish(ctx context.Context) error {
	if e.join != nil {
		for e.join.examples.len() > 0 {
			if err := e.work(ctx); err != nil {
				return err
			}
			e.takeNext()
		}
		e.join.end()
	}
	if one := e.OneLabel(); one != nil {
		return one
	}
	if !e.started {
		// The warm-up must not swallow a small stream: two thirds of it are
		// learned, and what that gives is scored on the last one.
		n := (2*len(e.warm) + 2) / 3
		rest := e.warm[n:]
		e.warm = e.warm[:n]
		if err := e.start(ctx); err != nil {
			e.warm = e.warm[:n+len(rest)]
			return err
		}
		for _, x := range rest {
			e.push(x, untold)
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
	env := algos.Env{Seed: e.cfg.Seed, Task: e.cfg.Task, Log: e.cfg.Log}
	if e.cfg.HashDim == 0 {
		env.Scaled = e.scaled
	}
	if e.classes != nil {
		env.Classes = e.classes.told
	}
	return env
}

// pass notes that a record has been consumed. Records come in runs of one
// partition, so that the map is left alone most of the time.
func (e *Engine) pass(it *Item) {
	if e.at != it.Partition {
		e.positions()
		e.at = it.Partition
	}
	e.next, e.ahead = it.Offset+1, true
}

// positions brings the offsets up to date.
func (e *Engine) positions() stream.Offsets {
	if e.ahead {
		e.offsets[e.at], e.ahead = e.next, false
	}
	return e.offsets
}
