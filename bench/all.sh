#!/bin/sh
# Measures everything and prints docs/measured/performance.md, in about 10 minutes on
# two cores without other work:
#   bench/all.sh > docs/measured/performance.md
# or only some sections, by the names below:
#   bench/all.sh decode kafka
# A section that fails, or takes more than SECONDS_EACH (default 300), says so, and the
# others go on. Progress goes to stderr.
cd "$(dirname "$0")/.." || exit 1
sections=${*:-"machine kernels decode kafka predict features quality"}

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
	timeout "${SECONDS_EACH:-300}" "$@" || {
		if [ $? = 124 ]; then why="took too long and was ended"; else why=failed; fi
		printf '\n(This section %s.)\n' "$why"
		note "$name $why"
	}
}

cat <<'TEXT'
# Performance

Written by `bench/all.sh > docs/measured/performance.md`; `bench/all.sh NAME...` measures
single sections, and the command under each heading one alone. Ratios travel between
machines, rates do not. A bound is what one core of this machine allows, measured in the
same minutes.

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

run machine "What one core of the machine can do" \
	"Billions of float32 multiply-adds, cosines and exponentials (libmvec) a second, and of bytes read from 16 KiB, 256 KiB and 256 MiB." \
	bench/kernels.sh Machine
run kernels "Numeric kernels compared with C" \
	"One thread. Billions of values a second in C (\`gcc -O3 -march=native -ffast-math\`, libmvec), and the ratio of each of our implementations to it: n rows against m points of d features. The bound counts multiply-adds or reading the points once, whichever takes longer, without exponentials and cosines." \
	bench/kernels.sh
run decode "Decoding" \
	"For each processor second: values with six decimals, and the first 2 MB of data files. The bound is looking at each byte once (\`bytes.Count\`, AVX2)." \
	bench/decode.sh
run kafka "Kafka to queue, Apache Kafka" \
	"A million records of 100 bytes in four partitions, fetched from one node of Apache Kafka on the same machine, decoded, and handed to the learner's queue. The broker's processor seconds do not count. Bounds: franz-go fetching the same records without decoding them; as many bytes over a TCP connection on loopback." \
	bench/ingest.sh kafka
run predict "Prediction compared with LIBSVM" "" bench/peers.py predict
run features "Random features compared with scikit-learn and River" "" bench/peers.py features
run quality "Accuracy and time compared with svm-train and LIBLINEAR" \
	"LIBSVM has the parameters of the literature, LIBLINEAR its defaults (\`-s 1 -c 1 -B 1\`); streamsvm (\`scs\`) chooses its own, in one pass. Accuracy is that of the finished model on the test file." \
	scripts/quality.py --limit 100
note done
