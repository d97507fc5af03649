#!/bin/sh
# Prints how many records of 100 bytes come from a broker, are decoded and stand
# in the learner's queue each second, how many franz-go takes without decoding them, and
# how many go through a connection over loopback as bytes.
#   bench/ingest.sh             the embedded broker, in the same process
#   bench/ingest.sh kafka       Apache Kafka, started for this and ended afterwards
#   bench/ingest.sh HOST:PORT   that broker
# [COUNT=n] says how often the million records are read, default 3.
set -e
cd "$(dirname "$0")/.."
case ${1:-} in
'') unset STREAMSVM_TEST_BROKERS ;;
kafka)
	dir=$(mktemp -d)
	trap 'exit 1' INT TERM
	trap 'scripts/kafka.sh clean "$dir/run" >/dev/null 2>&1; rm -rf "$dir"' EXIT
	STREAMSVM_TEST_BROKERS=$(scripts/kafka.sh start "$dir/run")
	export STREAMSVM_TEST_BROKERS
	;;
*)
	STREAMSVM_TEST_BROKERS=$1
	export STREAMSVM_TEST_BROKERS
	;;
esac
go test -run '^$' -bench '^BenchmarkIngest$' -benchtime "${COUNT:-3}x" ./internal/engine | awk '
BEGIN {
	print "| values | records/s | bytes/record allocated | allocations/record | records/processor s | bound: franz-go, bare | % of it | bound: loopback | % of it |"
	print "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
}
/^Benchmark/ {
	name = $1; sub(/^BenchmarkIngest\//, "", name); sub(/-[0-9]+$/, "", name)
	what = name; sub(/.*\//, "", what); sub(/\/[^\/]*$/, "", name)
	for (i = 3; i < NF; i += 2) v[$(i+1)] = $i
	cpu[what] = v["records/cpu-s"] / 1e6
	if (what == "queue") row = sprintf("| %s | %.2f M | %.0f | %.3f", name, v["records/s"] / 1e6, v["B/op"] / 1e6, v["allocs/op"] / 1e6)
	if (what != "loopback") next
	printf "%s | %.2f M | %.2f M | %.0f | %.1f M | %.1f |\n", row, cpu["queue"], cpu["franz-go"], 100 * cpu["queue"] / cpu["franz-go"], cpu["loopback"], 100 * cpu["queue"] / cpu["loopback"]
	fflush(); n++
}
/FAIL|panic|---/ { print; failed = 1 }
END { exit failed || !n }'
