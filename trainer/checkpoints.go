package trainer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/topiclog"
)

// Checkpoints say where and how often the state is stored. Each checkpoint is
// followed by a publication.
type Checkpoints struct {
	// Dir is the checkpoint directory, which belongs to one job at a time; empty
	// stores no checkpoints. kafka://TOPIC stores them in a compacted topic
	// instead, under the key Models.Name. The topic is created if it does not
	// exist, and keeps two checkpoints. This needs an import of package
	// contrib/statetopic.
	Dir string
	// FS is the file system of Dir; nil is the operating system's.
	FS checkpoint.FS
	// Retain is the number of checkpoints to keep in a directory; 0 is 3.
	Retain int
	// Interval is the time, and Every the number of records, between checkpoints.
	// Interval 0 is 10 s, negative sets no limit; Every 0 sets no limit. A last
	// checkpoint is always written at the end.
	Interval time.Duration
	Every    uint64
	// Restart starts over: the checkpoints are not loaded but overwritten before
	// anything is read, and the model in the topic is replaced, whoever has published
	// it. Version numbers continue. A run that ends before it has overwritten the
	// checkpoints leaves them as they were.
	Restart bool
}

// store holds checkpoints: a directory or a topic.
type store interface {
	engine.Store
	Last() (id string, epoch uint64, err error)
	Claim(ctx context.Context) (epoch uint64, err error)
	ClaimAbove(ctx context.Context, above uint64) (epoch uint64, err error)
	Load() (*checkpoint.Snapshot, error)
	ID() string
}

// openStore opens the checkpoints, without claiming them.
func (r *run) openStore(ctx context.Context) error {
	topic, ok := topiclog.StateTopic(r.Checkpoints.Dir)
	switch {
	case ok:
		return r.openStateTopic(ctx, topic)
	case r.Checkpoints.Dir != "":
		s, err := checkpoint.Open(r.Checkpoints.Dir, checkpoint.Options{Retain: r.Checkpoints.Retain, FS: r.Checkpoints.FS, Log: r.Log})
		if err != nil {
			return err
		}
		r.store, r.owned = s, func(context.Context) error { return s.Check() }
	}
	return nil
}

// openStateTopic opens the checkpoint topic. With a model topic, checkpoints are
// written under the model's transactional id, so that a run that takes over one of them
// takes over both.
func (r *run) openStateTopic(ctx context.Context, topic string) error {
	if topiclog.OpenStates == nil {
		return &OptionError{"Checkpoints", "", errors.New("this build keeps no checkpoints in topics: package contrib/statetopic was not imported")}
	}
	if err := r.waitInput(ctx); err != nil {
		return err
	}
	o := topiclog.StateOptions{Config: r.Kafka.Config, Topic: topic, Name: r.Models.Name, MaxRecordBytes: r.Models.MaxRecordBytes, MaxDown: r.Kafka.MaxDown}
	o.Log = r.Log
	if r.Models.Topic != "" {
		o.ID = modeltopic.TransactionalID(r.Models.Topic, r.Models.Name)
	}
	s, err := topiclog.OpenStates(ctx, o)
	if err != nil {
		return err
	}
	r.closers = append(r.closers, s.Close)
	r.store, r.owned = s, s.Check
	return nil
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
	if s, ok := r.store.(topiclog.States); ok {
		r.run.SaveAndPublish = r.saveIn(s)
	}
	r.run.Check = r.check
	if r.snap, err = r.store.Load(); r.Checkpoints.Restart {
		r.snap = nil
		return nil
	}
	if err != nil || r.snap == nil {
		return err
	}
	h := r.snap.Header
	if h.Examples == 0 {
		// Nothing has been learned under the settings of that run. It may have
		// failed on its first record and been corrected since, so only the start
		// positions in its checkpoint are used.
		if r.Open == nil {
			maps.DeleteFunc(h.Offsets, func(p stream.Partition, _ int64) bool { return !slices.Contains(r.topics(), p.Topic) })
		}
		return nil
	}
	if r.Schemas != nil {
		if err := r.Schemas.Restore(meta(r.snap, engine.MetaSchemas)); err != nil {
			return &StateError{err}
		}
	}
	if r.Discovery != nil {
		if err := sameEvents(r.snap, r.Discovery); err != nil {
			return err
		}
		if err := r.decoders(r.Discovery.Known(meta(r.snap, engine.MetaLabels), meta(r.snap, engine.MetaSchema))); err != nil {
			return err
		}
	}
	if err := restore(r.e, r.snap); err != nil {
		return err
	}
	r.run.Version = h.ModelVersion
	for _, hook := range r.Hooks {
		if hook, ok := hook.(HookResumed); ok {
			hook.Resumed(h)
		}
	}
	r.Log.Info("continuing from a checkpoint", "examples", h.Examples, "state_hash", fmt.Sprintf("%016x", h.StateHash))
	return nil
}

// saveIn returns a function that stores a snapshot in a topic, together with the update
// and the records that belong to it, in one transaction.
func (r *run) saveIn(s topiclog.States) func(context.Context, *checkpoint.Snapshot, *stream.Update, []stream.Record) (string, error) {
	return func(ctx context.Context, snap *checkpoint.Snapshot, u *stream.Update, recs []stream.Record) (string, error) {
		if u == nil {
			return s.SaveWith(ctx, snap, recs)
		}
		e, err := r.models.Prepare(u)
		if err != nil {
			return "", err
		}
		return s.SaveWith(ctx, snap, recs, e)
	}
}

// check returns an error if another run has taken over. It takes at most checkFor.
func (r *run) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkFor)
	defer cancel()
	err := r.owned(ctx)
	if err == nil && r.models != nil {
		err = r.models.Check(ctx)
	}
	if errors.Is(err, checkpoint.ErrFenced) {
		return err
	}
	if err != nil { // storing something will show what is wrong
		r.Log.Debug("not known whether another run has taken over", "err", err)
	}
	return nil
}

// checkFor bounds a check: nothing can be found out while no broker answers.
const checkFor = 10 * time.Second
