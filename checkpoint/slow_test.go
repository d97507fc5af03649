package checkpoint_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// lines is a source of n records that come ten at a time.
type lines struct{ next, n int }

func (l *lines) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if l.next >= l.n {
		return dst, io.EOF
	}
	for range 10 {
		dst = append(dst, stream.Record{Topic: "t", Offset: int64(l.next), Value: fmt.Appendf(nil, "%+d 1:%d 2:1", 1-2*(l.next%2), l.next%7)})
		l.next++
	}
	return dst, ctx.Err()
}

func (l *lines) Close() error { return nil }

// progress counts what has been consumed, and checkpoints.
type progress struct {
	mu       sync.Mutex
	consumed uint64
	saved    []uint64
	moved    chan struct{}
}

func (p *progress) Consumed(e *engine.Engine, _ int64) {
	p.mu.Lock()
	p.consumed = e.Counts().Consumed
	p.mu.Unlock()
	select {
	case p.moved <- struct{}{}:
	default:
	}
}

func (p *progress) Checkpointed(_ string, h checkpoint.Header, _ int64, _ time.Duration) {
	p.mu.Lock()
	p.saved = append(p.saved, h.Examples)
	p.mu.Unlock()
}

// TestSlowDisk: while a checkpoint waits for the disk, learning goes on; the
// next one is taken when it is there, and in the end nothing is lost.
func TestSlowDisk(t *testing.T) {
	const n = 5000
	dec, err := codec.New("libsvm", codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := registry.Lookup("online")
	if err != nil {
		t.Fatal(err)
	}
	run := func(o checkpoint.Options, p *progress) uint64 {
		store, err := checkpoint.Open(t.TempDir(), o)
		if err == nil {
			_, err = store.Claim(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.NewEngine(engine.Config{Spec: spec, Seed: 1, Warmup: 50})
		if err != nil {
			t.Fatal(err)
		}
		cfg := engine.RunConfig{Source: &lines{n: n}, Decoder: dec, Store: store, CheckpointEvery: 50, Hooks: []any{p}}
		if _, err := engine.Run(t.Context(), e, cfg); err != nil {
			t.Fatal(err)
		}
		snap, err := store.Load()
		if err != nil || snap.Header.Examples != n {
			t.Fatal(snap, err)
		}
		return snap.Header.StateHash
	}
	want := run(checkpoint.Options{}, &progress{})

	// Each fsync lasts until a tenth of the stream has been learned meanwhile.
	p := &progress{moved: make(chan struct{}, 1)}
	slow := checkpoint.WithSync(checkpoint.Options{}, func() {
		p.mu.Lock()
		until := min(p.consumed+n/10, n)
		p.mu.Unlock()
		for {
			p.mu.Lock()
			there := p.consumed >= until
			p.mu.Unlock()
			if there {
				return
			}
			select {
			case <-p.moved:
			case <-t.Context().Done():
				return
			}
		}
	})
	if got := run(slow, p); got != want {
		t.Errorf("state %x with a slow disk, %x without", got, want)
	}
	if len(p.saved) < 2 || len(p.saved) > 12 {
		t.Errorf("checkpoints after %v examples", strings.Trim(fmt.Sprint(p.saved), "[]"))
	}
}
