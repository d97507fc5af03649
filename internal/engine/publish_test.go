package engine

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/delta"
	"github.com/streamsvm/streamsvm/stream"
)

// fold returns what a subscriber holds after each update. It fails the test if
// one cannot be chained.
func fold(t *testing.T, updates []stream.Update) (fulls [][]byte) {
	t.Helper()
	var cur stream.Update
	for i, u := range updates {
		if xxhash.Sum64(u.Payload) != u.Hash {
			t.Fatalf("update %d has a wrong hash", i)
		}
		if u.Kind == stream.Delta {
			if u.Base != cur.Version || u.Epoch != cur.Epoch {
				t.Fatalf("update %d is a delta on version %d, the one before is version %d", i, u.Base, cur.Version)
			}
			full, err := delta.Patch(cur.Payload, u.Payload)
			if err != nil {
				t.Fatalf("update %d: %v", i, err)
			}
			u.Payload = full
		}
		cur = u
		fulls = append(fulls, u.Payload)
	}
	return fulls
}

// TestDeltasOfLearners publishes every learner after every 50 examples, as
// fulls and with deltas: a subscriber must not see a difference.
func TestDeltasOfLearners(t *testing.T) {
	for _, spec := range registry.All {
		t.Run(spec.Name, func(t *testing.T) {
			e := newEngine(t, config(t, spec.Name))
			d := deltas{every: 8}
			var sent []stream.Update
			var fulls [][]byte
			var size [2]int
			for items := rings(1000, 3, false); len(items) > 0; items = items[50:] {
				consume(t, e, items[:50])
				settle(t, e)
				u, err := new(RunConfig).update(e, uint64(len(sent)+1), time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				if u == nil {
					continue
				}
				s := d.next(u)
				d.published(u, s)
				sent, fulls = append(sent, *s), append(fulls, u.Payload)
				if s.Kind == stream.Delta {
					size[0] += len(s.Payload)
					size[1] += len(u.Payload)
				}
			}
			for i, got := range fold(t, sent) {
				if !bytes.Equal(got, fulls[i]) {
					t.Fatalf("update %d differs from the full", i)
				}
			}
			t.Logf("%d updates; deltas of %d bytes in place of fulls of %d", len(sent), size[0], size[1])
		})
	}
}

// TestDeltaChoice: a full comes first, at least every so many updates, for
// another epoch, and where a delta would be too large.
func TestDeltaChoice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	payload := make([]byte, 10_000)
	for i := range payload {
		payload[i] = byte(r.Uint32())
	}
	var version, epoch uint64
	d := deltas{every: 4}
	send := func(change int) *stream.Update {
		version++
		payload = bytes.Clone(payload)
		for i := range change {
			payload[i]++
		}
		u := &stream.Update{Kind: stream.Full, Version: version, Epoch: epoch, Payload: payload, Hash: xxhash.Sum64(payload)}
		s := d.next(u)
		if s.Kind == stream.Delta && (s.Base != version-1 || len(s.Payload) > change+100) {
			t.Fatalf("version %d: delta of %d bytes on version %d for a change of %d", version, len(s.Payload), s.Base, change)
		}
		d.published(u, s)
		return s
	}
	got := ""
	for i := range 20 {
		change := 10
		switch i {
		case 10:
			change = 4000
		case 14:
			change = 8000 // more than four fifths, with the patch's own bytes
		case 16:
			epoch++
		}
		got += string(send(change).Kind[0])
	}
	if want := "fdddfdddfdddfdfdfddd"; got != want {
		t.Errorf("updates are %s, want %s", got, want)
	}
	d = deltas{every: 1}
	first, second := send(1), send(1)
	if first.Kind != stream.Full || second.Kind != stream.Full || d.base != nil {
		t.Error("without deltas, not every update is a full, or one is kept")
	}
}

// paced is a source that delivers some records at a time, and after the first
// ones only when there is news.
type paced struct {
	recs []stream.Record
	each int
	news <-chan struct{}
	sent int
}

func (p *paced) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if p.sent > 1 {
		select {
		case <-p.news:
		case <-ctx.Done():
			return dst, ctx.Err()
		}
	}
	n := min(len(p.recs), p.each)
	if n == 0 {
		return dst, io.EOF
	}
	dst = append(dst, p.recs[:n]...)
	p.recs = p.recs[n:]
	p.sent++
	return dst, nil
}

func (p *paced) Close() error { return nil }

