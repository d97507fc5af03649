#!/bin/sh
# Prints what sifting a stream costs in accuracy and saves of the trainer's time:
# all records, those that a worker forwards, and a uniform sample of as many and of
# as many as take the same time; then streams that change. No broker is needed.
#   bench/sift.sh DIR [FLAG…]   DIR holds the data sets; flags as in bench/sift
set -e
case ${1:-} in
/*) ;;
*)
	echo "usage: bench/sift.sh DIR [FLAG…], with an absolute path" >&2
	exit 2
	;;
esac
dir=$1
shift
cd "$(dirname "$0")"
go run ./sift -data "$dir" "$@"
go run ./sift -drift -learners adaptive -rows 10000
