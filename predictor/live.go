package predictor

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/stream"
)

// Version is a compiled predictor from a model topic.
type Version struct {
	*Predictor
	// Update is the update that it came in, without payload.
	Update stream.Update
}

// Live follows a model topic. Any number of readers may call Current; a new version
// replaces the old one atomically.
type Live struct {
	cur   atomic.Pointer[Version]
	first chan struct{}
	done  chan struct{}
	err   error
}

// FollowOptions are the options of Follow.
type FollowOptions struct {
	// OnUpdate, if not nil, is called after each swap, on Follow's goroutine.
	OnUpdate func(*Version)
	// Log reports updates that cannot be used; nil discards them.
	Log *slog.Logger
}

// Follow follows sub until ctx ends or sub fails. An update that does not decode is
// logged and skipped: the version before it stays in use.
func Follow(ctx context.Context, sub stream.Subscriber, o FollowOptions) *Live {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Live{first: make(chan struct{}), done: make(chan struct{})}
	crash.Go(func() {
		l.err = l.follow(ctx, sub, o)
		close(l.done) // not executed after a panic
	})
	return l
}

// follow handles updates until ctx ends or sub fails.
func (l *Live) follow(ctx context.Context, sub stream.Subscriber, o FollowOptions) error {
	var u *stream.Update
	defer crash.Recover(func() string {
		if u == nil {
			return "following the model"
		}
		return fmt.Sprintf("taking over version %d of model %s", u.Version, u.Model)
	})
	for {
		var err error
		if u, err = sub.Next(ctx); err != nil {
			return err
		}
		p, err := Decode(u.Payload)
		if err != nil {
			o.Log.Error("model update refused", "model", u.Model, "version", u.Version, "err", err)
			continue
		}
		v := &Version{Predictor: p.Compile(), Update: *u}
		v.Update.Payload = nil
		if l.cur.Swap(v) == nil {
			close(l.first)
		}
		if o.OnUpdate != nil {
			o.OnUpdate(v)
		}
	}
}

// Current returns the newest version, or nil before the first has arrived.
func (l *Live) Current() *Version { return l.cur.Load() }

// Wait returns the newest version, waiting for the first one if necessary. It fails
// if ctx ends, or following stops, before a version has arrived.
func (l *Live) Wait(ctx context.Context) (*Version, error) {
	select {
	case <-l.first:
	case <-l.done:
		if v := l.cur.Load(); v != nil {
			return v, nil
		}
		return nil, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return l.cur.Load(), nil
}

// Done is closed when following has stopped; Err then says why.
func (l *Live) Done() <-chan struct{} { return l.done }

// Err returns why following has stopped. It may be called after Done is
// closed.
func (l *Live) Err() error { return l.err }
