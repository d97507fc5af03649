#!/usr/bin/env python3
"""Fails when the program has become slow: when a ratio of its speed to the C
reference, to LIBSVM or to LIBLINEAR, both run here and now, is more than 30 % below
the one in bench/smoke.txt. Takes about half a minute.

    bench/smoke.py             measure, and compare
    bench/smoke.py --record    measure, and keep ratios that are lower, or new

Programs take turns, processor seconds count, and of each the least or the median of several
runs, so that a machine with other work gives about the same ratios. Those in the file are
the least of the machines on which they have been recorded, by vector unit: that of the
machine, or the one that STREAMSVM_VEC names, for which C is compiled too. So one machine
can record what others have. Of a kind without a record nothing is compared.
"""
import os
import platform
import random
import re
import resource
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLOORS = os.path.join(ROOT, "bench", "smoke.txt")
FALL = 0.7  # of a ratio on record
UNITS = ["avx512", "avx2", "generic"]  # the best first
TRIES = 3  # a ratio that is too low is measured again,
HOPELESS = 0.4  # unless it is so far below that no other work explains it
LONGEST = 120  # seconds for one run of one program, on the clock: something hangs
# For the C compiler, which does badly with AVX2 alone; elsewhere than on amd64 it may use what there is.
FLAGS = {"avx512": "-march=native -mprefer-vector-width=512", "avx2": "-march=x86-64-v3 -mprefer-vector-width=256",
         "generic": "-march=x86-64-v2" if platform.machine() == "x86_64" else "-march=native"}
# Rows for svm-predict, which needs 0.2 ms for each; the plain Go kernels are as slow.
ROWS = {"avx512": 20000, "avx2": 20000, "generic": 5000}

# A few of the shapes of bench/kernels.sh.
KERNELS = [
    "BenchmarkC$/^rbf$/^n=240$/^m=2048$/^d=(18|300)$", "BenchmarkC$/^rbf$/^n=1$/^m=1024$/^d=28$",
    "BenchmarkCFourier$/^fourier$/^n=256$/^m=1024$/^d=28$", "BenchmarkCMixed$/^dot$/^n=4096$",
]


def seconds(cmd, out=None):
    """The processor seconds of cmd, whose output goes to the file out."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(out or os.devnull, "w") as f:
        try:
            p = subprocess.run(cmd, stdout=f, stderr=subprocess.PIPE, text=True, env=dict(os.environ, GOMAXPROCS="1"), timeout=LONGEST)
        except subprocess.TimeoutExpired:
            sys.exit("smoke: %s takes more than %d s" % (" ".join(cmd), LONGEST))
    if p.returncode:
        sys.exit("smoke: %s\n%s" % (" ".join(cmd), p.stderr[-2000:]))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ratio(ours, theirs, rounds):
    """How many times the seconds of ours theirs takes."""
    least = [min(times) for times in zip(*((seconds(*ours), seconds(*theirs)) for _ in range(rounds)))]
    return least[1] / least[0]


def unit():
    """The vector unit that is in use: this machine's, or a lesser one that STREAMSVM_VEC names."""
    with open("/proc/cpuinfo") as f:
        flags = f.read()
    have = "avx512" if "avx512f" in flags else "avx2" if "avx2" in flags else "generic"
    return max(have, os.environ.get("STREAMSVM_VEC") or have, key=UNITS.index)


