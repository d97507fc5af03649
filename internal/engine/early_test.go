package engine

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
)

// TestEarlyVersions: after a change, a version follows before the interval is over, in a replay
// and in a live run; without one, none does.
func TestEarlyVersions(t *testing.T) {
	const every, n, change = 1000, 3400, 2000
	cfg := config(t, "adaptive")
	cfg.VersionEvery = every
	var items []Item
	var recs []stream.Record
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		x := []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}
		y := math.Copysign(1, float64(x[0]))
		if i >= change {
			y = -y
		}
		items = append(items, Item{Partition: stream.Partition{Topic: "t"}, Offset: int64(i), Example: stream.Example{X: stream.Vec{Val: x}, Y: y, Labelled: true}})
		v := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(y)))
		for _, f := range x {
			v = binary.LittleEndian.AppendUint32(v, math.Float32bits(f))
		}
		recs = append(recs, stream.Record{Topic: "t", Offset: int64(i), Value: v})
	}

	// What the learner says, settled at every look.
	learner := newEngine(t, cfg)
	var looks []int
	for i := range items {
		if i%every%int(algos.EarlyAfter(every)) == 0 {
			if settle(t, learner); learner.early() {
				looks = append(looks, i)
			}
			learner.noteEarly()
		}
		consume(t, learner, items[i:i+1])
	}
	ready := make(chan struct{})
	close(ready)
	for _, delay := range []int{0, 50} {
		replayed := cfg
		replayed.PublishEvery, replayed.Delay = every, delay
		e := newEngine(t, replayed)
		var at []int // records at the versions
		for i := range items {
			before := e.published.Report(nil).Versions
			consume(t, e, items[i:i+1])
			if e.published.Report(nil).Versions > before {
				at = append(at, i)
			}
		}
		var early []int
		for _, i := range at {
			if i%every != 0 {
				early = append(early, i)
			}
			if i%every%int(algos.EarlyAfter(every)) != 0 {
				t.Errorf("a version after %d records", i)
			}
		}
		if err := e.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := e.AsPublished()
		if len(early) == 0 || early[0] < change || early[0] > change+every/2+delay || len(at)-len(early) != n/every || p.Early != uint64(len(early)) || p.Versions != uint64(len(at)) {
			t.Errorf("versions after %d records, reported are %d, %d of them early", at, p.Versions, p.Early)
		}
		if delay == 0 && !slices.Equal(early, looks) {
			t.Errorf("early versions after %d records, by the learner %d", early, looks)
		}
		if p.Accuracy < .8 { // without early versions it is below .6
			t.Errorf("accuracy as published %v", p.Accuracy)
		}

		whole := newEngine(t, replayed)
		if _, err := Run(t.Context(), whole, RunConfig{Source: &paced{recs: recs, each: 50, news: ready}, Decoder: plain{}}); err != nil {
			t.Fatal(err)
		}
		if w := whole.AsPublished(); w.Early != p.Early || w.Versions != p.Versions || w.Accuracy != p.Accuracy {
			t.Errorf("a run has %d versions, %d of them early, and accuracy %v; want %d, %d, %v", w.Versions, w.Early, w.Accuracy, p.Versions, p.Early, p.Accuracy)
		}
	}

	// Without an interval in records, a tenth of that in time has to pass.
	timed := &run{RunConfig: RunConfig{CheckpointInterval: time.Hour, Publisher: &topic{}}, e: newEngine(t, config(t, "adaptive")), last: time.Now()}
	consume(t, timed.e, items[:change])
	for _, it := range items[change:] {
		if consume(t, timed.e, []Item{it}); timed.e.early() {
			break
		}
	}
	if !timed.e.early() || timed.early() {
		t.Errorf("a version is due: %v, at once: %v", timed.e.early(), timed.early())
	}
	if timed.last = timed.last.Add(-7 * time.Minute); !timed.early() {
		t.Error("no version is due after a tenth of the interval")
	}
	timed.Publisher = nil
	if timed.early() {
		t.Error("a version is due without a topic for it")
	}
	timed.Publisher, timed.e.promotion = &topic{}, struct{ promote.Gate }{}
	if timed.early() {
		t.Error("a version is due that the gate has not taken")
	}
	timed.e.promotion = nil
	if _, err := Run(t.Context(), timed.e, RunConfig{Source: &paced{}, Decoder: plain{}, Stop: true}); err != nil {
		t.Fatal(err)
	}
	if timed.early() {
		t.Error("a version is due after a restart, which publishes the latest one again")
	}

	// Live, from a few records at a time and from a backlog.
	for _, each := range []int{50, n} {
		pub, e := &topic{}, newEngine(t, cfg)
		if _, err := Run(t.Context(), e, RunConfig{
			Source: &paced{recs: recs, each: each, news: ready}, Decoder: plain{}, Publisher: pub, CheckpointEvery: every,
		}); err != nil {
			t.Fatal(err)
		}
		sooner, regular := false, 0 // a version in use may delay the next a little
		var live []uint64
		for _, u := range pub.updates[:len(pub.updates)-1] { // the last one ends the run
			sooner = sooner || u.Examples > change && u.Examples <= uint64(looks[0])+128
			if u.Examples >= every && u.Examples%every <= 128 {
				regular++
			}
			live = append(live, u.Examples)
		}
		if !sooner || regular < n/every || e.early() {
			t.Errorf("a live run publishes after %d examples; the learner says after %d", live, looks)
		}
	}
}
