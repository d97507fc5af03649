package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// sifter says what of the records that are scored is forwarded to a trainer.
type sifter struct {
	topic      string // for what is forwarded
	rule       string
	least      float64
	band       string // auto, or a number
	unmodelled string // what to do without a model

	fixed   float64            // the band, if it is not auto
	version *predictor.Version // that plan is of
	plan    sift.Plan
	counts  map[string]int32 // partitions of the topics
	m       *metrics.Sift
}

func siftCommand() *cli.Command {
	return &cli.Command{
		Name: "sift", Summary: "forward only the records that the trainer still learns from, with weights",
		Text: `
Scores every record of --topics with the newest model and forwards to
--distilled-topic those that the trainer still learns from, and a random sample
of the rest with weights. The trainer then reads a smaller topic. Any number of
processes share the topics as a --group; each needs its own --member.

The trainer still learns from records near the boundary or on its wrong side. Of
the others a share is forwarded, drawn by the record's place. A header gives the
probability p of forwarding; the record counts 1/p, so that sums over the
forwarded records equal those over all records, up to noise. The model says
where to draw the line: the trainer plans it.

Forwarded records, the predictions if there is a --predictions-topic, and the
positions are written in one transaction: consumers that read committed records
see each decision once. A record keeps its partition, so the distilled topic has
as many partitions as the others, and each partition keeps the order of its
source. Records that cannot be decoded are forwarded as they are: the trainer
makes dead letters of them.

A model that lags behind costs records, not accuracy: more records are forwarded
than necessary. Without a model all of them are.`,
		Example: `
streamsvm sift --topics examples --model-topic models --distilled-topic distilled \
    --group sift --member 0
streamsvm train --topics distilled --model-topic models --checkpoint ./state`,
		Common: []string{"brokers", "model-topic", "topics", "distilled-topic", "group", "member", "codec", "listen", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			p := &predict{sift: &sifter{}, maxBody: 1, maxRows: 1, output: "json"}
			s := p.sift
			p.modelFlags.define(f)
			f.Group("Input", func() {
				f.StringSliceVar(&p.topics, "topics", nil, topicsUsage)
				f.StringVar(&p.start, "start", "earliest", startUsage)
				f.StringVar(&p.group, "group", "", groupUsage)
				f.StringVar(&p.listen, "listen", "", listenUsage)
			})
			p.codecFlags.define(f, codecUsage)
			f.Group("Output", func() {
				f.StringVar(&s.topic, "distilled-topic", "", "`TOPIC` for forwarded records")
				f.StringVar(&p.predictions, "predictions-topic", "", predictionsUsage)
			})
			f.Group("Sifting", func() {
				f.Choice(&s.rule, "rule", string(sift.Hinge), []string{string(sift.Hinge), string(sift.Uncertain), string(sift.Uniform)}, "what decides about a record: its margin; its distance from the boundary; nothing")
				f.Float64Var(&s.least, "p-min", sift.DefaultLeast, "probability of forwarding a record without interest, never 0")
				f.StringVar(&s.band, "band", "auto", "all with a margin below 1+`S` are forwarded; auto: as the trainer's plan says")
				f.Choice(&s.unmodelled, "without-model", "forward", []string{"forward", "wait"}, "what to do while there is no model: forward all records, or wait for one")
			})
			p.sessionFlags.define(f)
			p.kafkaFlags.define(f)
			return func(ctx context.Context, c *cli.Call) error {
				p.c = c
				return p.serve(ctx)
			}
		},
	}
}

// checkSift finds what is wrong with the settings before a model is waited for.
func (p *predict) checkSift() error {
	c, s := p.c, p.sift
	if _, err := p.codecFlags.open(c, algos.Classify); err != nil {
		return err
	}
	if err := badListen(c, p.listen); err != nil {
		return err
	}
	if s.band != "auto" {
		var err error
		if s.fixed, err = strconv.ParseFloat(s.band, 64); err != nil || !(s.fixed >= 0) || math.IsInf(s.fixed, 1) {
			return c.Bad("band", fmt.Errorf("%q is neither auto nor a number from 0 on", s.band))
		}
	}
	switch {
	case p.modelFlags.topic == "":
		return c.Bad("model-topic", errors.New("no topic is given"))
	case p.group == "":
		return c.Bad("group", errors.New("no group is given"))
	case s.topic == "":
		return c.Bad("distilled-topic", errors.New("no topic is given"))
	case slices.Contains(p.topics, s.topic), s.topic == p.modelFlags.topic, s.topic == p.predictions:
		return c.Bad("distilled-topic", fmt.Errorf("%s holds something else", s.topic))
	case p.predictions != "" && (slices.Contains(p.topics, p.predictions) || p.predictions == p.modelFlags.topic):
		return c.Bad("predictions-topic", fmt.Errorf("%s holds something else", p.predictions))
	case slices.Contains(p.topics, p.modelFlags.topic):
		return c.Bad("model-topic", fmt.Errorf("%s holds what is sifted", p.modelFlags.topic))
	case !(s.least >= sift.LeastP && s.least <= 1):
		return c.Bad("p-min", fmt.Errorf("%v is not from %v to 1", s.least, sift.LeastP))
	case p.predictions != "":
		s.unmodelled = "wait" // without a model there are no predictions
	}
	p.merge, p.outOfRange = string(kafkaio.MergeArrival), string(kafkaio.OutOfRangeEarliest)
	p.sourceFlags.wait = p.modelFlags.wait
	_, err := p.sessionFlags.options(c, kafkaio.Config{Brokers: []string{"check:9092"}}, &p.sourceFlags)
	return err
}

