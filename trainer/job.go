package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
)

// Job says what Run does. Only Options influences what is learned.
type Job struct {
	Options

	// Kafka says which topics are read, and how. Its Config also serves the
	// model topic and the dead letters. Offsets and the topic of labels are
	// added by Run.
	Kafka kafkaio.SourceOptions
	// Open, if not nil, opens another stream instead, at the offsets given; nil
	// is its beginning.
	Open func(ctx context.Context, from stream.Offsets) (stream.Source, error)
	// Decoder of the records; nil is JSON.
	Decoder stream.Decoder
	// Discovery, if not nil, finds out from the first records what their Decoder
	// has to know, and that of labels: both are made of what it finds, or of what
	// the checkpoint says was found.
	Discovery *codec.Discovery
	// Schemas, if not nil, has the schemas that records refer to, and is what the
	// options of the Discovery say too. Checkpoints keep those that are known, and
	// a recording does, in a file beside it.
	Schemas SchemaKeeper
	// LabelDecoder of the records of Join.Topic; nil is codec.NewLabels.
	LabelDecoder stream.Decoder

	// Tolerance says what to do about records that cannot be used.
	Tolerance Tolerance
	// MaxDead ends a run that tolerates such records when they are more than this
	// share, in (0,1], of the latest 1,000 records, or of all, and at least of
	// 100, if fewer have come; and, unless it is 1, at the end of a stream
	// without an example. The run ends before the record that would be one too
	// many, with a *stream.DeadError, and the next one begins with that record. 0
	// is 0.5, 1 sets no limit.
	MaxDead float64
	// Tombstones says what records without a value are.
	Tombstones Tombstones
	// DeadLetters, if not empty, keeps the records that are tolerated: each
	// goes, once, to the topic that has its own topic's name and this suffix.
	DeadLetters string

	Checkpoints Checkpoints
	Models      Models
	// Recording, if not empty, is a file that keeps the records consumed. It is
	// cut back to where the checkpoint is at a restart.
	Recording string

	// Queue is the number of records that reading may run ahead of learning,
	// within 64 MiB of their values; 0 is 65,536.
	Queue int
	// ShutdownTimeout bounds what is still done after the context has ended;
	// 0 is 25 s.
	ShutdownTimeout time.Duration
	// SiftTargetLag counts where the stream has been sifted, see
	// docs/measured/sift.md: while the records that are learned are older than that, and
	// more wait, the plan that comes with each version asks for less of the stream.
	// 0 is 30 s.
	SiftTargetLag time.Duration
	// Unfinished says that a stream that ends is only part of one: the learner
	// does not complete its optimisation, and the next run goes on.
	Unfinished bool

	// Hooks are told what happens.
	Hooks []Hook
	// Log is told what a person should know; nil is nobody.
	Log *slog.Logger
}

// A SchemaKeeper has schemas, and lets them be kept; see package contrib/registry.
type SchemaKeeper interface {
	codec.Schemas
	// Known returns the schemas that have been asked for, Restore makes them
	// known.
	Known() string
	Restore(text string) error
	// KeepIn keeps them in a file, too.
	KeepIn(path string) error
}

// SchemasExt is what the name of a recording has behind it where that of the
// schemas of its records is meant.
const SchemasExt = ".schemas"

// Tolerance says what to do about records that cannot be used.
type Tolerance string

// The tolerances.
const (
	TolerateNone Tolerance = "none" // stop at the first one; also the zero value
	TolerateData Tolerance = "data" // skip it, and stop if it cannot be dead-lettered
	TolerateAll  Tolerance = "all"  // skip it even then
)

// Tombstones says what to do about records without a value, with which Kafka
// deletes keys from compacted topics.
type Tombstones string

// What to do about tombstones.
const (
	TombstonesRefuse Tombstones = "refuse" // they cannot be used; also the zero value
	TombstonesSkip   Tombstones = "skip"   // pass them over, and count them
)

// Result says how a run ended, and what has been learned.
type Result struct {
	State
	// Ended: the stream has ended. Otherwise the run was stopped, and can go on.
	Ended bool
	// Version is the version of the model published last.
	Version uint64
}

// Run does the job until the stream ends, ctx ends, or something fails. When
// ctx ends it writes a last checkpoint, publishes, and returns a Result without
// an error. It starts in the order in which a restart is safe at any moment:
//
//  1. It looks at the model topic: if the model there comes from other
//     checkpoints it ends, and nobody is disturbed.
//  2. It claims the checkpoints before it reads them, so that no run that was
//     thought dead adds one in between, and goes on from the newest.
//  3. It claims the model, so that nobody else publishes it any more, and
//     publishes the checkpoint's again: the run before may have ended between
//     storing and publishing it.
//  4. It opens the stream at the positions of the checkpoint, if its topics are
//     still the same, and looks for dead letters sent since.
//  5. At a first start it stores a checkpoint of where the topics begin before
//     it reads anything, and then finds out what a Discovery is for. Until a record
//     has been consumed a checkpoint binds a restart to these positions, but not to
//     the options: a run that has failed on its first record can be corrected, and
//     begins with that record again. A claim on the model is given up by a run that
//     ends without a version; one that was killed is taken over from, since the
//     checkpoints are the same.
//
// The errors are *OptionError, *StateError, *ForeignModelError,
// *TopicReplacedError, *checkpoint.EpochError, one that is checkpoint.ErrFenced if
// another run has taken over, a *stream.RecordError if a record is not tolerated, a *stream.DeadError if too many are not what they
// should be, a *stream.OneLabelError if a stream has ended in which no two labels
// differ, and those of the packages that read, store and publish. Nothing is
// published while no two labels differ.
//
// Run does not recover panics, such as one of a learner or a hook. Nothing is stored
// or published after one, so that the next Run goes on as after a crash.
func Run(ctx context.Context, job Job) (res Result, err error) {
	r := &run{Job: job}
	defer func() {
		for _, c := range slices.Backward(r.closers) {
			err = errors.Join(err, c())
		}
	}()
	defer crash.Recover(r.starting)
	if err := r.start(ctx); err != nil {
		return Result{}, err
	}
	end, err := engine.Run(ctx, r.e, r.run)
	return Result{State: State{r.e}, Ended: end.Ended, Version: end.Version}, err
}

