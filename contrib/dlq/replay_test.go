package dlq

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/internal/testkit/lettertest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

func sum(o stream.Offsets) (n int64) {
	for _, at := range o {
		n += at
	}
	return n
}

// noCommit is a group that is killed instead of the commit with this number.
type noCommit struct {
	*kafkaio.Group
	left    int
	written func() int // records that the brokers hold
	early   int        // commits of more letters than that
}

// slowProducer sends nothing before it has to.
type slowProducer struct {
	*kafkaio.Producer
	held []stream.Record
}

func (p *slowProducer) Produce(_ context.Context, recs ...stream.Record) error {
	p.held = append(p.held, recs...)
	return nil
}

func (p *slowProducer) Flush(ctx context.Context) error {
	if err := p.Producer.Produce(ctx, p.held...); err != nil {
		return err
	}
	p.held = nil
	return p.Producer.Flush(ctx)
}

var errKilled = errors.New("killed")

func (g *noCommit) Commit(ctx context.Context, o stream.Offsets, note string) error {
	if g.written() < int(sum(o)) {
		g.early++
	}
	if g.left--; g.left < 0 {
		return errKilled
	}
	return g.Group.Commit(ctx, o, note)
}

// TestDLQReplayKilledBeforeCommit ends a replay between the acknowledgement of
// what was sent and the commit: the next one sends that batch again, and
// nothing else.
func TestDLQReplayKilledBeforeCommit(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	const n, batch = 300, 70
	topic, dead := lettertest.Topic(t, brokers, n)
	life := func(commits int) (*letterReplay, error) {
		cfg := kafkaio.Config{Brokers: brokers, Log: slog.New(slog.DiscardHandler)}
		g, err := kafkaio.OpenGroup(cfg, dead, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		r := &letterReplay{
			letterFlags: &letterFlags{cfg: cfg, exit: func(err error) error { return err }, letters: []string{dead}, suffix: ".dlq", c: &cli.Call{Log: cfg.Log}},
			from:        "earliest", outOfRange: "fail", batch: batch, positions: g,
		}
		src, err := r.begin(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		p, err := kafkaio.NewProducer(t.Context(), kafkaio.ProducerOptions{Config: cfg, Partition: samePartition()})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		r.p = &slowProducer{Producer: p}
		killed := &noCommit{Group: g, left: commits, written: func() int { return len(kafkatest.ReadAll(t, brokers, topic)) }}
		r.positions = killed
		err = r.feed(t.Context(), src)
		if killed.early > 0 {
			t.Errorf("%d times a position was committed before its records were written", killed.early)
		}
		return r, err
	}
	for i, commits := range []int{0, 1, 0} {
		r, err := life(commits)
		if !errors.Is(err, errKilled) {
			t.Fatalf("life %d: %v", i, err)
		}
		if r.pending > batch {
			t.Errorf("life %d: %d letters without a commit, more than a batch", i, r.pending)
		}
		if twice, _ := lettertest.Came(t, brokers, topic, n); twice > (i+1)*batch {
			t.Errorf("life %d: %d records twice", i, twice)
		}
	}
	if _, err := life(1 << 20); err != nil {
		t.Fatal(err)
	}
	if twice, missing := lettertest.Came(t, brokers, topic, n); missing != 0 || twice != 3*batch {
		t.Errorf("%d records are missing, and %d there twice, want 0 and %d", missing, twice, 3*batch)
	}
	if r, err := life(0); err != nil || r.n.read != 0 {
		t.Errorf("after the end: %d letters, %v", r.n.read, err)
	}
}
