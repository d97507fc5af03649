package main

import (
	"log/slog"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
)

// observers tells several observers.
type observers []engine.Observer

// Consumed implements engine.Observer.
func (os observers) Consumed(e *engine.Engine, queued int64) {
	for _, o := range os {
		o.Consumed(e, queued)
	}
}

// Dead implements engine.Observer.
func (os observers) Dead(why *stream.RecordError) {
	for _, o := range os {
		o.Dead(why)
	}
}

// Checkpointed implements engine.Observer.
func (os observers) Checkpointed(path string, h checkpoint.Header, bytes int64, took time.Duration) {
	for _, o := range os {
		o.Checkpointed(path, h, bytes, took)
	}
}

// Published implements engine.Observer.
func (os observers) Published(u *stream.Update, took time.Duration) {
	for _, o := range os {
		o.Published(u, took)
	}
}

// logObserver logs what happens, at levels that a service is usually run
// without.
type logObserver struct{ log *slog.Logger }

// Consumed implements engine.Observer.
func (l logObserver) Consumed(*engine.Engine, int64) {}

// Dead implements engine.Observer.
func (l logObserver) Dead(why *stream.RecordError) { l.log.Info("record refused", "err", why) }

// Checkpointed implements engine.Observer.
func (l logObserver) Checkpointed(path string, h checkpoint.Header, bytes int64, took time.Duration) {
	l.log.Info("checkpoint", "path", path, "examples", h.Examples, "bytes", bytes, "took", took, "state_hash", hash(h.StateHash))
}

// Published implements engine.Observer.
func (l logObserver) Published(u *stream.Update, took time.Duration) {
	l.log.Info("model published", "model", u.Model, "version", u.Version, "kind", u.Kind, "examples", u.Examples, "bytes", len(u.Payload), "took", took)
}
