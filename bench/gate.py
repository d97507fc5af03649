#!/usr/bin/env python3
"""What a gate keeps out, and what it costs: champion and newest model on the same examples.

    bench/gate.py FIGURE.svg ELEC2.libsvm.gz

A stream of two regions in the plane, of which labels are flipped from example
15,001 to 20,000; and streams that drift, with gates on evidence of several
lengths. Needs Go.
"""
import csv, json, os, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STRETCH = 15000, 20000
GENERATED = {"sea": ["block=5000"], "hyperplane": ["magnitude=0.01", "drifting=10"]}


def replay(exe, path, learner, gate):
    """Examples as (newest right, champion right or None), the first one's number, and what was reported."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as f:
        out = subprocess.run([exe, "replay", path, "-q", "--learner", learner, "--promote", "champion", "--gate", gate,
                              "--scores", f.name, "--json", "-"], stdout=subprocess.PIPE, check=True)
        rows = [((float(r["decision"]) >= 0) == (float(r["label"]) > 0),
                 (float(r["champion"]) >= 0) == (float(r["label"]) > 0) if r["champion"] else None) for r in csv.DictReader(open(f.name, newline=""))]
    result = json.loads(out.stdout)
    return rows, result["labelled"] - len(rows), result


def shares(rows):
    rows = [r for r in rows if r[1] is not None]
    return len(rows), sum(r[0] for r in rows) / max(len(rows), 1), sum(r[1] for r in rows) / max(len(rows), 1)


def figure(path, rows, first, window=500):
    wide, high, left, top = 720, 260, 46, 24
    x = lambda n: left + (wide - left - 10) * n / (first + len(rows))
    y = lambda v: top + (high - top - 34) * (1 - v)
    lines = []
    for column, color in ((0, "#d95f02"), (1, "#1b9e77")):
        points, recent = [], []
        for i, r in enumerate(rows):
            if r[column] is None:
                continue
            recent = recent[-window + 1:] + [r[column]]
            if i % 100 == 0 and len(recent) == window:
                points.append("%.1f,%.1f" % (x(first + i), y(sum(recent) / window)))
        lines.append('<polyline fill="none" stroke="%s" stroke-width="1.6" points="%s"/>' % (color, " ".join(points)))
    grid = "".join('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%d %%</text>' %
                   (left, wide - 10, y(v), y(v), left - 6, y(v) + 4, 100 * v) for v in (0, .25, .5, .75, 1))
    ticks = "".join('<text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (x(n), high - 16, "{:,}".format(n)) for n in range(0, first + len(rows) + 1, 5000))
    with open(path, "w") as f:
        f.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" fill="#333">'
                '<title>Accuracy over the last %d examples, labels flipped in the grey stretch</title><rect width="%d" height="%d" fill="#fff"/>'
                '<rect x="%.1f" y="%d" width="%.1f" height="%.1f" fill="#eee"/>%s%s%s'
                '<text x="%d" y="14" fill="#d95f02">newest model</text><text x="%d" y="14" fill="#1b9e77">champion</text>'
                '<text x="%d" y="%d" text-anchor="middle">examples</text></svg>\n' %
                (wide, high, window, wide, high, x(STRETCH[0]), top, x(STRETCH[1]) - x(STRETCH[0]), y(0) - top, grid, ticks, "".join(lines),
                 left, left + 100, wide // 2, high - 3))


def main():
    svg, elec2 = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as tmp:
        exe = os.path.join(tmp, "streamsvm")
        subprocess.run(["go", "build", "-o", exe, "./cmd/streamsvm"], cwd=ROOT, check=True)

        def generate(name, count, sets):
            cmd = [exe, "generate", name, "-q", "--codec", "libsvm", "--count", str(count), "--seed", "7"]
            for s in sets:
                cmd += ["--set", s]
            return subprocess.run(cmd, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()

        flipped = os.path.join(tmp, "flipped.libsvm")
        with open(flipped, "w") as f:
            for i, line in enumerate(generate("hyperplane", 30000, ["magnitude=0"])):
                y, rest = line.split(" ", 1)
                if STRETCH[0] <= i < STRETCH[1]:
                    y = "1" if float(y) <= 0 else "-1"
                f.write("%s %s\n" % (y, rest))
        rows, first, result = replay(exe, flipped, "adaptive", "auto")
        figure(svg, rows, first)
        print("| examples | newest | champion |\n| --- | --- | --- |")
        for name, a, b in (("before", 0, STRETCH[0]), ("in the stretch", *STRETCH), ("the 5,000 after it", STRETCH[1], STRETCH[1] + 5000), ("later", STRETCH[1] + 5000, 10**9)):
            _, newest, champion = shares(rows[max(a - first, 0):max(b - first, 0)])
            print("| %s | %.3f | %.3f |" % (name, newest, champion))
        for d in result["gate"]["decisions"]:
            print("   ", d["at"], d["model"], d["verdict"], d["why"])
        print("| stream | learner | evidence | newest | champion | promoted | rejected |\n| --- | --- | --- | --- | --- | --- | --- |")
        for stream in ("elec2", *GENERATED):
            path = elec2
            if stream in GENERATED:
                path = os.path.join(tmp, stream + ".libsvm")
                with open(path, "w") as f:
                    f.write("\n".join(generate(stream, 20000, GENERATED[stream])) + "\n")
            for learner in ("adaptive", "online"):
                for n in (300, 1000, 2000, 5000):
                    rows, _, result = replay(exe, path, learner, "examples >= %d" % n)
                    g = result["gate"]
                    print("| %s | %s | %d | %.3f | %.3f | %d | %d |" % (stream, learner, n, *shares(rows)[1:], g["promotions"], g["rejections"]), flush=True)


if __name__ == "__main__":
    main()
