package samplers

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// example makes a recognisable example: features, label and form follow from
// seq.
func example(seq uint64) *stream.Example {
	x := &stream.Example{Seq: seq, Labelled: seq%5 != 0}
	if x.Labelled {
		x.Y = float64(1 - 2*int(seq/7%2))
	}
	for j := range seq % 4 {
		x.X.Val = append(x.X.Val, float32(seq)+float32(j)/8)
		if seq%3 == 0 {
			x.X.Idx = append(x.X.Idx, int32(j*j+seq%11))
		}
	}
	if seq%3 == 0 && x.X.Idx == nil {
		x.X.Idx = []int32{} // sparse without features
	}
	if seq%13 == 0 {
		x.ID = fmt.Sprint("id-", seq)
	}
	return x
}

// labelled is example with a label.
func labelled(seq uint64) *stream.Example {
	x := example(seq)
	x.Labelled, x.Y = true, float64(1-2*int(seq/7%2))
	return x
}

func same(a, b *stream.Example) bool {
	return a.Seq == b.Seq && a.ID == b.ID && a.Y == b.Y && a.Labelled == b.Labelled &&
		a.X.Sparse() == b.X.Sparse() && slices.Equal(a.X.Idx, b.X.Idx) && slices.Equal(a.X.Val, b.X.Val)
}

// chiSquare fails if counts are not what a multinomial law with the given
// expected counts gives with probability 1e-6.
func chiSquare(t *testing.T, what string, counts, expected []float64) {
	t.Helper()
	var x float64
	for i := range counts {
		d := counts[i] - expected[i]
		x += d * d / expected[i]
	}
	df := float64(len(counts) - 1)
	if p := (distuv.ChiSquared{K: df}).Survival(x); p < 1e-6 {
		t.Errorf("%s: chi-square %.1f with %.0f degrees of freedom, p = %.2g", what, x, df, p)
	}
}

func uniform(n int, total float64) []float64 {
	e := make([]float64, n)
	for i := range e {
		e[i] = total / float64(n)
	}
	return e
}

