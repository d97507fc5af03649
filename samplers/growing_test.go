package samplers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The protocol of Growing against the paper's bookkeeping: sizes follow the
// rule, T_k is fresh and disjoint from all of S up to k, what is recycled is the
// first part of T_k, S never exceeds its limit, and what leaves are the oldest.
func TestGrowing(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := Growth{
			Rule: []string{"fixed", "geometric"}[seed%2], Step: r.IntN(40), Factor: 1.01 + r.Float64(),
			Initial: 1 + r.IntN(20), Max: 100 + r.IntN(200), TMax: []int{0, 10}[r.IntN(2)],
			Recycle: r.IntN(3) > 0, Full: []string{"stop", "replace", "window"}[r.IntN(3)], Stride: 1 + r.IntN(5),
		}
		if r.IntN(2) == 0 {
			g.Reserve, g.ReserveLeast = 4, 2
		}
		b, err := NewGrowing(Options{}, g)
		if err != nil {
			t.Fatal(err)
		}
		var s []uint64 // S, by age
		was := map[uint64]string{}
		seq, limit := uint64(0), g.Max
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d, %+v: |S| = %d after %d: %s", seed, g, len(s), seq, fmt.Sprintf(format, args...))
		}
		size := func() int { // the paper's |S_k|
			n := len(s)
			if g.Rule == "fixed" {
				n += g.Step
			} else {
				n += max(1, int(math.Ceil(float64(n)*(g.Factor-1))))
			}
			return max(len(s), min(n, limit))
		}
		for range 40 {
			pending := len(b.Pending())
			for b.Need().Fresh > 0 {
				seq++
				if fate := add(t, b, labelled(seq)); fate == Learned {
					pending++
				} else if !b.Holds() {
					fail("example %d is sampled out", seq)
				}
			}
			d := b.Take()
			for _, x := range d.Join {
				if was[x.Seq] != "" {
					fail("%d joins again, after %s", x.Seq, was[x.Seq])
				}
				was[x.Seq] = "S"
			}
			for _, x := range d.Test {
				if was[x.Seq] != "" {
					fail("validation draw %d is not fresh, but of %s", x.Seq, was[x.Seq])
				}
				was[x.Seq] = "T"
			}
			if pending -= len(d.Join) + len(d.Test); pending != len(b.Pending()) {
				fail("%d draws are pending, want %d", len(b.Pending()), pending)
			}
			grown := size()
			switch {
			case len(s) == 0:
				if n := len(d.Join); n > g.Initial || n < g.Initial*3/4 || g.Reserve == 0 && n < g.Initial || len(d.Test) > 0 {
					fail("S_0 is of %d", n)
				}
			case !g.Recycle && len(d.Join) != grown-len(s), g.Recycle && len(d.Join) > 0:
				fail("%d join, want %d", len(d.Join), grown-len(s))
			case len(d.Test) == 0:
				fail("there are no validation draws")
			case g.TMax > 0 && len(d.Test) > g.TMax, len(d.Test) > len(s):
				fail("%d validation draws", len(d.Test))
			case !g.Recycle && !b.Holds() && g.Reserve == 0 && g.TMax == 0 && len(d.Test) != len(s):
				fail("%d validation draws, want as many as there are members", len(d.Test))
			}
			for i, x := range d.Join {
				if d.Slots[i] != len(s) {
					fail("slot %d, want %d", d.Slots[i], len(s))
				}
				s = append(s, x.Seq)
			}
			if len(d.Test) > 0 {
				want := min(len(d.Test), size()-len(s))
				if len(s) >= limit && g.Full != "stop" {
					want = len(d.Test)
				}
				if !g.Recycle {
					want = 0
				}
				join, gone := b.Admit()
				if join != want || len(gone) != max(0, len(s)+join-limit) {
					fail("%d of %d recycled, %d leave; want %d", join, len(d.Test), len(gone), want)
				}
				for i, slot := range gone {
					if slot != i {
						fail("%d leaves before %d", slot, i)
					}
				}
				for _, x := range d.Test[:join] {
					s = append(s, x.Seq)
				}
				if r.IntN(2) == 0 { // others instead
					gone = slices.Clip(gone)
					for i := range gone {
						gone[i] += (len(s) - join - len(gone)) / 2
					}
				}
				b.Leave(gone)
				for i := range slices.Backward(gone) {
					s = slices.Delete(s, gone[i], gone[i]+1)
				}
			}
			if b.Len() != len(s) || len(s) > limit {
				fail("%d members, want %d", b.Len(), len(s))
			}
			for i, want := range s {
				if b.Seq(i) != want {
					fail("slot %d holds %d, want %d", i, b.Seq(i), want)
				}
			}
			switch {
			case r.IntN(8) == 0 && g.Recycle && g.Full != "stop" && len(s) > 0:
				limit = len(s)
				b.Hold(limit)
			case r.IntN(8) == 0:
				limit = g.Max
				b.Resume()
			}
		}
	}
}

