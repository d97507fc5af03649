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

// limitMemory collects garbage when there is as much as pace says, unless GOGC says
// when: learners make little garbage, so it costs no measurable time. It makes the
// collector work harder before the cgroup's memory runs out, unless
// GOMEMLIMIT says when. A tenth is left for what the collector does not manage.
func limitMemory() {
	if os.Getenv("GOGC") == "" {
		pace(new(pacer))
	}
	if n := memoryLimit("/"); n > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(n / 10 * 9)
	}
}

// pacer is garbage of every collection. Its finalizer, pace, revives it.
type pacer struct{ live [1]metrics.Sample }

// pace sets how much garbage there may be beside what is live.
func pace(p *pacer) {
	p.live[0].Name = "/gc/heap/live:bytes"
	metrics.Read(p.live[:])
	debug.SetGCPercent(garbage(p.live[0].Value.Uint64()))
	runtime.SetFinalizer(p, pace)
}

// garbage returns the percentage of garbage for so many live bytes: half of them up to
// 16 MiB, then in proportion to their square root (Kirisame et al., "Optimal heap
// limits for reducing browser memory use", 2022), but never less than a quarter, so
// that a large model that is served does not have the collector at work all the time.
func garbage(live uint64) int {
	return max(25, min(50, int(100*math.Sqrt((4<<20)/float64(live+1)))))
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
		// A group is within the limits of those that it is in. In a container the
		// path may be that of the host, where only the root exists.
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
