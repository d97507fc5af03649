package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

func TestComplaints(t *testing.T) {
	b := func(right int, ratio float64) block { return block{scored: 10000, right: right, ratio: ratio} }
	for name, tt := range map[string]struct {
		blocks []block
		want   int
	}{
		"none":                  {nil, 0},
		"level":                 {[]block{b(8800, 0), b(8790, 0.9), b(8850, 1)}, 0},
		"rising":                {[]block{b(7000, 0), b(8000, 0), b(9000, 0)}, 0},
		"3.9 deviations":        {[]block{b(9000, 0), b(9000-168, 0)}, 0},
		"4.2 deviations":        {[]block{b(9000, 0), b(9000-184, 0)}, 1},
		"slowly, step by step":  {[]block{b(9000, 0), b(8900, 0), b(8800, 0)}, 1},
		"above the bound":       {[]block{b(9000, 0.5), b(9000, 1.01)}, 1},
		"both":                  {[]block{b(9000, 0.5), b(5000, math.Inf(1))}, 2},
		"nothing scored":        {[]block{{}, b(9000, 0), {}}, 0},
		"no errors, then a few": {[]block{b(10000, 0), b(9997, 0)}, 0},
	} {
		if got := complaints(tt.blocks); len(got) != tt.want {
			t.Errorf("%s: %q, want %d", name, got, tt.want)
		}
	}
}

func TestBlockStep(t *testing.T) {
	nan := math.NaN()
	var b block
	b.step(nan, nan, 0)
	if b.given || b.bounded || b.ratio != 0 {
		t.Errorf("%+v after a step without certificate and bound", b)
	}
	b.step(0.02, 0.1, 0)
	b.step(0.01, 0.02, 0)
	b.step(0, 0, 0)
	if b.certificate != 0.02 || b.ratio != 0.5 {
		t.Errorf("certificate %v, ratio %v", b.certificate, b.ratio)
	}
	b.step(nan, 0.02, 0)
	if !math.IsInf(b.ratio, 1) {
		t.Errorf("ratio %v where the certificate is missing", b.ratio)
	}
}

// TestSameState checks that listening changes nothing, and that what is heard
// is what the engine scored.
func TestSameState(t *testing.T) {
	ctx := context.Background()
	run := func(listen bool) (uint64, float64, block) {
		in := input{args: []string{"sea block=0"}, limit: 6000, seed: 1}
		src, dec, err := in.open(ctx, "classify")
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		spec, err := registry.Lookup("scs")
		if err != nil {
			t.Fatal(err)
		}
		c := &config{block: 2500}
		c.engine = engine.Config{Spec: spec, Task: "classify", Seed: 1, Warmup: 1000, Options: map[string]string{"c": "1", "gamma": "1"}}
		tp := new(tap)
		if listen {
			c.engine.Spec = tp.spec(spec)
		}
		e, err := engine.NewEngine(c.engine)
		if err != nil {
			t.Fatal(err)
		}
		tp.engine = e
		m := &meter{config: c, t: tp, out: new(strings.Builder)}
		if err := m.learn(ctx, src, dec); err != nil {
			t.Fatal(err)
		}
		h, err := e.Hash()
		if err != nil {
			t.Fatal(err)
		}
		var all block
		for _, b := range m.blocks {
			all.scored, all.right, all.steps = all.scored+b.scored, all.right+b.right, all.steps+b.steps
		}
		accuracy, _ := e.Prequential().Accuracy()
		return h, accuracy, all
	}
	plain, want, _ := run(false)
	got, _, b := run(true)
	if got != plain {
		t.Errorf("state %x, without the tap %x", got, plain)
	}
	if b.scored != 5000 || b.accuracy() != want || b.steps == 0 {
		t.Errorf("%d of %d right in %d steps; the engine has accuracy %v", b.right, b.scored, b.steps, want)
	}
}

func TestShuffled(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "few.libsvm")
	var rows strings.Builder
	for i := range 20 {
		rows.WriteString("+1 1:" + string(rune('a'+i)) + "\n") // never decoded
	}
	if err := os.WriteFile(path, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(seed uint64, passes int) string {
		in := input{args: []string{path}, passes: passes, shuffle: seed}
		src, _, err := in.open(ctx, "classify")
		if err != nil {
			t.Fatal(err)
		}
		var s strings.Builder
		var recs []stream.Record
		for {
			if recs, err = src.Fetch(ctx, recs[:0]); err != nil {
				return s.String()
			}
			for _, r := range recs {
				s.WriteByte(r.Value[len(r.Value)-1])
			}
		}
	}
	two := read(5, 2)
	if one, next := read(5, 1), read(6, 1); two != one+next || one == next || len(one) != 20 {
		t.Errorf("two passes %q, seeds alone %q and %q", two, one, next)
	}
	if got := read(0, 2); got != "abcdefghijklmnopqrstabcdefghijklmnopqrst" {
		t.Errorf("not shuffled: %q", got)
	}
}

func TestGenerator(t *testing.T) {
	for arg, want := range map[string]bool{"sea": true, "sea block=0 noise=0.2": true, "sea block": false, "sae": false, "live_test.go": false, "": false} {
		in := input{args: []string{arg}}
		if _, _, ok := in.generator(); ok != want {
			t.Errorf("%q is a generator: %v", arg, ok)
		}
	}
	if _, ok := codec.ByFileName("sea"); ok {
		t.Error("the name of a generator is taken for a data file")
	}
}
