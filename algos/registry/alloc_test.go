package registry_test

import (
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/stream"
)

// TestDecodeModelAllocates: reading models that are large, not only small ones
// as the fuzzer tries them, keeps the bound. One learner for each kind of
// model; sparse has many features of which few are not 0.
func TestDecodeModelAllocates(t *testing.T) {
	for name, n := range map[string]int{"sbp": 400, "dsg": 20, "online": 400, "adaptive": 400} {
		spec, err := registry.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, density := range []float64{1, 0.02} {
			r := rand.New(rand.NewPCG(1, 2))
			l, err := spec.New(algos.Env{Seed: 1}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: 1 - 2*float64(i%2), X: stream.Vec{Val: make([]float32, 200)}}
				for j := range x.X.Val {
					if r.Float64() < density {
						x.X.Val[j] = float32(r.NormFloat64())
					}
				}
				algostest.Feed(t, l, x)
			}
			if _, err := l.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := decodeModel(t, spec, algostest.Bytes(t, l.Model())); err != nil {
				t.Fatal(err)
			}
		}
	}
}
