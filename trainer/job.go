package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/topiclog"
)

// Job configures Run. Only Options affects learning.
type Job struct {
	Options

	// Kafka says which topics are read, and how. Its Config is also used for the
	// model topic and the dead letters. Run adds the offsets and the topic of
	// labels; with one, an empty Merge is MergeOrdered.
	Kafka kafkaio.SourceOptions
	// Open, if not nil, opens another stream instead, at the given offsets; nil
	// offsets mean its beginning. With DeadLetters, Kafka.Topics lists its topics.
	Open func(ctx context.Context, from stream.Offsets) (stream.Source, error)
	// Decoder decodes the records; nil is JSON.
	Decoder stream.Decoder
	// Discovery, if not nil, infers from the first records what the decoders of
	// records and labels need to know. Both decoders are made from its result or,
	// after a restart, from the result in the checkpoint.
	Discovery *codec.Discovery
	// Accept, if not nil, is called before the first example is learned from, with a
	// description of the records. Its error ends the run.
	Accept func(codec.Signature) error
	// Schemas, if not nil, provides the schemas that records refer to; the options
	// of Discovery must name the same one. Known schemas are kept in checkpoints
	// and, if there is a recording, in a file beside it.
	Schemas SchemaKeeper
	// LabelDecoder decodes labels alone, the records of Join.Topic and Join.Missing; nil is codec.NewLabels.
	LabelDecoder stream.Decoder

	// Tolerance says which failures of records the run survives.
	Tolerance Tolerance
	// MaxDead ends a tolerant run when more than this share of the latest 1,000
	// records cannot be used, in (0,1]. With fewer records so far it is the share
	// of all of them, but of at least 100. Unless it is 1, a stream that ends
	// without a usable example is an error too. The run ends before the record that
	// would exceed the limit, with a *stream.DeadError, and the next run begins with
	// that record. 0 is 0.5, 1 sets no limit.
	MaxDead float64
	// Tombstones says what to do with records without a value.
	Tombstones Tombstones
	// DeadLetters, if not empty, keeps the unusable records that are tolerated: each
	// is sent exactly once to the topic whose name is the record's topic followed by
	// this suffix.
	DeadLetters string

	Checkpoints Checkpoints
	Models      Models
	// Predictions, if not empty, is a topic for the trainer's own prediction of each
	// example: when it arrives or, if its label came with it, just before it is learned
	// from. Records are written in the order of the stream and exactly once, in one
	// transaction with each checkpoint; so Checkpoints must be in a topic, and a prediction
	// waits until the next checkpoint. They have the same form as the command predict's.
	// Their version is the previous checkpoint's, 0 if no model was published by then.
	Predictions string
	// Recording, if not empty, is a file that keeps the records consumed. A restart
	// truncates it to its length at the checkpoint.
	Recording string

	// ShutdownTimeout bounds the work after the context has ended; 0 is 25 s.
	ShutdownTimeout time.Duration
	// Unfinished says that the stream is only part of one: when it ends, the
	// learner does not complete its optimisation, and the next run continues.
	Unfinished bool

	// Hooks are notified of events.
	Hooks []Hook
	// Log receives messages for people; nil discards them.
	Log *slog.Logger
}

// A SchemaKeeper provides schemas and can store them; see package contrib/registry.
type SchemaKeeper interface {
	codec.Schemas
	// Known returns the schemas requested so far, encoded. Restore adds the schemas
	// in such a text.
	Known() string
	Restore(text string) error
	// KeepIn also stores them in a file.
	KeepIn(path string) error
}

// SchemasExt is appended to the name of a recording to name the file of its
// records' schemas.
const SchemasExt = ".schemas"

// Tolerance says what to do with records that cannot be used.
type Tolerance string

// The tolerances.
const (
	TolerateNone Tolerance = "none" // stop at the first one; also the zero value
	TolerateData Tolerance = "data" // skip it, and stop if it cannot be dead-lettered
	TolerateAll  Tolerance = "all"  // skip it even then
)

// Tombstones says what to do with records without a value, which Kafka uses to
// delete keys from compacted topics.
type Tombstones string

// What to do with tombstones.
const (
	TombstonesRefuse Tombstones = "refuse" // they cannot be used; also the zero value
	TombstonesSkip   Tombstones = "skip"   // skip and count them
)

