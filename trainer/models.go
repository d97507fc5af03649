package trainer

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/topiclog"
)

// Models says where the model is published.
type Models struct {
	// Topic is the model topic, which is created, compacted, if it does not exist.
	// Empty publishes nothing.
	Topic string
	// Name is the name of the model in the topic; empty is "model".
	Name string
	// FullEvery publishes a full model at least every FullEvery updates. The others
	// are deltas if they are at most 4/5 as large; 0 is 16.
	FullEvery int
	// MaxRecordBytes bounds the size of a record; larger models are split. 0 is 900 KiB.
	MaxRecordBytes int
	// Alias is the alias of the champion that Options.Gate chooses; none is
	// published if it is empty or there is no gate.
	Alias string
	// Replace allows replacing a model in the topic that does not come from the job's
	// checkpoints.
	Replace bool
	// SigningKey, if not nil, signs every version.
	SigningKey ed25519.PrivateKey
}

// ForeignModelError says that the model topic holds a model that does not come from
// the job's checkpoints. Subscribers would not accept the job's models as newer.
type ForeignModelError struct {
	Topic, Model string
	Version      uint64           // of the model there; 0 if none has been published
	Claim        modeltopic.Claim // who published it
}

func (e *ForeignModelError) Error() string {
	by := ""
	if e.Claim.By != "" {
		by = fmt.Sprintf(": it was claimed by %s at %s", e.Claim.By, e.Claim.At.Format(time.RFC3339))
	}
	return fmt.Sprintf("topic %s holds version %d (epoch %d) of model %s, which does not come from these checkpoints%s", e.Topic, e.Version, e.Claim.Epoch, e.Model, by)
}

// openModels opens the model topic, before anything is claimed.
func (r *run) openModels(ctx context.Context) (err error) {
	if r.Models.Topic == "" {
		return nil
	}
	if err := r.waitInput(ctx); err != nil {
		return err
	}
	o := modeltopic.PublisherOptions{
		Config: r.Kafka.Config, Topic: r.Models.Topic, Model: r.Models.Name, MaxRecordBytes: r.Models.MaxRecordBytes, SigningKey: r.Models.SigningKey, MaxDown: r.Kafka.MaxDown,
		DeltaRing: max(r.Models.FullEvery, modeltopic.DefaultDeltaRing), // or compaction would drop deltas that are still needed
	}
	if s, ok := r.store.(topiclog.States); ok {
		o.Writer = s.Writer()
	}
	if r.models, err = modeltopic.NewPublisher(ctx, o); err != nil {
		return err
	}
	r.closers = append(r.closers, r.models.Close)
	// A run claims the directory before the model. The topic has been read first, so
	// the directory knows of every claim in it that another run has made.
	id, epoch, err := r.store.Last()
	var lost *checkpoint.EpochError
	if err != nil && !errors.As(err, &lost) {
		return err
	}
	if c, _ := r.models.Last(); c.Foreign(id, epoch) {
		if lost != nil && !r.Models.Replace {
			return lost // it is unknown whether the model comes from these checkpoints
		}
		return r.foreign()
	}
	return nil
}

// foreign returns the error about a model in the topic that does not come from the
// checkpoints, unless it may be replaced.
func (r *run) foreign() error {
	if r.Models.Replace {
		return nil
	}
	c, version := r.models.Last()
	return &ForeignModelError{Topic: r.Models.Topic, Model: r.Models.Name, Version: version, Claim: c}
}

// claimModels makes this run the model's only publisher, and publishes the
// checkpoint's model again.
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
	if c.Owner != r.store.ID() || r.snap == nil || r.snap.Header.Examples == 0 { // it starts over
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
	r.claimed = true // perhaps even if an error is returned
	if err := r.models.Claim(ctx, r.store.ID(), r.store.Epoch()); err != nil {
		return err
	}
	r.run.Publisher = r.models
	r.closers = append(r.closers, func() error { return r.release(ctx) })
	if r.snap == nil {
		return nil
	}
	if err := engine.Republish(ctx, r.e, r.run, r.snap.Header); err != nil {
		return err
	}
	return engine.Repromote(ctx, r.e, &r.run)
}

// release gives up the claim of a run that ends without having published anything.
func (r *run) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseFor)
	defer cancel()
	err := r.models.Release(ctx)
	if r.claimed = err != nil; r.claimed {
		r.Log.Warn("the claim on the model is not given up: a trainer of other checkpoints must replace it", "model", r.Models.Name, "err", err)
	}
	return nil
}

// releaseFor bounds how long the end of a run waits to give up its claim.
const releaseFor = 5 * time.Second

// champions opens the alias for champions. It also aborts a half-finished publication
// of a run that died: a claim on the model would wait for it.
func (r *run) champions(ctx context.Context) error {
	if r.Gate == "" || r.Models.Alias == "" {
		return nil
	}
	p, err := modeltopic.NewAliasWriter(ctx, modeltopic.AliasOptions{
		Config: r.Kafka.Config, Topic: r.Models.Topic, Model: r.Models.Name, Alias: r.Models.Alias, MaxRecordBytes: r.Models.MaxRecordBytes, SigningKey: r.Models.SigningKey, MaxDown: r.Kafka.MaxDown, Owner: r.check,
	})
	if err != nil {
		return err
	}
	r.closers = append(r.closers, p.Close)
	if err := p.Undo(ctx); err != nil {
		return err
	}
	r.run.Champions = engine.Champions{Promoter: p, Alias: r.Models.Alias}
	return r.e.Resume(meta(r.snap, engine.MetaGate))
}
