#!/bin/sh
# Prints how fast one core decodes examples into an arena that is used again
# for each 512 of them, by processor time, and how fast it looks at each byte once.
set -e
cd "$(dirname "$0")/.."
bench() { GOMAXPROCS=1 go test -run '^$' -bench "$1" -benchtime "${TIME:-500ms}" ./stream/codec; }
{ bench '^BenchmarkDecode$/./././^reset$' && bench '^BenchmarkDecodeFiles$' || echo FAIL; } | awk '
BEGIN { print "| values | MB/s | M examples/s | allocations/example | bound: MB/s read | % of bound |"; print "| --- | --- | --- | --- | --- | --- |" }
/^Benchmark/ {
	name = $1; sub(/^BenchmarkDecode(Files)?\//, "", name); sub(/-[0-9]+$/, "", name); sub(/\/reset$/, "", name)
	if ($1 ~ /Files/) name = "libsvm, " name
	for (i = 3; i < NF; i += 2) v[$(i+1)] = $i
	per = v["examples"] / $2 # examples in an iteration
	printf "| %s | %.0f | %.2f | %.4f | %.0f | %.1f |\n", name, v["decoded-MB/s"], v["M-examples/s"], v["allocs/op"] / per, v["read-MB/s"], 100 * v["decoded-MB/s"] / v["read-MB/s"]
	fflush(); n++
}
/FAIL|panic/ { print; failed = 1 }
END { exit failed || !n }'
