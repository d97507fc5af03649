package trainer

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/stream/statetopic"
)

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

// openModels looks at the model topic, before anything is claimed.
func (r *run) openModels(ctx context.Context) (err error) {
	if r.Models.Topic == "" {
		return nil
	}
	if err := r.waitInput(ctx); err != nil {
		return err
	}
	o := modeltopic.PublisherOptions{
		Config: r.Kafka.Config, Topic: r.Models.Topic, Model: r.Models.Name, MaxRecordBytes: r.Models.MaxRecordBytes, SigningKey: r.Models.SigningKey, MaxDown: r.Kafka.MaxDown,
		DeltaRing: max(r.Models.FullEvery, modeltopic.DefaultDeltaRing), // or compaction would drop deltas that are needed
	}
	if s, ok := r.store.(*statetopic.Store); ok {
		o.Writer = s.Writer()
	}
	if r.models, err = modeltopic.NewPublisher(ctx, o); err != nil {
		return err
	}
	r.closers = append(r.closers, r.models.Close)
	// The directory is claimed before the model. So, looked at in this order, it
	// knows of every claim of another run on it.
	id, epoch, err := r.store.Last()
	var lost *checkpoint.EpochError
	if err != nil && !errors.As(err, &lost) {
		return err
	}
	if c, _ := r.models.Last(); c.Foreign(id, epoch) {
		if lost != nil && !r.Models.Replace {
			return lost // it is not known whether the model comes from these checkpoints
		}
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
	if err := r.champions(ctx); err != nil {
		return err
	}
	if err := r.models.Claim(ctx, r.store.ID(), r.store.Epoch()); err != nil {
		return err
	}
	r.run.Publisher = r.models
	if s, ok := r.store.(*statetopic.Store); ok {
		r.run.SaveAndPublish = func(ctx context.Context, snap *checkpoint.Snapshot, u *stream.Update) (string, error) {
			e, err := r.models.Prepare(u)
			if err != nil {
				return "", err
			}
			return s.SaveWith(ctx, snap, e)
		}
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

// champions says where champions are published. It aborts a promotion that a run left
// unfinished when it died, because a claim on the model would wait for it.
func (r *run) champions(ctx context.Context) error {
	if r.Gate == "" || r.Models.Alias == "" {
		return nil
	}
	p, err := modeltopic.NewAliasWriter(ctx, modeltopic.AliasOptions{
		Config: r.Kafka.Config, Topic: r.Models.Topic, Model: r.Models.Name, Alias: r.Models.Alias, MaxRecordBytes: r.Models.MaxRecordBytes, SigningKey: r.Models.SigningKey, MaxDown: r.Kafka.MaxDown,
	})
	if err != nil {
		return err
	}
	r.closers = append(r.closers, p.Close)
	if err := p.Undo(ctx); err != nil {
		return err
	}
	r.run.Champions = engine.Champions{Promoter: p, Alias: r.Models.Alias}
	return r.e.Resume(r.meta(engine.MetaGate))
}
