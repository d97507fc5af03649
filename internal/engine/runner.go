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

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
)

// Tolerance says which failures of records a run survives; see trainer.Tolerance.
type Tolerance string

// The tolerances.
const (
	TolerateNone Tolerance = "none"
	TolerateData Tolerance = "data"
	TolerateAll  Tolerance = "all"
)

// DefaultMaxDead is the default of RunConfig.MaxDead.
const DefaultMaxDead = 0.5

// Recorder keeps a log of the records consumed.
type Recorder interface {
	Write(rec *stream.Record) error
	// Sync makes everything written so far durable and returns the length of the log.
	Sync() (int64, error)
}

// DeadLetters receives the records that could not be used.
type DeadLetters interface {
	Send(ctx context.Context, rec *stream.Record, why *stream.RecordError) error
	// Flush returns when everything sent is durable.
	Flush(ctx context.Context) error
}

// Store keeps snapshots; see checkpoint.Store.
type Store interface {
	Save(ctx context.Context, snap *checkpoint.Snapshot) (place string, err error)
	// Epoch is the epoch of the claim under which snapshots are stored.
	Epoch() uint64
}

// Marker is implemented by DeadLetters that can tell after a restart which letters
// they have sent already. Mark returns the watermark to keep in a checkpoint. It is
// called for each snapshot, when the letters of all records before the snapshot have
// been sent, and of none after it. The Flush that follows, before the checkpoint is
// stored, may prepare the next watermark.
type Marker interface {
	Mark() string
}

// RunConfig says where the records of a run come from and where its results go.
// Nothing in it affects the state.
type RunConfig struct {
	Source  stream.Source
	First   []stream.Record // first records of Source, fetched already
	Decoder stream.Decoder
	// Labels decodes the records of the label topic into Y, Labelled and ID. It is
	// required if the engine joins.
	Labels stream.Decoder
	// Start has the first positions of partitions from which nothing has been
	// consumed yet. Checkpoints keep them besides the consumed positions, so that a
	// restart begins there too, whatever has been appended meanwhile.
	Start stream.Offsets
	// Meta is added to the headers of checkpoints.
	Meta [][2]string
	// Schemas, if not nil, returns the schemas that records have referred to, for the
	// checkpoint.
	Schemas func() string
	// Store, Publisher, Recorder and DeadLetters may be nil.
	Store       Store
	Publisher   stream.Publisher
	Recorder    Recorder
	DeadLetters DeadLetters
	// SaveAndPublish, if not nil, stores a snapshot, publishes its update, which may be
	// nil, and writes the records atomically.
	SaveAndPublish func(ctx context.Context, snap *checkpoint.Snapshot, u *stream.Update, recs []stream.Record) (place string, err error)
	// Answer, if not nil, makes the record to write for a prediction. version is the
	// model version at the previous checkpoint, so that a restart makes the same record.
	// SaveAndPublish writes these records with the next checkpoint.
	Answer func(a *Answer, version uint64) (stream.Record, error)
	// Model is the name under which updates are published, Version the version
	// of the last one published.
	Model   string
	Version uint64
	// FullEvery > 1 publishes deltas if they are at most 4/5 as large as a full
	// update, with a full update at least every FullEvery updates. The first update
	// of a run is full. This keeps the last payload in memory.
	FullEvery int
	// Confirm, if not nil, is called before each checkpoint is stored to check that
	// the records read since the last one belong to the stream. An error ends the
	// run and leaves the checkpoints as they were.
	Confirm func(ctx context.Context) error
	// Check, if not nil, is called every few seconds to find out whether another
	// run has taken over; its error ends this one.
	Check func(ctx context.Context) error
	// Tolerance defaults to TolerateNone.
	Tolerance Tolerance
	// MaxDead ends a tolerant run when more than this share of the latest records
	// cannot be used, see trainer.Job; 0 is DefaultMaxDead.
	MaxDead float64
	// Champions says where the champions of a gate are published.
	Champions Champions
	// SkipTombstones skips records without a value.
	SkipTombstones bool
	// CheckpointInterval and CheckpointEvery are the longest time and the largest
	// number of records between checkpoints; 0 means no limit.
	CheckpointInterval time.Duration
	CheckpointEvery    uint64
	// QueueRecords and QueueBytes bound how far ingest runs ahead: in records,
	// default 16,384, and in bytes of their values, default 64 MiB. A larger record
	// is queued alone.
	QueueRecords int
	QueueBytes   int64
	// ShutdownTimeout bounds the time that a run may take after its context has
	// ended, default 25 s.
	ShutdownTimeout time.Duration
	// Stop leaves the learner unfinished when a bounded stream ends.
	Stop bool
	// Hooks are notified of events, see StartedHook and the other hook types.
	Hooks []any
	Log   *slog.Logger

	// budget is the requested share of a sifted stream; 0 stands for all of it.
	budget float64
}

