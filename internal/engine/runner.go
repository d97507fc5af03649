package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
)

// Tolerance says what to do about records that cannot be used; see
// trainer.Tolerance.
type Tolerance string

// The tolerances.
const (
	TolerateNone Tolerance = "none"
	TolerateData Tolerance = "data"
	TolerateAll  Tolerance = "all"
)

// DefaultMaxDead is what RunConfig.MaxDead is by default.
const DefaultMaxDead = 0.5

// Recorder keeps a log of the records consumed.
type Recorder interface {
	Write(rec *stream.Record) error
	// Sync makes everything written so far durable and returns how long the
	// log then is.
	Sync() (int64, error)
}

// DeadLetters takes the records that could not be used.
type DeadLetters interface {
	Send(ctx context.Context, rec *stream.Record, why *stream.RecordError) error
	// Flush returns when everything sent is durable.
	Flush(ctx context.Context) error
}

// Store keeps snapshots; see checkpoint.Store.
type Store interface {
	Save(ctx context.Context, snap *checkpoint.Snapshot) (place string, err error)
	// Epoch is that of the claim under which the snapshots are kept.
	Epoch() uint64
}

// Marker is implemented by DeadLetters that recognise after a restart what they
// have sent before. Mark returns what a checkpoint must keep for that. It is
// called for each snapshot, when letters about the records up to there have
// been sent and none about those behind it. The Flush that follows, before the
// checkpoint is stored, may prepare the mark of the next one.
type Marker interface {
	Mark() string
}

// RunConfig says where a run's records come from and where its results go.
// Nothing in it influences the state.
type RunConfig struct {
	Source  stream.Source
	First   []stream.Record // of Source, read already
	Decoder stream.Decoder
	// Labels decodes the records of the topic of labels, into Y, Labelled and
	// ID. An engine that joins needs it. Labels and examples are joined by the
	// keys of the records, or where they have none by ID.
	Labels stream.Decoder
	// Start holds the first offsets of partitions from which nothing has been consumed
	// yet. Checkpoints keep them beside the offsets consumed up to. So a restart begins
	// there too, whatever has been appended since.
	Start stream.Offsets
	// Meta is added to the headers of checkpoints.
	Meta [][2]string
	// Schemas, if not nil, returns the schemas that records have referred to, which
	// checkpoints keep.
	Schemas func() string
	// Store, Publisher, Recorder and DeadLetters may be nil.
	Store       Store
	Publisher   stream.Publisher
	Recorder    Recorder
	DeadLetters DeadLetters
	// SaveAndPublish, if not nil, stores a snapshot and publishes the update made
	// with it, both or neither.
	SaveAndPublish func(ctx context.Context, snap *checkpoint.Snapshot, u *stream.Update) (place string, err error)
	// Model is the name under which updates are published, Version the version
	// of the last one published.
	Model   string
	Version uint64
	// FullEvery, if larger than 1, publishes deltas where they are at most half
	// as large as fulls, and a full at least every so many updates. The first
	// update of a run is a full. The payload published last is then kept.
	FullEvery int
	// Confirm, if not nil, is called before each checkpoint is stored. It checks that the
	// records read since the last one belong to the stream. An error ends the run and
	// leaves the checkpoints as they were.
	Confirm func(ctx context.Context) error
	// Check, if not nil, is called every few seconds. Its error, that another run has
	// taken over, ends this one.
	Check func(ctx context.Context) error
	// Tolerance defaults to TolerateNone.
	Tolerance Tolerance
	// MaxDead ends a run that tolerates records when more than this share of the
	// latest ones cannot be used, see trainer.Job; 0 is DefaultMaxDead.
	MaxDead float64
	// Champions says where champions are published.
	Champions Champions
	// SkipTombstones passes over records without a value.
	SkipTombstones bool
	// CheckpointInterval and CheckpointEvery say how much time and how many
	// records may pass between checkpoints; 0 means no such limit.
	CheckpointInterval time.Duration
	CheckpointEvery    uint64
	// QueueRecords and QueueBytes bound how far ingest runs ahead, in records,
	// default 65,536, and in the bytes of their values, default 64 MiB. A record
	// that is larger goes alone.
	QueueRecords int
	QueueBytes   int64
	// ShutdownTimeout bounds what a run still does after its context has
	// ended, default 25 s.
	ShutdownTimeout time.Duration
	// Stop says not to finish the learner when a bounded stream ends.
	Stop bool
	// SiftTargetLag, where the stream is sifted, is how old the records consumed
	// may be before less of the stream is asked for; 0 is DefaultSiftTargetLag.
	SiftTargetLag time.Duration
	// Hooks follow what happens; see StartedHook and the interfaces beside it.
	Hooks []any
	Log   *slog.Logger

	// budget is the share of the stream that is asked for; 0 stands for all.
	budget float64
}

