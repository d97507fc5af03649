package main

import (
	"context"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// scoreGroup is scoreTopics for one of several processes that share the
// partitions. Predictions and positions are written in one transaction.
func (p *predict) scoreGroup(ctx context.Context) error {
	opts, err := p.sessionFlags.options(p.c, p.cfg, &p.sourceFlags)
	if err != nil {
		return err
	}
	all, err := kafkaio.Partitions(ctx, p.cfg, p.topics, p.sourceFlags.wait, 0)
	if err != nil {
		return err
	}
	if err := p.openTopics(ctx, len(all)); err != nil {
		return err
	}
	s, err := kafkaio.NewSession(ctx, opts)
	if err != nil {
		return err
	}
	defer s.Close()
	p.prog.reads(s, false)
	p.c.Log.Info("joined", "group", opts.Group, "instance", opts.Instance)
	defer p.startShadow(ctx, nil, nil)()
	m := metrics.NewSession(p.reg, s, p.isShadow)
	b := newScoring()
	defer crash.Recover(b.doing)
	for {
		if b.Records, err = s.Fetch(ctx, b.Records[:0]); err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return err
		}
		out, err := p.scored(ctx, b)
		if ctx.Err() != nil {
			return nil // the records stay the group's
		}
		if err != nil {
			return err
		}
		start := time.Now()
		committed, err := s.Commit(ctx, out...)
		m.Ended(committed, time.Since(start))
		if err != nil {
			return err
		}
		if !committed {
			continue
		}
		at := s.Positions()
		p.at.Store(&at)
		p.count(b.Predictions)
	}
}
