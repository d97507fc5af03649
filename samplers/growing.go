package samplers

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/stream"
)

// Growth describes how S_k and T_k grow.
type Growth struct {
	// Rule chooses the next size: "fixed" adds Step members, "geometric"
	// multiplies the size by Factor.
	Rule    string
	Initial int     // |S_0|, in [1, Max]
	Max     int     // largest |S_k|
	Step    int     // fixed: ≥ 0
	Factor  float64 // geometric: > 1

	// TMax bounds |T_k|, which is otherwise |S_k|; 0 sets no bound.
	TMax int
	// Recycle adds T_k to S after the test. T_{k+1} is fresh again, so the test stays
	// independent of the sample.
	Recycle bool
	// Full is the policy once |S_k| = Max. With "stop" the sample stays as it is.
	// Otherwise recycled draws replace the oldest members, or others that the
	// learner chooses: at most a quarter of the sample at a time with "replace",
	// all of it with "window". The members of a window together represent Max
	// records of the stream.
	Full string
	// Stride, ≥ 1, thins out arrivals once the sample has stopped growing: every
	// Stride-th becomes a draw, so that the sample spans the last Stride·|S|
	// arrivals. With Full "window" every arrival is a draw.
	Stride int
	// Reserve > 0 reserves one draw in so many, provided these are at least
	// ReserveLeast. Reserved draws stay pending, so that the model learned from the
	// others can be tested on them, and come first among the next draws. A window
	// reserves none.
	Reserve, ReserveLeast int
}

func (g Growth) validate() error {
	for _, field := range []struct {
		ok    bool
		name  string
		value any
		bound string
	}{
		{g.Rule == "fixed" || g.Rule == "geometric", "rule", g.Rule, "fixed or geometric"},
		{g.Initial >= 1, "initial size", g.Initial, "at least 1"},
		{g.Max >= g.Initial, "largest size", g.Max, fmt.Sprintf("at least the initial size %d", g.Initial)},
		{g.Rule != "fixed" || g.Step >= 0, "step", g.Step, "at least 0"},
		{g.Rule != "geometric" || g.Factor > 1, "factor", g.Factor, "above 1"},
		{g.TMax >= 0, "t_max", g.TMax, "at least 0"},
		{g.Full == "stop" || g.Full == "replace" || g.Full == "window", "full", g.Full, "stop, replace or window"},
		{g.Stride >= 1, "stride", g.Stride, "at least 1"},
		{g.Reserve >= 0, "reserve", g.Reserve, "at least 0"},
	} {
		if !field.ok {
			return fmt.Errorf("growth: %s = %v is not %s", field.name, field.value, field.bound)
		}
	}
	return nil
}

// Growing is a Buffer with the growing sample S_k and the fresh draws T_k of a
// stochastic method (Zhang and Sen, "A Stochastic Conjugate Subgradient Algorithm
// for Kernelized Support Vector Machines", Algorithm 1, lines 9, 10 and 12). A step
//
//  1. takes a Draw: s_k in Join and T_k in Test (the first one is S_0),
//  2. appends both to its points and tests on T_k,
//  3. asks Admit how many of T_k are recycled into S and which members they replace, and
//     passes the ones that left to Leave,
//  4. calls Plan with the radius δ_k.
//
// Members are in slots ordered by age; the slots after one that leaves move up. A
// learner that finds that growth does not pay calls Hold to keep the sample at its
// size, and later Resume. One that has not finished optimising on the present
// sample calls Wait.
type Growing struct{ Buffer }

// NewGrowing returns an empty sample. Only Regress, Features and Seed of o matter.
// The error names the option that is out of range.
func NewGrowing(o Options, g Growth) (*Growing, error) {
	if err := g.validate(); err != nil {
		return nil, err
	}
	return &Growing{Buffer{o: o, ready: true, growing: &growing{Growth: g, unused: rng.New(o.Seed, "samplers.shuffle")}}}, nil
}

// Plan records the radius δ_k and the bound M on |f|, from which Theorem 3.3 of the
// paper gives a size of the next sample. They are part of the state; nothing else
// depends on them.
func (b *Growing) Plan(delta, bound float64) { b.growing.delta, b.growing.bound = delta, bound }

