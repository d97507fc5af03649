#!/bin/sh
# Measures everything and prints docs/measured/performance.md, in about 15 minutes:
#   bench/all.sh > docs/measured/performance.md
# or only some sections, by the names below:
#   bench/all.sh decode ingest
# A section that fails says so, and the others go on. Progress goes to stderr.
cd "$(dirname "$0")/.." || exit 1
sections=${*:-"kernels decode ingest kafka predict features quality fixed linear"}

note() { echo "$(date +%H:%M:%S) $*" >&2; }

# first_line COMMAND… prints the first line of what it says, if it exists.
first_line() { command -v "$1" >/dev/null && "$@" 2>&1 | head -n 1; }

run() { # name, title, text, command…
	case " $sections " in *" $1 "*) ;; *) return ;; esac
	name=$1 title=$2 text=$3
	shift 3
	note "$name: $*"
	printf '\n## %s\n\n%s`%s`\n\n' "$title" "${text:+$text

}" "$*"
	"$@" || { printf '\n(This section failed.)\n'; note "$name failed"; }
}

cat <<'TEXT'
# Performance

Written by `bench/all.sh > docs/measured/performance.md`; `bench/all.sh NAME...` measures
single sections, and the command under each heading one alone. Rates are those
of the machine below, which had other work to do if the load before is not near
0; what travels between machines is the ratio of programs that ran in the same
minutes.

TEXT
printf '| | |\n| --- | --- |\n'
printf '| commit | %s |\n' "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)$(git diff --quiet HEAD -- . ':!docs/measured/performance.md' 2>/dev/null || echo ' and changes')"
printf '| CPU | %s, %s cores |\n' "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)"
printf '| vector units | %s |\n' "$(grep -m 1 '^flags' /proc/cpuinfo | grep -owE 'avx512f|avx2|fma' | sort -u | tr '\n' ' ')"
printf '| memory | %s |\n' "$(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)"
printf '| system | %s |\n' "$(uname -sr)"
printf '| load before | %s |\n' "$(cut -d' ' -f1 /proc/loadavg)"
printf '| Go | %s |\n' "$(go version | cut -d' ' -f3)"
printf '| C compiler | %s |\n' "$(first_line "${CC:-gcc}" --version)"
printf '| LIBSVM, LIBLINEAR | %s |\n' "$(dpkg-query -W -f '${Package} ${Version}, ' libsvm-tools liblinear-tools 2>/dev/null | sed 's/, $//')"
printf '| Python peers | %s, %s |\n' "$(first_line python3 --version)" "$(sed -n 's/^PEERS = //p' bench/peers.py | tr -d '[]"')"

run kernels "Numeric kernels compared with C" \
	"One thread; billions of kernel values or features each second, and the ratio to the same loops in C, compiled with \`gcc -O3 -march=native -ffast-math\` and libmvec. n rows against m points of d features." \
	bench/kernels.sh
run decode "Decoding" \
	"One core, different values with six decimals each, and the first 2 MB of data files." \
	bench/decode.sh
run ingest "Kafka to queue, embedded broker" \
	"A million records of 100 bytes in four partitions, fetched over loopback, decoded, and handed to the learner's queue; the broker runs in the same process and has its share of the cores." \
	bench/ingest.sh
run kafka "Kafka to queue, Apache Kafka" \
	"The same, from one node of Apache Kafka on the same machine." \
	bench/ingest.sh kafka
run predict "Prediction compared with LIBSVM" "" bench/peers.py predict
run features "Random features compared with scikit-learn and River" "" bench/peers.py features
run quality "Accuracy and time compared with svm-train" \
	"LIBSVM learns with the parameters of the literature, streamsvm chooses its own, in one pass over the stream." \
	scripts/quality.py
run fixed "Accuracy and time compared with svm-train, equal parameters" \
	"Preset \`fast\`, processor seconds." \
	scripts/quality.py --fixed --sets ijcnn1,magic04,skin_nonskin,w8a,a9a,mnist8 -- --preset fast
run linear "Accuracy and time compared with LIBLINEAR" "" bench/peers.py linear
note done
