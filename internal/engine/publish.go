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

// update returns the engine's model as a full update, or nil while there is
// none that would say anything, see Engine.Predictor.
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
		Step: e.Report().Step, Examples: e.counts.Learned, Offsets: e.reached(), Evaluation: append(e.Evaluation(), e.Plan(cfg.budget)...),
		Hash: xxhash.Sum64(payload), Payload: payload,
	}
	if cfg.Store != nil {
		u.Epoch = cfg.Store.Epoch()
	}
	return u, nil
}

// Republish publishes the model of a restored engine again, as the version
// that its checkpoint names: the run before may have ended between storing and
// publishing it. Doing so needlessly is harmless.
func Republish(ctx context.Context, e *Engine, cfg RunConfig, h checkpoint.Header) error {
	if cfg.Publisher == nil || h.ModelVersion == 0 {
		return nil
	}
	u, err := cfg.update(e, h.ModelVersion, h.Created)
	if err != nil || u == nil {
		return err
	}
	return cfg.publish(ctx, u)
}

func (cfg *RunConfig) publish(ctx context.Context, u *stream.Update) error {
	start := time.Now()
	if err := cfg.Publisher.Publish(ctx, u); err != nil {
		return fmt.Errorf("publishing version %d: %w", u.Version, err)
	}
	tell(cfg.Hooks, func(h PublishedHook) { h.Published(u, time.Since(start)) })
	return nil
}

// deltas turns fulls into deltas on what was published before, where that is
// worth it. It keeps the payload published last.
type deltas struct {
	every int            // a full at least every so many updates
	base  *stream.Update // published last, as a full
	since int            // deltas since the last full
}

// next returns what to publish in place of u, a full: u itself, or the delta
// that makes it of the update before.
func (d *deltas) next(u *stream.Update) *stream.Update {
	if d.base == nil || d.since+1 >= d.every || d.base.Epoch != u.Epoch || d.base.Version >= u.Version {
		return u
	}
	patch := delta.Diff(d.base.Payload, u.Payload)
	if len(patch) > len(u.Payload)/2 {
		return u
	}
	p := *u
	p.Kind, p.Base, p.Payload, p.Hash = stream.Delta, d.base.Version, patch, xxhash.Sum64(patch)
	return &p
}

// published takes note that sent, which next made of u, is durable.
func (d *deltas) published(u, sent *stream.Update) {
	if d.every < 2 {
		return // or a payload would be kept for nothing
	}
	d.base, d.since = u, d.since+1
	if sent.Kind == stream.Full {
		d.since = 0
	}
}