// Result says how a run ended.
type Result struct {
	// Ended: the stream ended and the learner was finished. Otherwise the run was
	// stopped and can be resumed.
	Ended bool
	// Version is the version of the last update published.
	Version uint64
}

// Run feeds e from cfg.Source until the stream ends, ctx ends, or something fails.
// When ctx ends, it consumes the rest of the decoded batch, writes a last
// checkpoint, publishes, and returns a Result without an error.
func Run(ctx context.Context, e *Engine, cfg RunConfig) (Result, error) {
	if cfg.QueueRecords <= 0 {
		cfg.QueueRecords = 16384
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
	if cfg.MaxDead == 0 {
		cfg.MaxDead = DefaultMaxDead
	}

	if cfg.Answer != nil && (cfg.Store == nil || cfg.SaveAndPublish == nil) {
		return Result{}, errors.New("answers are written with checkpoints in a topic, and there are none")
	}
	if e.cfg.Join.Used() && cfg.Labels == nil {
		return Result{}, errors.New("no decoder is given for labels that come later")
	}
	if err := e.setMissing(ctx, cfg.Labels); err != nil {
		return Result{}, err
	}

	// Work that goes on after ctx has ended, up to the shutdown timeout, uses
	// after; work that would be pointless then uses ctx.
	after, cancelAfter := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelAfter()
	stopTimer := context.AfterFunc(ctx, crash.Func(func() {
		t := time.AfterFunc(cfg.ShutdownTimeout, crash.Func(cancelAfter))
		context.AfterFunc(after, crash.Func(func() { t.Stop() }))
	}))
	defer stopTimer()

	r := &run{
		RunConfig: cfg, e: e, after: after,
		in:   newIngest(cfg.Source, cfg.Decoder, cfg.QueueRecords, cfg.QueueBytes, cfg.Recorder != nil || cfg.DeadLetters != nil || cfg.Answer != nil),
		jobs: make(chan *job, 1), saved: make(chan error, 1), persisted: make(chan struct{}),
		last:   time.Now(),
		deltas: deltas{every: cfg.FullEvery},
	}
	r.in.joinLabels(e.cfg.Join, cfg.Labels)
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

	e.noteEarly()
	e.decoder = cfg.Decoder
	if cfg.Publisher == nil && e.cfg.PublishEvery == 0 {
		e.published = nil
	}
	tell(cfg.Hooks, func(h ScoredHook) { e.scored = h.Scored })
	tell(cfg.Hooks, func(h TuningHook) { e.tuning = h.Tuning })
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
		if !returned { // a panic, which the caller may recover from
			r.broken.Store(true)
			stopIngest()
			cancelAfter()
			close(r.jobs)
			select { // wait, since the caller closes what persist may be writing to
			case <-r.persisted:
			case <-time.After(cfg.ShutdownTimeout): // or the panic would go unnoticed
			}
		}
	}()
	defer crash.Recover(r.learning)

	err = r.loop(ctx)
	stopIngest()
	for range r.in.queue { // drain, so that ingest can end
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
	current   *job // the current job, or nil

	deltas     deltas // used on the persisting goroutine
	persisting string // what that goroutine is doing, for crash reports

	doing  string      // what the learning goroutine is doing, for crash reports
	broken atomic.Bool // the learning goroutine has panicked

	last         time.Time // time of the last checkpoint
	lastConsumed uint64
	lastSteps    uint64 // steps at the last version
	lastHash     uint64 // hash of its payload
	began        uint64 // records consumed before this run
	ended        bool
	warned       bool // the log says that no model is published yet

	taken bool // the gate has taken a challenger that has no version yet

	newest time.Time // time of the newest record consumed
	waited int64     // records still waiting at the last version

	answers     []stream.Record // since the last checkpoint
	answerBytes int

	dead []*stream.RecordError // the latest refused records, as far as this run has seen them
}

// learning describes for a crash report what the learning goroutine is doing and
// how far it has come. The record named is the last one consumed: examples are
// learned in blocks.
func (r *run) learning() string {
	if p, offset, ok := r.e.currentRecord(); ok {
		return fmt.Sprintf("%s, the last record being %v offset %d", r.doing, p, offset)
	}
	return r.doing
}

// errStop is an error in the stream. The state up to that point is sound, and is stored.
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
			if err := r.finished(err); err != nil {
				return err
			}
		case <-tick.C:
			// The stream is idle: finish pending work, so that publications and
			// displays are current.
			r.doing = "learning"
			if err := r.e.Settle(r.after); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
		tell(r.Hooks, func(h ConsumedHook) { h.Consumed(r.e, r.in.depth.Load()) })
		if r.answerBytes >= maxAnswerBytes {
			if err := r.wait(); err != nil {
				return err
			}
		}
		if err := r.snapshotDue(); err != nil {
			return err
		}
	}
}