func buffer(t *testing.T, o Options) *Buffer {
	t.Helper()
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func add(t *testing.T, b interface {
	Add(*stream.Example) (Fate, error)
}, x *stream.Example) Fate {
	t.Helper()
	fate, err := b.Add(x)
	if err != nil {
		t.Fatal(err)
	}
	return fate
}

func TestAddChecks(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	ones := func(v float64) stream.Vec { return stream.Vec{Val: []float32{1, float32(v)}} }
	for _, c := range []struct {
		o     Options
		x     stream.Example
		stage stream.Stage
		want  string
	}{
		{Options{}, stream.Example{Labelled: true, Y: 3}, stream.StageLabel, "label 3 is neither +1 nor -1"},
		{Options{}, stream.Example{Labelled: true, Y: nan}, stream.StageLabel, "label NaN"},
		{Options{Regress: true}, stream.Example{Labelled: true, Y: nan}, stream.StageLabel, "not finite"},
		{Options{Regress: true}, stream.Example{Labelled: true, Y: -1e18}, stream.StageLabel, "too large"},
		{Options{}, stream.Example{Labelled: true, Y: 1, X: ones(inf)}, stream.StageFeature, "not finite"},
		{Options{}, stream.Example{Labelled: true, Y: -1, X: ones(nan)}, stream.StageFeature, "not finite"},
		{Options{}, stream.Example{Labelled: true, Y: -1, X: ones(-1e18)}, stream.StageFeature, "too large"},
		{Options{Features: 1}, stream.Example{Labelled: true, Y: -1, X: ones(0)}, stream.StageFeature, "feature 2 is beyond the limit of 1"},
		{Options{}, stream.Example{Labelled: true, Y: 1, X: ones(9e17)}, "", ""},
		{Options{Regress: true, Features: 2}, stream.Example{Labelled: true, Y: 9e17, X: ones(0)}, "", ""},
		{Options{}, stream.Example{Y: nan, X: ones(nan)}, "", ""}, // unlabelled
	} {
		c.o.Every = 1
		b := buffer(t, c.o)
		fate, err := b.Add(&c.x)
		var fe *stream.FieldError
		switch {
		case c.want == "" && (err != nil || (fate == Learned) != c.x.Labelled):
			t.Errorf("%+v: fate %d, error %v", c.x, fate, err)
		case c.want != "" && (!errors.As(err, &fe) || fe.Stage != c.stage || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: want an error of stage %s with %q, got %v", c.x, c.stage, c.want, err)
		case err != nil && len(b.Pending()) > 0:
			t.Errorf("%+v is refused, but pending", c.x)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	g := Growth{Rule: "fixed", Initial: 4, Max: 10, Full: "stop", Stride: 1}
	for want, change := range map[string]func(*Growth){
		`rule = linear`:    func(g *Growth) { g.Rule = "linear" },
		"initial size = 0": func(g *Growth) { g.Initial = 0 },
		"largest size = 3": func(g *Growth) { g.Max = 3 },
		"t_max = -1":       func(g *Growth) { g.TMax = -1 },
		"step = -1":        func(g *Growth) { g.Step = -1 },
		"factor = 1":       func(g *Growth) { g.Rule, g.Factor = "geometric", 1 },
		"factor = NaN":     func(g *Growth) { g.Rule, g.Factor = "geometric", math.NaN() },
		"full = half":      func(g *Growth) { g.Full = "half" },
		"stride = 0":       func(g *Growth) { g.Stride = 0 },
		"reserve = -1":     func(g *Growth) { g.Reserve = -1 },
	} {
		h := g
		change(&h)
		if _, err := NewGrowing(Options{}, h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	for want, o := range map[string]Options{
		"0 examples a step": {},
		"a sample of 0":     {Every: 1, Policy: Recent},
		`no policy "best"`:  {Every: 1, Policy: "best", Size: 1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	for want, u := range map[string]PoolOptions{"a sample of 0": {Batch: 1}, "minibatches of -1": {Batch: -1, Recent: 1}} {
		if _, err := NewPools(Options{Every: 1, Policy: Recent, Size: 1}, u); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// subject is any buffer behind the calls that the tests of Need and of the
// state need. take returns how many arrivals it used up and what happened.
type subject struct {
	*Buffer
	take func() (used int, log string)
}

func subjects(t *testing.T) map[string]func() subject {
	plain := func(o Options) func() subject {
		return func() subject {
			b := buffer(t, o)
			return subject{b, func() (int, string) {
				d := b.Take()
				return len(d.Join), fmt.Sprint(names(d.Join), d.Slots, d.Gone, names(d.Old))
			}}
		}
	}
	growing := func(g Growth) func() subject {
		return func() subject {
			b, err := NewGrowing(Options{Seed: 4}, g)
			if err != nil {
				t.Fatal(err)
			}
			steps := 0
			return subject{&b.Buffer, func() (int, string) {
				d := b.Take()
				steps = len(b.growing.seq)
				b.Plan(3/math.Sqrt(float64(1+b.Len())), 1)
				join, gone := 0, []int(nil)
				if len(d.Test) > 0 {
					join, gone = b.Admit()
					b.Leave(gone)
				}
				return len(d.Join) + len(d.Test), fmt.Sprint(names(d.Join), d.Slots, names(d.Test), join, gone, steps)
			}}
		}
	}
	pools := func(o Options, u PoolOptions) func() subject {
		return func() subject {
			p, err := NewPools(o, u)
			if err != nil {
				t.Fatal(err)
			}
			return subject{&p.Buffer, func() (int, string) {
				if !p.Ready() {
					p.Begin()
				}
				d := p.Take()
				return len(d.Join) + len(d.Unlabelled), fmt.Sprint(names(d.Join), d.Slots, names(d.Old), names(d.Unlabelled), names(p.Recent()))
			}}
		}
	}
	return map[string]func() subject{
		"everything": plain(Options{Every: 1}),
		"every 7":    plain(Options{Every: 7, Warmup: 20}),
		"warm":       plain(Options{Every: 6, Warmup: 20, Policy: Uniform, Size: 9, Hold: true, Seed: 4}),
		"window":     plain(Options{Every: 4, Policy: Recent, Size: 9}),
		"first":      plain(Options{Every: 4, Policy: First, Size: 32, Hold: true}),
		"reservoir":  plain(Options{Every: 4, Policy: Uniform, Size: 9, Seed: 4}),
		"held":       plain(Options{Every: 12, Policy: Recent, Size: 9, Hold: true}),
		"balanced":   plain(Options{Every: 4, Policy: Balanced, Size: 9, Hold: true, Seed: 4}),
		"slots":      plain(Options{Every: 14, Policy: Balanced, Size: 9, Seed: 4}),
		"pools":      pools(Options{Every: 8, Policy: Uniform, Size: 9, Hold: true, Seed: 4}, PoolOptions{Batch: 5, Recent: 6}),
		"last pools": pools(Options{Every: 8, Policy: Recent, Size: 9, Hold: true}, PoolOptions{Batch: 5, Recent: 6}),
		"warm pools": pools(Options{Every: 8, Warmup: 20, Policy: Uniform, Size: 9, Hold: true, Seed: 4}, PoolOptions{Batch: 5, Recent: 6}),
		"labels":     pools(Options{Every: 8, Policy: Balanced, Size: 9, Hold: true}, PoolOptions{Recent: 6}),
		"paper":      growing(Growth{Rule: "fixed", Initial: 5, Max: 60, Step: 3, Full: "stop", Stride: 16}),
		"recycling":  growing(Growth{Rule: "geometric", Factor: 2, Initial: 5, Max: 60, Recycle: true, Full: "replace", Stride: 16}),
		"reserving":  growing(Growth{Rule: "geometric", Factor: 1.5, Initial: 20, Max: 90, Recycle: true, Full: "replace", Stride: 16, Reserve: 4, ReserveLeast: 2}),
		"sliding":    growing(Growth{Rule: "geometric", Factor: 2, Initial: 5, Max: 40, TMax: 10, Recycle: true, Full: "window", Stride: 16, Reserve: 4}),
	}
}

func names(list []*stream.Example) string {
	var b strings.Builder
	for _, x := range list {
		switch {
		case x == nil:
			b.WriteString(" -")
		case !same(x, example(x.Seq)):
			fmt.Fprintf(&b, " %d damaged", x.Seq)
		default:
			fmt.Fprint(&b, " ", x.Seq)
		}
	}
	return "[" + b.String() + "]"
}

// Need is a true lower bound; where it is 0, Take finds all that it said it
// waits for; and it hands each example out at most once, and none that was
// sampled out.
func TestNeedAndTakeAgree(t *testing.T) {
	for kind, make := range subjects(t) {
		s := make()
		var pending, steps int
		for seq := uint64(1); seq <= 3000; {
			n := s.Need()
			if n.Fresh < 1 || n.Steps < 1 {
				t.Fatalf("%s, at %d: no step is due, but Need says %+v", kind, seq, n)
			}
			for i := 0; i < n.Fresh && seq <= 3000; i++ {
				if i > 0 && s.Need().Fresh <= 0 {
					t.Fatalf("%s, at %d: a step is due after %d examples; it was not to be before %d", kind, seq, i, n.Fresh)
				}
				if fate := add(t, s, example(seq)); fate == Learned {
					pending++
				}
				seq++
			}
			for n := s.Need(); n.Fresh <= 0 || strings.HasSuffix(kind, "pools") && !s.Ready(); n = s.Need() {
				for range n.Steps {
					used, log := s.take()
					if pending -= used; used == 0 || pending < 0 {
						t.Fatalf("%s, at %d: step %d of %d used %d examples of %d: %s", kind, seq, steps, n.Steps, used, pending+used, log)
					}
					if strings.Contains(log, "damaged") {
						t.Fatalf("%s, at %d: %s", kind, seq, log)
					}
					steps++
				}
			}
		}
		least := 3000 / 100
		if kind == "first" || kind == "paper" {
			least = 5
		}
		if steps < least {
			t.Errorf("%s: %d steps", kind, steps)
		}
	}
}

// A buffer that was stored and restored anywhere goes on as if nothing had
// happened.
func TestStateRoundTrip(t *testing.T) {
	for kind, make := range subjects(t) {
		random := rand.New(rand.NewPCG(8, 8))
		whole, parts := make(), make()
		step := func(s subject, seq uint64) string {
			log := fmt.Sprint(add(t, s, example(seq)), s.Need(), s.Len())
			for s.Need().Fresh <= 0 {
				_, what := s.take()
				log += what
			}
			return log
		}
		for seq := uint64(1); seq <= 500; seq++ {
			if a, b := step(whole, seq), step(parts, seq); a != b {
				t.Fatalf("%s: example %d: %s uninterrupted, %s restored", kind, seq, a, b)
			}
			if seq < 50 || random.IntN(9) == 0 { // while it fills, after each
				data := encode(t, parts.Fields)
				parts = make()
				if err := state.Decode(data, parts.Fields); err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				if !bytes.Equal(data, encode(t, parts.Fields)) {
					t.Fatalf("%s: the state changed on its way", kind)
				}
			}
		}
		if !bytes.Equal(encode(t, whole.Fields), encode(t, parts.Fields)) {
			t.Fatalf("%s: final states differ", kind)
		}
	}
}

func encode(t *testing.T, fields func(*state.Fields)) []byte {
	t.Helper()
	b, err := state.Append(nil, fields)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Damaged states are refused, or decode to something that works; nothing
// panics.
func TestStateDamage(t *testing.T) {
	for kind, make := range subjects(t) {
		random := rand.New(rand.NewPCG(9, 9))
		whole := make()
		for seq := uint64(1); seq <= 60; seq++ {
			add(t, whole, example(seq))
			for whole.Need().Fresh <= 0 {
				whole.take()
			}
		}
		good := encode(t, whole.Fields)
		refused := 0
		for range 1000 {
			bad := slices.Clone(good)
			if random.IntN(4) == 0 {
				bad = bad[:random.IntN(len(bad))]
			} else {
				bad[random.IntN(len(bad))] ^= 1 << random.IntN(8)
			}
			s := make()
			if err := state.Decode(bad, s.Fields); err != nil {
				refused++
				continue
			}
			encode(t, s.Fields)
			for seq := uint64(61); seq <= 70; seq++ {
				add(t, s, example(seq))
				s.Need()
			}
			s.take()
		}
		if refused < 333 {
			t.Errorf("%s: only %d of 1000 damaged states refused", kind, refused)
		}
	}
}

// The quickest learners step after each example: that allocates nothing.
func TestStepsOfOneAllocateNothing(t *testing.T) {
	for _, o := range []Options{{Every: 1}, {Every: 1, Policy: Recent, Size: 5}} {
		b, x := buffer(t, o), labelled(1)
		step := func() {
			add(t, b, x)
			if d := b.Take(); len(d.Join) != 1 {
				t.Fatal(d)
			}
		}
		if n := testing.AllocsPerRun(100, step); n > 0 {
			t.Errorf("%+v: %g allocations a step", o, n)
		}
	}
}
