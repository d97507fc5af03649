package adaptive

import (
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
	"github.com/streamsvm/streamsvm/stream"
)

func long(t *testing.T) {
	t.Helper()
	if os.Getenv("STREAMSVM_LONG") == "" {
		t.Skip("set STREAMSVM_LONG=1")
	}
}

// accuracy returns the share of the examples from the given one on that were
// predicted right, each before it was learned from, and the number of cuts.
func accuracy(t *testing.T, xs []*stream.Example, from int) (right float64, cuts uint64) {
	t.Helper()
	l := newPanel(t, nil)
	out := followed(t, l, xs, func() int { return 256 }).decisions
	for i, x := range xs[from:] {
		if (out[from+i] >= 0) == (x.Y > 0) {
			right++
		}
	}
	cuts, latest := l.ChangePoints()
	t.Logf("%.4f after the first %d, %d cuts, the latest %+v", right/float64(len(xs)-from), from, cuts, latest[max(0, len(latest)-3):])
	return right / float64(len(xs)-from), cuts
}

// TestUsenet1 follows 1,500 messages to a reader who changes interests every 300.
func TestUsenet1(t *testing.T) {
	if a, _ := accuracy(t, dataset.Load(t, "usenet1.libsvm.gz", 0, 1), 300); a < .71 {
		t.Errorf("accuracy %.4f", a)
	}
}

// TestElec2 follows the prices of electricity.
func TestElec2(t *testing.T) {
	long(t)
	if a, cuts := accuracy(t, dataset.Load(t, "elec2.libsvm.gz", 0, 1), 500); a < .92 || cuts == 0 {
		t.Errorf("accuracy %.4f, %d cuts", a, cuts)
	}
}

// TestShuffledIsNotCut: where rows come in random order, nothing changes.
func TestShuffledIsNotCut(t *testing.T) {
	long(t)
	for seed := range uint64(2) {
		xs := dataset.Load(t, "ijcnn1.train.libsvm.gz", 0, 1)
		r := rand.New(rand.NewPCG(seed, 1))
		r.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
		if a, cuts := accuracy(t, xs[:20000], 500); a < .97 || cuts > 0 {
			t.Errorf("seed %d: accuracy %.4f, %d cuts", seed, a, cuts)
		}
	}
}

// TestHeap: what the learner holds does not grow with a stream that changes.
func TestHeap(t *testing.T) {
	long(t)
	g, err := synth.New("sea", 5, map[string]string{"block": "3000"})
	if err != nil {
		t.Fatal(err)
	}
	l := newPanel(t, nil)
	const n, block = 300000, 250
	dst, xs := make([]float64, block), make([]*stream.Example, block)
	var heap []uint64
	for i := 1; i <= n/block; i++ {
		for k := range xs {
			xs[k] = new(stream.Example)
			g.Next(xs[k])
		}
		if _, _, err := l.Follow(t.Context(), dst, xs); err != nil {
			t.Fatal(err)
		}
		if i*block%(n/30) == 0 {
			clear(xs)
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			heap = append(heap, m.HeapAlloc)
		}
	}
	cuts, latest := l.ChangePoints()
	t.Logf("%d cuts; heap, by 10,000 examples: %d", cuts, heap)
	if cuts < 50 || len(latest) > 256 {
		t.Errorf("%d cuts, %d kept", cuts, len(latest))
	}
	// The sample is small after a cut and grows to the next: compare the largest, which
	// differ by where the looks fall.
	early, late := uint64(0), uint64(0)
	for i, h := range heap {
		if i < 10 {
			early = max(early, h)
		}
		if i >= 20 {
			late = max(late, h)
		}
	}
	if float64(late) > 1.15*float64(early) {
		t.Errorf("%d bytes at most in the first third, %d in the last", early, late)
	}
}