// snapshotDue takes a snapshot if one is due and the one before has been stored. Within a batch
// too, since those of a backlog are large: a trainer that catches up publishes nearly as many
// versions as one that keeps up.
func (r *run) snapshotDue() error {
	select {
	case err := <-r.saved:
		if err := r.finished(err); err != nil {
			return err
		}
	default:
	}
	if r.current != nil || !r.due() {
		return nil
	}
	return r.snapshot()
}

func (r *run) due() bool {
	consumed, last, every := r.e.Counts().Consumed, r.lastConsumed, r.CheckpointEvery
	if consumed == last {
		return false
	}
	if r.e.cfg.VersionEvery > 0 && every > 0 { // at multiples, where the learner expects versions
		last -= last % every
	}
	return r.early() || r.changed(r.e) || r.answerBytes >= maxAnswerBytes ||
		every > 0 && consumed-last >= every ||
		r.CheckpointInterval > 0 && time.Since(r.last) >= r.CheckpointInterval
}

// early reports whether a version is due because the stream has changed: at once if the learner
// knows the interval between versions, otherwise after a tenth of the time between them.
func (r *run) early() bool {
	if r.Publisher == nil || r.e.promotion != nil || !r.e.early() {
		return false
	}
	return r.e.cfg.VersionEvery > 0 || r.CheckpointInterval > 0 && time.Since(r.last) >= r.CheckpointInterval/10
}

// consume passes a batch to the engine.
func (r *run) consume(b *batch) error {
	done := 0
	r.doing = "learning"
	r.e.refused = func(i int, why *stream.RecordError) error { return r.refuse(b, done+i, why) }
	if r.Answer != nil {
		r.e.answers.of = func(i int) stream.Record {
			rec := b.records[done+i]
			rec.Value, rec.Key = nil, slices.Clone(rec.Key) // both share memory with other records
			return rec
		}
	}
	b.lent = r.e.borrow()
	defer func() { r.e.refused, r.e.lent, r.e.answers.of = nil, false, nil }()
	for {
		part := b.items[done:]
		if every := uint64(r.e.cfg.VersionEvery); every > 0 && !b.lent {
			at := r.e.Counts().Consumed % every
			next := every - at
			if _, early := r.e.learner.(algos.Publisher); early {
				next = min(next, algos.EarlyAfter(every)-at%algos.EarlyAfter(every))
			}
			part = part[:min(uint64(len(part)), next)]
		}
		n, err := r.e.Consume(r.after, part)
		if r.Recorder != nil {
			for i := range n {
				if err := r.Recorder.Write(&b.records[done+i]); err != nil {
					return fmt.Errorf("recording: %w", err)
				}
			}
		}
		if done += n; err == nil && done == len(b.items) && b.lent {
			err = r.e.flush(r.after)
		}
		if err != nil || done == len(b.items) {
			return errors.Join(err, r.answer())
		}
		if n < len(part) {
			err = r.publishChallenger()
		} else if err = r.e.Settle(r.after); err == nil {
			err = r.snapshotDue()
		}
		if err != nil {
			return err
		}
	}
}

// maxAnswerBytes bounds the answers that wait for a checkpoint: at this size one is due.
const maxAnswerBytes = 16 << 20

// answer makes the records for the answers that are complete.
func (r *run) answer() error {
	for _, a := range r.e.takeAnswers() {
		rec, err := r.Answer(a, r.Version)
		if err != nil {
			return fmt.Errorf("the prediction for %v offset %d: %w", stream.Partition{Topic: a.Record.Topic, ID: a.Record.Partition}, a.Record.Offset, err)
		}
		r.answers = append(r.answers, rec)
		r.answerBytes += len(rec.Key) + len(rec.Value)
	}
	return nil
}

// refuse handles record i of b, which cannot be used.
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

// deadError says how many of the latest records cannot be used and gives the most
// frequent reason, as far as this run has seen them.
func (r *run) deadError(dead, of int) *stream.DeadError {
	err := &stream.DeadError{Dead: dead, Records: of}
	type kind struct {
		stage  stream.Stage
		reason stream.Reason
	}
	n := map[kind]int{}
	for _, why := range slices.Backward(r.dead) { // backwards, so that the example given is the earliest of the most frequent kind
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
		// There is nothing new since the learner was finished, or there are no
		// examples at all: a warm-up without examples would fix scale and options
		// for all later ones.
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

// fail completes a run that cannot continue. If the state is sound, it is stored.
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

// final waits for the job in progress and writes the last snapshot.
func (r *run) final() error {
	if err := r.wait(); err != nil {
		return err
	}
	return r.snapshot()
}