// Admit returns how many of the tested draws of the last Take join the sample, the
// first ones, and which members leave for them: the oldest. The learner may choose
// as many others. From then on the draws are the newest members.
func (b *Growing) Admit() (join int, gone []int) {
	g := b.growing
	m, n := len(g.seq), len(g.tested)
	switch {
	case g.draining:
	case !g.Recycle:
		n = 0
	default:
		n = min(n, g.wanted(m))
	}
	room := g.limit() - m
	if n > room && g.Full == "stop" {
		n = max(0, room)
	}
	g.counts.Append(m, g.testedCounts, n)
	g.seq, g.tested = append(g.seq, g.tested[:n]...), nil
	leave := max(0, min(n-room, m))
	if g.Full == "window" && g.counts != nil {
		sum := g.counts.Sum(len(g.seq))
		for i := range m {
			if i >= leave && sum <= float64(g.limit()) {
				break
			}
			sum -= g.counts.At(i)
			leave = max(leave, i+1)
		}
	}
	for i := range leave {
		gone = append(gone, i)
	}
	return n, gone
}

// Leave removes the members in the given slots, in ascending order, from the sample.
func (b *Growing) Leave(slots []int) {
	g, kept := b.growing, 0
	var stay []int32
	for i, seq := range g.seq {
		if len(slots) > 0 && slots[0] == i {
			slots = slots[1:]
			continue
		}
		g.seq[kept], stay = seq, append(stay, int32(i))
		kept++
	}
	g.seq = g.seq[:kept]
	g.counts.Keep(stay)
}

// Hold keeps the sample at a size: from now on draws replace members.
func (b *Growing) Hold(size int) { b.growing.holds, b.growing.size = true, size }

// Holds reports whether the sample is kept at its size.
func (b *Growing) Holds() bool { return b.growing.holds }

// Resume lets the sample grow again.
func (b *Growing) Resume() { b.growing.holds, b.growing.size = false, 0 }

// Wait sets whether the next step continues on the sample as it is. Until then,
// arrivals that do not fit among the pending draws are sampled out.
func (b *Growing) Wait(on bool) { b.growing.waits = on }

// Waits reports whether the next step continues on the sample as it is.
func (b *Growing) Waits() bool { return b.growing.waits }

// Drain hands out the pending draws at the end of a bounded stream: S_0 if there is
// no sample yet, or draws that need no test and that Admit lets join. It is called
// until the Draw is empty.
func (b *Growing) Drain() *Draw {
	g, d := b.growing, new(Draw)
	g.since, g.draining = 0, true
	if len(g.seq) == 0 {
		g.first(&b.Buffer, d, g.Max)
	} else {
		g.test(&b.Buffer, d, max(1, g.limit()/2))
	}
	return d
}

// growing holds the fields that Growing adds to a Buffer.
type growing struct {
	Growth
	unused *rng.Source // part of every state; earlier versions could shuffle arrivals

	seq          []uint64    // of S, by slot
	tested       []uint64    // of T_k, until Admit
	counts       weight.List // number of records that each member represents, by slot
	testedCounts weight.List // of tested
	delta, bound float64
	holds        bool
	size         int  // size of a sample that has stopped growing
	waits        bool // the sample stays as it is
	since        int  // arrivals since the last step
	draining     bool // the last draw was by Drain
}

// sizes returns |s_k| and |T_k|; the latter is |S| before s_k joins.
func (g *growing) sizes() (join, test int) {
	m := len(g.seq)
	if m == 0 {
		return g.Initial, 0
	}
	join, test = g.grow(m), m
	if g.TMax > 0 {
		test = min(test, g.TMax)
	}
	switch {
	case g.holds:
		return 0, max(1, test/g.stride())
	case !g.Recycle:
		return join, test
	case g.Rule == "geometric" && join > 0:
		test = min(test, join)
	}
	if g.Full == "replace" && m >= g.Max {
		// What the sample has learned must outlive the new draws: as many draws as
		// members would evict all support vectors at once.
		test = min(test, max(1, m/4))
	}
	return 0, test
}

// ahead returns how many draws to wait for beyond the next Take: without recycling,
// the s of the Take after that.
func (g *growing) ahead(join int) int {
	if g.Recycle || len(g.seq) == 0 {
		return 0
	}
	return join
}