// Result says how a run ended and what it has learned.
type Result struct {
	State
	// Ended: the stream has ended. Otherwise the run was stopped and can be resumed.
	Ended bool
	// Version is the version of the last published model.
	Version uint64
}

// Run does the job until the stream ends, ctx ends, or something fails. When ctx
// ends it writes a last checkpoint, publishes, and returns a Result without an
// error. It starts in an order in which a restart is safe at any moment:
//
//  1. Look at the model topic. If the model there comes from other checkpoints, end before
//     anybody is disturbed.
//  2. Claim the checkpoints, then load the newest. Claiming first means that a run presumed
//     dead cannot add one in between.
//  3. Claim the model, so that nobody else publishes it any more, and publish the checkpoint's
//     model again: the last run may have ended between storing and publishing it.
//  4. Open the stream at the positions of the checkpoint, if its topics are still the same, and
//     look for dead letters sent since.
//  5. At a first start, store a checkpoint with the start positions of the topics before
//     reading anything; then run Discovery. Until a record has been consumed, a checkpoint
//     binds a restart to these positions but not to the options, so that a run that failed on
//     its first record can be corrected and begins with that record again. A run that ends
//     without a version gives up its claim on the model; the claim of one that was killed can
//     be taken over, since the checkpoints are the same. A first run that fails before it has
//     consumed a record removes its directory of checkpoints and its recording, unless it
//     started at the latest record.
//
// The errors are *OptionError, *StateError, *ForeignModelError,
// *TopicReplacedError, *checkpoint.EpochError; one that is checkpoint.ErrFenced if
// another run has taken over; a *stream.RecordError if a record is not tolerated; a
// *stream.DeadError if too many records cannot be used; a *stream.OneLabelError if a
// stream has ended whose labels are all equal; and the errors of packages that read,
// store and publish. Nothing is published while all labels are equal.
//
// Run does not recover from panics, for example of a learner or a hook. Nothing is
// stored or published after one, so that the next Run continues as after a crash.
func Run(ctx context.Context, job Job) (res Result, err error) {
	r := &run{Job: job}
	defer func() {
		for _, c := range slices.Backward(r.closers) {
			err = errors.Join(err, c())
		}
		if err != nil {
			err = errors.Join(err, r.discard(ctx))
		}
	}()
	defer crash.Recover(r.starting)
	if err := r.start(ctx); err != nil {
		return Result{}, err
	}
	end, err := engine.Run(ctx, r.e, r.run)
	return Result{State: State{r.e}, Ended: end.Ended, Version: end.Version}, err
}

// run is the state of one Run.
type run struct {
	Job
	e   *engine.Engine
	run engine.RunConfig
	// engineConfig is the configuration of e, without what the Decoder determines.
	engineConfig engine.Config
	snap         *checkpoint.Snapshot // the run continues from it; nil at a first start
	// store and models are nil if not configured.
	store store
	// owned returns an error if another run has claimed the checkpoints. It waits for
	// brokers if they are in a topic.
	owned  func(context.Context) error
	models *modeltopic.Publisher
	// claimed: the claim on the model stays, and only these checkpoints may continue it.
	claimed bool
	// closers close what start has opened; they are called in reverse order.
	closers []func() error
}

// discard removes the files of a first run that has failed and consumed nothing, so that the
// next run is a first run too. It keeps a checkpoint whose positions matter: another start
// at the latest record would begin elsewhere.
func (r *run) discard(ctx context.Context) error {
	if r.snap != nil || r.e == nil || r.e.Counts().Consumed > 0 || r.Open == nil && r.Kafka.Start == kafkaio.StartLatest {
		return nil
	}
	if r.run.Recorder != nil {
		_ = os.Remove(r.Recording)
		_ = os.Remove(r.Recording + SchemasExt)
	}
	s, ok := r.store.(*checkpoint.Store)
	if !ok || r.claimed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseFor)
	defer cancel()
	if err := s.Discard(ctx); !errors.Is(err, checkpoint.ErrFenced) {
		return err
	}
	return nil // they are another run's now
}

// starting describes the work that a panic outside of engine.Run has interrupted.
func (r *run) starting() string {
	if r.e == nil {
		return "checking the job"
	}
	return "starting or ending the run"
}

