package samplers

import (
	"math"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

func TestShuffleIsAPermutation(t *testing.T) {
	for _, size := range []int{0, 1, 2, 17, 100, 500} {
		s := newShuffle(size, 3)
		var out []uint64
		for seq := uint64(1); seq <= 300; seq++ {
			if x := s.add(example(seq)); x != nil {
				if !same(x, example(x.Seq)) {
					t.Fatalf("example %d was changed", x.Seq)
				}
				out = append(out, x.Seq)
			}
			if n := len(s.list); n != min(int(seq), size) || s.free() != size-n {
				t.Fatalf("size %d: %d held, %d free after %d", size, n, s.free(), seq)
			}
		}
		for _, x := range s.drain() {
			out = append(out, x.Seq)
		}
		slices.Sort(out)
		for i, seq := range out {
			if seq != uint64(i+1) {
				t.Fatalf("size %d: example %d missing or twice", size, i+1)
			}
		}
		if len(out) != 300 || len(s.list) > 0 {
			t.Fatalf("size %d: %d of 300 came out", size, len(out))
		}
	}
}

// In a full buffer of size B an example survives an arrival with probability
// 1 − 1/B, so its stay has a geometric law.
func TestShuffleStay(t *testing.T) {
	const size, n = 8, 60000
	s := newShuffle(size, 11)
	counts := make([]float64, 25)
	for seq := uint64(1); seq <= n; seq++ {
		if x := s.add(example(seq)); x != nil && x.Seq > size {
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
		s := newShuffle(4, seed)
		for seq := uint64(1); seq <= 4; seq++ {
			s.add(&stream.Example{Seq: seq})
		}
		rank := 0
		left := []uint64{1, 2, 3, 4}
		for _, x := range s.drain() {
			i := slices.Index(left, x.Seq)
			rank = rank*len(left) + i
			left = slices.Delete(left, i, i+1)
		}
		counts[rank]++
	}
	chiSquare(t, "order of drain", counts, uniform(24, runs))
}
