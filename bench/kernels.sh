#!/bin/sh
# Prints the rates of the numeric kernels and their ratios to the C reference
# (gcc, libmvec), one thread, all implementations in turn in one process.
#   [CPU=n] bench/kernels.sh [pattern of benchmarks]
# Without a pattern it runs the kernels C(Fourier|Mixed)? on points of 18 and 300 features.
# Ratios to C are rates divided by the rate of C; %-of-bound is the best unit's.
set -e
cd "$(dirname "$0")/.."
export CGO_ENABLED=1
export CGO_CFLAGS="-O3 -march=native -mprefer-vector-width=512 -ffast-math"
{ grep -m1 'model name' /proc/cpuinfo || true; go version; ${CC:-gcc} --version | head -n 1; } >&2
pin=
command -v taskset >/dev/null && pin="taskset -c ${CPU:-0}"
GOMAXPROCS=1 $pin go test -tags cref -run '^$' -bench "^Benchmark${1:-C(Fourier|Mixed)?\$/./././d=(18|300)}\$" -benchtime 1x ./internal/vec | awk '
/^Benchmark/ {
	name = $1; sub(/^Benchmark[A-Za-z]*\//, "", name)
	row = sprintf("| %s |", name); head = "| case |"; rule = "| --- |"
	for (i = 3; i < NF; i += 2) {
		if ($(i+1) == "ns/op" || $(i+1) ~ /naive$|^(avx2|avx512|generic|bound)-G\/s$/) continue
		head = head " " $(i+1) " |"; rule = rule " --- |"
		row = row sprintf(" %.4g |", $i)
	}
	if (head != last) { print head; print rule; last = head }
	print row
}
/FAIL|panic|---/ { print; failed = 1 }
END { exit failed }'