// Result says how a run ended.
type Result struct {
	// Ended: the stream ended and the learner was finished. Otherwise the run
	// was stopped and can go on.
	Ended bool
	// Version is the version of the last update published.
	Version uint64
}

// Run feeds e from cfg.Source until the stream ends, ctx ends, or something
// fails. When ctx ends it consumes what has been decoded of the present batch,
// writes a last checkpoint, publishes, and returns a Result without an error.
func Run(ctx context.Context, e *Engine, cfg RunConfig) (Result, error) {
	if cfg.QueueRecords <= 0 {
		cfg.QueueRecords = 65536
	}
	if cfg.QueueBytes <= 0 {
		cfg.QueueBytes = 64 << 20
	}
	if cfg.ShutdownTimeout <= 0 {
		cfg.ShutdownTimeout = 25 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Tolerance == "" {
		cfg.Tolerance = TolerateNone
	}
	if cfg.SiftTargetLag == 0 {
		cfg.SiftTargetLag = DefaultSiftTargetLag
	}
	if cfg.MaxDead == 0 {
		cfg.MaxDead = DefaultMaxDead
	}

	if e.cfg.Join.Topic != "" && cfg.Labels == nil {
		return Result{}, errors.New("no decoder is given for labels on a topic of their own")
	}

	// What goes on after ctx has ended, up to the shutdown timeout, runs under
	// after; what only makes sense before, under ctx.
	after, cancelAfter := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelAfter()
	stopTimer := context.AfterFunc(ctx, crash.Func(func() {
		t := time.AfterFunc(cfg.ShutdownTimeout, crash.Func(cancelAfter))
		context.AfterFunc(after, crash.Func(func() { t.Stop() }))
	}))
	defer stopTimer()

	r := &run{
		RunConfig: cfg, e: e, after: after,
		in:   newIngest(cfg.Source, cfg.Decoder, cfg.QueueRecords, cfg.QueueBytes, cfg.Recorder != nil || cfg.DeadLetters != nil),
		jobs: make(chan *job, 1), saved: make(chan error, 1), persisted: make(chan struct{}),
		last:   time.Now(),
		deltas: deltas{every: cfg.FullEvery},
	}
	r.in.join, r.in.labels, r.in.labelsIn = e.cfg.Join.Topic != "", cfg.Labels, e.cfg.Join.Topic
	r.in.skip, r.in.first = cfg.SkipTombstones, cfg.First
	r.began = e.Counts().Consumed
	r.lastConsumed = r.began
	var err error
	if r.Version > 0 && r.Publisher != nil {
		u, err := r.update(e, r.Version, time.Time{})
		if err != nil {
			return Result{}, err
		}
		if u != nil {
			r.lastSteps, r.lastHash = e.steps, u.Hash
		}
	}

	e.decoder = cfg.Decoder
	tell(cfg.Hooks, func(h ScoredHook) { e.scored = h.Scored })
	if e.promotion != nil {
		e.promotion.Notify(
			func(d promote.Decision) { tell(cfg.Hooks, func(h DecidedHook) { h.Decided(d) }) },
			func(decision float64) { tell(cfg.Hooks, func(h ServedHook) { h.Served(decision) }) })
	}
	tell(cfg.Hooks, func(h StartedHook) { h.Started(e, cfg.Source) })
	inCtx, stopIngest := context.WithCancel(ctx)
	crash.Go(func() { r.in.run(inCtx) })
	crash.Go(r.persist)
	returned := false
	defer func() {
		if !returned { // a panic, which the caller may survive
			r.broken.Store(true)
			stopIngest()
			cancelAfter()
			close(r.jobs)
			select { // the caller closes what is being written to
			case <-r.persisted:
			case <-time.After(cfg.ShutdownTimeout): // or the panic would be hidden
			}
		}
	}()
	defer crash.Recover(r.learning)

	err = r.loop(ctx)
	stopIngest()
	for range r.in.queue { // let ingest end
	}
	if err == nil {
		err = r.end(ctx)
	} else {
		err = r.fail(err)
	}
	returned = true
	close(r.jobs)
	for e := range r.saved {
		err = errors.Join(err, e)
	}
	return Result{Ended: r.ended, Version: r.Version}, err
}

// run is the state of one Run.
type run struct {
	RunConfig
	e     *Engine
	after context.Context
	in    *ingest

	jobs  chan *job
	saved chan error // one for each job, closed at the end
	// persisted is closed when the persisting goroutine ends.
	persisted chan struct{}
	busy      bool // a job is under way

	deltas     deltas // on the persisting goroutine
	persisting string // what that is doing

	doing  string      // what the learning goroutine is doing
	broken atomic.Bool // it has panicked

	last         time.Time // of the last checkpoint
	lastConsumed uint64
	lastSteps    uint64 // at the version made last
	lastHash     uint64 // of its payload
	began        uint64 // records consumed before this run
	ended        bool
	warned       bool // that no model is published

	taken bool // a challenger has been taken that has no version yet

	newest time.Time // of the records consumed
	waited int64     // records behind it, at the last version

	dead []*stream.RecordError // the latest, as far as this run has seen them
}

// learning describes what the learning goroutine is doing, and how far it has come. An
// example may be learned together with later ones, up to the end of a block.
func (r *run) learning() string {
	if p, offset, ok := r.e.inHand(); ok {
		return fmt.Sprintf("%s, the last record being %v offset %d", r.doing, p, offset)
	}
	return r.doing
}

// errStop is an error of the stream. The state up to there is sound.
type errStop struct{ error }

func (r *run) loop(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case b, ok := <-r.in.queue:
			if !ok {
				if errors.Is(r.in.err, io.EOF) || ctx.Err() != nil {
					return nil
				}
				return r.in.err
			}
			r.in.depth.Add(-int64(len(b.items)))
			if err := r.consume(b); err != nil {
				return err
			}
			if !b.last.IsZero() {
				r.newest = b.last
			}
			r.in.recycle(b)
		case err := <-r.saved:
			r.busy = false
			if err != nil {
				return err
			}
		case <-tick.C:
			// An idle stream: finish the work at hand so that what is published
			// and displayed is up to date.
			r.doing = "learning"
			if err := r.e.Settle(r.after); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
		tell(r.Hooks, func(h ConsumedHook) { h.Consumed(r.e, r.in.depth.Load()) })
		if !r.busy && r.due() {
			if err := r.snapshot(); err != nil {
				return err
			}
		}
	}
}

