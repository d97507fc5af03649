package samplers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// fill adds n examples to a new buffer, each with its own Take.
func fill(t *testing.T, o Options, n uint64, x func(seq uint64) *stream.Example) *Buffer {
	t.Helper()
	o.Every = 1
	b := buffer(t, o)
	for seq := uint64(1); seq <= n; seq++ {
		add(t, b, x(seq))
		b.Take()
	}
	return b
}

// Small samples show what single counts of large ones hide: of n examples each
// set of size members is as likely as any other, and so are the sets of each
// class where two classes take turns.
func TestReservoirSubsets(t *testing.T) {
	const size, n, runs = 2, 5, 4000
	for _, classes := range []int{1, 2} {
		o := Options{Policy: Uniform, Size: size}
		if classes == 2 {
			o = Options{Policy: Balanced, Size: 2 * size}
		}
		counts := make([]map[string]float64, classes)
		for seed := range uint64(runs) {
			o.Seed = seed
			b := fill(t, o, uint64(classes)*n, func(seq uint64) *stream.Example {
				return &stream.Example{Seq: seq, Labelled: true, Y: float64(1 - 2*int(seq%uint64(classes)))}
			})
			members := make([][]uint64, classes)
			for i := range b.Len() {
				c := b.Seq(i) % uint64(classes)
				members[c] = append(members[c], b.Seq(i))
			}
			for c, m := range members {
				slices.Sort(m)
				if counts[c] == nil {
					counts[c] = map[string]float64{}
				}
				counts[c][fmt.Sprint(m)]++
			}
		}
		for c, m := range counts {
			if len(m) != 10 { // 5 over 2
				t.Fatalf("%d classes: %d sets of members, %v", classes, len(m), m)
			}
			chiSquare(t, fmt.Sprintf("sets of class %d of %d", c, classes), slices.Collect(maps.Values(m)), uniform(10, runs))
		}
	}
}

// A rare class is held completely as long as it has less than its share, and
// each class's part is a uniform sample of that class.
func TestBalancedReservoir(t *testing.T) {
	const size, n, runs = 12, 120, 4000
	negative := make([]float64, n)
	for seed := range uint64(runs) {
		rare := 0
		b := fill(t, Options{Policy: Balanced, Size: size, Seed: seed, Hold: seed%2 == 0}, n, func(seq uint64) *stream.Example {
			x := &stream.Example{Seq: seq, Labelled: true, Y: -1}
			if seq%30 == 0 {
				x.Y = 1
				rare++
			}
			return x
		})
		held := 0
		for i := range size {
			if seq := b.Seq(i); seq%30 == 0 {
				held++
			} else {
				negative[seq-1]++
			}
		}
		if held != rare {
			t.Fatalf("seed %d: %d of %d rare examples held", seed, held, rare)
		}
	}
	var counts []float64
	for i, c := range negative {
		if (i+1)%30 != 0 {
			counts = append(counts, c)
		}
	}
	chiSquare(t, "inclusion of the common class", counts, uniform(len(counts), 8*runs))
}

