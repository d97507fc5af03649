#!/bin/sh
# Prints how many records of 100 bytes come from a broker, are decoded and stand
# in the learner's queue each second.
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
BEGIN { print "| values | records/s | bytes/record allocated | allocations/record |"; print "| --- | --- | --- | --- |" }
/^Benchmark/ {
	name = $1; sub(/^BenchmarkIngest\//, "", name); sub(/-[0-9]+$/, "", name)
	for (i = 3; i < NF; i += 2) v[$(i+1)] = $i
	printf "| %s | %.2f M | %.0f | %.3f |\n", name, v["records/s"] / 1e6, v["B/op"] / 1e6, v["allocs/op"] / 1e6
	fflush(); n++
}
/FAIL|panic|---/ { print; failed = 1 }
END { exit failed || !n }'
