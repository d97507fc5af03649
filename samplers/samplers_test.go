package samplers_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
	. "github.com/streamsvm/streamsvm/samplers"
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
	p := distuv.ChiSquared{K: df}.Survival(x)
	if p < 1e-6 {
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

func encode(t *testing.T, fields func(*state.Fields)) []byte {
	t.Helper()
	b, err := state.Append(nil, fields)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestShuffleIsAPermutation(t *testing.T) {
	for _, size := range []int{0, 1, 2, 17, 100, 500} {
		s := NewShuffle(size, 3)
		var out []uint64
		for seq := uint64(1); seq <= 300; seq++ {
			if x := s.Add(example(seq)); x != nil {
				if !same(x, example(x.Seq)) {
					t.Fatalf("example %d was changed", x.Seq)
				}
				out = append(out, x.Seq)
			}
			if s.Len() != min(int(seq), size) || s.Free() != size-s.Len() {
				t.Fatalf("size %d: %d held, %d free after %d", size, s.Len(), s.Free(), seq)
			}
		}
		for _, x := range s.Drain() {
			out = append(out, x.Seq)
		}
		if s.Len() != 0 {
			t.Fatalf("%d examples after Drain", s.Len())
		}
		slices.Sort(out)
		for i, seq := range out {
			if seq != uint64(i+1) {
				t.Fatalf("size %d: example %d missing or twice", size, i+1)
			}
		}
		if len(out) != 300 {
			t.Fatalf("size %d: %d of 300 came out", size, len(out))
		}
	}
}

// In a full buffer of size B an example survives an arrival with probability
// 1 − 1/B, so its stay has a geometric law.
func TestShuffleStay(t *testing.T) {
	const size, n = 8, 60000
	s := NewShuffle(size, 11)
	counts := make([]float64, 25)
	for seq := uint64(1); seq <= n; seq++ {
		if x := s.Add(example(seq)); x != nil && x.Seq > size {
			counts[min(int(seq-x.Seq)-1, len(counts)-1)]++
		}
	}
	total, expected := 0.0, make([]float64, len(counts))
	for _, c := range counts {
		total += c
	}
	for i := range expected {
		expected[i] = total * math.Pow(1-1.0/size, float64(i)) / size
	}
	expected[len(expected)-1] *= size // the tail
	chiSquare(t, "stay", counts, expected)
}

func TestShuffleDrainOrder(t *testing.T) {
	const runs = 24000
	counts := make([]float64, 24)
	for seed := range uint64(runs) {
		s := NewShuffle(4, seed)
		for seq := uint64(1); seq <= 4; seq++ {
			s.Add(&stream.Example{Seq: seq})
		}
		rank := 0
		left := []uint64{1, 2, 3, 4}
		for _, x := range s.Drain() {
			i := slices.Index(left, x.Seq)
			rank = rank*len(left) + i
			left = slices.Delete(left, i, i+1)
		}
		counts[rank]++
	}
	chiSquare(t, "order of Drain", counts, uniform(24, runs))
}

func TestReservoirInclusion(t *testing.T) {
	const size, n, runs = 10, 60, 4000
	counts := make([]float64, n)
	for seed := range uint64(runs) {
		r := NewReservoir(size, false, seed)
		for seq := uint64(1); seq <= n; seq++ {
			r.Add(&stream.Example{Seq: seq})
		}
		if r.Len() != size || r.Seen() != n {
			t.Fatalf("seed %d: %d held of %d seen", seed, r.Len(), r.Seen())
		}
		for i := range size {
			counts[r.At(i).Seq-1]++
		}
	}
	chiSquare(t, "inclusion", counts, uniform(n, size*runs))
}

// A rare class is held completely as long as it has less than its share, and
// each class's part is a uniform sample of that class.
func TestBalancedReservoir(t *testing.T) {
	const size, n, runs = 12, 120, 4000
	negative := make([]float64, n)
	for seed := range uint64(runs) {
		r := NewReservoir(size, true, seed)
		rare := 0
		for seq := uint64(1); seq <= n; seq++ {
			x := &stream.Example{Seq: seq, Labelled: true, Y: -1}
			if seq%30 == 0 {
				x.Y = 1
				rare++
			}
			r.Add(x)
		}
		held := 0
		for i := range size {
			if x := r.At(i); x.Y > 0 {
				held++
			} else {
				negative[x.Seq-1]++
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

	// With two equally frequent classes each gets half, and both are uniform.
	var odd, even []float64
	all := make([]float64, n)
	for seed := range uint64(runs) {
		r := NewReservoir(size, true, seed)
		for seq := uint64(1); seq <= n; seq++ {
			r.Add(&stream.Example{Seq: seq, Labelled: true, Y: float64(1 - 2*int(seq%2))})
		}
		pos := 0
		for i := range size {
			all[r.At(i).Seq-1]++
			if r.At(i).Y > 0 {
				pos++
			}
		}
		if pos != size/2 {
			t.Fatalf("seed %d: %d of %d positive", seed, pos, size)
		}
	}
	for i, c := range all {
		if i%2 == 0 {
			odd = append(odd, c)
		} else {
			even = append(even, c)
		}
	}
	chiSquare(t, "odd class", odd, uniform(len(odd), size/2*runs))
	chiSquare(t, "even class", even, uniform(len(even), size/2*runs))
}

// The obvious sampler is a slice of slots; this is what must hold after each
// Add whatever the policy.
func TestSlots(t *testing.T) {
	for _, policy := range []Policy{KeepUniform, KeepBalanced, KeepRecent} {
		for seed := range uint64(40) {
			random := rand.New(rand.NewPCG(seed, 5))
			size := 1 + random.IntN(30)
			s, err := New(policy, size, seed)
			if err != nil {
				t.Fatal(err)
			}
			var slots []*stream.Example
			for seq := uint64(1); seq <= 200; seq++ {
				x := example(seq)
				x.Labelled = random.IntN(8) > 0
				slot, evicted := s.Add(x)
				switch {
				case slot == -1:
					if evicted != nil || len(slots) < size || policy == KeepRecent {
						t.Fatalf("%s, seed %d: refused example %d, evicted %v", policy, seed, seq, evicted)
					}
				case slot == len(slots) && len(slots) < size:
					if evicted != nil {
						t.Fatalf("%s, seed %d: evicted %d from a new slot", policy, seed, evicted.Seq)
					}
					slots = append(slots, s.At(slot)) // x or a copy of it
				default:
					if len(slots) < size || slot < 0 || slot >= size || evicted != slots[slot] {
						t.Fatalf("%s, seed %d: example %d in slot %d of %d for %v", policy, seed, seq, slot, size, evicted)
					}
					slots[slot] = s.At(slot)
				}
				if slot >= 0 && !same(s.At(slot), x) {
					t.Fatalf("%s, seed %d: example %d is not what is in slot %d", policy, seed, seq, slot)
				}
				bytes := 0
				for i, want := range slots {
					if s.At(i) != want {
						t.Fatalf("%s, seed %d: slot %d changed without notice", policy, seed, i)
					}
					bytes += want.Bytes()
				}
				if s.Len() != len(slots) || s.Cap() != size || s.Bytes() < bytes || s.Bytes() > bytes+8*size {
					t.Fatalf("%s, seed %d: Len %d Cap %d Bytes %d for %d slots of %d with %d bytes",
						policy, seed, s.Len(), s.Cap(), s.Bytes(), len(slots), size, bytes)
				}
			}
		}
	}
}

func TestWindowHoldsTheLast(t *testing.T) {
	w := NewWindow(7)
	for seq := uint64(1); seq <= 40; seq++ {
		w.Add(example(seq))
		for i := range w.Len() {
			want := seq - uint64(w.Len()) + 1 + uint64(i)
			if got := w.At((w.Oldest() + i) % w.Len()).Seq; got != want {
				t.Fatalf("after %d: position %d holds %d, want %d", seq, i, got, want)
			}
		}
	}
}

func TestQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	q := NewQueue(9)
	var naive []uint64
	for seq := uint64(1); seq <= 3000; seq++ {
		dropped := q.Push(example(seq))
		naive = append(naive, seq)
		if len(naive) > 9 {
			if dropped == nil || dropped.Seq != naive[0] {
				t.Fatalf("dropped %v, want %d", dropped, naive[0])
			}
			naive = naive[1:]
		} else if dropped != nil {
			t.Fatalf("dropped %d from a queue with room", dropped.Seq)
		}
		if random.IntN(6) == 0 {
			n := random.IntN(12)
			got := q.Take(nil, n)
			want := naive[:min(n, len(naive))]
			naive = naive[len(want):]
			if len(got) != len(want) {
				t.Fatalf("took %d of %d", len(got), len(want))
			}
			for i := range got {
				if got[i].Seq != want[i] {
					t.Fatalf("took %d, want %d", got[i].Seq, want[i])
				}
			}
		}
		if q.Len() != len(naive) || q.Len() > 0 && q.At(0).Seq != naive[0] {
			t.Fatalf("queue of %d, want %d", q.Len(), len(naive))
		}
	}
}

func TestPools(t *testing.T) {
	p, err := NewPools(KeepRecent, 4, 6, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Draw(nil, 3, rng.New(1, "t")); len(got) != 0 {
		t.Fatalf("drew %v from an empty pool", got)
	}
	for seq := uint64(1); seq <= 50; seq++ {
		p.Add(example(seq))
	}
	if p.Labelled.Len() != 4 || p.Unlabelled.Len() != 6 {
		t.Fatalf("%d labelled, %d unlabelled", p.Labelled.Len(), p.Unlabelled.Len())
	}
	for i := range 6 {
		if x := p.Unlabelled.At(i); x.Labelled || x.Seq != uint64(25+5*i) {
			t.Fatalf("unlabelled %d is %d", i, x.Seq)
		}
	}
	counts := make([]float64, 4)
	for _, slot := range p.Draw(nil, 8000, rng.New(1, "t")) {
		counts[slot]++
	}
	chiSquare(t, "draws", counts, uniform(4, 8000))
	if _, err := NewPools("best", 4, 6, 1); err == nil || !strings.Contains(err.Error(), `"best"`) {
		t.Fatalf("unknown policy: %v", err)
	}
}

func TestDeferred(t *testing.T) {
	d := NewDeferred(NewWindow(5), 8)
	direct := NewWindow(5)
	for seq := uint64(1); seq <= 60; seq++ {
		before := d.Sampler.Len()
		if d.Add(example(seq)) != nil {
			t.Fatalf("dropped at %d with %d waiting", seq, d.Waiting())
		}
		direct.Add(example(seq))
		if d.Sampler.Len() != before {
			t.Fatal("a frozen sample grew")
		}
		if seq%7 == 0 {
			calls := 0
			d.Apply(func(x *stream.Example, slot int, evicted *stream.Example) {
				calls++
				if d.Sampler.At(slot) != x || evicted != nil && evicted.Seq != x.Seq-5 {
					t.Fatalf("example %d in slot %d for %v", x.Seq, slot, evicted)
				}
			})
			if calls != 7 || d.Waiting() != 0 {
				t.Fatalf("%d calls, %d waiting", calls, d.Waiting())
			}
			for i := range direct.Len() {
				if d.Sampler.At(i).Seq != direct.At(i).Seq {
					t.Fatalf("slot %d differs from the undeferred sample", i)
				}
			}
		}
	}
	if d.Apply(nil); d.Waiting() != 0 {
		t.Fatal("Apply(nil) left examples waiting")
	}
	for seq := uint64(1); seq <= 9; seq++ {
		if dropped := d.Add(example(seq)); (dropped != nil) != (seq == 9) {
			t.Fatalf("dropped %v at arrival %d of 8", dropped, seq)
		}
	}
}

// subject is any sampler behind the calls that the state tests need.
type subject struct {
	fields func(*state.Fields)
	add    func(seq uint64) string // returns what happened
}

func subjects() map[string]func() subject {
	sampler := func(s Sampler) subject {
		return subject{s.Fields, func(seq uint64) string {
			slot, evicted := s.Add(example(seq))
			return fmt.Sprint(slot, name(evicted))
		}}
	}
	return map[string]func() subject{
		"reservoir": func() subject { return sampler(NewReservoir(9, false, 4)) },
		"balanced":  func() subject { return sampler(NewReservoir(9, true, 4)) },
		"window":    func() subject { return sampler(NewWindow(9)) },
		"shuffle": func() subject {
			s := NewShuffle(9, 4)
			return subject{s.Fields, func(seq uint64) string {
				if seq%31 == 0 {
					return names(s.Drain())
				}
				return name(s.Add(example(seq)))
			}}
		},
		"pools": func() subject {
			p, err := NewPools(KeepUniform, 9, 5, 4)
			if err != nil {
				panic(err)
			}
			return subject{p.Fields, func(seq uint64) string {
				kept := p.Add(example(seq))
				if seq%8 == 0 {
					return fmt.Sprint(kept, names(p.Unlabelled.Take(nil, 3)))
				}
				return fmt.Sprint(kept)
			}}
		},
		"deferred": func() subject {
			d := NewDeferred(NewReservoir(9, false, 4), 12)
			return subject{d.Fields, func(seq uint64) string {
				log := name(d.Add(example(seq)))
				if seq%10 == 0 {
					d.Apply(func(x *stream.Example, slot int, evicted *stream.Example) {
						log += fmt.Sprint(slot, name(evicted))
					})
				}
				return log
			}}
		},
		"growing": func() subject {
			g, err := NewGrowing(Growth{Rule: Geometric, Ratio: 1.3, Initial: 4, Max: 50, TMax: 9, Recycle: true, Refresh: 2})
			if err != nil {
				panic(err)
			}
			return subject{g.Fields, func(seq uint64) string {
				log := fmt.Sprint(g.Add(example(seq)), g.Need())
				if g.Need() > 0 {
					return log
				}
				join, test := g.Take()
				for i, x := range join {
					if g.Len() < 50 {
						g.Append(x)
					} else {
						log += fmt.Sprint(g.Replace((int(seq)+i)%50, x))
					}
				}
				g.Plan(1)
				return log + names(join) + names(test)
			}}
		},
	}
}

func name(x *stream.Example) string {
	if x == nil {
		return "-"
	}
	if !same(x, example(x.Seq)) {
		return fmt.Sprintf("%d damaged", x.Seq)
	}
	return fmt.Sprint(x.Seq)
}

func names(list []*stream.Example) string {
	var b strings.Builder
	for _, x := range list {
		b.WriteString(" " + name(x))
	}
	return "[" + b.String() + "]"
}

// A sampler that was stored and restored anywhere goes on as if nothing had
// happened.
func TestStateRoundTrip(t *testing.T) {
	for kind, make := range subjects() {
		random := rand.New(rand.NewPCG(8, 8))
		whole, parts := make(), make()
		for seq := uint64(1); seq <= 400; seq++ {
			if a, b := whole.add(seq), parts.add(seq); a != b {
				t.Fatalf("%s: example %d: %s uninterrupted, %s restored", kind, seq, a, b)
			}
			if random.IntN(9) == 0 {
				data := encode(t, parts.fields)
				parts = make()
				if err := state.Decode(data, parts.fields); err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				if !bytes.Equal(data, encode(t, parts.fields)) {
					t.Fatalf("%s: the state changed on its way", kind)
				}
			}
		}
		if !bytes.Equal(encode(t, whole.fields), encode(t, parts.fields)) {
			t.Fatalf("%s: final states differ", kind)
		}
	}
}

// Damaged states are refused, or decode to something that works; nothing
// panics.
func TestStateDamage(t *testing.T) {
	for kind, make := range subjects() {
		random := rand.New(rand.NewPCG(9, 9))
		whole := make()
		for seq := uint64(1); seq <= 60; seq++ {
			whole.add(seq)
		}
		good := encode(t, whole.fields)
		refused := 0
		for range 3000 {
			bad := slices.Clone(good)
			if random.IntN(3) == 0 {
				bad = bad[:random.IntN(len(bad))]
			} else {
				bad[random.IntN(len(bad))] ^= 1 << random.IntN(8)
			}
			s := make()
			if err := state.Decode(bad, s.fields); err != nil {
				refused++
				continue
			}
			encode(t, s.fields)
			if kind != "growing" { // whose caller, here, relies on its own book-keeping
				s.add(61)
			}
		}
		if refused < 1000 {
			t.Errorf("%s: only %d of 3000 damaged states refused", kind, refused)
		}
	}
}
