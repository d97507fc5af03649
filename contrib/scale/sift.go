package scale

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/contrib/scale/siftplan"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

func siftCommand(w contrib.Wiring) *cli.Command {
	return &cli.Command{
		Name: "sift", Summary: "forward only the records that the trainer still learns from, with weights",
		Text: `
Scores every record of --topics with the newest model and forwards to
--distilled-topic those that the trainer still learns from, and a random sample
of the rest with weights. The trainer then reads a smaller topic. Any number of
equal processes share the topics as a --group.

The trainer still learns from records near the boundary or on its wrong side. Of
the others, sift forwards each with a probability p, and adds a header from which
the trainer counts it 1/p times. So sums over the forwarded records equal those
over all records, up to noise. The trainer publishes where to draw the line with
each version of its model.

Forwarded records and positions are written in one transaction: consumers that
read committed records see each decision once. A record keeps its partition, so
the distilled topic has as many partitions as each of the others. Records that
cannot be decoded are forwarded unchanged: the trainer makes dead letters of them.

An old model costs records, not accuracy: more records are forwarded than
necessary. Without a model all of them are.`,
		Example: `
streamsvm sift --topics examples --model-topic models --distilled-topic distilled \
    --group sift
streamsvm train --topics distilled --model-topic models --checkpoint ./state`,
		Common: []string{"brokers", "model-topic", "topics", "distilled-topic", "group", "codec", "listen", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			s := &sifter{}
			connect := w.Group(f)
			f.Group("Sifting", func() {
				f.StringVar(&s.topic, "distilled-topic", "", "`TOPIC` for forwarded records; created if it does not exist")
				f.Choice((*string)(&s.rule), "rule", string(siftplan.Hinge), []string{string(siftplan.Hinge), string(siftplan.Uncertain), string(siftplan.Uniform)}, "how to judge a record: by its margin; by its distance from the boundary, whatever its label; not at all")
				f.Float64Var(&s.least, "p-min", siftplan.DefaultLeast, "probability of forwarding a record that the trainer no longer learns from, never 0")
			})
			return func(ctx context.Context, c *cli.Call) error {
				switch {
				case s.topic == "":
					return c.Bad("distilled-topic", errors.New("no topic is given"))
				case !(s.least >= sift.LeastP && s.least <= 1):
					return c.Bad("p-min", fmt.Errorf("%v is not from %v to 1", s.least, sift.LeastP))
				}
				g, err := connect(c)
				if err != nil {
					return err
				}
				if slices.Contains(g.Session.Topics, s.topic) {
					return c.Bad("distilled-topic", fmt.Errorf("%s holds what is sifted", s.topic))
				}
				defer g.Close()
				s.c, s.group = c, g
				return w.Exit(s.run(ctx))
			}
		},
	}
}

// A sifter forwards some of the records that it scores.
type sifter struct {
	topic string // for forwarded records
	rule  siftplan.Rule
	least float64

	c       *cli.Call
	group   *contrib.Group
	counts  map[string]int32   // partitions of the topics
	version *predictor.Version // the version that plan belongs to
	plan    siftplan.Plan
}

// patience is how long to wait for the first version of the model.
const patience = 3 * time.Second

