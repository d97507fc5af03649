package adaptive

import (
	"maps"
	"runtime"
	"slices"
	"sync"
)

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

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
