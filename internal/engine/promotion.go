package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
)

// MetaGate is the name under which a snapshot keeps Promotion.Meta.
const MetaGate = "gate"

// Champions says where champions are published. A nil Promoter publishes none.
type Champions struct {
	Promoter stream.Promoter
	Alias    string
}

// errNoGate says that contrib/gate has not been imported.
var errNoGate = errors.New("this build has no champion gate: package contrib/gate was not imported")

func newGate(rule string, regress, classes bool, schema string) (promote.Gate, error) {
	if promote.New == nil {
		return nil, errNoGate
	}
	return promote.New(rule, regress, classes, schema)
}

// CheckGate returns an error if rule is no valid Config.Gate or this build has no gate.
func CheckGate(rule string, regress bool) error {
	if promote.Check == nil {
		return errNoGate
	}
	return promote.Check(rule, regress)
}

// Gate describes the gate; nil if there is none.
func (e *Engine) Gate() *promote.Report {
	if e.promotion == nil {
		return nil
	}
	return e.promotion.Report()
}

// Resume restores the gate from a checkpoint's MetaGate entry. It is called after Restore.
func (e *Engine) Resume(meta string) error {
	if e.promotion == nil {
		return nil
	}
	return e.promotion.Resume(meta)
}

// challenge takes a challenger if one is due, and reports whether it did.
func (e *Engine) challenge(ctx context.Context) (bool, error) {
	if e.promotion == nil || !e.started || !e.promotion.Due(e.counts.Labelled) {
		return false, nil
	}
	if err := e.Settle(ctx); err != nil {
		return false, err
	}
	arrived := uint64(0)
	if e.join != nil {
		arrived = e.join.seq
	}
	return e.promotion.Take(e.counts.Labelled, arrived, e.Predictor(), func() stream.Update {
		return stream.Update{Examples: e.counts.Learned, Step: e.Report().Step, Offsets: e.Offsets(), Evaluation: e.Evaluation()}
	})
}

// promotionFields describes the gate, which is in a state only if there is one. An engine
// with a gate can continue a state without one, and vice versa.
func (e *Engine) promotionFields(f *state.Fields) {
	p := e.promotion
	if !f.Next("gate") && (f.Decoding() || p == nil) {
		return
	}
	if p == nil { // read the state, and drop it
		var err error
		if p, err = newGate("auto", e.cfg.Task == algos.Regress, e.classes != nil, ""); err != nil {
			f.Fail("gate", err)
			return
		}
	}
	f.Group("gate", func(f *state.Fields) { p.Fields(f, e.classes != nil) })
}

// promotion is a change of champion that the alias does not reflect yet.
type promotion struct {
	update *stream.Update
	why    stream.Promotion
}

// changed reports whether the alias must move to another champion.
func (cfg *RunConfig) changed(e *Engine) bool {
	return e.promotion != nil && cfg.Champions.Promoter != nil && e.promotion.Changed()
}

// promotion returns the change of champion to publish, or nil if there is none.
func (cfg *RunConfig) promotion(e *Engine) (*promotion, error) {
	if !cfg.changed(e) {
		return nil, nil
	}
	u, why, err := e.promotion.Champion()
	if err != nil {
		return nil, err
	}
	if u == nil {
		cfg.Log.Warn("the champion cannot be promoted: its version is not known, since it comes from a run that did not publish", "examples", e.Gate().Champion)
		return nil, nil
	}
	u.Model = cfg.Model
	if cfg.Store != nil {
		u.Epoch = cfg.Store.Epoch()
	}
	return &promotion{u, why}, nil
}

func (cfg *RunConfig) promote(ctx context.Context, p *promotion) error {
	if err := cfg.Champions.Promoter.Promote(ctx, p.update, p.why); err != nil {
		return fmt.Errorf("promoting version %d to %s: %w", p.update.Version, cfg.Champions.Alias, err)
	}
	tell(cfg.Hooks, func(h PromotedHook) { h.Promoted(cfg.Champions.Alias, p.update, p.why) })
	return nil
}

// Repromote publishes the latest change of champion again, in case the previous run ended
// before publishing it. It is called after Republish.
func Repromote(ctx context.Context, e *Engine, cfg *RunConfig) error {
	p, err := cfg.promotion(e)
	if p == nil || err != nil {
		return err
	}
	return cfg.promote(ctx, p)
}

// publishChallenger publishes the challenger just taken as a separate version. It first
// waits for the current job.
func (r *run) publishChallenger() error {
	if r.Publisher == nil {
		return nil
	}
	if err := r.wait(); err != nil {
		return err
	}
	r.taken = true
	return r.snapshot()
}
