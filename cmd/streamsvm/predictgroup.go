package main

import (
	"context"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// scoreGroup is scoreTopics for one of several processes that share the
// partitions: predictions and positions are written in one transaction. It sifts,
// too, where that is the command.
func (p *predict) scoreGroup(ctx context.Context) error {
	opts, err := p.sessionFlags.options(p.c, p.cfg, &p.sourceFlags)
	if err != nil {
		return err
	}
	all, err := kafkaio.Partitions(ctx, p.cfg, p.topics, p.sourceFlags.wait, 0)
	if err != nil {
		return err
	}
	if p.sift != nil {
		err = p.sift.open(ctx, p, all)
	}
	if err == nil && p.predictions != "" {
		err = p.openTopics(ctx, len(all))
	}
	if err != nil {
		return err
	}
	s, err := kafkaio.NewSession(ctx, opts)
	if err != nil {
		return err
	}
	defer s.Close()
	p.c.Log.Info("joined", "group", opts.Group, "member", opts.Member)
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
		modelled := p.current() != nil
		if modelled && p.quality == nil {
			if err := p.modelled(); err != nil {
				return err
			}
		}
		var out []stream.Record
		b.s = nil
		if modelled {
			if out, err = p.scored(ctx, b); p.predictions == "" {
				out = nil
			}
		}
		var x sifted
		if p.sift != nil && err == nil {
			x, err = p.sift.choose(ctx, p, b)
			out = append(out, x.out...)
		}
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
		if modelled {
			p.count(b.Predictions)
		}
		if p.sift != nil {
			p.sift.m.Sifted(x.forwarded, x.dropped, x.unjudged, x.ps)
			if modelled {
				p.sift.m.Aged(age(at, b.s.Current().Update.Offsets))
			}
		}
	}
}