func (r *run) due() bool {
	n := r.e.Counts().Consumed - r.lastConsumed
	if n == 0 {
		return false
	}
	return r.changed(r.e) ||
		r.CheckpointEvery > 0 && n >= r.CheckpointEvery ||
		r.CheckpointInterval > 0 && time.Since(r.last) >= r.CheckpointInterval
}

// consume passes a batch to the engine.
func (r *run) consume(b *batch) error {
	done := 0
	r.doing = "learning"
	r.e.refused = func(i int, why *stream.RecordError) error { return r.refuse(b, done+i, why) }
	b.lent = r.e.borrow()
	defer func() { r.e.refused, r.e.lent = nil, false }()
	for {
		n, err := r.e.Consume(r.after, b.items[done:])
		if r.Recorder != nil {
			for i := range n {
				if err := r.Recorder.Write(&b.records[done+i]); err != nil {
					return fmt.Errorf("recording: %w", err)
				}
			}
		}
		if done += n; err == nil && done == len(b.items) && b.lent {
			return r.e.flush(r.after)
		}
		if err != nil || done == len(b.items) {
			return err
		}
		if err := r.publishChallenger(); err != nil {
			return err
		}
	}
}

// refuse deals with record i of b, which cannot be used.
func (r *run) refuse(b *batch, i int, why *stream.RecordError) error {
	if r.Tolerance == TolerateNone {
		return errStop{why}
	}
	dead, of, over := r.e.overDead(r.MaxDead)
	r.dead = append(r.dead, why)
	r.dead = r.dead[max(0, len(r.dead)-dead):]
	if over {
		return errStop{r.deadError(dead, of)}
	}
	tell(r.Hooks, func(h DeadHook) { h.Dead(why) })
	r.Log.Debug("record refused", "err", why)
	if r.DeadLetters == nil {
		return nil
	}
	if err := r.DeadLetters.Send(r.after, &b.records[i], why); err != nil {
		if r.Tolerance != TolerateAll {
			return fmt.Errorf("dead letter: %w", err)
		}
		r.Log.Error("dead letter lost", "err", err, "record", why)
	}
	return nil
}

