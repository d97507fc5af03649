package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
)

// MetaRecording names the entry of a snapshot's header that holds the length of the
// recording at that snapshot.
const MetaRecording = "recording_bytes"

// MetaDeadLetters names the header entry that holds the dead letters' watermark.
const MetaDeadLetters = "dead_letters"

// MetaSchemas names the header entry that holds the schemas that records have referred to.
const MetaSchemas = "written_schemas"

// job is what persist does for one snapshot, in this order: flush the dead letters,
// confirm the snapshot, store it, publish the model (or both in one transaction,
// see RunConfig.SaveAndPublish), promote the champion, commit the offsets for lag
// displays.
//
// The order matters after a crash: a stored snapshot implies that its dead letters
// are durable, and the next run publishes the stored model again, so a publication
// that was lost is repeated.
type job struct {
	snap   *checkpoint.Snapshot // nil without a store
	update *stream.Update       // nil if the model has not changed
	// promote is nil if the champion has not changed.
	promote *promotion
	answers []stream.Record // to write with snap
	start   time.Time

	// version is update as subscribers decode it; set once update is published.
	version *promote.PublishedVersion
}

// snapshot copies the state and hands it to persist. It must not be called while a
// job is under way.
func (r *run) snapshot() error {
	r.doing = "taking a snapshot"
	// The time of the snapshot, not of its completion: otherwise a slow disk would
	// stretch the interval.
	r.last, r.lastConsumed = time.Now(), r.e.Counts().Consumed
	j := &job{start: r.last}
	var err error
	if r.Store == nil {
		err = r.e.Settle(r.after)
	} else {
		j.snap, err = r.e.Snapshot(r.after)
	}
	if err != nil {
		return err
	}
	if err := r.answer(); err != nil {
		return err
	}
	if n := len(r.e.answers.list); n > 0 {
		return fmt.Errorf("%d records have no prediction, which is a bug in this program", n)
	}
	j.answers, r.answers, r.answerBytes = r.answers, nil, 0
	if r.Publisher != nil {
		r.e.noteEarly()
		r.keepUp()
		u, err := r.update(r.e, r.Version+1, time.Now().UTC().Truncate(time.Millisecond))
		if err != nil {
			return err
		}
		// A model can change without a step, and so can its map to probabilities. A
		// restart publishes the checkpoint's model again, which must have the bytes
		// of the version that the checkpoint names.
		if u != nil && (r.e.steps != r.lastSteps || u.Hash != r.lastHash || r.ended || r.taken) {
			j.update = u
			r.Version++
			r.lastSteps, r.lastHash = r.e.steps, u.Hash
			if r.taken {
				r.e.promotion.Published(u.Version, u.Created)
				r.taken = false
			}
		}
		if one := r.e.OneLabel(); one != nil && !r.warned {
			r.warned = true
			r.Log.Warn("no model is published yet: " + one.Seen())
		}
	}
	if j.snap != nil {
		if err := r.complete(&j.snap.Header); err != nil {
			return err
		}
		if r.e.promotion != nil && r.Publisher != nil {
			j.snap.Header.Meta = append(j.snap.Header.Meta, [2]string{MetaGate, r.e.promotion.Meta()})
		}
	}
	if j.promote, err = r.promotion(r.e); err != nil {
		return err
	}
	if j.snap == nil && j.update == nil && j.promote == nil && r.DeadLetters == nil {
		return nil
	}
	// jobs has room for one and there is none under way, so this does not block
	// learning.
	r.current = j
	r.jobs <- j
	return nil
}

// finished ends the current job with its error. If it succeeded, its version is the one
// that subscribers use from then on.
func (r *run) finished(err error) error {
	j := r.current
	r.current = nil
	if err == nil && j != nil {
		r.e.adopt(j.version)
	}
	return err
}

// wait waits for the job under way, if there is one.
func (r *run) wait() error {
	if r.current == nil {
		return nil
	}
	return r.finished(<-r.saved)
}

// complete adds the entries of a header that only the run knows.
func (cfg *RunConfig) complete(h *checkpoint.Header) error {
	h.ModelVersion = cfg.Version
	for p, n := range cfg.Start {
		if _, ok := h.Offsets[p]; !ok {
			h.Offsets[p] = n
		}
	}
	h.Meta = append(h.Meta, cfg.Meta...)
	if cfg.Schemas != nil {
		h.Meta = append(h.Meta, [2]string{MetaSchemas, cfg.Schemas()})
	}
	if m, ok := cfg.DeadLetters.(Marker); ok {
		h.Meta = append(h.Meta, [2]string{MetaDeadLetters, m.Mark()})
	}
	if cfg.Recorder == nil {
		return nil
	}
	n, err := cfg.Recorder.Sync()
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	h.Meta = append(h.Meta, [2]string{MetaRecording, fmt.Sprint(n)})
	return nil
}