// TestRunWithDeltas: a run that publishes deltas leaves subscribers with the
// model of a run that does not, and begins with a full after a restart.
func TestRunWithDeltas(t *testing.T) {
	recs := records(6000, 4, true)
	dir := t.TempDir()
	pub := &topic{news: make(chan struct{}, 1)}
	version := uint64(0)
	for life := range 2 {
		e := newEngine(t, config(t, "sbp"))
		store := openStore(t, dir)
		if snap, err := store.Load(); err != nil {
			t.Fatal(err)
		} else if snap != nil {
			restore(t, e, snap)
		}
		part := recs[:3000]
		if life == 1 {
			part = from(recs, e.Offsets())
			if last := pub.updates[len(pub.updates)-1]; last.Version != version {
				t.Fatalf("version %d published last, the run says %d", last.Version, version)
			}
		}
		before := len(pub.updates)
		res, err := Run(t.Context(), e, RunConfig{
			Source: &paced{recs: part, each: 200, news: pub.news}, Decoder: plain{}, Store: store, Publisher: pub, Model: "m",
			Version: version, Tolerance: TolerateData, CheckpointEvery: 100, FullEvery: 5, Stop: life == 0,
		})
		if err != nil {
			t.Fatal(err)
		}
		version = res.Version
		if pub.updates[before].Kind != stream.Full {
			t.Errorf("life %d begins with a delta", life)
		}
	}
	got := fold(t, pub.updates)
	kinds, run := map[stream.UpdateKind]int{}, 0
	for _, u := range pub.updates {
		kinds[u.Kind]++
		if run++; u.Kind == stream.Full {
			run = 0
		}
		if run >= 5 {
			t.Errorf("%d updates without a full up to version %d", run, u.Version)
		}
	}
	if kinds[stream.Delta] < 2*kinds[stream.Full] {
		t.Errorf("updates: %v", kinds)
	}
	plainPub := &topic{}
	e := newEngine(t, config(t, "sbp"))
	if _, err := Run(t.Context(), e, RunConfig{
		Source: &memory{recs: recs, r: rand.New(rand.NewPCG(2, 1))}, Decoder: plain{}, Publisher: plainPub, Tolerance: TolerateData,
	}); err != nil {
		t.Fatal(err)
	}
	if want := plainPub.updates[len(plainPub.updates)-1]; !bytes.Equal(got[len(got)-1], want.Payload) {
		t.Error("the model that subscribers hold in the end is not that of a run that publishes fulls")
	}
	t.Logf("updates: %v", kinds)
}

// keeper is a store that keeps every checkpoint.
type keeper struct {
	Store
	snaps []*checkpoint.Snapshot
	news  chan struct{}
}

func (k *keeper) Save(_ context.Context, s *checkpoint.Snapshot) (string, error) {
	k.snaps = append(k.snaps, s)
	select {
	case k.news <- struct{}{}:
	default:
	}
	return "", nil
}

// TestOneModelAVersion: whichever checkpoint a run goes on from, it publishes
// again, as the version that the checkpoint names, the model that this version had.
func TestOneModelAVersion(t *testing.T) {
	for _, spec := range registry.All {
		t.Run(spec.Name, func(t *testing.T) {
			cfg := config(t, spec.Name)
			store, pub := &keeper{Store: openStore(t, t.TempDir()), news: make(chan struct{}, 1)}, &topic{}
			res, err := Run(t.Context(), newEngine(t, cfg), RunConfig{
				Source:  &paced{recs: records(1200, 5, false), each: 30, news: store.news},
				Decoder: plain{}, Store: store, Publisher: pub, CheckpointEvery: 10,
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(store.snaps) < 20 || res.Version == 0 {
				t.Fatalf("%d checkpoints, %d versions", len(store.snaps), res.Version)
			}
			models := map[uint64]uint64{}
			for _, u := range pub.updates {
				models[u.Version] = u.Hash
			}
			for _, snap := range store.snaps {
				e := newEngine(t, cfg)
				restore(t, e, snap)
				again := &topic{}
				if err := Republish(t.Context(), e, RunConfig{Publisher: again}, snap.Header); err != nil {
					t.Fatal(err)
				}
				for _, u := range again.updates {
					if want := models[u.Version]; u.Hash != want {
						t.Fatalf("after %d examples, %d steps: version %d is published again with another model", snap.Header.Examples, e.steps, u.Version)
					}
				}
			}
			t.Logf("%d checkpoints, %d versions", len(store.snaps), res.Version)
		})
	}
}
