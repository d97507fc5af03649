package trainer

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
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

// A SchemaKeeper has schemas, and lets them be kept; see package stream/schemas.
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

// Checkpoints say where and how often the state is stored. Each checkpoint is
// followed by a publication.
type Checkpoints struct {
	// Dir is their directory, which belongs to one job at a time; empty keeps
	// none.
	Dir string
	// Retain is the number to keep; 0 is 3.
	Retain int
	// Interval is the time, and Every the number of records, between
	// checkpoints. Interval 0 is 10 s, negative sets none; Every 0 sets none. One
	// is always written at the end.
	Interval time.Duration
	Every    uint64
}

// Models say where the model is published.
type Models struct {
	// Topic is the model topic; it is created, compacted, if it does not exist.
	// Empty publishes nothing.
	Topic string
	// Name of the model in the topic; empty is "model".
	Name string
	// FullEvery publishes a full model at least every so many times, between
	// them what has changed where that is less than half of it; 0 is 16.
	FullEvery int
	// MaxRecordBytes bounds a record; larger models are split. 0 is 900 KiB.
	MaxRecordBytes int
	// Alias is what stands for the champion that Options.Gate chooses; empty, and
	// without a gate, none is published.
	Alias string
	// Replace says to replace a model in the topic that does not come from the
	// job's checkpoints.
	Replace bool
	// SigningKey, if not nil, signs every version.
	SigningKey ed25519.PrivateKey
}

// Result says how a run ended, and what has been learned.
type Result struct {
	State
	// Ended: the stream has ended. Otherwise the run was stopped, and can go on.
	Ended bool
	// Version is the version of the model published last.
	Version uint64
}

// ForeignModelError says that the model topic holds a model that does not come
// from the job's checkpoints, so that subscribers would not take those of the
// job for newer.
type ForeignModelError struct {
	Topic, Model string
	Version      uint64           // of the model there; 0: none has been published
	Claim        modeltopic.Claim // who has published it
}

