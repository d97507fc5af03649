package main

import (
	"log/slog"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/trainer"
	"github.com/streamsvm/streamsvm/stream"
)

// observers tells several observers.
type observers []trainer.Observer

// Consumed implements trainer.Observer.
func (os observers) Consumed(e *trainer.Engine, queued int64) {
	for _, o := range os {
		o.Consumed(e, queued)
	}
}

// Dead implements trainer.Observer.
func (os observers) Dead(why *stream.RecordError) {
	for _, o := range os {
		o.Dead(why)
	}
}

// Checkpointed implements trainer.Observer.
func (os observers) Checkpointed(path string, h checkpoint.Header, bytes int64, took time.Duration) {
	for _, o := range os {
		o.Checkpointed(path, h, bytes, took)
	}
}

// Published implements trainer.Observer.
func (os observers) Published(u *stream.Update, took time.Duration) {
	for _, o := range os {
		o.Published(u, took)
	}
}

// logObserver logs what happens, at levels that a service is usually run
// without.
type logObserver struct{ log *slog.Logger }

// Consumed implements trainer.Observer.
func (l logObserver) Consumed(*trainer.Engine, int64) {}

// Dead implements trainer.Observer.
func (l logObserver) Dead(why *stream.RecordError) { l.log.Info("record refused", "err", why) }

// Checkpointed implements trainer.Observer.
func (l logObserver) Checkpointed(path string, h checkpoint.Header, bytes int64, took time.Duration) {
	l.log.Info("checkpoint", "path", path, "examples", h.Examples, "bytes", bytes, "took", took, "state_hash", hash(h.StateHash))
}

// Published implements trainer.Observer.
func (l logObserver) Published(u *stream.Update, took time.Duration) {
	l.log.Info("model published", "model", u.Model, "version", u.Version, "kind", u.Kind, "examples", u.Examples, "bytes", len(u.Payload), "took", took)
}
