package main

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// The memory limit is the smallest one of the group and of those that it is in.
func TestMemoryLimit(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no cgroups": {nil, 0},
		"version 2, in the root of a container": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, 512 << 20},
		"version 2, no limit": {map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, 0},
		"version 2, limit of the parent": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1000000\n", "sys/fs/cgroup/a/b/memory.max": "2000000\n",
		}, 1000000},
		"version 1, path of the host": {map[string]string{
			"proc/self/cgroup":                           "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "3000000\n",
		}, 3000000},
		"version 1, no limit": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			file = filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := memoryLimit(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// The collector's percentage follows what is live, after every collection.
func TestPace(t *testing.T) {
	for c, want := range map[[2]uint64]int{{0, 0}: 50, {1, 1}: 50, {16, 16}: 49, {36, 36}: 33, {64, 64}: 25, {1 << 20, 1 << 20}: 25, {64, 72}: 25, {64, 96}: 31, {64, 900}: 100} {
		if got := garbage(c[0]<<20, c[1]<<20); got != want {
			t.Errorf("%d MiB, once %d: %d %%, want %d %%", c[0], c[1], got, want)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	pace(new(pacer))
	held := make([]byte, 64<<20)
	await := func(what string, ok func(percent uint64) bool) {
		t.Helper()
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		for range 100 {
			runtime.GC()
			if metrics.Read(sample); ok(sample[0].Value.Uint64()) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("64 MiB %s: %d %%", what, sample[0].Value.Uint64())
	}
	await("are held", func(percent uint64) bool { return percent < 30 })
	runtime.KeepAlive(held)
	await("were held", func(percent uint64) bool { return percent > 50 })
}
