#!/usr/bin/env python3
"""Draws single charts of the docs, as PNG files, with Chromium and the charts of
internal/app/page. Whole pages: scripts/browser.py.

    scripts/shots.py chart PAGE.html OUT.png     a chart of any report: of replay or demo
    scripts/shots.py gap STEPS.csv OUT.png       duality gap and bound, of bench/live -csv

How the pictures of the docs came to be:

    docs/*.png                        scripts/browser.py shots
    docs/measured/scs-gap.png         go run -C bench ./live -limit 1000000 -csv /tmp/steps.csv "sea block=0", then
                                      gap /tmp/steps.csv docs/measured/scs-gap.png --title "SEA without change, one million examples"

Needs chromium (or its path in CHROMIUM).
"""
import argparse, csv, html, json, os, re, shutil, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHART = os.path.join(ROOT, "internal", "app", "page")


def chromium(*args):
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        sys.exit("shots: chromium is missing")
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run([program, "--headless", "--no-sandbox", "--hide-scrollbars", "--user-data-dir=" + profile, *args],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return done.stdout.decode()


def screenshot(url, out, width, height, *args):
    out = os.path.abspath(out)
    chromium("--force-device-scale-factor=1.5", "--window-size=%d,%d" % (width, height), "--screenshot=" + out, *args, url)
    print(out)


def read(name):
    with open(os.path.join(CHART, name), encoding="utf-8") as f:
        return f.read()


def page(charts):
    """A page of charts, in the form that chart.go gives them."""
    figures = "".join('<figure class="chart"><h3>%s</h3><div class="plot"></div><script type="application/json">%s</script></figure>'
                      % (c["title"], json.dumps(c)) for c in charts)
    return "<!doctype html><html><head><meta charset=utf-8><style>%s%s</style></head><body>%s<script>%s%s</script></body></html>" % (
        read("uplot/uPlot.min.css"), read("style.css"), figures, read("uplot/uPlot.iife.min.js"), read("chart.js"))


def shoot(text, out, width=900):
    """Takes a picture of a page of charts."""
    text = text.replace("</head>", """<style>body { max-width: none; margin: 0; padding: 4px 14px 1px; }
.u-legend tr:first-child { display: none; } figure { margin: 0 0 8px; } figure h3 { margin: 10px 0 4px; }
</style></head>""")
    text = text.replace("</body>", "<script>document.title = Math.ceil(document.body.getBoundingClientRect().height)</script></body>")
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "page.html")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        size = "--window-size=%d,%d" % (width, 2000)
        height = int(re.search(r"<title>(\d+)</title>", chromium(size, "--dump-dom", "file://" + path)).group(1))
        screenshot("file://" + path, out, width, height)


def chart(path, out, title=""):
    """Takes a picture of one chart of a report."""
    with open(path, encoding="utf-8") as f:
        figures = re.findall(r'<figure class="chart">\s*<h3>(.*?)</h3>.*?<script type="application/json">(.*?)</script>', f.read(), re.S)
    for name, data in figures:
        if html.unescape(name).startswith(title):
            return shoot(page([json.loads(data)]), out)
    sys.exit("%s has no chart %r" % (path, title))


def rows(path):
    with open(path, newline="") as f:
        table = list(csv.DictReader(f))
    if not table:
        sys.exit("%s: no rows" % path)
    return table


def gap(path, out, title=""):
    steps = rows(path)

    def series(name, column, **more):
        points = [(float(r["examples"]), float(r[column])) for r in steps if r[column] and float(r[column]) > 0]
        return {"name": name, "x": [p[0] for p in points], "y": [p[1] for p in points], **more}

    lines = [series("duality gap", "certificate"), series("bound", "gap_bound"), series("objective", "objective", look="dashed")]
    bound = lines[1]
    x, y = [], []
    for i, (a, b) in enumerate(zip(bound["x"], bound["y"])):  # it holds until the next
        if i and b != bound["y"][i - 1]:
            x.append(a * (1 - 1e-9))
            y.append(bound["y"][i - 1])
        x.append(a)
        y.append(b)
    bound["x"], bound["y"] = x, y
    low, high = min(lines[0]["y"]), max(lines[2]["y"])
    over = [r for r in steps if r["gap_bound"] and float(r["certificate"]) > float(r["gap_bound"])]
    if over:
        at = [float(r["examples"]) for r in over]
        print("%d gaps are above their bound, the first at %g examples" % (len(at), at[0]))
    shoot(page([{"title": title or "Duality gap", "x": {"label": "examples", "log": True},
                 "y": {"label": "regularized loss", "log": True, "min": low / 1.5, "max": high * 1.5}, "series": lines}]), out)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="what", required=True)
    for name in ("chart", "gap"):
        p = sub.add_parser(name)
        p.add_argument("path")
        p.add_argument("out")
        p.add_argument("--title", default="", help="how the chart's title begins" if name == "chart" else "")
    args = vars(ap.parse_args())
    {"chart": chart, "gap": gap}[args.pop("what")](**args)


if __name__ == "__main__":
    main()
