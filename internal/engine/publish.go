package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/delta"
	"github.com/streamsvm/streamsvm/stream"
)

// update returns the model as a full update, or nil while there is no useful one, see
// Engine.Predictor.
func (cfg *RunConfig) update(e *Engine, version uint64, created time.Time) (*stream.Update, error) {
	p := e.Predictor()
	if p == nil {
		return nil, nil
	}
	payload, err := p.Pack().AppendBinary(nil)
	if err != nil {
		return nil, fmt.Errorf("encoding the model: %w", err)
	}
	u := &stream.Update{
		Kind: stream.Full, Model: cfg.Model, Learner: p.Learner, Version: version, Created: created,
		Step: e.Report().Step, Examples: e.counts.Learned, Offsets: e.reached(), Evaluation: cfg.evaluation(e),
		Hash: xxhash.Sum64(payload), Payload: payload,
	}
	if cfg.Store != nil {
		u.Epoch = cfg.Store.Epoch()
	}
	return u, nil
}

// Republish publishes the model of a restored engine again, under the version that
// its checkpoint names: the last run may have ended between storing and publishing
// it. Publishing twice is harmless.
func Republish(ctx context.Context, e *Engine, cfg RunConfig, h checkpoint.Header) error {
	if cfg.Publisher == nil || h.ModelVersion == 0 {
		return nil
	}
	u, err := cfg.update(e, h.ModelVersion, h.Created)
	if err != nil || u == nil {
		return err
	}
	if err := cfg.publish(ctx, u); err != nil {
		return err
	}
	e.adopt(e.readBack(u))
	return nil
}

func (cfg *RunConfig) publish(ctx context.Context, u *stream.Update) error {
	start := time.Now()
	if err := cfg.Publisher.Publish(ctx, u); err != nil {
		return fmt.Errorf("publishing version %d: %w", u.Version, err)
	}
	tell(cfg.Hooks, func(h PublishedHook) { h.Published(u, time.Since(start)) })
	return nil
}

// deltas replaces full updates by deltas that are at least a fifth smaller. It keeps the
// payload published last.
type deltas struct {
	every int            // longest sequence of updates without a full one, plus 1
	base  *stream.Update // the update published last, in its full form
	since int            // number of deltas since the last full update
}

// next returns the update to publish for the full update u: u itself, or a delta on
// the previous update.
func (d *deltas) next(u *stream.Update) *stream.Update {
	if d.base == nil || d.since+1 >= d.every || d.base.Epoch != u.Epoch || d.base.Version >= u.Version {
		return u
	}
	patch := delta.Diff(d.base.Payload, u.Payload)
	if len(patch) > len(u.Payload)/5*4 {
		return u
	}
	p := *u
	p.Kind, p.Base, p.Payload, p.Hash = stream.Delta, d.base.Version, patch, xxhash.Sum64(patch)
	return &p
}

// published records that sent, the result of next(u), is durable.
func (d *deltas) published(u, sent *stream.Update) {
	if d.every < 2 {
		return // deltas are off: do not keep a payload for nothing
	}
	d.base, d.since = u, d.since+1
	if sent.Kind == stream.Full {
		d.since = 0
	}
}
