#!/bin/sh
# Prints how fast one core decodes examples into an arena that is used again
# for each 512 of them.
set -e
cd "$(dirname "$0")/.."
bench() { GOMAXPROCS=1 go test -run '^$' -bench "$1" -benchtime "${TIME:-500ms}" ./stream/codec; }
{ bench '^BenchmarkDecode$/./././^reset$' && bench '^BenchmarkDecodeFiles$' || echo FAIL; } | awk '
BEGIN { print "| values | MB/s | M examples/s | allocations/example |"; print "| --- | --- | --- | --- |" }
/^Benchmark/ {
	name = $1; sub(/^BenchmarkDecode(Files)?\//, "", name); sub(/-[0-9]+$/, "", name); sub(/\/reset$/, "", name)
	if ($1 ~ /Files/) name = "libsvm, " name
	for (i = 3; i < NF; i += 2) v[$(i+1)] = $i
	per = v["examples/s"] * $3 / 1e9 # examples in an iteration
	printf "| %s | %.0f | %.2f | %.4f |\n", name, v["MB/s"], v["examples/s"] / 1e6, v["allocs/op"] / per
	fflush(); n++
}
/FAIL|panic/ { print; failed = 1 }
END { exit failed || !n }'
