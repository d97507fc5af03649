#!/usr/bin/env bash
# Makes the Python environment in which tests run exported ONNX models, once, and
# prints its interpreter.
#
#   scripts/onnx.sh
#
# Exit code 75: the package index cannot be reached, and nothing has been made.
#
# Cache: $STREAMSVM_CACHE, else ${XDG_CACHE_HOME:-~/.cache}/streamsvm.
set -euo pipefail

PACKAGES=(numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0)

cache=${STREAMSVM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/streamsvm}
home=$cache/onnx
python=$home/bin/python

die() { echo "onnx.sh: $*" >&2; exit 1; }

if [ "$(cat "$home/complete" 2>/dev/null)" != "${PACKAGES[*]}" ]; then
	command -v python3 >/dev/null || die "Python is missing (Debian: apt-get install python3-venv)"
	mkdir -p "$cache"
	rm -rf "$home"
	python3 -m venv "$home" >&2 || die "python3 -m venv fails (Debian: apt-get install python3-venv)"
	if ! "$python" -m pip install -q --disable-pip-version-check "${PACKAGES[@]}" >&2; then
		"$python" -m pip download -q --no-deps -d "$home/try" numpy >/dev/null 2>&1 && die "pip install ${PACKAGES[*]} fails"
		rm -rf "$home"
		echo "onnx.sh: the package index cannot be reached" >&2
		exit 75
	fi
	echo "${PACKAGES[*]}" >"$home/complete"
fi
echo "$python"
