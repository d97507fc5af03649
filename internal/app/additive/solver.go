package additive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/trainer"
)

// Solver makes the plan of a model, unless the topic of models has one, and
// publishes the model of the sums there are. It keeps nothing of its own: what it
// needs after a restart is in the two topics. Its fields are set before Run.
type Solver struct {
	Topic *Topic
	// Models says where the model is published: Topic, Name, MaxRecordBytes, Replace
	// and SigningKey are looked at.
	Models trainer.Models
	// Warmup learns from the first examples what the plan is made of.
	Warmup func(ctx context.Context) (trainer.State, error)
	// Every is the time between looks at the sums. A version is published when they
	// have changed.
	Every time.Duration
	// UntilEnd ends Run when the sums have come to the ends that the partitions of
	// the source had at the start.
	UntilEnd bool
	// Wait is how long the topic of examples is waited for.
	Wait time.Duration
	// Published, if not nil, is told of each version.
	Published func(u *stream.Update, s *Solution)
	Log       *slog.Logger

	models *modeltopic.Publisher
	claim  modeltopic.Claim
	plan   *Plan
	parts  map[int32]*Part
	last   struct {
		version, hash uint64
		next          stream.Offsets
	}
}

// Run solves until ctx ends, or UntilEnd, and then returns nil. Its errors are those
// of Warmup, of modeltopic.Publisher and of reading the sums, and
// *trainer.ForeignModelError.
func (s *Solver) Run(ctx context.Context) (err error) {
	n, err := s.Topic.Open(ctx, s.Wait)
	if err != nil {
		return err
	}
	ids := make([]stream.Partition, n)
	for i := range ids {
		ids[i] = stream.Partition{Topic: s.Topic.Source, ID: int32(i)}
	}
	var ends stream.Offsets
	if s.UntilEnd {
		if _, ends, err = kafkaio.Bounds(ctx, s.Topic.Config, ids, s.Topic.MaxDown); err != nil {
			return err
		}
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.models.Close()
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for {
		if err := s.solve(ctx, n); err != nil {
			return err
		}
		if s.UntilEnd {
			if done, err := s.done(ctx, ends); done || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.models.Check(ctx); err != nil {
			if errors.Is(err, checkpoint.ErrFenced) {
				return err
			}
			s.Log.Debug("not known whether another solver has taken over", "err", err)
		}
	}
}

// open claims the model, and gets the plan: that of the model there is, or of one
// that is learned from the first examples, and published.
func (s *Solver) open(ctx context.Context) (err error) {
	s.models, err = modeltopic.NewPublisher(ctx, modeltopic.PublisherOptions{
		Config: s.Topic.Config, Topic: s.Models.Topic, Model: s.Models.Name, MaxRecordBytes: s.Models.MaxRecordBytes, SigningKey: s.Models.SigningKey, MaxDown: s.Topic.MaxDown,
	})
	if err != nil {
		return err
	}
	owner := "sums " + s.Topic.Name
	last, version := s.models.Last()
	foreign := last.Foreign(owner, math.MaxUint64)
	if foreign && !s.Models.Replace {
		return &trainer.ForeignModelError{Topic: s.Models.Topic, Model: s.Models.Name, Version: version, Claim: last}
	}
	if err := s.models.Claim(ctx, owner, last.Epoch+1); err != nil {
		return err
	}
	s.claim, version = s.models.Last()
	s.last.version = version
	if version > 0 && !foreign {
		c, err := modeltopic.Read(ctx, modeltopic.ReadOptions{Config: s.Topic.Config, Topic: s.Models.Topic, Model: s.Models.Name, MaxDown: s.Topic.MaxDown})
		if err != nil {
			return err
		}
		if len(c.Models) > 0 && c.Models[0].Newest != nil {
			s.plan, err = NewPlan(s.Models.Name, c.Models[0].Newest.Payload)
			return err
		}
	}
	state, err := s.Warmup(ctx)
	if err != nil {
		return errors.Join(err, s.release(ctx))
	}
	p, err := state.Predictor()
	if err == nil && p == nil {
		err = errors.New("no model could be made of the first examples")
		if one := state.OneLabel(); one != nil {
			err = one
		}
	}
	if err != nil {
		return errors.Join(err, s.release(ctx))
	}
	payload, err := p.AppendBinary(nil)
	if err != nil {
		return err
	}
	if s.plan, err = NewPlan(s.Models.Name, payload); err != nil {
		return errors.Join(err, s.release(ctx))
	}
	return s.publish(ctx, payload, &Solution{Report: state.Report(), Counts: Counts{Summed: state.Counts().Learned}}, stream.Offsets{})
}

// release gives up the claim of a solver that publishes nothing.
func (s *Solver) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return s.models.Release(ctx)
}

// solve publishes the model of the newest sums, if it is another one.
func (s *Solver) solve(ctx context.Context, partitions int) error {
	s.parts = map[int32]*Part{}
	var list []*Part
	next := stream.Offsets{}
	for id := range int32(partitions) {
		part, err := s.Topic.Newest(ctx, s.plan, id)
		if err != nil {
			return err
		}
		if part != nil {
			s.parts[id] = part
			list = append(list, part)
			next[stream.Partition{Topic: s.Topic.Source, ID: id}] = part.Next
		}
	}
	sol, err := s.plan.Solve(list)
	if err != nil || sol.Counts.Summed == 0 {
		return err
	}
	payload, err := sol.Payload()
	if err != nil || xxhash.Sum64(payload) == s.last.hash {
		return err
	}
	return s.publish(ctx, payload, sol, next)
}

func (s *Solver) publish(ctx context.Context, payload []byte, sol *Solution, next stream.Offsets) error {
	n := &sol.Counts
	u := &stream.Update{
		Kind: stream.Full, Model: s.Models.Name, Learner: s.plan.pipe.Learner, Version: s.last.version + 1, Epoch: s.claim.Epoch,
		Created: time.Now().UTC().Truncate(time.Millisecond), Step: s.last.version + 1, Examples: n.Summed, Offsets: next,
		Evaluation: []stream.Measure{
			{Name: "sums_examples", Value: float64(n.Summed)}, {Name: "sums_unlabelled", Value: float64(n.Unlabelled)}, {Name: "sums_dead", Value: float64(n.Dead)},
			{Name: "sums_objective", Value: sol.Report.Objective},
		},
		Hash: xxhash.Sum64(payload), Payload: payload,
	}
	if err := s.models.Publish(ctx, u); err != nil {
		return fmt.Errorf("publishing version %d: %w", u.Version, err)
	}
	s.last.version, s.last.hash = u.Version, u.Hash
	if s.Published != nil {
		s.Published(u, sol)
	}
	return nil
}

// done reports whether there is no record between the sums and the ends.
func (s *Solver) done(ctx context.Context, ends stream.Offsets) (bool, error) {
	from, stop := stream.Offsets{}, stream.Offsets{}
	var ids []int32
	for p, end := range ends {
		next := int64(0)
		if part := s.parts[p.ID]; part != nil {
			next = part.Next
		}
		if next < end {
			from[p], stop[p] = next, end
			ids = append(ids, p.ID)
		}
	}
	if len(ids) == 0 {
		return true, nil
	}
	src, err := kafkaio.NewSource(ctx, kafkaio.SourceOptions{
		Config: s.Topic.Config, Topics: []string{s.Topic.Source}, Partitions: map[string][]int32{s.Topic.Source: ids}, Offsets: from, StopAt: stop,
		OutOfRange: kafkaio.OutOfRangeEarliest, FetchMaxBytes: 1 << 14, MaxDown: s.Topic.MaxDown,
	})
	if err != nil {
		return false, err
	}
	defer src.Close()
	_, err = src.Fetch(ctx, nil)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// Warmup learns from the first n records that job.Kafka reads. Records that cannot be
// used are passed over.
func Warmup(ctx context.Context, job trainer.Job, n int) (trainer.State, error) {
	job.Open = func(ctx context.Context, _ stream.Offsets) (stream.Source, error) {
		src, err := kafkaio.NewSource(ctx, job.Kafka)
		if err != nil {
			return nil, err
		}
		return &first{src, n}, nil
	}
	job.Tolerance = trainer.TolerateData
	res, err := trainer.Run(ctx, job)
	return res.State, err
}

// first ends a stream after n records.
type first struct {
	stream.Source
	n int
}

// Fetch implements stream.Source.
func (s *first) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if s.n == 0 {
		return dst, io.EOF
	}
	n := len(dst)
	dst, err := s.Source.Fetch(ctx, dst)
	dst = dst[:min(len(dst), n+s.n)]
	s.n -= len(dst) - n
	return dst, err
}