// A sample that holds its size takes one arrival in so many, and one that waits
// takes none in beyond the draws of the next step.
func TestHoldAndWait(t *testing.T) {
	b, err := NewGrowing(Options{}, Growth{Rule: "geometric", Factor: 2, Initial: 64, Max: 1000, Recycle: true, Full: "replace", Stride: 16})
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	fill := func() (arrivals, learned int) {
		for b.Need().Fresh > 0 {
			seq++
			arrivals++
			if add(t, b, labelled(seq)) == Learned {
				learned++
			}
		}
		return arrivals, learned
	}
	fill()
	b.Take()
	b.Hold(64)
	if a, n := fill(); a != 64 || n != 4 || !b.Holds() {
		t.Fatalf("%d of %d arrivals are draws", n, a)
	}
	if d := b.Take(); len(d.Test) != 4 || d.Test[0].Seq != 80 {
		t.Fatalf("%d draws", len(d.Test))
	}
	join, gone := b.Admit()
	b.Leave(gone)
	if join != 4 || len(gone) != 4 || b.Len() != 64 {
		t.Fatalf("%d for %d", join, len(gone))
	}
	b.Resume()
	b.Wait(true)
	if a, n := fill(); a != 64 || n != 64 || !b.Waits() {
		t.Fatalf("%d of %d arrivals are draws", n, a)
	}
	if add(t, b, labelled(1)) != SampledOut {
		t.Fatal("there is no room")
	}
	if d := b.Take(); len(d.Test)+len(d.Join) > 0 || len(b.Pending()) != 64 || b.Len() != 64 {
		t.Fatalf("%+v", d)
	}
	b.Wait(false)
	if n := b.Need(); n.Fresh != 0 {
		t.Fatalf("%+v", n)
	}
}

// A sample that is to hold fewer members than it has takes none in, and gives up
// the oldest.
func TestHoldFewer(t *testing.T) {
	b, err := NewGrowing(Options{}, Growth{Rule: "geometric", Factor: 2, Initial: 8, Max: 100, Recycle: true, Full: "stop", Stride: 1})
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	for _, size := range []int{8, 4} {
		for b.Need().Fresh > 0 {
			seq++
			add(t, b, labelled(seq))
		}
		b.Take()
		b.Hold(size)
	}
	if join, gone := b.Admit(); join != 0 || !slices.Equal(gone, []int{0, 1, 2, 3}) {
		t.Errorf("%d join, %d leave", join, gone)
	}
}

// At the end of a bounded stream everything pending joins, in order, as far as
// there is room.
func TestGrowingDrain(t *testing.T) {
	for _, full := range []string{"stop", "replace"} {
		for _, n := range []uint64{0, 3, 20, 90} {
			if _, err := NewGrowing(Options{Seed: 1}, Growth{Rule: "fixed", Step: 100, Initial: 100, Max: 40, Full: full, Stride: 1}); err == nil {
				t.Fatal("the first sample is larger than the largest")
			}
			b, err := NewGrowing(Options{Seed: 1}, Growth{Rule: "fixed", Step: 100, Initial: 40, Max: 40, Full: full, Stride: 1})
			if err != nil {
				t.Fatal(err)
			}
			for seq := range n {
				add(t, b, labelled(seq+1))
			}
			seen, rounds := map[uint64]bool{}, 0
			for d := b.Drain(); len(d.Join)+len(d.Test) > 0; d = b.Drain() {
				rounds++
				for _, x := range slices.Concat(d.Join, d.Test) {
					if seen[x.Seq] {
						t.Fatalf("%d comes twice", x.Seq)
					}
					seen[x.Seq] = true
				}
				if len(d.Test) > 0 {
					join, gone := b.Admit()
					if full == "stop" && join > 0 || full == "replace" && (join != len(d.Test) || len(gone) != join) {
						t.Fatalf("%s: %d of %d join a full sample, %d leave", full, join, len(d.Test), len(gone))
					}
					b.Leave(gone)
				}
			}
			if len(seen) != int(n) || b.Len() != min(int(n), 40) || rounds > 5 {
				t.Fatalf("%d of %d in %d rounds, %d members", len(seen), n, rounds, b.Len())
			}
		}
	}
}
