#!/bin/sh
# Measures everything and prints docs/measured/performance.md, in about 10 minutes on
# two cores without other work:
#   bench/all.sh > docs/measured/performance.md
# or only some sections, by the names below:
#   bench/all.sh decode ingest
# A section that fails, or takes more than SECONDS_EACH (default 300), says so, and the
# others go on. Progress goes to stderr.
cd "$(dirname "$0")/.." || exit 1
sections=${*:-"machine kernels decode ingest kafka predict features fixed quality"}

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
single sections, and the command under each heading one alone. Rates are those
of the machine below, which had other work to do if the load before is not near
0; what travels between machines is the ratio of programs that ran in the same
minutes. Bounds are what the machine allows, by the rates in the first section,
measured again with each: no program on it can be faster that does this work.

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
	"Billions of fused multiply-adds, of cosines and of exponentials (libmvec) of float32, and of bytes read from 16 KiB, 256 KiB and 256 MiB, each processor second." \
	bench/kernels.sh Machine
run kernels "Numeric kernels compared with C" \
	"One thread; billions of kernel values or features each second, and the ratio to the same loops in C, compiled with \`gcc -O3 -march=native -ffast-math\` and libmvec. n rows against m points of d features. The bound is what one core of this machine allows, both measured in the same minutes: a fused multiply-add for each feature of each value, or reading the points once, whichever takes longer; for \`dot\` and \`axpy\`, reading what goes in. Exponentials and cosines are not in it. %-of-bound is how much of it the code in use reaches." \
	bench/kernels.sh
run decode "Decoding" \
	"Rates of a processor second: different values with six decimals each, and the first 2 MB of data files. The bound is looking at each byte of the same values once (\`bytes.Count\`, AVX2)." \
	bench/decode.sh
run ingest "Kafka to queue, embedded broker" \
	"A million records of 100 bytes in four partitions, fetched over loopback, decoded, and handed to the learner's queue; the broker runs in the same process and has its share of the cores and of the processor seconds. Bounds: franz-go takes the same records, which nobody decodes or keeps; as many bytes go through a TCP connection over loopback." \
	bench/ingest.sh
run kafka "Kafka to queue, Apache Kafka" \
	"The same, from one node of Apache Kafka on the same machine, whose processor seconds are not counted." \
	bench/ingest.sh kafka
run predict "Prediction compared with LIBSVM" "" bench/peers.py predict
run features "Random features compared with scikit-learn and River" "" bench/peers.py features
bound="The bound is what one core of this machine allows, measured in the same minutes: to know the decisions of all rows at the end, a kernel value of each row with each support vector (those of two support vectors once), which is a multiply-add for each feature that is not 0, and an exponential. Choosing what becomes a support vector, and scoring before learning, is not in it."
run fixed "Accuracy and time compared with svm-train, equal parameters" \
	"Preset \`fast\`. $bound" \
	scripts/quality.py --fixed --limit 100 --sets ijcnn1,magic04,skin_nonskin,w8a,a9a -- --preset fast
run quality "Accuracy and time compared with svm-train and LIBLINEAR" \
	"LIBSVM learns with the parameters of the literature, LIBLINEAR with its defaults (\`-s 1 -c 1 -B 1\`, dual, L2 loss); streamsvm chooses its own, in one pass over the stream." \
	scripts/quality.py --limit 100
note done
