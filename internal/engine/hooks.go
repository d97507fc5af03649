package engine

import (
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
)

// A hook follows what happens in a run. It is any value with one or more of
// the methods of these interfaces, which are called on the learning goroutine
// unless they say otherwise. They must not block.
type (
	// StartedHook is called with the engine before the first record.
	StartedHook interface {
		Started(e *Engine, src stream.Source)
	}
	// ConsumedHook is called after each batch; queued is the number of records that
	// are waiting.
	ConsumedHook interface{ Consumed(e *Engine, queued int64) }
	// ScoredHook is called with the decision on each labelled example before it is learned
	// from, the probability that its label is positive, NaN while that is not known, and
	// the label. With more than two classes decision and label are numbers of classes.
	ScoredHook interface {
		Scored(decision, probability, label float64)
	}
	// DeadHook is called for each record that cannot be used.
	DeadHook interface{ Dead(why *stream.RecordError) }
	// CheckpointedHook is called when a checkpoint is durable, on the persisting
	// goroutine.
	CheckpointedHook interface {
		Checkpointed(path string, h checkpoint.Header, bytes int64, took time.Duration)
	}
	// PublishedHook is called when an update is durable, on the persisting goroutine,
	// with the update as it was published, full or delta.
	PublishedHook interface {
		Published(u *stream.Update, took time.Duration)
	}
	// ServedHook is called, if there is a gate, with the champion's decision on each
	// labelled example, or the number of its class, NaN while there is no champion. The
	// order is that of ScoredHook, which is called later for the same example.
	ServedHook interface{ Served(decision float64) }
	// DecidedHook is called with each decision of the gate.
	DecidedHook interface{ Decided(d promote.Decision) }
	// PromotedHook is called when the champion's alias stands for a version, on the
	// persisting goroutine.
	PromotedHook interface {
		Promoted(alias string, u *stream.Update, why stream.Promotion)
	}
	// FailedHook is called, on any goroutine and perhaps more than once, with the reason
	// why a run cannot go on. The run may then still take a while to finish its work,
	// such as a step of the learner.
	FailedHook interface{ Failed(err error) }
)

// tell calls f with each hook that is an H.
func tell[H any](hooks []any, f func(H)) {
	for _, h := range hooks {
		if h, ok := h.(H); ok {
			f(h)
		}
	}
}