// run is a job under way.
type run struct {
	Job
	e   *engine.Engine
	run engine.RunConfig
	// engineConfig is that of e, but for what the Decoder says.
	engineConfig engine.Config
	snap         *checkpoint.Snapshot // where the run goes on from; nil at a first start
	// store and models are nil where there are to be none.
	store store
	// owned fails if another run has claimed the checkpoints. It waits for brokers if
	// they are in a topic.
	owned  func(context.Context) error
	models *modeltopic.Publisher
	// closers end what start has opened, the last one first.
	closers []func() error
}

// starting says what a panic outside of engine.Run has interrupted.
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
	for _, step := range []func(context.Context) error{r.openStore, r.openModels, r.load, r.claimModels, r.openRecording, r.openSource, r.openDeadLetters} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if r.run.Store != nil && (r.snap == nil || r.snap.Header.Examples == 0) && len(r.run.Start) > 0 {
		if err := engine.SaveFirst(ctx, r.e, r.run); err != nil {
			return err
		}
	}
	return r.discover(ctx)
}

// prepare checks the job and makes what needs nothing from outside.
func (r *run) prepare() error {
	if r.Models.Topic != "" && r.Checkpoints.Dir == "" {
		return &OptionError{"Checkpoints", "", errors.New("a model topic needs them: the versions of a model go on from them after a restart")}
	}
	if r.Open == nil && len(r.Kafka.Topics) == 0 {
		return &OptionError{"Kafka", "", errors.New("no topic is given")}
	}
	if r.Open == nil && r.Join.Topic != "" && slices.Contains(r.Kafka.Topics, r.Join.Topic) {
		return &OptionError{"Join", "", fmt.Errorf("%s is a topic of examples too", r.Join.Topic)}
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
		if r.Decoder, err = codec.New("json", codec.Options{Task: string(cfg.Task)}); err != nil {
			return err
		}
	}
	if err := r.makeEngine(codec.Options{Task: string(cfg.Task)}); err != nil {
		return err
	}
	r.Models.Name = cmp.Or(r.Models.Name, "model")
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
		SiftTargetLag: r.SiftTargetLag,
		QueueRecords:  r.Queue, ShutdownTimeout: r.ShutdownTimeout, Stop: r.Unfinished, Hooks: hooks, Log: r.Log,
	}
	if r.Schemas != nil {
		r.run.Schemas = r.Schemas.Known
	}
	return nil
}

// makeEngine makes the engine for the records that the Decoder reads. o are the
// options of the decoder of labels.
func (r *run) makeEngine(o codec.Options) (err error) {
	cfg := r.engineConfig
	cfg.Log = r.Log
	if r.Decoder != nil {
		cfg.Signature = codec.SignatureOf(r.Decoder)
	}
	if r.e, err = engine.NewEngine(cfg); err != nil {
		return &OptionError{"Options", "", err}
	}
	if r.LabelDecoder == nil && r.Join.Topic != "" && r.Decoder != nil {
		if r.LabelDecoder, err = codec.NewLabels(o); err != nil {
			return err
		}
	}
	r.run.Decoder, r.run.Labels = r.Decoder, r.LabelDecoder
	return nil
}

// waitInput waits for the topics to read, so that nothing is created for a run that
// has nothing to read.
func (r *run) waitInput(ctx context.Context) error {
	if r.Open != nil {
		return nil
	}
	_, err := kafkaio.Partitions(ctx, r.Kafka.Config, r.topics(), r.Kafka.TopicWait, r.Kafka.MaxDown)
	return err
}

// openRecording begins a recording, or goes on with it where the checkpoint
// says that it was.
func (r *run) openRecording(context.Context) error {
	if r.Recording == "" {
		return nil
	}
	if r.run.Store == nil {
		r.Log.Warn("without checkpoints a restart begins again, and the recording must not exist then")
	}
	var w *fileio.RecordWriter
	var err error
	if pos := r.meta(engine.MetaRecording); pos == "" {
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

// openSource opens the stream where the checkpoint ends.
func (r *run) openSource(ctx context.Context) (err error) {
	var from stream.Offsets
	if r.snap != nil {
		from = r.snap.Header.Offsets
	}
	if r.Open != nil {
		r.run.Source, err = r.Open(ctx, from)
	} else {
		r.run.Source, err = r.openTopics(ctx, from)
	}
	if err == nil {
		r.closers = append(r.closers, r.run.Source.Close)
	}
	return err
}

// openDeadLetters opens the topics of dead letters.
func (r *run) openDeadLetters(ctx context.Context) error {
	if r.DeadLetters == "" || r.run.Tolerance == engine.TolerateNone || r.run.Tolerance == "" {
		return nil
	}
	o := deadletter.Options{
		Config: r.Kafka.Config, Topics: r.topics(), Suffix: r.DeadLetters, MaxDown: r.Kafka.MaxDown, Log: r.Log,
		Mark: r.meta(engine.MetaDeadLetters),
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
