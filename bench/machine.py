"""What one core of this machine can do, and the bounds that follow; for the other scripts."""
import os
import resource
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Machine:
    """Its rates in seconds: fma, exp and cos of float32, byte read from memory."""

    def __init__(self):
        out = subprocess.run([os.path.join(ROOT, "bench", "kernels.sh"), "Machine"], stdout=subprocess.PIPE, text=True, check=True).stdout
        lines = [[c.strip() for c in l.split("|")] for l in out.splitlines() if l.startswith("|")]
        rate = dict(zip(lines[0], lines[2]))
        self.fma, self.exp, self.cos, self.byte = (1e-9 / float(rate[k]) for k in ("G-FMA/s", "G-exp/s", "G-cos/s", "memory-GB/s"))

    def rbf(self, values, nonzero):
        """The least seconds for so many values of the RBF kernel, with rows of so many features that are not 0."""
        return values * (nonzero * self.fma + self.exp)


def nonzero(lines):
    """The mean number of features that LIBSVM's form gives."""
    return sum(l.count(":") for l in lines) / len(lines)


class TooLong(Exception):
    pass


def timed(cmd, env=None, limit=None):
    """Seconds on the clock, processor seconds and standard output of a command, which may use so many processor seconds."""
    cap = (lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))) if limit else None
    t, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=cap,
                       env=dict(os.environ, **env) if env else None)
    wall, after = time.perf_counter() - t, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if limit and cpu >= limit - 0.5 and p.returncode < 0:
        raise TooLong()
    if p.returncode:
        raise SystemExit("%s\n%s" % (" ".join(cmd), p.stderr[-2000:]))
    return wall, cpu, p.stdout
