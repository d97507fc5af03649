#!/usr/bin/env python3
"""Draws the duality gap of live models and its bound against the examples
learned from.

    go run -C bench ./live -csv steps.csv "sea block=0"
    bench/gapplot.py steps.csv gap.png [--title TEXT] [--linear]

A step without a bound has none in the picture. Uses matplotlib from the
environment that bench/peers.py makes.
"""
import argparse, csv, math, os, sys

CACHE = os.environ.get("STREAMSVM_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "streamsvm")


def environment():
    """Go on in the environment of bench/peers.py, if it is there."""
    home = os.path.join(CACHE, "peers")
    python = os.path.join(home, "bin", "python")
    if sys.prefix != home and os.path.exists(python):
        os.execv(python, [python] + sys.argv)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("csv", metavar="CSV")
    ap.add_argument("out", metavar="OUT.png")
    ap.add_argument("--title", default="")
    ap.add_argument("--linear", action="store_true", help="examples on a linear axis")
    args = ap.parse_args()
    environment()
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    with open(args.csv) as f:
        rows = list(csv.DictReader(f))
    if not rows:
        sys.exit("%s: no steps" % args.csv)
    column = lambda name: [float(r[name]) if r[name] else math.nan for r in rows]
    at, gap, bound, objective = (column(c) for c in ("examples", "certificate", "gap_bound", "objective"))
    fig, ax = plt.subplots(figsize=(6.4, 3.6), dpi=110)
    ax.plot(at, objective, color="0.6", lw=1, label="objective")
    if not all(map(math.isnan, bound)):
        ax.plot(at, bound, color="tab:red", lw=1.2, ls="--", drawstyle="steps-post", label="bound")
    many = len(rows) > 200
    ax.plot(at, gap, color="tab:blue", lw=0.8, marker="" if many else ".", ms=4, label="duality gap")
    over = [(x, g) for x, g, b in zip(at, gap, bound) if g > b]
    if over:
        ax.plot(*zip(*over), "x", color="tab:red", ms=5, label="above the bound (%d)" % len(over))
    if not args.linear:
        ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("examples")
    ax.set_title(args.title, fontsize=10)
    ax.grid(True, which="major", alpha=0.3)
    ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    fig.tight_layout()
    fig.savefig(args.out)
    # 64 colours are enough for this picture, and make a small file.
    from PIL import Image
    with Image.open(args.out) as image:
        small = image.convert("RGB").quantize(64)
    small.save(args.out, optimize=True)


if __name__ == "__main__":
    main()