// run sifts until ctx ends, and then returns nil.
func (s *sifter) run(ctx context.Context) error {
	o := s.group.Session
	all, err := kafkaio.Partitions(ctx, o.Config, o.Topics, o.TopicWait, 0)
	if err != nil {
		return err
	}
	s.counts = map[string]int32{}
	for _, p := range all {
		s.counts[p.Topic]++
	}
	if _, err := kafkaio.CreateTopic(ctx, o.Config, kafkaio.TopicSpec{Name: s.topic, Partitions: int(s.counts[o.Topics[0]])}); err != nil {
		return err
	}
	if err := s.recount(ctx); err != nil {
		return err
	}
	session, err := kafkaio.NewSession(ctx, o)
	if err != nil {
		return err
	}
	defer session.Close()
	ended := s.group.Joined(session)
	s.c.Log.Info("joined", "group", o.Group, "instance", o.Instance)
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var live atomic.Pointer[predictor.Live] // nil while the topic does not exist
	first := make(chan struct{})
	crash.Go(func() {
		models, err := s.group.Models(following)
		if err == nil {
			l := predictor.Follow(following, models, predictor.FollowOptions{Log: s.c.Log})
			live.Store(l)
			_, _ = l.Wait(following)
			close(first)
			<-l.Done()
			err = errors.Join(l.Err(), models.Close())
		}
		cancel(s.group.Failed(err))
	})
	select { // a restart would forward a few batches whole while it fetches the model
	case <-first:
	case <-time.After(patience):
	case <-following.Done():
	}
	err = s.loop(following, session, ended, func() *predictor.Version {
		if l := live.Load(); l != nil {
			return l.Current()
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case following.Err() != nil:
		return context.Cause(following) // the model can no longer be followed
	}
	return err
}

func (s *sifter) loop(ctx context.Context, session *kafkaio.Session, ended func(bool, time.Duration), current func() *predictor.Version) error {
	scorer, err := s.group.Scorer(current)
	if err != nil {
		return err
	}
	var b predictor.Batch
	defer crash.Recover(func() string {
		if len(b.Records) == 0 {
			return "waiting for records to sift"
		}
		r := &b.Records[max(0, b.Decoding())]
		return fmt.Sprintf("sifting %d records from %s/%d offset %d", len(b.Records), r.Topic, r.Partition, r.Offset)
	})
	var read, forwarded int
	logged := time.Now()
	for {
		if b.Records, err = session.Fetch(ctx, b.Records[:0]); err != nil {
			return err
		}
		var v *predictor.Version
		if current() != nil {
			pinned, err := scorer.Pin()
			if err == nil {
				err = pinned.ScoreBatch(ctx, &b)
			}
			if err != nil {
				return err
			}
			if v = pinned.Current(); v.Task() == algos.Regress {
				return cli.Failf(cli.Usage, "the model predicts numbers: only records with classes can be sifted")
			}
		}
		out, err := s.choose(ctx, v, &b)
		if err == nil {
			err = ctx.Err() // without a commit the records stay the group's
		}
		if err != nil {
			return err
		}
		start := time.Now()
		committed, err := session.Commit(ctx, out...)
		ended(committed, time.Since(start))
		if err != nil {
			return err
		}
		if committed {
			read, forwarded = read+len(b.Records), forwarded+len(out)
		}
		if time.Since(logged) >= time.Minute {
			s.c.Log.Info("sifted", "read", read, "forwarded", forwarded)
			read, forwarded, logged = 0, 0, time.Now()
		}
	}
}

// recount counts the partitions of the topics, which must have equally many.
func (s *sifter) recount(ctx context.Context) error {
	o := s.group.Session
	all, err := kafkaio.Partitions(ctx, o.Config, append(slices.Clone(o.Topics), s.topic), 10*time.Second, 0)
	if err != nil {
		return err
	}
	clear(s.counts)
	for _, p := range all {
		s.counts[p.Topic]++
	}
	for _, topic := range o.Topics {
		if s.counts[topic] != s.counts[s.topic] {
			return cli.Failf(cli.Unavailable, "topic %s has %d partitions, the distilled topic %s has %d: records keep their partitions, so the numbers must be equal", topic, s.counts[topic], s.topic, s.counts[s.topic])
		}
	}
	return nil
}

// choose returns the records of b to forward. The version v has scored them, unless
// it is nil.
func (s *sifter) choose(ctx context.Context, v *predictor.Version, b *predictor.Batch) (out []stream.Record, err error) {
	for i := range b.Records {
		r := b.Records[i]
		if r.Partition >= s.counts[s.topic] { // added since the last count
			if err := s.recount(ctx); err != nil {
				return nil, err
			}
		}
		r.Topic = s.topic
		// A record that has been sifted before keeps its weight.
		if !slices.ContainsFunc(r.Headers, func(h stream.Header) bool { return h.Key == sift.HeaderKey }) {
			at := sift.Source{Partition: stream.Partition{Topic: b.Records[i].Topic, ID: r.Partition}, Offset: r.Offset}
			h := sift.Header{P: 1}
			if v != nil {
				h = s.judge(v, &b.Predictions[i])
			}
			if !sift.Forward(at, 0, h.P) {
				continue
			}
			r.Headers = append(slices.Clip(r.Headers),
				stream.Header{Key: sift.HeaderKey, Value: h.Append(nil)}, stream.Header{Key: sift.SourceKey, Value: at.Append(nil)})
		}
		out = append(out, r)
	}
	return out, nil
}

// judge returns the header for a record with the prediction p. A record without one
// is always forwarded.
func (s *sifter) judge(v *predictor.Version, p *predictor.Prediction) sift.Header {
	f := p.Score
	if p.Scores != nil {
		class := -1
		if s.rule == siftplan.Hinge && p.Labelled {
			class = int(p.Y)
			if p.Class != "" {
				class = len(p.Scores) // a class that the model does not know
			}
		}
		f = sift.Least(p.Scores, class)
	}
	if p.Err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return sift.Header{P: 1}
	}
	margin := f
	if p.Scores == nil {
		y := 0.0
		if p.Labelled {
			y = p.Y
		}
		margin = s.rule.Margin(f, y)
	}
	return sift.Header{P: s.planOf(v).Probability(s.rule, margin, s.least), Decision: f, Version: v.Update.Version, Epoch: v.Update.Epoch}
}

// planOf returns the plan that v was published with.
func (s *sifter) planOf(v *predictor.Version) *siftplan.Plan {
	if v != s.version {
		plan, ok, err := siftplan.PlanOf(v.Update.Evaluation)
		if err != nil {
			s.c.Log.Error("the plan of the model cannot be used, all records with a margin below the default band are forwarded", "version", v.Update.Version, "err", err)
		}
		if !ok || err != nil {
			plan = siftplan.Plan{S: siftplan.DefaultBand}
		}
		s.version, s.plan = v, plan
	}
	return &s.plan
}