// follow is predict.follow without waiting for the first model.
func (s *sifter) follow(ctx context.Context, cancel context.CancelCauseFunc, p *predict) func() *predictor.Version {
	var newest atomic.Pointer[func() *predictor.Version]
	p.modelFlags.wait = -1
	crash.Go(func() {
		current, err := p.follow(ctx, cancel)
		if err != nil {
			cancel(err)
			return
		}
		newest.Store(&current)
	})
	return func() *predictor.Version {
		if current := newest.Load(); current != nil {
			return (*current)()
		}
		return nil
	}
}

// open makes the distilled topic, where it does not exist, and looks whether it
// has as many partitions as each of the topics.
func (s *sifter) open(ctx context.Context, p *predict, all []stream.Partition) error {
	s.m = metrics.NewSift(p.reg)
	s.counts = map[string]int32{}
	for _, id := range all {
		s.counts[id.Topic]++
	}
	n := s.counts[p.topics[0]]
	if _, err := kafkaio.CreateTopic(ctx, p.cfg, kafkaio.TopicSpec{Name: s.topic, Partitions: int(n)}); err != nil {
		return err
	}
	return s.recount(ctx, p)
}

func (s *sifter) recount(ctx context.Context, p *predict) error {
	all, err := kafkaio.Partitions(ctx, p.cfg, append(p.topics[:len(p.topics):len(p.topics)], s.topic), 10*time.Second, 0)
	if err != nil {
		return err
	}
	clear(s.counts)
	for _, id := range all {
		s.counts[id.Topic]++
	}
	for _, topic := range p.topics {
		if s.counts[topic] != s.counts[s.topic] {
			return cli.Failf(cli.Unavailable, "topic %s has %d partitions, the distilled topic %s has %d: records keep their partitions, so the numbers must be equal", topic, s.counts[topic], s.topic, s.counts[s.topic])
		}
	}
	return nil
}

// planOf returns the plan that came with v.
func (s *sifter) planOf(p *predict, v *predictor.Version) *sift.Plan {
	if v != s.version {
		plan, ok, err := sift.PlanOf(v.Update.Evaluation)
		if err != nil {
			p.c.Log.Error("the plan of the model cannot be used, all with a margin below the default band are forwarded", "version", v.Update.Version, "err", err)
		}
		if !ok || err != nil {
			plan = sift.Plan{S: sift.DefaultBand}
		}
		if s.band != "auto" {
			plan.S = s.fixed
		}
		s.version, s.plan = v, plan
	}
	return &s.plan
}

// sifted is what becomes of a batch.
type sifted struct {
	out                          []stream.Record
	forwarded, dropped, unjudged int
	ps                           []float64
}

// choose decides on the records of b, which have been scored if b.s is not nil.
func (s *sifter) choose(ctx context.Context, p *predict, b *scoring) (x sifted, err error) {
	for i := range b.Records {
		r := &b.Records[i]
		if r.Partition >= s.counts[s.topic] { // added since the last look
			if err := s.recount(ctx, p); err != nil {
				return x, err
			}
		}
		at := sift.Source{Partition: stream.Partition{Topic: r.Topic, ID: r.Partition}, Offset: r.Offset}
		h := sift.Header{P: 1}
		judged := false
		if b.s != nil {
			h, judged = s.judge(p, b.s.Current(), &b.Predictions[i])
		}
		switch {
		case slices.ContainsFunc(r.Headers, func(h stream.Header) bool { return h.Key == sift.HeaderKey }):
			// It has been sifted already, and keeps the weight that it has got there.
			out := *r
			out.Topic = s.topic
			x.out = append(x.out, out)
			x.unjudged++
			continue
		case !judged:
			x.unjudged++
		case sift.Forward(at, 0, h.P):
			x.forwarded++
			x.ps = append(x.ps, h.P)
		default:
			x.dropped++
			x.ps = append(x.ps, h.P)
			continue
		}
		out := *r
		out.Topic = s.topic
		out.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)],
			stream.Header{Key: sift.HeaderKey, Value: h.Append(nil)}, stream.Header{Key: sift.SourceKey, Value: at.Append(nil)})
		x.out = append(x.out, out)
	}
	return x, nil
}

// judge returns the header that a record gets, by what the model says of it. ok is
// false where nothing can be said.
func (s *sifter) judge(p *predict, v *predictor.Version, o *predictor.Prediction) (h sift.Header, ok bool) {
	f := o.Score
	if o.Scores != nil {
		class := -1
		if s.rule == string(sift.Hinge) && o.Labelled {
			class = int(trueValue(o))
		}
		f = sift.Least(o.Scores, class)
	}
	if o.Err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return sift.Header{P: 1}, false
	}
	m := f
	if o.Scores == nil {
		y := 0.0
		if o.Labelled {
			y = o.Y
		}
		m = sift.Rule(s.rule).Margin(f, y)
	}
	return sift.Header{P: s.planOf(p, v).Probability(sift.Rule(s.rule), m, s.least), Decision: f, Version: v.Update.Version, Epoch: v.Update.Epoch}, true
}

// age is how many records before the positions the model has not learned from.
func age(at, learned stream.Offsets) (n int64) {
	for p, next := range at {
		if known, ok := learned[p]; ok {
			n += max(0, next-known)
		}
	}
	return n
}