// SaveFirst stores a checkpoint before the first record. It fixes the positions at
// which the run begins, so that a restart begins at the same ones, however early
// this run ends.
func SaveFirst(ctx context.Context, e *Engine, cfg RunConfig) error {
	snap, err := e.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := cfg.complete(&snap.Header); err != nil {
		return err
	}
	if _, err := cfg.Store.Save(ctx, snap); err != nil {
		return fmt.Errorf("storing the state: %w", err)
	}
	return nil
}

// checkEvery is the interval at which a run checks whether another one has taken
// over.
const checkEvery = 5 * time.Second

// persist does the jobs while learning goes on. After a panic saved stays open, and
// the learning goroutine waits until the process ends.
func (r *run) persist() {
	defer crash.Recover(func() string { return r.persisting })
	r.doJobs()
	close(r.saved)
	close(r.persisted)
}

func (r *run) doJobs() {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case j, ok := <-r.jobs:
			if !ok {
				return
			}
			err := r.do(j)
			r.failed(err)
			r.saved <- err
		case <-tick.C:
			if r.Check == nil {
				continue
			}
			r.persisting = "checking whether another run has taken over"
			if err := r.Check(r.after); err != nil {
				r.failed(err)
				r.saved <- err
				tick.Stop()
			}
		}
	}
}

func (r *run) failed(err error) {
	if err != nil {
		tell(r.Hooks, func(h FailedHook) { h.Failed(err) })
	}
}

// errBroken ends a job because the learning goroutine has panicked.
var errBroken = errors.New("the run has panicked")

// step begins a step of a job, unless the learning goroutine has panicked: then the
// state may be inconsistent, and nothing more may be stored or published.
func (r *run) step(doing string) error {
	crash.Hold()
	r.persisting = doing
	if r.broken.Load() {
		return errBroken
	}
	return nil
}

func (r *run) do(j *job) error {
	r.persisting = "sending dead letters"
	if r.DeadLetters != nil {
		if err := r.DeadLetters.Flush(r.after); err != nil && r.Tolerance != TolerateAll {
			return fmt.Errorf("dead letters: %w", err)
		}
	}
	u := j.update
	if err := r.step("encoding the model"); err != nil {
		return err
	}
	if u != nil {
		u = r.deltas.next(u)
	}
	if j.snap != nil {
		if err := r.step(fmt.Sprintf("storing the checkpoint of %d examples", j.snap.Header.Examples)); err != nil {
			return err
		}
		if err := r.store(j, u); err != nil {
			return err
		}
	}
	if u != nil {
		if err := r.step(fmt.Sprintf("publishing version %d", u.Version)); err != nil {
			return err
		}
		if j.snap == nil || r.SaveAndPublish == nil {
			if err := r.publish(r.after, u); err != nil {
				return err
			}
		}
		r.deltas.published(j.update, u)
		j.version = r.e.readBack(j.update)
	}
	if j.promote != nil {
		if err := r.step("promoting the champion"); err != nil {
			return err
		}
		if err := r.promote(r.after, j.promote); err != nil {
			return err
		}
	}
	if err := r.step("committing offsets"); err != nil {
		return err
	}
	if c, ok := r.Source.(stream.Committer); ok && j.snap != nil {
		// Lag displays only: a failure must not stop the run.
		if err := c.Commit(r.after, j.snap.Header.Offsets); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			r.Log.Warn("offsets not committed; lag displays will be behind", "err", err)
		}
	}
	return nil
}

// store stores the snapshot of a job. With SaveAndPublish it also publishes u, which may
// be nil, and writes the answers, all in one transaction.
func (r *run) store(j *job, u *stream.Update) error {
	if r.Confirm != nil {
		if err := r.Confirm(r.after); err != nil {
			return err
		}
	}
	var place string
	var err error
	start := time.Now()
	joint := r.SaveAndPublish != nil
	if joint {
		place, err = r.SaveAndPublish(r.after, j.snap, u, j.answers)
	} else {
		place, err = r.Store.Save(r.after, j.snap)
	}
	if err != nil {
		return fmt.Errorf("storing the state: %w", err)
	}
	tell(r.Hooks, func(h CheckpointedHook) { h.Checkpointed(place, j.snap.Header, j.snap.Bytes, time.Since(j.start)) })
	if joint && u != nil {
		tell(r.Hooks, func(h PublishedHook) { h.Published(u, time.Since(start)) })
	}
	return nil
}