func (r *run) start(ctx context.Context) (err error) {
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	if err := r.prepare(); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.openStore, r.openModels, r.load, r.claimModels, r.openPredictions, r.openRecording, r.openSource, r.openDeadLetters} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if r.run.Store != nil && (r.snap == nil || r.snap.Header.Examples == 0) && len(r.run.Start) > 0 {
		first := 1
		if r.Checkpoints.Restart { // as many as are kept, or damage to the new one would bring back an old state
			first = max(cmp.Or(r.Checkpoints.Retain, 3), 2)
		}
		for range first {
			if err := engine.SaveFirst(ctx, r.e, r.run); err != nil {
				return err
			}
		}
	}
	if err := r.discover(ctx); err != nil || r.Accept == nil {
		return err
	}
	return r.Accept(codec.SignatureOf(r.Decoder))
}

// prepare validates the job and creates what needs no I/O.
func (r *run) prepare() error {
	if r.Models.Topic != "" && r.Checkpoints.Dir == "" {
		return &OptionError{"Checkpoints", "", errors.New("a model topic needs them: versions of a model continue from them after a restart")}
	}
	if _, ok := topiclog.StateTopic(r.Checkpoints.Dir); r.Predictions != "" && !ok {
		return &OptionError{"Predictions", "", errors.New("checkpoints must be in a topic, kafka://TOPIC: predictions are written in one transaction with them")}
	}
	if r.Predictions != "" && (slices.Contains(r.topics(), r.Predictions) || r.Predictions == r.Models.Topic || topiclog.StateURL(r.Predictions) == r.Checkpoints.Dir) {
		return &OptionError{"Predictions", "", fmt.Errorf("%s holds examples, labels, models or checkpoints", r.Predictions)}
	}
	if r.Open == nil && len(r.Kafka.Topics) == 0 {
		return &OptionError{"Kafka", "", errors.New("no topic is given")}
	}
	if r.Open != nil && len(r.Kafka.Topics) == 0 && r.keepsDead() {
		return &OptionError{"Kafka", "", errors.New("with Open and DeadLetters, Topics must list the topics of the stream: dead letters go to topics named after them")}
	}
	if r.Open == nil && r.Join.Topic != "" && slices.Contains(r.Kafka.Topics, r.Join.Topic) {
		return &OptionError{"Join", "", fmt.Errorf("%s is a topic of examples: leave it out", r.Join.Topic)}
	}
	if !slices.Contains([]Tolerance{"", TolerateNone, TolerateData, TolerateAll}, r.Tolerance) {
		return &OptionError{"Tolerance", "", fmt.Errorf("%q is not one of none, data, all", r.Tolerance)}
	}
	if !(r.MaxDead >= 0 && r.MaxDead <= 1) {
		return &OptionError{"MaxDead", "", fmt.Errorf("%v is not in (0,1]", r.MaxDead)}
	}
	if !slices.Contains([]Tombstones{"", TombstonesRefuse, TombstonesSkip}, r.Tombstones) {
		return &OptionError{"Tombstones", "", fmt.Errorf("%q is not one of refuse, skip", r.Tombstones)}
	}
	cfg, err := r.config()
	if err != nil {
		return err
	}
	r.engineConfig = cfg
	if r.Decoder == nil && r.Discovery == nil {
		o := codec.Options{Task: string(cfg.Task)}
		r.Join.Codec(&o)
		if r.Decoder, err = codec.New("json", o); err != nil {
			return err
		}
	}
	if err := r.makeEngine(codec.Options{Task: string(cfg.Task)}); err != nil {
		return err
	}
	r.Models.Name = cmp.Or(r.Models.Name, "model")
	r.Models.Replace = r.Models.Replace || r.Checkpoints.Restart
	r.Models.FullEvery = cmp.Or(r.Models.FullEvery, 16)
	hooks := make([]any, len(r.Hooks))
	for i, h := range r.Hooks {
		if p, ok := h.(HookProgress); ok {
			hooks = append(hooks, progress{p})
		}
		hooks[i] = h
	}
	r.run = engine.RunConfig{
		Decoder: r.run.Decoder, Labels: r.run.Labels, Model: r.Models.Name, FullEvery: r.Models.FullEvery,
		Tolerance: engine.Tolerance(r.Tolerance), MaxDead: r.MaxDead, SkipTombstones: r.Tombstones == TombstonesSkip,
		CheckpointInterval: cmp.Or(r.Checkpoints.Interval, 10*time.Second), CheckpointEvery: r.Checkpoints.Every,
		ShutdownTimeout: r.ShutdownTimeout, Stop: r.Unfinished, Hooks: hooks, Log: r.Log,
	}
	if r.Schemas != nil {
		r.run.Schemas = r.Schemas.Known
	}
	return nil
}