class Smoke:
    def __init__(self, tmp, which):
        self.tmp = tmp
        build = lambda *cmd, **env: subprocess.run(["go"] + list(cmd), cwd=ROOT, check=True, env=dict(os.environ, **env))
        # With flags for C the standard library is compiled again: only what holds the reference has them.
        build("test", "-c", "-tags", "cref", "-o", self.path("vec.test"), "./internal/vec",
              CGO_ENABLED="1", CGO_CFLAGS="-O3 -ffast-math -Wno-psabi " + FLAGS[which])
        build("build", "-o", self.path("streamsvm"), "./cmd/streamsvm")
        build("build", "-C", "bench", "-o", self.path("importmodel"), "./importmodel")
        self.data("train.libsvm", 6000, 1)
        self.data("test.libsvm", 60000, 2)
        self.data("few.libsvm", ROWS[which], 2)
        seconds(["svm-train", "-q", "-c", "1", "-g", "0.1", self.path("train.libsvm"), self.path("libsvm")])
        seconds([self.path("importmodel"), self.path("libsvm"), self.path("own")])
        seconds(["liblinear-train", "-q", self.path("train.libsvm"), self.path("liblinear")])

    def path(self, name):
        return os.path.join(self.tmp, name)

    def data(self, name, rows, seed):
        """Two classes of twenty features each side of a curved border, and noise."""
        r = random.Random(seed)
        with open(self.path(name), "w") as f:
            for _ in range(rows):
                x = [r.uniform(-1, 1) for _ in range(20)]
                y = x[0] + x[1] * x[2] + 0.5 * x[3] + r.gauss(0, 0.2) > 0
                f.write("%+d %s\n" % (1 if y else -1, " ".join("%d:%.4f" % (i + 1, v) for i, v in enumerate(x))))

    def kernels(self, wanted):
        """Ratios of kernels to C. wanted tells which names are of interest."""
        found = {}
        for pattern in KERNELS:
            out = subprocess.run([self.path("vec.test"), "-test.run", "^$", "-test.benchtime", "1x", "-test.bench", "^" + pattern],
                                 cwd=ROOT, env=dict(os.environ, GOMAXPROCS="1"), stdout=subprocess.PIPE, text=True, check=True, timeout=LONGEST).stdout
            for line in out.splitlines():
                if line.startswith("Benchmark"):
                    name = re.sub(r"^Benchmark\w+?/|-\d+$", "", line.split()[0])
                    ratios = {code: float(v) for v, code in re.findall(r"([\d.e+-]+) (\w+)/C\b", line)}
                    found[name] = ratios[next(c for c in UNITS if c in ratios)]  # of the code in use, the best of them
        return {n: v for n, v in found.items() if wanted(n)}

    def peers(self, wanted):
        own, test, few, train = (self.path(n) for n in ("streamsvm", "test.libsvm", "few.libsvm", "train.libsvm"))
        pairs = {
            "predict/svm-predict": (([own, "predict", "--model", self.path("own"), "--output", "label", few],),
                                    (["svm-predict", few, self.path("libsvm"), self.path("labels")],), 2),
            "predict/liblinear-predict": (([own, "predict", "--model", self.path("linear"), "--output", "label", test],),
                                          (["liblinear-predict", test, self.path("liblinear"), self.path("labels")],), 5),
            "train/svm-train": (([own, "replay", train, "--learner", "scs", "--tune", "off", "--scale", "none", "--set", "c=1", "--set", "gamma=0.1"],),
                                (["svm-train", "-q", "-c", "1", "-g", "0.1", train, self.path("again")],), 3),
        }
        if wanted("predict/liblinear-predict") and not os.path.exists(self.path("linear")):
            seconds([own, "replay", train, "--learner", "online", "--tune", "off", "--model", self.path("linear")])
        return {n: ratio(*p) for n, p in pairs.items() if wanted(n)}

    def measure(self, wanted=lambda name: True):
        return {**self.kernels(wanted), **self.peers(wanted)}


def floors():
    """(vector unit, name): ratio on record."""
    on_record = {}
    if os.path.exists(FLOORS):
        with open(FLOORS) as f:
            for line in f:
                if line.strip() and not line.startswith("#"):
                    which, name, value = line.split()
                    on_record[which, name] = float(value)
    return on_record


def record(on_record):
    with open(FLOORS, "w") as f:
        f.write("# Written by bench/smoke.py --record. How many times as fast as C, LIBSVM and LIBLINEAR the program is,\n"
                "# at the least, by the vector unit in use. bench/smoke.py fails at less than %g of it.\n" % FALL)
        for (which, name), value in sorted(on_record.items()):
            f.write("%-8s %-36s %.3g\n" % (which, name, value))


def main():
    if sys.argv[1:] not in ([], ["--record"]):
        sys.exit(__doc__)
    which, on_record = unit(), floors()
    with tempfile.TemporaryDirectory() as tmp:
        smoke = Smoke(tmp, which)
        got = smoke.measure()
        if len(got) != 8:
            sys.exit("smoke: %d ratios instead of 8: %s" % (len(got), " ".join(got)))
        if sys.argv[1:]:
            on_record.update({(which, n): min(v, on_record.get((which, n), v)) for n, v in got.items()})
            record(on_record)
            return
        unknown = [n for n in got if (which, n) not in on_record]
        if len(unknown) == len(got):
            print("smoke: nothing is on record for %s, so nothing is compared: bench/smoke.py --record" % which)
            return
        if unknown:
            sys.exit("smoke: no ratio on record for %s with %s: bench/smoke.py --record" % (", ".join(unknown), which))
        low = lambda: [n for n, v in got.items() if v < FALL * on_record[which, n]]
        for _ in range(TRIES - 1):
            names = [n for n in low() if got[n] > HOPELESS * on_record[which, n]]
            if names:
                again = smoke.measure(lambda n: n in names)
                got.update({n: max(v, got[n]) for n, v in again.items()})
    print("%-36s %8s %10s %8s   (%s)" % ("speed, as a multiple of", "now", "on record", "floor", which))
    for name, value in got.items():
        was = on_record[which, name]
        print("%-36s %8.3g %10.3g %8.3g%s" % (name, value, was, FALL * was, "" if value >= FALL * was else "   TOO SLOW"))
    if low():
        sys.exit("smoke: %d of %d ratios have fallen by more than %.0f %%: something has become slow, or the other side fast"
                 % (len(low()), len(got), 100 * (1 - FALL)))


main()