// The obvious sampler is a slice of slots; this is what must hold after each
// Take whatever the policy and however many examples come at a time. What is
// drawn does not depend on that either.
func TestSlots(t *testing.T) {
	for _, policy := range []Policy{First, Recent, Uniform, Balanced} {
		for seed := range uint64(40) {
			random := rand.New(rand.NewPCG(seed, 5))
			o := Options{Policy: policy, Size: 1 + random.IntN(30), Seed: seed, Hold: random.IntN(2) == 0, Every: 1}
			fail := func(format string, args ...any) {
				t.Helper()
				t.Fatalf("%+v: %s", o, fmt.Sprintf(format, args...))
			}
			b, one := buffer(t, o), buffer(t, o)
			var slots []uint64
			for seq := uint64(1); seq <= 300; {
				for range 1 + random.IntN(40) {
					if add(t, b, labelled(seq)) == SampledOut && (policy != First || b.Len()+len(b.Pending()) < o.Size) {
						fail("example %d is sampled out", seq)
					}
					add(t, one, labelled(seq))
					one.Take()
					seq++
				}
				before := slices.Clone(slots)
				d := b.Take()
				if len(d.Slots) != len(d.Join) || o.Hold != (d.Old != nil) && len(d.Join) > 0 {
					fail("%d examples in %d slots", len(d.Join), len(d.Slots))
				}
				var gone []int
				for i, x := range d.Join {
					slot := d.Slots[i]
					switch {
					case !same(x, labelled(x.Seq)):
						fail("example %d is damaged", x.Seq)
					case slot == -1:
						if len(slots) < o.Size || policy == Recent || o.Hold && d.Old[i] != nil {
							fail("example %d is not kept", x.Seq)
						}
						continue
					case slot == len(slots) && len(slots) < o.Size:
						if o.Hold && d.Old[i] != nil {
							fail("a new slot was that of %d", d.Old[i].Seq)
						}
						slots = append(slots, x.Seq)
						continue
					case len(slots) < o.Size || slot < 0 || slot >= o.Size || o.Hold && d.Old[i].Seq != slots[slot]:
						fail("example %d in slot %d", x.Seq, slot)
					}
					if slot < len(before) && !slices.Contains(gone, slot) {
						gone = append(gone, slot)
					}
					slots[slot] = x.Seq
				}
				if !slices.Equal(gone, d.Gone) {
					fail("the slots %v changed hands, not %v", gone, d.Gone)
				}
				last, xs := d.Last()
				for i, x := range xs {
					if slots[last[i]] != x.Seq || slices.Contains(last[:i], last[i]) {
						fail("example %d is not the last in slot %d", x.Seq, last[i])
					}
				}
				if len(b.Pending()) > 0 || b.Len() != len(slots) || one.Len() != len(slots) || o.Hold && len(b.Sample()) != len(slots) {
					fail("%d members, %d one by one, want %d", b.Len(), one.Len(), len(slots))
				}
				for i, want := range slots {
					if b.Seq(i) != want || one.Seq(i) != want || o.Hold && !same(b.Sample()[i], labelled(want)) {
						fail("slot %d holds %d, want %d", i, b.Seq(i), want)
					}
					if len(before) > i && before[i] != want && !slices.Contains(gone, i) {
						fail("slot %d changed without notice", i)
					}
				}
			}
			if policy == Recent && slices.Min(slots) != slices.Max(slots)-uint64(o.Size)+1 {
				fail("the window is %v", slots)
			}
			if policy == First && slices.Max(slots) != uint64(o.Size) {
				fail("the first are %v", slots)
			}
		}
	}
}

// A Draw stays what it is until the next Add, however it came about.
func TestDrawLasts(t *testing.T) {
	b := buffer(t, Options{Every: 3})
	for seq := uint64(1); seq <= 3000; seq++ {
		add(t, b, labelled(seq))
		if seq%1000 > 0 && (seq > 1000 || seq%3 > 0) {
			continue
		}
		first := seq - uint64(len(b.Pending())) + 1
		d := b.Take()
		if slots, xs := d.Last(); slots != nil || xs != nil {
			t.Fatalf("slots %v without a sample", slots)
		}
		join := d.Join
		for i, x := range slices.Concat(join, b.Take().Join) {
			if x.Seq != first+uint64(i) {
				t.Fatalf("example %d in place of %d", x.Seq, first+uint64(i))
			}
		}
	}
}

func TestQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var q queue
	var naive []uint64
	for seq := uint64(1); seq <= 3000; seq++ {
		q.push(example(seq), 9)
		if naive = append(naive, seq); len(naive) > 9 {
			naive = naive[1:]
		}
		if random.IntN(6) == 0 {
			n := random.IntN(len(naive) + 1)
			for i, x := range q.take(n) {
				if x.Seq != naive[i] {
					t.Fatalf("took %d, want %d", x.Seq, naive[i])
				}
			}
			naive = naive[n:]
		}
		if q.len() != len(naive) || q.len() > 0 && q.list[0].Seq != naive[0] {
			t.Fatalf("queue of %d, want %d", q.len(), len(naive))
		}
	}
}

