package main

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
)

// limitMemory lets pace set how much garbage may pile up, unless GOGC is set: learners
// make little garbage, so this costs no measurable time. It makes the collector work
// harder before the cgroup's memory runs out, unless GOMEMLIMIT is set. A tenth of that
// memory is left for what the collector does not manage.
func limitMemory() {
	if os.Getenv("GOGC") == "" {
		pace(new(pacer))
	}
	if n := memoryLimit("/"); n > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(n / 10 * 9)
	}
}

// pacer becomes garbage in every collection. Its finalizer, pace, revives it.
type pacer struct {
	live [1]metrics.Sample
	most uint64 // live after any collection so far
}

// pace sets how much garbage may pile up besides the live heap.
func pace(p *pacer) {
	p.live[0].Name = "/gc/heap/live:bytes"
	metrics.Read(p.live[:])
	live := p.live[0].Value.Uint64()
	p.most = max(p.most, live)
	debug.SetGCPercent(garbage(live, p.most))
	runtime.SetFinalizer(p, pace)
}

// garbage returns how much garbage to allow, in percent of the live bytes: half up to
// 16 MiB, then in proportion to their square root (Kirisame et al., "Optimal heap
// limits for reducing browser memory use", 2022), but never less than a quarter, so
// that serving a large model does not keep the collector busy all the time. most is
// the largest number of bytes that were ever live: memory that was needed once may be
// filled again, by as much garbage as there is live, while the peak stays the same.
func garbage(live, most uint64) int {
	n := float64(live + 1)
	again := min(1, (0.875*float64(most)-n)/n)
	return int(100 * max(0.25, min(0.5, math.Sqrt((4<<20)/n)), again))
}

// memoryLimit returns the memory limit of the cgroup that the process is in, version
// 1 or 2, in bytes, or 0 if there is none. root is / except in tests.
func memoryLimit(root string) int64 {
	const none = 1 << 60 // version 1 has large numbers for no limit
	limit := int64(math.MaxInt64)
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		if f[1] != "" {
			if !slices.Contains(strings.Split(f[1], ","), "memory") {
				continue
			}
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// The limits of its ancestors apply to a group, too. In a container the
		// path may be the host's, of which only the root exists.
		for dir := path.Join("/", f[2]); ; dir = path.Dir(dir) {
			text, _ := os.ReadFile(filepath.Join(root, mount, dir, file))
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
				limit = min(limit, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	if limit >= none {
		return 0
	}
	return limit
}
