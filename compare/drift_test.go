package compare_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/stream"
)

var cutWindows = []int{8, 64, 256}

func newDetector(t *testing.T, size int, windows ...int) *compare.Detector {
	t.Helper()
	c, err := compare.NewDetector(size, windows...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// by turns who is wrong into what Compare takes.
func by(whole bool, challengers []bool) []float64 {
	d := make([]float64, len(challengers))
	for i, wrong := range challengers {
		if whole != wrong {
			d[i] = map[bool]float64{true: 1, false: -1}[whole]
		}
	}
	return d
}

func labelled(seq uint64) *stream.Example {
	return &stream.Example{Seq: seq, Y: 1 - 2*float64(seq%2), Labelled: true, X: stream.Vec{Val: []float32{float32(seq)}}}
}

// naive is a Detector that remembers everything and computes each sum from all
// that has come since the last cut.
type naive struct {
	size    int
	windows []int
	all     []*stream.Example
	d       [][]float64 // of each window, since the last cut
	cuts    []compare.ChangePoint
}

func (n *naive) compare(whole bool, challengers []bool) {
	for i := range n.windows {
		d := 0.0
		if whole != challengers[i] {
			d = map[bool]float64{true: 1, false: -1}[whole]
		}
		n.d[i] = append(n.d[i], d)
	}
}

func (n *naive) sums(i int) (d, v float64) {
	fade, now := math.Pow(2, -1/float64(n.windows[i])), 1.0
	for _, x := range slices.Backward(n.d[i]) {
		d += x * now
		v += x * x * now * now
		now *= fade
	}
	return d, v
}

// test returns the window to cut to, or −1, and by how much the test was decided.
func (n *naive) test(size int) (by int, sure float64) {
	by, sure = -1, math.Inf(1)
	if len(n.all)%32 != 0 {
		return by, sure
	}
	best := 0.0
	for i, w := range n.windows {
		d, v := n.sums(i)
		z := d / math.Sqrt(v+1)
		if size < 2*w {
			continue
		}
		if sure = min(sure, math.Abs(v-4)); v < 4 {
			continue
		}
		if sure = min(sure, math.Abs(z-3)); z > 3 && z >= best {
			best, by = z, i
		}
	}
	if by >= 0 {
		n.cuts = append(n.cuts, compare.ChangePoint{At: uint64(len(n.all)), From: size, To: n.windows[by], Z: best})
		for i := range n.d {
			n.d[i] = nil
		}
	}
	return by, sure
}

// TestDetectorAgainstSums compares a Detector with one that keeps the whole
// history. Who is the better one changes all the time, so that there are cuts to
// every window.
func TestDetectorAgainstSums(t *testing.T) {
	to := map[int]int{}
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		const size = 300
		c := newDetector(t, size, cutWindows...)
		n := &naive{size: size, windows: cutWindows, d: make([][]float64, len(cutWindows))}
		rows := 0
		rates, own := make([]float64, len(cutWindows)), 0.0
		for i := range 3000 {
			if i%150 == 0 {
				own = 0.5 * r.Float64()
				for k := range rates {
					rates[k] = 0.5 * r.Float64()
				}
			}
			wrong := make([]bool, len(cutWindows))
			for k := range wrong {
				wrong[k] = r.Float64() < rates[k]
			}
			whole := r.Float64() < own
			c.Compare(by(whole, wrong))
			n.compare(whole, wrong)
			for k := range cutWindows {
				if i%7 > 0 {
					break
				}
				d, v := n.sums(k)
				if want := d / math.Sqrt(v+1); math.Abs(c.Z(k)-want) > 1e-9 {
					t.Fatalf("seed %d, example %d, window %d: z = %g, want %g", seed, i, cutWindows[k], c.Z(k), want)
				}
			}
			x := labelled(uint64(i + 1))
			c.Add(x)
			n.all = append(n.all, x)
			rows++
			want, sure := n.test(rows)
			if sure < 1e-9 {
				t.Fatalf("seed %d, example %d: too close to call; take another seed", seed, i)
			}
			cut, by, yes := c.Test(rows, 3)
			if by != want || yes != (want >= 0) {
				t.Fatalf("seed %d, example %d: cut to window %d (%v), want %d", seed, i, by, yes, want)
			}
			if !yes {
				continue
			}
			last := n.cuts[len(n.cuts)-1]
			if math.Abs(cut.Z-last.Z) > 1e-9 || cut.At != last.At || cut.From != last.From || cut.To != last.To {
				t.Fatalf("seed %d: %+v, want %+v", seed, cut, last)
			}
			to[cut.To]++
			rows = cut.To
			for k := range cutWindows {
				if c.Z(k) != 0 {
					t.Fatalf("seed %d: after a cut z = %g", seed, c.Z(k))
				}
			}
		}
		total, latest := c.ChangePoints()
		if total != uint64(len(n.cuts)) || len(latest) != len(n.cuts) {
			t.Fatalf("seed %d: %d cuts, %d listed, want %d", seed, total, len(latest), len(n.cuts))
		}
	}
	for _, w := range cutWindows {
		if to[w] == 0 {
			t.Errorf("there was no cut to %d: %v", w, to)
		}
	}
}

// TestDetectorByHand: with a challenger that is always right and a sample that is
// always wrong, D = V = 1, 2, 3 … but for what fades; 10/√11 is the first above 3.
// The test comes every 32 examples.
func TestDetectorByHand(t *testing.T) {
	for _, c := range []struct {
		wrong, rows int // how many of the examples before the test the sample got wrong; its size
		to          int
	}{
		{0, 9000, -1},
		{9, 9000, -1},
		{10, 9000, 1024},
		{32, 9000, 1024},
		{32, 2047, 256}, // the sample is at least twice the window
		{32, 2048, 1024},
		{32, 511, 64},
		{32, 127, -1},
	} {
		k := newDetector(t, 4000, 64, 256, 1024)
		for i := range 64 {
			k.Compare(by(i >= 64-c.wrong, make([]bool, 3)))
			k.Add(labelled(uint64(i + 1)))
			cut, by, yes := k.Test(c.rows, 3)
			switch want := i == 63 && c.to > 0; {
			case yes != want || !want && by != -1:
				t.Fatalf("%+v: cut %+v after %d examples", c, cut, i+1)
			case want && (cut.To != c.to || cut.From != c.rows || cut.At != 64 || cut.Z < 3):
				t.Fatalf("%+v: %+v", c, cut)
			}
		}
	}
	// Of two windows that do equally well the larger one is taken. What comes in
	// fades at two rates, so equal ones are made by hand.
	k := newDetector(t, 100, 10, 20)
	forgeInto(t, k, func(f *forged) { f.seen, f.d, f.v = 32, []float64{8, 8}, []float64{5, 5} })
	if cut, by, yes := k.Test(1000, 3); !yes || by != 1 || cut.To != 20 {
		t.Errorf("of two equal ones %d: %+v", by, cut)
	}
	// Below a variance of 4 little is known.
	forgeInto(t, k, func(f *forged) { f.seen, f.d, f.v = 32, []float64{8, 8}, []float64{3.9, 3.9} })
	if cut, _, yes := k.Test(1000, 3); yes {
		t.Errorf("a variance of 3.9: %+v", cut)
	}
}

// TestDetectorFalseAlarms: between learners that are equally good a cut is rare,
// between a sample and challengers that are a little worse, as they are where
// nothing changes, all but impossible.
//
// With independent errors D_W/√V_W is about a standard normal variable, which is
// above 3 with probability 0.00135, and forgets with W: 625 tests of W = 64, which
// forget what was 1.4·64 examples ago, make less than one false alarm in 20,000
// examples, and longer windows fewer. Errors of learners of one kind are far from
// independent: where they seldom differ, there is none.
func TestDetectorFalseAlarms(t *testing.T) {
	const n, runs = 20000, 30
	for _, c := range []struct {
		win, lose float64 // of the challengers, by example
		most      int     // cuts in all runs
	}{
		{0.002, 0.002, 2},
		{0.05, 0.05, runs},
		{0.25, 0.25, 3 * runs / 2},
		{0.04, 0.08, 0},
	} {
		cuts := 0
		for seed := range uint64(runs) {
			r := rand.New(rand.NewPCG(seed, 2))
			k := newDetector(t, 1024, 64, 256, 1024)
			x := labelled(1)
			wrong := make([]bool, 3)
			for range n {
				u := r.Float64()
				whole := u < c.win
				for i := range wrong {
					wrong[i] = u >= c.win && u < c.win+c.lose
				}
				k.Compare(by(whole, wrong))
				k.Add(x)
				k.Test(1<<20, 3)
			}
			total, _ := k.ChangePoints()
			cuts += int(total)
		}
		t.Logf("wins %g, losses %g: %d cuts in %d runs of %d", c.win, c.lose, cuts, runs, n)
		if cuts > c.most {
			t.Errorf("wins %g, losses %g: %d cuts in %d runs of %d examples", c.win, c.lose, cuts, runs, n)
		}
	}
}

// TestDetectorSoon: after a change the sample is cut soon, in every run, however
// long nothing had happened.
func TestDetectorSoon(t *testing.T) {
	const change = 10000
	for _, c := range []struct {
		old, short float64 // errors after the change
		within     uint64
	}{{0.5, 0.1, 256}, {0.3, 0.1, 640}, {0.2, 0.1, 2048}} {
		for seed := range uint64(30) {
			r := rand.New(rand.NewPCG(seed, 3))
			k := newDetector(t, 1024, 64, 256, 1024)
			x := labelled(1)
			for i := range change + c.within {
				u := r.Float64()
				whole, wrong := u < 0.05, u < 0.07 // the same hard examples
				if i >= change {
					whole, wrong = u < c.old, r.Float64() < c.short
				}
				k.Compare(by(whole, []bool{wrong, wrong, wrong}))
				k.Add(x)
				if cut, _, yes := k.Test(int(k.Seen()), 3); yes && cut.At <= change {
					t.Fatalf("seed %d: %+v before the change", seed, cut)
				}
			}
			if total, _ := k.ChangePoints(); total == 0 {
				t.Errorf("seed %d: errors rose from 0.05 to %g, those of the challengers to %g: no cut in %d examples", seed, c.old, c.short, c.within)
			}
		}
	}
}

// TestDetectorNewest compares what is kept with a list of everything.
func TestDetectorNewest(t *testing.T) {
	for _, size := range []int{1, 2, 7, 64} {
		c := newDetector(t, size, 1)
		var all []*stream.Example
		for i := range 5*size + 3 {
			for _, n := range []int{0, 1, size / 2, size, size + 1, 10 * size} {
				got, want := c.Newest(n), all[len(all)-min(n, size, len(all)):]
				if !slices.Equal(got, want) {
					t.Fatalf("size %d, %d examples: the newest %d are %d others", size, i, n, len(got))
				}
			}
			if c.Seen() != uint64(i) {
				t.Fatalf("%d examples seen, want %d", c.Seen(), i)
			}
			x := labelled(uint64(i + 1))
			all = append(all, x)
			c.Add(x)
		}
	}
}

func TestNewDetector(t *testing.T) {
	for _, windows := range [][]int{{0}, {-1, 3}, {3, 3}, {4, 3}, {11}} {
		if _, err := compare.NewDetector(10, windows...); err == nil || !strings.Contains(err.Error(), fmt.Sprint(windows)) {
			t.Errorf("windows %d: %v", windows, err)
		}
	}
	newDetector(t, 10, 1, 10)
}

// TestDetectorLatest: of very many cuts the latest 256 are kept.
func TestDetectorLatest(t *testing.T) {
	c := newDetector(t, 100, 8)
	x := labelled(1)
	for i := range 300 {
		for range 32 {
			c.Compare(by(true, []bool{false}))
			c.Add(x)
		}
		if _, _, yes := c.Test(1000+i, 3); !yes {
			t.Fatalf("no cut %d", i)
		}
		total, latest := c.ChangePoints()
		if n := len(latest); total != uint64(i+1) || n != min(i+1, 256) || latest[n-1].From != 1000+i || latest[0].From != 1000+i+1-n {
			t.Fatalf("%d cuts, %d kept, from %+v to %+v", total, n, latest[0], latest[n-1])
		}
	}
}

func encodeDetector(t *testing.T, c *compare.Detector) []byte {
	t.Helper()
	data, err := state.Append(nil, c.Fields)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestDetectorResume stores and restores at random moments; nothing changes by it,
// whether what takes the state over is new or was in use.
func TestDetectorResume(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const size = 90
	whole, parts, used := newDetector(t, size, 8, 40), newDetector(t, size, 8, 40), newDetector(t, size, 8, 40)
	for i := range 500 { // of another stream, with cuts of its own
		used.Compare(by(true, []bool{false, false}))
		used.Add(labelled(uint64(5000 + i)))
		used.Test(1000, 3)
	}
	for i := range 4000 {
		own, other := 0.3, 0.3
		if i/200%2 == 1 {
			own = 0.8
		}
		w, o := r.Float64() < own, []bool{r.Float64() < other, r.Float64() < other}
		x := labelled(uint64(i + 1))
		type result struct {
			cut compare.ChangePoint
			by  int
			yes bool
		}
		var got [2]result
		for k, c := range []*compare.Detector{whole, parts} {
			c.Compare(by(w, o))
			c.Add(x)
			got[k].cut, got[k].by, got[k].yes = c.Test(1000, 3)
		}
		if got[0] != got[1] {
			t.Fatalf("example %d: %+v, and after restoring %+v", i, got[0], got[1])
		}
		if !got[0].yes && r.IntN(15) > 0 {
			continue
		}
		data := encodeDetector(t, parts)
		if !bytes.Equal(data, encodeDetector(t, whole)) {
			t.Fatalf("states differ after %d examples", i+1)
		}
		next := newDetector(t, size, 8, 40)
		if r.IntN(2) == 0 {
			next, used = used, parts
		}
		if err := state.Decode(data, next.Fields); err != nil {
			t.Fatalf("after %d examples: %v", i+1, err)
		}
		parts = next
		if !bytes.Equal(data, encodeDetector(t, parts)) {
			t.Fatalf("the state after %d examples changes as it is restored", i+1)
		}
	}
	if total, _ := whole.ChangePoints(); total < 5 {
		t.Fatalf("%d cuts are too few for this test", total)
	}
}

// forged is a state of a Detector, with whatever values.
type forged struct {
	newest []*stream.Example
	seen   uint64
	d, v   []float64
	total  uint64
	latest []compare.ChangePoint
}

func (c *forged) fields(f *state.Fields) {
	columns.Examples(f, "newest", &c.newest)
	f.Uint64("seen", &c.seen)
	f.Float64s("d", &c.d)
	f.Float64s("v", &c.v)
	f.Uint64("cuts", &c.total)
	f.List("latest", len(c.latest), 4, nil, func(f *state.Fields, i int) {
		k := &c.latest[i]
		f.Uint64("at", &k.At)
		f.Int("from", &k.From)
		f.Int("to", &k.To)
		f.Float64("z", &k.Z)
	})
}

// forge returns the state of a Detector with two windows, changed.
func forge(t *testing.T, change func(*forged)) []byte {
	t.Helper()
	f := &forged{
		newest: []*stream.Example{labelled(1), labelled(2)}, seen: 40, d: []float64{1, -2}, v: []float64{3, 4},
		total: 1, latest: []compare.ChangePoint{{At: 32, From: 200, To: 10, Z: 3.5}},
	}
	if change != nil {
		change(f)
	}
	data, err := state.Append(nil, f.fields)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func forgeInto(t *testing.T, c *compare.Detector, change func(*forged)) {
	t.Helper()
	if err := state.Decode(forge(t, change), c.Fields); err != nil {
		t.Fatal(err)
	}
}

// TestDetectorRefuses: states that no Detector has had are refused, with the name
// of the field.
func TestDetectorRefuses(t *testing.T) {
	if err := state.Decode(forge(t, nil), newDetector(t, 20, 10, 20).Fields); err != nil {
		t.Fatalf("a good state: %v", err)
	}
	for name, c := range map[string]struct {
		field  string
		change func(*forged)
	}{
		"too many examples":     {"newest", func(f *forged) { f.newest = slices.Repeat(f.newest, 11) }},
		"more than have come":   {"newest", func(f *forged) { f.seen = 1 }},
		"an unlabelled one":     {"newest", func(f *forged) { f.newest[1] = &stream.Example{Seq: 2} }},
		"a sum too few":         {"newest", func(f *forged) { f.d = f.d[:1] }},
		"a variance too few":    {"newest", func(f *forged) { f.v = f.v[:1] }},
		"a variance too many":   {"newest", func(f *forged) { f.v = append(f.v, 1) }},
		"a sum that is NaN":     {"d", func(f *forged) { f.d[0] = math.NaN() }},
		"an infinite variance":  {"d", func(f *forged) { f.v[1] = math.Inf(1) }},
		"a negative variance":   {"d", func(f *forged) { f.v[1] = -2 }},
		"too many latest cuts":  {"newest", func(f *forged) { f.total, f.latest = 300, slices.Repeat(f.latest, 257) }},
		"more latest than cuts": {"latest", func(f *forged) { f.total = 0 }},
		"a cut that grows":      {"latest", func(f *forged) { f.latest[0].To = 201 }},
		"a cut to nothing":      {"latest", func(f *forged) { f.latest[0].To = 0 }},
		"a cut yet to come":     {"latest", func(f *forged) { f.latest[0].At = 41 }},
		"a cut by NaN":          {"latest", func(f *forged) { f.latest[0].Z = math.NaN() }},
	} {
		err := state.Decode(forge(t, c.change), newDetector(t, 20, 10, 20).Fields)
		if err == nil || !strings.Contains(err.Error(), "field "+c.field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := forge(t, nil)
	for n := range whole {
		if err := state.Decode(whole[:n], newDetector(t, 20, 10, 20).Fields); err == nil {
			t.Errorf("%d bytes of %d are accepted", n, len(whole))
		}
	}
}
