#!/usr/bin/env python3
"""Prints how large the project is: lines of Go, commands, settings, documents, dependencies.

    scripts/sizes.py [--packages] [--program BINARY] [--json]
    scripts/sizes.py --budget [--program BINARY]

Run it in a checkout. It counts tracked files only, so commit or `git add` new ones first.
Without --program it builds the command into a temporary directory. --packages adds a line
for each package: lines, and the share of them that are comments. --budget fails if a size is above
the one in scripts/budget.json. Raise a line there only in a commit that says why, and what the change
made needless; lower it whenever you can.

shipped   Go that is neither a test, nor bench/, nor examples/, nor generated assembly
tests     *_test.go, and the packages that only tests import (internal/testkit, algos/algostest)
words     as `wc -w` counts them; "prose" leaves out bars, rules and hexdumps
settings  names in docs/configuration.md, which a test keeps up to date; rows: a name whose meaning
          depends on the command has several
"""
import argparse, collections, json, os, re, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TEST_ONLY = ("internal/testkit/", "algos/algostest/")


def run(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def tracked(pattern):
    names = run("git", "ls-files", "-z", "--", pattern).split("\0")
    return sorted(n for n in names if n and os.path.exists(os.path.join(ROOT, n)))


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def room(name):
    """The part of the project that a Go file belongs to."""
    if name.startswith("bench/"):
        return "bench"
    if name.endswith("_test.go") or name.startswith(TEST_ONLY):
        return "tests"
    if name.startswith("examples/"):
        return "examples"
    return "contrib" if name.startswith("contrib/") else "core"


def comments(text):
    """The number of lines of Go that hold nothing but a comment."""
    count, block, raw = 0, False, False
    for line in text.splitlines():
        s = line.strip()
        if block:
            count += 1
            block = "*/" not in s
            continue
        if not raw and s.startswith("//"):
            count += not s.startswith("//go:")
            continue
        if not raw and s.startswith("/*"):
            count += 1
            block = "*/" not in s
            continue
        # Backquotes in interpreted strings and runes do not open a raw string.
        s = s if raw else re.sub(r'"(\\.|[^"\\`])*"|\'`\'|//.*', "", s)
        raw ^= s.count("`") % 2 == 1
    return count


def words(text):
    """Words as wc counts them, and those outside hexdumps that have a letter or a digit."""
    prose = re.sub(r"(?ms)^```(hexdump)?\n[0-9a-f]{4,8}  .*?^```$", "", text)
    return len(text.split()), sum(1 for w in prose.split() if any(c.isalnum() for c in w))


def surface(program):
    """The commands of the program, the flags of each, and the options of each learner."""
    top = run(program, "--help")
    names = re.findall(r"(?m)^  ([a-z]+) {2,}\S", top)
    flags = {n: set(re.findall(r"(?m)^ +(?:-\w, )?--([a-z][a-z0-9-]*)", run(program, n, "--help-all"))) - {"help", "help-all"} for n in names}
    learners = json.loads(run(program, "learners", "--json"))
    return flags, {l["name"]: len(l["options"]) for l in learners}


def dependencies(package):
    """Packages behind one of ours that are neither Go's nor ours."""
    own = run("go", "list", "-m").strip()
    listed = run("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", package)
    return [p for p in listed.split() if p != own and not p.startswith(own + "/")]


def measure(program):
    lines, packages = collections.Counter(), collections.defaultdict(lambda: [0, 0])
    for name in tracked("*.go"):
        text = read(name)
        n, where = text.count("\n"), room(name)
        lines[where] += n
        if where in ("core", "contrib"):
            p = packages[os.path.dirname(name) or "."]
            p[0] += n
            p[1] += comments(text)
    flags, options = surface(program)
    settings = re.findall(r"(?m)^\| `([a-z][a-z0-9-]*)` \|", read("docs/configuration.md"))
    documents = {n: words(read(n)) for n in tracked("*.md")}
    shipped, said = (sum(p[k] for p in packages.values()) for k in (0, 1))
    return {
        "lines": {**{k: lines[k] for k in ("core", "contrib", "bench", "examples", "tests")}, "shipped": shipped},
        "comment_share": said / shipped,
        "packages": {p: {"lines": n, "comment_share": c / n} for p, (n, c) in sorted(packages.items())},
        "commands": len(flags), "flags": {c: len(f) for c, f in flags.items()},
        "distinct_flags": len(set().union(*flags.values())), "settings": len(set(settings)), "settings_rows": len(settings),
        "learners": len(options), "learner_options": sum(options.values()), "options": options,
        "words": sum(w for w, _ in documents.values()), "prose": sum(w for _, w in documents.values()),
        "documents": {n: w for n, (w, _) in documents.items()},
        "behind_predictor": len(dependencies("./predictor")),
    }


def table(m, packages):
    row = lambda name, value: print("| %s | %s |" % (name, value))
    print("| | |\n| --- | ---: |")
    row("Go, shipped (core + contrib), lines", "{:,}".format(m["lines"]["shipped"]))
    for k in ("core", "contrib", "bench", "examples", "tests"):
        row("Go, %s, lines" % k, "{:,}".format(m["lines"][k]))
    row("comments, share of shipped lines", "%.1f %%" % (100 * m["comment_share"]))
    row("commands", m["commands"])
    row("settings, rows of their tables", "%d, %d" % (m["settings"], m["settings_rows"]))
    row("distinct flags", m["distinct_flags"])
    row("flags of the commands that have most", ", ".join("%s %d" % (c, n) for c, n in sorted(m["flags"].items(), key=lambda x: -x[1])[:6]))
    row("learners, their options", "%d, %d" % (m["learners"], m["learner_options"]))
    row("documents: files, words, of them prose", "{}, {:,}, {:,}".format(len(m["documents"]), m["words"], m["prose"]))
    row("packages behind predictor, outside the standard library", m["behind_predictor"])
    print("\n| document | words |\n| --- | ---: |")
    for name, n in sorted(m["documents"].items(), key=lambda x: -x[1]):
        row(name, n)
    if packages:
        print("\n| package | lines | comments |\n| --- | ---: | ---: |")
        for name, p in m["packages"].items():
            print("| %s | %d | %.0f %% |" % (name, p["lines"], 100 * p["comment_share"]))


def budget(m):
    """Compares the sizes with scripts/budget.json and returns those that are too large."""
    limits = json.loads(read("scripts/budget.json"))
    sizes = {"%s lines" % k: n for k, n in m["lines"].items()}
    sizes.update({"commands": m["commands"], "settings": m["settings_rows"], "flags of train": m["flags"]["train"],
                  "learner options": m["learner_options"], "words of documents": m["words"],
                  "words of README.md": m["documents"]["README.md"], "packages behind predictor": m["behind_predictor"]})
    for name in limits:
        print("    %-28s %7d of %7d" % (name, sizes[name], limits[name]))
    return [n for n in limits if sizes[n] > limits[n]]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--packages", action="store_true", help="a line for each package")
    ap.add_argument("--program", help="a built streamsvm; built here by default")
    ap.add_argument("--budget", action="store_true", help="compare with scripts/budget.json")
    ap.add_argument("--json", action="store_true", help="print everything as JSON")
    args = ap.parse_args()
    with tempfile.TemporaryDirectory() as d:
        program = args.program and os.path.abspath(args.program)
        if not program:
            program = os.path.join(d, "streamsvm")
            run("go", "build", "-o", program, "./cmd/streamsvm")
        m = measure(program)
    if args.budget:
        over = budget(m)
        if over:
            sys.exit("sizes: above scripts/budget.json: " + ", ".join(over))
    elif args.json:
        json.dump(m, sys.stdout, indent=2)
        print()
    else:
        table(m, args.packages)


if __name__ == "__main__":
    main()
