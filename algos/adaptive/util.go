package adaptive

import (
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// gamma returns 1/median squared distance.
func gamma(xs []*stream.Example, seed uint64) float64 {
	return kernel.SampledGamma(samplers.Vecs(xs), 300, seed)
}

// parallel calls do for 0 ≤ i < n, on all processors.
func parallel(n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
