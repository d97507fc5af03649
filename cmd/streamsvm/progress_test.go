package main

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/synth"
)

// TestProgressLines: lines stand at powers of two, "last" is over the examples
// since the line before, and the rate is not that of a burst.
func TestProgressLines(t *testing.T) {
	spec, err := registry.Lookup("sbp")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.NewEngine(engine.Config{Spec: spec, Seed: 1, Scale: "none"})
	if err != nil {
		t.Fatal(err)
	}
	gen, err := synth.New("moons", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	p := newProgress(&cli.Call{Stdio: cli.Stdio{Err: &b}})
	now := p.last
	p.now = func() time.Time { return now }
	type point struct{ n, right float64 }
	points := map[int]point{0: {}}
	for i := range 4000 {
		it := engine.Item{Partition: stream.Partition{Topic: "t"}, Offset: int64(i)}
		gen.Next(&it.Example)
		if _, err := e.Consume(t.Context(), []engine.Item{it}); err != nil {
			t.Fatal(err)
		}
		if err := e.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, _ := e.Prequential().Accuracy()
		n := float64(e.Prequential().Examples())
		points[i+1] = point{n, all * n}
		// 1,000 records a second, in bursts of a second.
		if i%1000 == 999 {
			now = now.Add(time.Second)
		}
		p.Consumed(e, 0)
	}
	p.e = e
	p.done()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")[2:] // after the head
	var at []string
	before := point{}
	for _, line := range lines {
		f := strings.Fields(line)
		at = append(at, f[0])
		n, err := strconv.Atoi(f[0])
		if err != nil {
			t.Fatal(err)
		}
		here := points[n]
		if want := short((here.right - before.right) / (here.n - before.n)); f[1] != want {
			t.Errorf("at %d the accuracy since the last line is %s, want %s", n, f[1], want)
		}
		if want := short(here.right / here.n); f[2] != want {
			t.Errorf("at %d the accuracy is %s, want %s", n, f[2], want)
		}
		if rate, err := strconv.Atoi(f[len(f)-1]); n >= 2048 && (err != nil || rate < 900 || rate > 2100) {
			t.Errorf("at %d the rate is %d, want about 1000", n, rate)
		}
		before = here
	}
	if got := strings.Join(at, " "); got != "1 2 4 8 16 32 64 128 256 512 1024 2048 4000" {
		t.Errorf("lines at %s", got)
	}
}