func (e *ForeignModelError) Error() string {
	by := ""
	if e.Claim.By != "" {
		by = fmt.Sprintf(": it was claimed by %s at %s", e.Claim.By, e.Claim.At.Format(time.RFC3339))
	}
	return fmt.Sprintf("topic %s holds version %d (epoch %d) of model %s, which does not come from these checkpoints%s", e.Topic, e.Version, e.Claim.Epoch, e.Model, by)
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
//     it reads anything, and then finds out what a Discovery is for.
//
// The errors are *OptionError, *StateError, *ForeignModelError,
// *TopicReplacedError, *modeltopic.FencedError or one wrapping
// checkpoint.ErrFenced if another run has taken over, a *stream.RecordError if a
// record is not tolerated, a *stream.DeadError if too many are not what they
// should be, a *stream.OneLabelError if a stream has ended in which no two labels
// differ, and those of the packages that read, store and publish. Nothing is
// published while no two labels differ.
func Run(ctx context.Context, job Job) (res Result, err error) {
	r := &run{Job: job}
	defer func() {
		for _, c := range slices.Backward(r.closers) {
			err = errors.Join(err, c())
		}
	}()
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
	store  *checkpoint.Store
	models *modeltopic.Publisher
	// closers end what start has opened, the last one first.
	closers []func() error
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
	if r.run.Store != nil && r.snap == nil && len(r.run.Start) > 0 {
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

// openStore looks at the checkpoints' directory.
func (r *run) openStore(context.Context) (err error) {
	if r.Checkpoints.Dir != "" {
		r.store, err = checkpoint.Open(r.Checkpoints.Dir, checkpoint.Options{Retain: r.Checkpoints.Retain, Log: r.Log})
	}
	return err
}

// load claims the checkpoints and restores the newest.
func (r *run) load(ctx context.Context) (err error) {
	if r.store == nil {
		return nil
	}
	if _, err := r.store.Claim(ctx); err != nil {
		return err
	}
	r.run.Store = r.store
	r.run.Check = r.check
	if r.snap, err = r.store.Load(); err != nil || r.snap == nil {
		return err
	}
	h := r.snap.Header
	if r.Schemas != nil {
		if err := r.Schemas.Restore(r.meta(engine.MetaSchemas)); err != nil {
			return &StateError{err}
		}
	}
	if r.Discovery != nil && h.Examples == 0 {
		return nil // the checkpoint is of before anything was found out
	}
	if r.Discovery != nil {
		if was, now := r.meta(metaGiven), r.Discovery.Given(); was != now && r.meta(engine.MetaSchema) != "" {
			return &StateError{fmt.Errorf("checkpoint of %d examples: of its events was said %q, now %q", h.Examples, was, now)}
		}
		if err := r.decoders(r.Discovery.Known(r.meta(engine.MetaLabels), r.meta(engine.MetaSchema))); err != nil {
			return err
		}
	}
	if err := restore(r.e, r.snap); err != nil {
		return err
	}
	r.run.Version = h.ModelVersion
	r.Log.Info("going on from a checkpoint", "examples", h.Examples, "state_hash", fmt.Sprintf("%016x", h.StateHash))
	return nil
}

// check fails if another run has taken over.
func (r *run) check(ctx context.Context) error {
	err := r.store.Check()
	if err == nil && r.models != nil {
		err = r.models.Check(ctx)
	}
	var fenced *modeltopic.FencedError
	if errors.Is(err, checkpoint.ErrFenced) || errors.As(err, &fenced) {
		return err
	}
	if err != nil { // what must be known will be found out when something is stored
		r.Log.Debug("not known whether another run has taken over", "err", err)
	}
	return nil
}

// meta returns what the checkpoint keeps under a name, or "".
func (r *run) meta(name string) string {
	if r.snap != nil {
		for _, kv := range r.snap.Header.Meta {
			if kv[0] == name {
				return kv[1]
			}
		}
	}
	return ""
}

// openModels looks at the model topic, before anything is claimed.
func (r *run) openModels(ctx context.Context) (err error) {
	if r.Models.Topic == "" {
		return nil
	}
	if r.Open == nil { // nothing is created for a run that has nothing to read
		if _, err := kafkaio.Partitions(ctx, r.Kafka.Config, r.topics(), r.Kafka.TopicWait, r.Kafka.MaxDown); err != nil {
			return err
		}
	}
	r.models, err = modeltopic.NewPublisher(ctx, modeltopic.PublisherOptions{
		Config: r.Kafka.Config, Topic: r.Models.Topic, Model: r.Models.Name, MaxRecordBytes: r.Models.MaxRecordBytes, SigningKey: r.Models.SigningKey, MaxDown: r.Kafka.MaxDown,
		DeltaRing: max(r.Models.FullEvery, modeltopic.DefaultDeltaRing), // or compaction would drop deltas that are needed
	})
	if err != nil {
		return err
	}
	r.closers = append(r.closers, r.models.Close)
	// The directory is claimed before the model. So, looked at in this order, it
	// knows of every claim of another run on it.
	id, epoch, err := r.store.Last()
	if err != nil {
		return err
	}
	if c, _ := r.models.Last(); c.Foreign(id, epoch) {
		return r.foreign()
	}
	return nil
}

// foreign returns the error about a model in the topic that does not come from
// the checkpoints, unless it is to be replaced.
func (r *run) foreign() error {
	if r.Models.Replace {
		return nil
	}
	c, version := r.models.Last()
	return &ForeignModelError{Topic: r.Models.Topic, Model: r.Models.Name, Version: version, Claim: c}
}

// claimModels makes this run the one that publishes the model, and publishes the
// checkpoint's again.
func (r *run) claimModels(ctx context.Context) error {
	if r.models == nil {
		return nil
	}
	c, version := r.models.Last()
	if version > 0 && (r.snap == nil || c.Epoch >= r.store.Epoch()) {
		if err := r.foreign(); err != nil {
			return err
		}
	}
	if c.Owner != r.store.ID() {
		r.run.Version = max(r.run.Version, version)
	}
	if c.Epoch >= r.store.Epoch() {
		if _, err := r.store.ClaimAbove(ctx, c.Epoch); err != nil {
			return err
		}
	}
	if err := r.models.Claim(ctx, r.store.ID(), r.store.Epoch()); err != nil {
		return err
	}
	r.run.Publisher = r.models
	if err := r.champions(ctx); err != nil {
		return err
	}
	r.closers = append(r.closers, func() error { return r.release(ctx) })
	if r.snap == nil {
		return nil
	}
	if err := engine.Republish(ctx, r.e, r.run, r.snap.Header); err != nil {
		return err
	}
	return engine.Repromote(ctx, r.e, &r.run)
}

// release gives up the claim of a run that ends and has published nothing.
func (r *run) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseFor)
	defer cancel()
	if err := r.models.Release(ctx); err != nil {
		r.Log.Warn("the claim on the model is not given up: a trainer of other checkpoints must replace it", "model", r.Models.Name, "err", err)
	}
	return nil
}

// releaseFor bounds how long an end waits for a claim to be given up.
const releaseFor = 5 * time.Second

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
		o.ID, o.Owned = r.store.ID(), r.store.Check
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
