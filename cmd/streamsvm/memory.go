package main

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// limitMemory collects garbage at half as much again as is live, not twice, unless
// GOGC says when: learners make little garbage, so it costs no measurable time. It
// makes the collector work harder before the cgroup's memory runs out, unless
// GOMEMLIMIT says when. A tenth is left for what the collector does not manage.
func limitMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	if n := memoryLimit("/"); n > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(n / 10 * 9)
	}
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