// makeEngine creates the engine for the examples of the Decoder. o has the options for
// the decoder of labels.
func (r *run) makeEngine(o codec.Options) (err error) {
	cfg := r.engineConfig
	cfg.Log = r.Log
	if r.Decoder != nil {
		cfg.Signature = codec.SignatureOf(r.Decoder)
	}
	if r.e, err = engine.NewEngine(cfg); err != nil {
		return &OptionError{"Options", "", err}
	}
	if r.LabelDecoder == nil && r.Join.used() && r.Decoder != nil {
		r.Join.Codec(&o)
		if r.LabelDecoder, err = codec.NewLabels(o); err != nil {
			return err
		}
	}
	r.run.Decoder, r.run.Labels = r.Decoder, r.LabelDecoder
	return nil
}

// waitInput waits for the input topics, so that nothing is created for a run that
// has nothing to read.
func (r *run) waitInput(ctx context.Context) error {
	if r.Open != nil {
		return nil
	}
	_, err := kafkaio.Partitions(ctx, r.Kafka.Config, r.topics(), r.Kafka.TopicWait, r.Kafka.MaxDown)
	return err
}

// openRecording starts a recording, or continues it at the length given in the
// checkpoint.
func (r *run) openRecording(context.Context) error {
	if r.Recording == "" {
		return nil
	}
	if r.run.Store == nil {
		r.Log.Warn("without checkpoints a restart begins from scratch, and the recording must not exist then")
	}
	var w *fileio.RecordWriter
	var err error
	if pos := meta(r.snap, engine.MetaRecording); pos == "" {
		w, err = fileio.CreateRecording(r.Recording)
	} else {
		var n int64
		if n, err = strconv.ParseInt(pos, 10, 64); err == nil {
			w, err = fileio.Reopen(r.Recording, n)
		}
	}
	if errors.Is(err, fileio.ErrLocked) {
		return err
	}
	if err != nil {
		return &OptionError{"Recording", "", err}
	}
	if r.Schemas != nil {
		if err := r.Schemas.KeepIn(r.Recording + SchemasExt); err != nil {
			return errors.Join(err, w.Close(false))
		}
	}
	r.run.Recorder = w
	r.closers = append(r.closers, func() error { return w.Close(r.e.Finished()) })
	return nil
}

// openSource opens the stream at the position of the checkpoint.
func (r *run) openSource(ctx context.Context) (err error) {
	var from stream.Offsets
	if r.snap != nil {
		from = r.snap.Header.Offsets
	}
	if r.Open != nil {
		if r.run.Source, err = r.Open(ctx, from); err == nil && r.run.Source == nil {
			err = &OptionError{"Open", "", errors.New("it has returned no source")}
		}
	} else {
		r.run.Source, err = r.openTopics(ctx, from)
	}
	if err == nil {
		r.closers = append(r.closers, r.run.Source.Close)
	}
	return err
}

// keepsDead reports whether there can be dead letters.
func (r *run) keepsDead() bool {
	return r.DeadLetters != "" && r.Tolerance != TolerateNone && r.Tolerance != ""
}

// openDeadLetters opens the dead-letter topics.
func (r *run) openDeadLetters(ctx context.Context) error {
	if !r.keepsDead() {
		return nil
	}
	o := deadletter.Options{
		Config: r.Kafka.Config, Topics: r.topics(), Suffix: r.DeadLetters, MaxDown: r.Kafka.MaxDown, Log: r.Log,
		Mark: meta(r.snap, engine.MetaDeadLetters),
	}
	if r.store != nil {
		o.ID, o.Lease = r.store.ID(), r.owned
	}
	if r.snap != nil {
		o.Restored, o.From = true, r.snap.Header.Offsets
	}
	d, err := deadletter.Open(ctx, o)
	if err != nil {
		return err
	}
	r.run.DeadLetters = d
	r.closers = append(r.closers, d.Close)
	return nil
}
