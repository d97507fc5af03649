package engine

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// golden holds the state hash after a fixed stream, for each learner: the same
// on every code path of package vec, and on every machine. A change that moves
// a hash changes what is learned, if only in the last bit; it invalidates
// running checkpoints and must say so.
var golden = map[string]string{
	"adaptive": "4003908a0989381e",
	"scs":      "7e259423c0b03f82",
	"sbp":      "618d51cfb2d6dfe3",
	"tsgs3vm":  "44fc6570d59a20a4",
	"dsg":      "ba69e5bbd6b89ce4",
	"lssvm":    "eea24741b39360a0",
	"online":   "39b1e27021985ad3",
	"l1smooth": "0238705ee33f9dce",
	"svrg-sd":  "81302c04913db621",
	"saga-sd":  "df940babfd695d3e",
	"ridge":    "b515ee6d8d2250a6",

	// With five classes, one of which is found.
	"adaptive/5": "c96e9444d5d39738",
	"scs/5":      "7cce33a3fc347c60",
	"dsg/5":      "c9c56a59e3fcea70",
	"online/5":   "77fcfe8fa2e73e2d",

	// Of numbers, with a change.
	"adaptive/number": "a763893d46f3ee38",
	"online/number":   "3c7d7dcc49476047",
	"ridge/number":    "bd6079fee3196145",
}

// numbers replaces the labels of the items by numbers, whose function changes halfway.
func numbers(items []Item) []Item {
	for i := range items {
		x := &items[i].Example
		v := x.X.Val
		x.Y = float64(v[0])*float64(v[1]) + float64(x.Y/8)
		if i > len(items)/2 {
			x.Y = -x.Y
		}
	}
	return items
}

// quarters makes a stream of five classes of the items.
func quarters(items []Item) []Item {
	for i := range items {
		x := &items[i].Example
		v := x.X.Val
		x.Y = 0
		if v[0] > 0 {
			x.Y++
		}
		if v[1] > 0 {
			x.Y += 2
		}
		if i > len(items)/2 && v[2] > .5 {
			x.Y, x.Class = 0, "9"
		}
	}
	return items
}

// fixedBits returns a stream that needs no function whose last bit could differ
// between machines.
func fixedBits(n int) []Item {
	s := uint64(12345)
	next := func() float32 { // splitmix64, uniform in [-1,1)
		s += 0x9e3779b97f4a7c15
		z := s
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return float32(int64(z^z>>31)>>40) / (1 << 23)
	}
	items := make([]Item, n)
	for i := range items {
		x := []float32{next(), next(), next(), next(), next()}
		y := 1.0
		if (x[0] > 0) == (x[1] > 0) != (next() > 0.9) {
			y = -1
		}
		items[i] = Item{
			Partition: stream.Partition{Topic: "t"}, Offset: int64(i),
			Example: stream.Example{X: stream.Vec{Val: x}, Y: y, Labelled: true},
		}
	}
	return items
}

// small returns options under which a learner on random features has few of
// them, and chooses its options on few labels or, where that is done by steps to
// convergence, takes those given: more makes these tests long, and checks no
// more.
func small(spec algos.Spec) map[string]string {
	given := map[string]string{}
	for name, value := range map[string]string{"features": "256", "tuning": "100", "block": "64", "batch_unlabelled": "64"} {
		if !spec.Takes(name) || name != "tuning" && spec.Kind != algos.Features {
			continue
		}
		given[name] = value
	}
	return given
}

const goldenChild = "STREAMSVM_GOLDEN_CHILD"

// TestGoldenStates trains every learner in child processes, one for each code
// path, and compares the hashes.
func TestGoldenStates(t *testing.T) {
	if os.Getenv(goldenChild) != "" {
		for _, spec := range registry.All {
			for _, run := range []struct {
				name      string
				task      algos.Task
				signature codec.Signature
				items     []Item
			}{
				{spec.Name, "", codec.Signature{}, fixedBits(3000)},
				{spec.Name + "/5", "", codec.Signature{Labels: "0,1,2,3"}, quarters(fixedBits(1500))},
				{spec.Name + "/number", algos.Regress, codec.Signature{}, numbers(fixedBits(1500))},
			} {
				if _, ok := golden[run.name]; !ok {
					continue
				}
				e := newEngine(t, Config{Spec: spec, Options: small(spec), Seed: 7, Task: run.task, Scale: "standard", Warmup: 100, Signature: run.signature})
				consume(t, e, run.items)
				finish(t, e)
				fmt.Printf("golden %s %016x %s\n", run.name, hashOf(t, e), vec.Code())
			}
		}
		return
	}
	for _, code := range []string{"avx512", "avx2", "generic"} {
		if code == "generic" && os.Getenv("STREAMSVM_LONG") == "" {
			continue
		}
		t.Run(code, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestGoldenStates$", "-test.v")
			cmd.Env = append(os.Environ(), goldenChild+"=1", "STREAMSVM_VEC="+code)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			seen := 0
			for line := range strings.Lines(string(out)) {
				var name, hash, used string
				if n, _ := fmt.Sscanf(line, "golden %s %s %s", &name, &hash, &used); n != 3 {
					continue
				}
				seen++
				if hash != golden[name] {
					t.Errorf("%s on %s: state %s, want %s", name, used, hash, golden[name])
				}
			}
			if seen != len(golden) {
				t.Errorf("%d states reported, want %d\n%s", seen, len(golden), out)
			}
		})
	}
}
