package engine

import (
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
)

// A hook is notified of events in a run. It is any value that has one or more of
// these interfaces' methods. They are called on the learning goroutine unless
// stated otherwise, and must not block.
type (
	// StartedHook is called once, before the first record.
	StartedHook interface {
		Started(e *Engine, src stream.Source)
	}
	// ConsumedHook is called after each batch; queued is the number of records
	// waiting.
	ConsumedHook interface{ Consumed(e *Engine, queued int64) }
	// ScoredHook is called for each labelled example before it is learned from,
	// with the decision, the probability that the label is positive (NaN while
	// unknown), and the label. With more than two classes decision and label are
	// class numbers.
	ScoredHook interface {
		Scored(decision, probability, label float64)
	}
	// TuningHook is called while options are tuned, on any goroutine, with the share of
	// the work that is done.
	TuningHook interface{ Tuning(share float64) }
	// DeadHook is called for each record that cannot be used.
	DeadHook interface{ Dead(why *stream.RecordError) }
	// CheckpointedHook is called on the persisting goroutine when a checkpoint is
	// durable.
	CheckpointedHook interface {
		Checkpointed(path string, h checkpoint.Header, bytes int64, took time.Duration)
	}
	// PublishedHook is called on the persisting goroutine when an update is
	// durable, with the update as published, full or delta.
	PublishedHook interface {
		Published(u *stream.Update, took time.Duration)
	}
	// ServedHook is called if there is a gate, for each labelled example, with the
	// champion's decision or the number of its class; NaN while there is no
	// champion. It is called in the order of ScoredHook, and for each example
	// before ScoredHook.
	ServedHook interface{ Served(decision float64) }
	// DecidedHook is called with each decision of a gate.
	DecidedHook interface{ Decided(d promote.Decision) }
	// PromotedHook is called on the persisting goroutine when the champion's alias
	// points to a version.
	PromotedHook interface {
		Promoted(alias string, u *stream.Update, why stream.Promotion)
	}
	// FailedHook is called with the reason why a run cannot continue, on any
	// goroutine and possibly more than once. It is called before the run cleans up,
	// since a step of the learner may take long.
	FailedHook interface{ Failed(err error) }
)

// tell calls f with each hook that implements H.
func tell[H any](hooks []any, f func(H)) {
	for _, h := range hooks {
		if h, ok := h.(H); ok {
			f(h)
		}
	}
}
