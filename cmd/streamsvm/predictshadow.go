package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// checkShadow returns an error if the settings of the shadow are invalid.
func (p *predict) checkShadow() error {
	c, t := p.c, p.shadowTopic
	switch {
	case p.shadow == "" && t == "":
		return nil
	case p.shadow == "":
		return alone(c, "--shadow", "shadow-topic")
	case p.modelFlags.topic == "":
		return c.Bad("shadow", errors.New("it needs --model-topic"))
	case p.shadow == p.modelFlags.alias:
		return c.Bad("shadow", fmt.Errorf("%s is what --alias follows", p.shadow))
	case t == "":
		return c.Bad("shadow-topic", errors.New("no topic is given"))
	case t == p.predictions || t == p.modelFlags.topic || t == p.errors.topic || slices.Contains(p.topics, t):
		return c.Bad("shadow-topic", fmt.Errorf("%s holds something else", t))
	}
	if err := modeltopic.CheckAlias(p.shadow); err != nil {
		return c.Bad("shadow", err)
	}
	return nil
}

// startShadow starts the shadow, if there is one, which scores the same records from
// the given positions on; in a group, the records that its own group hands out.
// It reads, scores and writes by itself, so that the main predictions never wait for
// it: if it fails, that is logged. wait ends it, or with --until-end waits until it has
// reached the ends.
func (p *predict) startShadow(ctx context.Context, from, ends stream.Offsets) (wait func()) {
	if p.shadow == "" {
		return func() {}
	}
	s := &predict{
		modelFlags: p.modelFlags, sourceFlags: p.sourceFlags, codecFlags: p.codecFlags, kafkaFlags: p.kafkaFlags,
		predictions: p.shadowTopic, tombstones: p.tombstones, threshold: p.threshold, c: p.c, cfg: p.cfg, m: p.shadowMetrics,
		from: from, outgoing: p.outgoing, sessionFlags: p.sessionFlags, reg: p.reg, isShadow: true, prog: startProgress(&cli.Call{Quiet: true}, ""),
	}
	s.errors.topic = "" // p reports them already: the shadow's are among its predictions
	model, _ := modeltopic.SplitName(p.current().Update.Model)
	s.modelFlags.name, s.modelFlags.alias = model, p.shadow
	if p.positions != "" {
		s.positions = p.positions + ".shadow"
	}
	if p.untilEnd {
		s.until = ends
	} else {
		s.modelFlags.wait = -1 // a version may be promoted to it later
	}
	ended := make(chan struct{})
	own, cancel := context.WithCancelCause(ctx)
	crash.Go(func() {
		var err error
		if s.current, err = s.follow(own, cancel); err == nil {
			s.quality = newQuality(s.current().Task(), s.current().Classes(), 1000)
			if s.group == "" {
				err = s.scoreTopics(own)
			} else {
				s.group += ".shadow"
				err = s.scoreGroup(own)
			}
		}
		if own.Err() != nil {
			err = s.ended(own) // nil if it was stopped
		}
		if err != nil {
			p.c.Log.Error("the shadow has stopped; predictions go on without it", "alias", p.shadow, "err", err)
		}
		cancel(nil)
		close(ended)
	})
	return func() {
		if !p.untilEnd {
			cancel(nil)
		}
		<-ended
	}
}