// grow returns the number of members by which a sample of m should grow.
func (g *growing) grow(m int) int {
	n := g.Step
	if g.Rule == "geometric" {
		n = max(1, int(math.Ceil(float64(m)*(g.Factor-1))))
	}
	return max(0, min(n, g.limit()-m))
}

// wanted returns how many recycled draws should join a sample of m. It may exceed
// the room that is left.
func (g *growing) wanted(m int) int {
	if m >= g.limit() {
		return m
	}
	return g.grow(m)
}

// limit returns the largest size that the sample may have at present.
func (g *growing) limit() int {
	if g.holds {
		return g.size
	}
	return g.Max
}

// stride returns the number of arrivals per draw.
func (g *growing) stride() int {
	if g.holds && g.Full != "window" {
		return g.Stride
	}
	return 1
}

// reserve returns how many of n draws are reserved.
func (g *growing) reserve(n int) int {
	if g.Reserve == 0 || n < g.Reserve*g.ReserveLeast || g.Full == "window" {
		return 0
	}
	return n / g.Reserve
}

// add handles an arrival, which becomes a draw or is sampled out.
func (g *growing) add(b *Buffer, x *stream.Example) Fate {
	g.since++
	if g.since%g.stride() != 0 {
		return SampledOut
	}
	if g.waits {
		if join, test := g.sizes(); len(b.pending) >= join+test {
			return SampledOut
		}
	}
	b.pending = append(b.pending, x)
	return Learned
}

// need returns how many arrivals are missing. A step that continues an interrupted
// one is due after as many arrivals as if the draws were used, so that it does not
// run at every arrival.
func (g *growing) need(b *Buffer) Need {
	join, test := g.sizes()
	n := g.stride()
	missing := join + test + g.ahead(join) - len(b.pending)
	switch {
	case g.waits:
		missing = test*n - g.since
	case missing > 0:
		missing = missing*n - g.since%n
	}
	return Need{Fresh: max(0, missing), Steps: 1}
}

// take hands out s_k and T_k.
func (g *growing) take(b *Buffer, d *Draw) {
	join, test := g.sizes()
	g.since, g.draining = 0, false
	switch {
	case g.waits:
	case len(g.seq) == 0:
		g.first(b, d, join-g.reserve(join))
	default:
		g.first(b, d, join)
		g.test(b, d, test-g.reserve(test))
	}
}

// first makes the next n draws members.
func (g *growing) first(b *Buffer, d *Draw, n int) {
	d.Join = b.shift(n)
	for _, x := range d.Join {
		d.Slots = append(d.Slots, len(g.seq))
		g.counts.Set(len(g.seq), len(g.seq)+1, x.Count())
		g.seq = append(g.seq, x.Seq)
	}
}

// test hands out the next n draws to test on.
func (g *growing) test(b *Buffer, d *Draw, n int) {
	d.Test = b.shift(n)
	g.tested, g.testedCounts = nil, nil
	for i, x := range d.Test {
		g.testedCounts.Set(i, i+1, x.Count())
		g.tested = append(g.tested, x.Seq)
	}
}

func (g *growing) fields(f *state.Fields, b *Buffer) {
	f.Group("shuffle", func(f *state.Fields) {
		var list []*stream.Example
		b.examples(f, "examples", &list)
		f.Binary("rng", g.unused)
		if len(list) > 0 {
			f.Fail("examples", fmt.Errorf("%d examples in a buffer that shuffles arrivals, which this version does not do", len(list)))
		}
	})
	f.Uint64s("seq", &g.seq)
	f.Float64("delta", &g.delta)
	f.Float64("bound", &g.bound)
	f.Bool("holds", &g.holds)
	f.Int("size", &g.size)
	f.Bool("waits", &g.waits)
	f.Int("since", &g.since)
	g.counts.Named(f, "represents", len(g.seq))
	if !f.Decoding() || f.Err() != nil {
		return
	}
	g.tested, g.testedCounts = nil, nil
	switch n := len(g.seq); {
	case n > g.Max:
		f.Fail("seq", fmt.Errorf("%d members in a sample of at most %d", n, g.Max))
	case g.size < 0 || g.size > g.Max || g.holds && g.size < 1:
		f.Fail("size", fmt.Errorf("%d is out of range", g.size))
	case g.since < 0:
		f.Fail("since", fmt.Errorf("%d is out of range", g.since))
	}
}