// deadError says that dead of the latest records cannot be used, and why most
// of them, as far as this run has seen them.
func (r *run) deadError(dead, of int) *stream.DeadError {
	err := &stream.DeadError{Dead: dead, Records: of}
	type kind struct {
		stage  stream.Stage
		reason stream.Reason
	}
	n := map[kind]int{}
	for _, why := range slices.Backward(r.dead) { // so that the example is the first of those that come last
		k := kind{why.Stage, why.Reason}
		if n[k]++; n[k] >= err.Alike {
			err.Alike, err.Example = n[k], why
		}
	}
	return err
}

// end completes a run whose stream or context has ended.
func (r *run) end(ctx context.Context) error {
	n := r.e.Counts()
	ended := ctx.Err() == nil && !r.Stop
	switch {
	case ended && r.e.noExample() && n.Dead > 0 && r.MaxDead < 1:
		return r.fail(errStop{r.deadError(int(n.Dead), int(r.e.judged()))})
	case ended && (n.Consumed == r.began && r.e.Finished() || n.Consumed == n.Tombstones && r.Store != nil):
		// Nothing new since the stream was finished, or nothing yet: a warm-up
		// without examples would fix scale and options for those that come later.
		r.ended = true
		if n.Consumed == r.began {
			return nil
		}
	case ended:
		r.doing = "finishing the optimisation"
		err := r.e.Finish(r.after)
		if one := (*stream.OneLabelError)(nil); errors.As(err, &one) {
			return r.fail(errStop{err})
		}
		if err != nil {
			return err
		}
		r.ended = true
	}
	defer tell(r.Hooks, func(h ConsumedHook) { h.Consumed(r.e, 0) })
	return r.final()
}

// fail completes a run that cannot go on: if the state is sound, it is kept.
func (r *run) fail(err error) error {
	sound := r.in.err != nil && errors.Is(err, r.in.err)
	if stop := (errStop{}); errors.As(err, &stop) {
		sound, err = true, stop.error
	}
	tell(r.Hooks, func(h FailedHook) { h.Failed(err) })
	if sound {
		return errors.Join(err, r.final())
	}
	return err
}

// final waits for the job under way and writes the final snapshot.
func (r *run) final() error {
	if r.busy {
		r.busy = false
		if err := <-r.saved; err != nil {
			return err
		}
	}
	return r.snapshot()
}
