package samplers_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

func TestTheoremSize(t *testing.T) {
	g := Growth{Rule: Theorem, Kappa: 1, PFail: .05, M: 1, Initial: 1, Max: math.MaxInt}
	for _, c := range []struct {
		delta, kappa float64
		want         int
	}{ // worked by hand from 8·ln(40)·4/(κ²δ⁴) = 118.04/(κ²δ⁴)
		{1, 1, 119}, {.5, 1, 1889}, {.1, 10, 11805}, {.1, 100, 119}, {.5, 2, 473},
	} {
		g.Kappa = c.kappa
		if got := g.N(c.delta); got != c.want {
			t.Errorf("N(%g) with kappa %g = %d, want %d", c.delta, c.kappa, got, c.want)
		}
	}
	g.Kappa, g.Max = 1, 5000
	for _, delta := range []float64{.1, 0, math.NaN(), 1e-300} {
		if got := g.N(delta); got != 5000 {
			t.Errorf("N(%g) = %d, want the cap", delta, got)
		}
	}
	if got := g.Size(3000, 1); got != 3000 {
		t.Errorf("the sample shrank to %d", got)
	}
}

func TestGrowthValidate(t *testing.T) {
	good := Growth{Rule: Fixed, Initial: 4, Max: 10}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Growth){
		"rule = linear":           func(g *Growth) { g.Rule = "linear" },
		"initial size = 0":        func(g *Growth) { g.Initial = 0 },
		"largest size = 3":        func(g *Growth) { g.Max = 3 },
		"t_max = -1":              func(g *Growth) { g.TMax = -1 },
		"refresh = -2":            func(g *Growth) { g.Refresh = -2 },
		"step = -5":               func(g *Growth) { g.Step = -5 },
		"ratio = 0.5":             func(g *Growth) { g.Rule, g.Ratio = Geometric, .5 },
		"ratio = NaN":             func(g *Growth) { g.Rule, g.Ratio = Geometric, math.NaN() },
		"kappa = 0":               func(g *Growth) { g.Rule = Theorem },
		"failure probability = 1": func(g *Growth) { g.Rule, g.Kappa, g.PFail = Theorem, 1, 1 },
		"M = -1":                  func(g *Growth) { g.Rule, g.Kappa, g.PFail, g.M = Theorem, 1, .5, -1 },
	} {
		g := good
		change(&g)
		if _, err := NewGrowing(g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// The protocol of Growing against the paper's bookkeeping: sizes follow the
// rule, T_k is fresh and disjoint from all of S up to k, s_{k+1} comes from T_k
// first where recycling is on, and no example is used for anything else.
func TestGrowing(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		rule := Growth{
			Rule: []Rule{Fixed, Geometric, Theorem}[seed%3], Step: 1 + random.IntN(40), Ratio: 1 + random.Float64(),
			Kappa: 5, PFail: .1, M: 1, Initial: 1 + random.IntN(20), Max: 100 + random.IntN(200),
			TMax: []int{0, 10, 1 << 30}[random.IntN(3)], Recycle: random.IntN(2) == 0, Refresh: random.IntN(2) * 3,
		}
		g, err := NewGrowing(rule)
		if err != nil {
			t.Fatal(err)
		}
		inS, inT := map[uint64]bool{}, map[uint64]bool{}
		var lastT []*stream.Example
		var slots []uint64
		seq, size, delta := uint64(0), 0, 1.0
		for k := 0; k < 40 && !g.Done(); k++ {
			wantJoin, wantTest := rule.Initial, 0
			if k > 0 {
				next := rule.Size(size, delta)
				wantJoin, wantTest = next-size, min(next, rule.TMax)
				if size == rule.Max {
					wantJoin = rule.Refresh
				}
			}
			if a, b := g.Planned(); a != wantJoin || b != wantTest {
				t.Fatalf("seed %d, k %d: planned %d and %d, want %d and %d", seed, k, a, b, wantJoin, wantTest)
			}
			recycled := 0
			if rule.Recycle {
				recycled = min(wantJoin, len(lastT))
			}
			if got, want := g.Need(), wantJoin-recycled+wantTest; got != want {
				t.Fatalf("seed %d, k %d: need %d, want %d", seed, k, got, want)
			}
			first := seq + 1
			for g.Need() > 0 {
				before := g.Need()
				seq++
				if !g.Add(example(seq)) || g.Need() != before-1 {
					t.Fatalf("seed %d: example %d not taken", seed, seq)
				}
			}
			join, test := g.Take()
			if len(join) != wantJoin || len(test) != wantTest {
				t.Fatalf("seed %d, k %d: took %d and %d", seed, k, len(join), len(test))
			}
			for i, x := range join {
				switch {
				case i < recycled && x != lastT[i]:
					t.Fatalf("seed %d, k %d: s_k does not begin with T_{k-1}", seed, k)
				case i >= recycled && x.Seq < first, inS[x.Seq]:
					t.Fatalf("seed %d, k %d: %d joins S again, or late", seed, k, x.Seq)
				}
				inS[x.Seq] = true
				if len(slots) < rule.Max {
					if slot := g.Append(x); slot != len(slots) {
						t.Fatalf("slot %d, want %d", slot, len(slots))
					}
					slots = append(slots, x.Seq)
				} else {
					slot := random.IntN(len(slots))
					if old := g.Replace(slot, x); old != slots[slot] {
						t.Fatalf("replaced %d, want %d", old, slots[slot])
					}
					slots[slot] = x.Seq
				}
			}
			for _, x := range test {
				if x.Seq < first || inT[x.Seq] || inS[x.Seq] {
					t.Fatalf("seed %d, k %d: validation draw %d is not fresh", seed, k, x.Seq)
				}
				inT[x.Seq] = true
			}
			lastT = test
			size = len(slots)
			if g.Len() != size {
				t.Fatalf("seed %d: %d members, want %d", seed, g.Len(), size)
			}
			for i, s := range slots {
				if g.Seq(i) != s || g.Label(i) != example(s).Y || g.Labels()[i] != g.Label(i) {
					t.Fatalf("seed %d: slot %d holds %d, want %d", seed, i, g.Seq(i), s)
				}
			}
			pending := 16 * size
			if rule.Recycle {
				for _, x := range test {
					pending += x.Bytes() + 8
				}
			}
			if g.Bytes() != pending {
				t.Fatalf("seed %d: %d bytes, want %d", seed, g.Bytes(), pending)
			}
			delta = []float64{delta / 2, min(2*delta, 1)}[random.IntN(2)]
			g.Plan(delta)
		}
		if g.Done() != (size == rule.Max && rule.Refresh == 0 && rule.TMax == 0) {
			t.Fatalf("seed %d: Done = %v at size %d", seed, g.Done(), size)
		}
		if g.Done() && g.Add(example(seq+1)) {
			t.Fatalf("seed %d: a finished sample wants more", seed)
		}
	}
}

func TestGrowingRest(t *testing.T) {
	g, err := NewGrowing(Growth{Rule: Fixed, Step: 2, Initial: 3, Max: 12, TMax: 4, Recycle: true})
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 3; seq++ {
		g.Add(example(seq))
	}
	join, _ := g.Take()
	for _, x := range join {
		g.Append(x)
	}
	g.Plan(1) // 2 join, 4 validate
	for seq := uint64(4); seq <= 9; seq++ {
		g.Add(example(seq))
	}
	join, test := g.Take() // 4 5 | 6 7 8 9
	if names(join) != "[ 4 5]" || names(test) != "[ 6 7 8 9]" {
		t.Fatalf("took %s and %s", names(join), names(test))
	}
	for _, x := range join {
		g.Append(x)
	}
	g.Plan(1)
	for seq := uint64(10); seq <= 11; seq++ {
		g.Add(example(seq))
	}
	if g.Pending() != 2 {
		t.Fatalf("%d pending", g.Pending())
	}
	if rest := g.Rest(); names(rest) != "[ 6 7 8 9 10 11]" || g.Pending() != 0 || g.Rest() != nil {
		t.Fatalf("the rest is %s", names(rest))
	}
	for seq := uint64(12); seq <= 32; seq++ {
		g.Add(example(seq))
	}
	if rest := g.Rest(); len(rest) != 7 {
		t.Fatalf("%d examples for the 7 places that are left", len(rest))
	}
	g.Keep([]int32{4, 0, 2})
	if g.Len() != 3 || g.Seq(0) != 5 || g.Seq(1) != 1 || g.Label(2) != example(3).Y {
		t.Fatalf("kept %d, %d", g.Seq(0), g.Seq(1))
	}
}
