#!/usr/bin/env python3
"""Prints what the program is made of: bytes of functions by module, from the symbols of builds.

    scripts/size.py [--top 20] PROGRAM...     programs that are not stripped, one a column

In a stripped program (go build -ldflags='-s -w') each byte of code brings about another one:
tables for stack traces and the collector, types, strings.
Generic functions are compiled anew for each size and layout of their types: slices.SortFunc of
a large struct takes 17 kB, where sort.Slice takes none.
"""
import argparse, collections, re, subprocess


def module(symbol):
    """The module of a symbol: std, or the first parts of the import path."""
    name = re.sub(r"^(type:\.eq\.|go:)", "", symbol).split("[")[0]
    path = name[:name.find(".", name.rfind("/") + 1)].replace("%2e", ".")
    parts = path.split("/")
    if path == "main" or path.startswith("github.com/streamsvm/"):
        return "streamsvm"
    if "." not in parts[0]:
        return "Go's library: " + (parts[0] if parts[0] in ("crypto", "net", "runtime", "slices") else "the rest")
    return "/".join(parts[:4] if parts[1:2] == ["twmb"] and len(parts) > 4 else parts[:3])


def functions(program):
    sizes = collections.Counter()
    out = subprocess.run(["go", "tool", "nm", "-size", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in out.splitlines():
        m = re.match(r"\s*[0-9a-f]+\s+(\d+)\s+[Tt]\s+(.*)", line)
        if m:
            sizes[module(m.group(2))] += int(m.group(1))
    return sizes


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--top", type=int, default=20)
    ap.add_argument("programs", nargs="+", metavar="PROGRAM")
    args = ap.parse_args()
    columns = [functions(p) for p in args.programs]
    names = sorted(set().union(*columns), key=lambda n: -max(c[n] for c in columns))
    row = lambda name, sizes: print("| %s | %s |" % (name, " | ".join("%.0f" % (s / 1000) for s in sizes)))
    print("| kB of functions | %s |\n| --- |%s" % (" | ".join(args.programs), " --- |" * len(columns)))
    for n in names[:args.top]:
        row(n, [c[n] for c in columns])
    row("others", [sum(c[n] for n in names[args.top:]) for c in columns])
    row("all", [sum(c.values()) for c in columns])


main()
