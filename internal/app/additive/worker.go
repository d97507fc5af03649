package additive

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/normal"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// Worker sums the records of the partitions that it is given. Its fields are set
// before Run.
type Worker struct {
	Plan    *Plan
	Topic   *Topic
	Session *kafkaio.Session
	// Decode reads a record of the source.
	Decode func(ctx context.Context, a *stream.Arena, r *stream.Record, x *stream.Example) error
	// Letter, if not nil, is the dead letter about a record that cannot be learned
	// from; it is written with the sums.
	Letter func(r *stream.Record, why *stream.RecordError) stream.Record
	// Ended is told of each transaction, and what became of its records.
	Ended func(committed bool, took time.Duration, n Counts)
	Log   *slog.Logger

	parts map[int32]*sum
}

// sum is a partition under way.
type sum struct {
	id        int32
	committed int64 // the position of the group that the sums were written with; 0: none
	part      Part
	learner   learner
	admission *engine.Engine
	fresh     Counts // since the last transaction
	arena     stream.Arena
	block     []*stream.Example
	letters   []stream.Record
	refused   error // the last one
	told      bool  // that there are such records
}

// Run sums until ctx ends, and then returns nil. Its errors are those of
// kafkaio.Session and of what reads the sums.
func (w *Worker) Run(ctx context.Context) error {
	w.parts = map[int32]*sum{}
	var recs []stream.Record
	var err error
	for {
		if recs, err = w.Session.Fetch(ctx, recs[:0]); err == nil {
			err = w.transaction(ctx, recs)
		}
		if ctx.Err() != nil {
			return nil // the records stay the group's
		}
		if err != nil {
			return err
		}
	}
}

// transaction adds the records to the sums, and writes these.
func (w *Worker) transaction(ctx context.Context, recs []stream.Record) error {
	of := map[int32][]*stream.Record{}
	for i := range recs {
		of[recs[i].Partition] = append(of[recs[i].Partition], &recs[i])
	}
	var work []*sum
	at := w.Session.Positions()
	for id := range of {
		s, err := w.open(ctx, id, at)
		if err != nil {
			return err
		}
		work = append(work, s)
	}
	slices.SortFunc(work, func(a, b *sum) int { return int(a.id - b.id) })
	out := make([][]stream.Record, len(work))
	err := ovr.Each(len(work), func(k int) (err error) {
		if err = work[k].add(ctx, w, of[work[k].id]); err == nil {
			out[k], err = w.Topic.records(w.Plan, work[k].id, &work[k].part)
			out[k] = append(out[k], work[k].letters...)
		}
		return err
	})
	if err != nil {
		return err
	}
	start := time.Now()
	committed, err := w.Session.Commit(ctx, slices.Concat(out...)...)
	var n Counts
	for _, s := range work {
		n.add(&s.fresh)
		s.fresh, s.committed = Counts{}, s.part.Next
		if s.refused != nil && committed {
			level := slog.LevelInfo
			if !s.told {
				s.told, level = true, slog.LevelWarn
			}
			w.Log.Log(ctx, level, "records cannot be learned from", "partition", s.id, "dead", s.part.Dead, "last", s.refused)
		}
		s.refused, s.letters = nil, nil
	}
	if !committed || err != nil {
		clear(w.parts) // what is in the topic counts
		n = Counts{}
	}
	if w.Ended != nil {
		w.Ended(committed, time.Since(start), n)
	}
	return err
}

// open returns the sums of a partition as they are at the group's position: those in
// memory, if it was this process that wrote them last, or those of the topic.
func (w *Worker) open(ctx context.Context, id int32, at stream.Offsets) (*sum, error) {
	// 0 says as well that nothing has been committed. Behind a record it cannot be.
	next := at[stream.Partition{Topic: w.Topic.Source, ID: id}]
	if s := w.parts[id]; s != nil && s.committed == next {
		return s, nil
	}
	s := &sum{id: id, committed: next}
	var err error
	if s.admission, err = w.Plan.admission(); err != nil {
		return nil, err
	}
	if s.learner, err = w.Plan.learner(); err != nil {
		return nil, err
	}
	s.part.Sums = s.learner.Sums()
	if next > 0 {
		part, err := w.load(ctx, id, next)
		if err != nil {
			return nil, err
		}
		s.part = *part
		if err := s.learner.Restore(part.Sums, part.Dim); err != nil {
			return nil, err
		}
	}
	w.Log.Info("summing", "partition", id, "from", next, "summed", s.part.Summed)
	w.parts[id] = s
	return s, nil
}

// visible is how long sums may take to be seen whose position has been.
const visible = 30 * time.Second

// load returns the sums up to the position of the group.
func (w *Worker) load(ctx context.Context, id int32, next int64) (*Part, error) {
	for begun := time.Now(); ; {
		part, err := w.Topic.Newest(ctx, w.Plan, id)
		if err != nil {
			return nil, err
		}
		if part != nil && part.Next == next {
			delete(w.Topic.seen, id) // what is returned will be changed
			return part, nil
		}
		if part != nil && part.Next > next || time.Since(begun) > visible {
			return nil, &PositionError{Topic: w.Topic.Name, Partition: id, Position: next, Part: part}
		}
		// Brokers may tell of a position a moment before they show the rest of its
		// transaction.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// PositionError says that the topic of sums does not go with the positions of the
// group.
type PositionError struct {
	Topic     string
	Partition int32
	Position  int64
	Part      *Part // what there is; nil: nothing of this plan
}

func (e *PositionError) Error() string {
	has := "none of the present model"
	if e.Part != nil {
		has = fmt.Sprintf("those up to offset %d", e.Part.Next)
	}
	return fmt.Sprintf("the group is at offset %d of partition %d, but of the sums up to there topic %s has %s: a group has one model and one topic of sums, always", e.Position, e.Partition, e.Topic, has)
}

// add adds records to the sums.
func (s *sum) add(ctx context.Context, w *Worker, recs []*stream.Record) error {
	for _, r := range recs {
		s.part.Next = r.Offset + 1
		if r.Value == nil {
			s.fresh.Tombstones++
			continue
		}
		it := engine.Item{Partition: stream.Partition{Topic: r.Topic, ID: r.Partition}, Offset: r.Offset}
		err := w.Decode(ctx, &s.arena, r, &it.Example)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = it.Weigh(r)
		}
		if err != nil {
			it.Err = stream.At(r, err)
		}
		if s.admission.Admit(&it); it.Err != nil {
			s.fresh.Dead++
			s.refused = it.Err
			if w.Letter != nil {
				s.letters = append(s.letters, w.Letter(r, it.Err))
			}
			continue
		}
		if !it.Example.Labelled {
			s.fresh.Unlabelled++
			continue
		}
		s.fresh.Summed++
		x := it.Example
		x.X = w.Plan.pipe.Transform.Apply(x.X)
		if s.block = append(s.block, &x); len(s.block) == normal.Block {
			s.flush()
		}
	}
	s.flush()
	s.part.Counts.add(&s.fresh)
	s.part.Sums, s.part.Dim = s.learner.Sums(), s.learner.Dim()
	return nil
}

func (s *sum) flush() {
	s.learner.Sum(s.block)
	clear(s.block)
	s.block = s.block[:0]
	s.arena.Reset()
}
