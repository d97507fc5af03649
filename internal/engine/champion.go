package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/stream"
)

// Which model is the champion is decided in the engine, where there are no
// versions. A candidate is a version of its own: when one has been taken the run
// publishes at once, and remembers which version that was. A change of the
// champion then gives the alias that version, once it and the checkpoint that
// knows of the change are durable. A checkpoint also says how many changes had
// been published before it, so that the next run repeats one that may not have
// been, and no other: an alias that somebody has changed by hand stays as it is
// until the gate decides again.

// MetaGate is the name under which a snapshot keeps the versions of the models at
// the gate, and how many changes of the champion have been published.
const MetaGate = "gate"

// Champions says where champions go.
type Champions struct {
	// Promoter and Alias are who publishes them, and as what; a nil Promoter does
	// not.
	Promoter stream.Promoter
	Alias    string
	// Meta is what the checkpoint has under MetaGate that the run goes on from.
	Meta string
}

// versions are those of the models at the gate.
type versions struct {
	published uint64                 // changes of the champion
	alias     uint64                 // the version that it stood for then
	of        map[uint64]versionTime // by the number of examples of the model
}

type versionTime struct {
	version uint64
	created time.Time
}

// parseVersions reads what text writes.
func parseVersions(text string) (versions, error) {
	v := versions{of: map[uint64]versionTime{}}
	if text == "" {
		return v, nil
	}
	head, rest, _ := strings.Cut(text, ";")
	if _, err := fmt.Sscanf(head, "%d %d", &v.published, &v.alias); err != nil {
		return v, fmt.Errorf("the versions at the gate, %q: %w", text, err)
	}
	for part := range strings.FieldsSeq(rest) {
		var examples, version uint64
		var created int64
		if _, err := fmt.Sscanf(part, "%d:%d:%d", &examples, &version, &created); err != nil {
			return v, fmt.Errorf("the versions at the gate, %q: %w", text, err)
		}
		v.of[examples] = versionTime{version, time.UnixMilli(created).UTC()}
	}
	return v, nil
}

// text describes the versions of the models that there still are.
func (v *versions) text(p *promoter) string {
	b := strconv.AppendUint(nil, v.published, 10)
	b = fmt.Appendf(b, " %d;", v.alias)
	for _, m := range []*frozen{p.champion, p.candidate, p.before} {
		if t, ok := v.of[m.id()]; ok {
			b = fmt.Appendf(b, " %d:%d:%d", m.id(), t.version, t.created.UnixMilli())
		}
	}
	return string(b)
}

// promotion is a change of the champion on its way to the alias.
type promotion struct {
	update *stream.Update
	why    stream.Promotion
}

// settled takes note that what is the champion now has been published, or cannot be.
func (v *versions) settled(p *promoter, version uint64) {
	v.published, v.alias = p.moves(), version
}

// promotion returns the change of the champion that is to be published, or nil.
func (cfg *RunConfig) promotion(e *Engine, v *versions) (*promotion, error) {
	p := e.promoter
	if p == nil || cfg.Champions.Promoter == nil || p.champion == nil || p.moves() == v.published {
		return nil, nil
	}
	c := p.champion
	at, ok := v.of[c.examples]
	if !ok {
		cfg.Log.Warn("the champion cannot be promoted: its version is not known, since it comes from a run that did not publish", "examples", c.examples)
		return nil, nil
	}
	payload, err := c.pipe.Pack().AppendBinary(nil)
	if err != nil {
		return nil, fmt.Errorf("encoding the champion: %w", err)
	}
	u := &stream.Update{
		Kind: stream.Full, Model: cfg.Model, Learner: c.pipe.Learner, Version: at.version, Created: at.created,
		Step: c.steps, Examples: c.learned, Offsets: c.offsets.Clone(), Evaluation: c.evaluation,
		Hash: xxhash.Sum64(payload), Payload: payload,
	}
	if cfg.Store != nil {
		u.Epoch = cfg.Store.Epoch()
	}
	return &promotion{u, stream.Promotion{By: "gate", Reason: p.last, Previous: v.alias}}, nil
}

func (cfg *RunConfig) promote(ctx context.Context, p *promotion) error {
	if err := cfg.Champions.Promoter.Promote(ctx, p.update, p.why); err != nil {
		return fmt.Errorf("promoting version %d to %s: %w", p.update.Version, cfg.Champions.Alias, err)
	}
	tell(cfg.Hooks, func(h PromotedHook) { h.Promoted(cfg.Champions.Alias, p.update, p.why) })
	return nil
}

// Repromote publishes again the change of the champion that the run before may
// have ended without publishing. It is called after Republish.
func Repromote(ctx context.Context, e *Engine, cfg *RunConfig) error {
	v, err := parseVersions(cfg.Champions.Meta)
	if err != nil {
		return err
	}
	p, err := cfg.promotion(e, &v)
	if p == nil || err != nil {
		return err
	}
	if err := cfg.promote(ctx, p); err != nil {
		return err
	}
	v.settled(e.promoter, p.update.Version)
	cfg.Champions.Meta = v.text(e.promoter)
	return nil
}

// candidate gives the candidate that has just been taken a version: it waits for
// the job under way, and publishes.
func (r *run) candidate() error {
	if r.Publisher == nil {
		return nil
	}
	if r.busy {
		r.busy = false
		if err := <-r.saved; err != nil {
			return err
		}
	}
	r.taken = true
	return r.snapshot()
}
