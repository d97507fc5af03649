#!/bin/sh
# Prints how long after its publication subscribers have a version of a model in
# use, and how many bytes each receives for it: 1 and 100 subscribers in one
# process that follow one topic, each with connections of its own.
#   bench/follow.sh             the embedded broker, in the same process
#   bench/follow.sh kafka       Apache Kafka, started for this and ended afterwards
#   bench/follow.sh HOST:PORT   that broker
# [COUNT=n] is the number of versions, default 64, 1 in 16 of them a full;
# [MODELS=5MB] only the models of that size.
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
go test -run '^$' -bench "^BenchmarkFollow\$/${MODELS:-.}" -benchtime "${COUNT:-64}x" -timeout 60m ./predictor | awk '
BEGIN {
	print "| model, subscribers | p50, ms | p99, ms | full: p50, p99 | delta: p50, p99 | bytes of a full: payload, received | of a delta |"
	print "| --- | --- | --- | --- | --- | --- | --- |"
}
/^Benchmark/ {
	name = $1; sub(/^BenchmarkFollow\//, "", name); sub(/-[0-9]+$/, "", name); sub(/\//, ", ", name)
	for (i = 3; i < NF; i += 2) v[$(i+1)] = $i
	printf "| %s | %.0f | %.0f | %.0f, %.0f | %.0f, %.0f | %.0f, %.0f | %.0f, %.0f |\n", name, v["p50-ms"], v["p99-ms"],
		v["full-p50-ms"], v["full-p99-ms"], v["delta-p50-ms"], v["delta-p99-ms"],
		v["full-payload-B"], v["full-wire-B"], v["delta-payload-B"], v["delta-wire-B"]
	fflush(); n++
}
/FAIL|panic|---/ { print; failed = 1 }
END { exit failed || !n }'