// Labelled examples go to one pool, unlabelled ones to minibatches and to the
// sample of recent ones; before the first label they are in no minibatch.
func TestPools(t *testing.T) {
	p, err := NewPools(Options{Policy: Recent, Size: 4, Hold: true, Every: 64, Warmup: 10}, PoolOptions{Batch: 3, Recent: 6})
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	next := func(withLabel bool) Fate {
		seq++
		x := labelled(seq)
		if !withLabel {
			x.Labelled, x.Y = false, 0
		}
		return add(t, p, x)
	}
	for i := range 10 {
		if n := p.Need().Fresh; n != 10-i || p.Warm() {
			t.Fatalf("%d are wanted after %d", n, i)
		}
		next(i >= 8)
	}
	if !p.Warm() || p.Ready() || len(p.Vecs()) != 10 {
		t.Fatal("no warm-up")
	}
	p.Begin()
	if p.Warm() || !p.Ready() || p.Skipped() != 8 || len(p.Recent()) != 6 || p.Recent()[2].Seq != 3 && p.Recent()[0].Seq != 7 {
		t.Fatalf("%d skipped, %d recent ones", p.Skipped(), len(p.Recent()))
	}
	if n := p.Need(); n.Fresh != 0 {
		t.Fatalf("labels are there, but Need is %+v", n)
	}
	if d := p.Take(); len(d.Join) != 2 || len(d.Unlabelled) != 0 || p.Len() != 2 {
		t.Fatalf("%+v", d)
	}
	next(false)
	next(false)
	if n := p.Need(); n.Fresh != 1 {
		t.Fatalf("%+v", n)
	}
	next(true)
	if d := p.Take(); len(d.Join) != 1 || len(d.Unlabelled) != 0 {
		t.Fatalf("%+v", d)
	}
	next(false)
	if d := p.Take(); len(d.Join) != 0 || len(d.Unlabelled) != 3 || d.Unlabelled[0].Seq != 11 || p.Skipped() != 8 {
		t.Fatalf("%+v", d)
	}
	next(false)
	if d := p.Take(); p.Len() != 3 || !p.More() || len(d.Unlabelled) != 0 {
		t.Fatalf("%+v", d)
	}
	if d := p.Drain(); len(d.Unlabelled) != 1 || p.More() {
		t.Fatalf("%+v", d)
	}
	// An eighth of the labels so far.
	for range 37 {
		next(true)
	}
	p.Take()
	if n := p.Need(); n.Fresh != 3 { // a minibatch is nearer
		t.Fatalf("%+v", n)
	}
	// Before there is a label, what does not enter the sample of recent ones is
	// sampled out.
	early, err := NewPools(Options{Policy: Uniform, Size: 4, Hold: true, Every: 4}, PoolOptions{Batch: 3, Recent: 6})
	if err != nil {
		t.Fatal(err)
	}
	out := 0
	for s := uint64(1); s <= 40; s++ {
		x := example(5 * s) // without a label
		fate := add(t, early, x)
		entered := slices.ContainsFunc(early.Recent(), func(r *stream.Example) bool { return r.Seq == x.Seq })
		if entered != (fate == Learned) {
			t.Fatalf("example %d: fate %d", s, fate)
		}
		if !entered {
			out++
		}
	}
	if out == 0 || early.Skipped() != 40 {
		t.Fatalf("%d sampled out, %d skipped", out, early.Skipped())
	}
	none, err := NewPools(Options{Policy: Uniform, Size: 4, Hold: true, Every: 4}, PoolOptions{Recent: 6})
	if err != nil {
		t.Fatal(err)
	}
	for s := uint64(1); s <= 80; s++ {
		add(t, none, labelled(s))
	}
	none.Take()
	if n := none.Need(); n.Fresh != 4 {
		t.Fatalf("%+v", n)
	}
	if fate := add(t, none, example(5)); fate != SampledOut {
		t.Fatal("an unlabelled example is of no use there")
	}
}

// States in which the examples held, their numbers and their classes do not
// agree are refused.
func TestStateRefusesWhatDisagrees(t *testing.T) {
	o := Options{Every: 1, Policy: Balanced, Size: 4, Hold: true}
	for what, change := range map[string]func(*sample){
		"":                            func(*sample) {},
		"another number":              func(s *sample) { s.seq[1] += 100 },
		"another class":               func(s *sample) { s.class[1] ^= 1 },
		"no class there is":           func(s *sample) { s.class[1] = 3 },
		"a class too few":             func(s *sample) { s.class = s.class[:3] },
		"an example too few":          func(s *sample) { s.list = s.list[:3] },
		"fewer seen than held":        func(s *sample) { s.classes[0].seen, s.seen = 0, s.seen-s.classes[0].seen },
		"fewer seen than by class":    func(s *sample) { s.seen-- },
		"an example that was refused": func(s *sample) { s.list[1].Y = 3 },
	} {
		b := fill(t, o, 9, labelled)
		change(b.sample)
		err := state.Decode(encode(t, b.Fields), buffer(t, o).Fields)
		if (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
	}
}
