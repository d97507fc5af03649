#!/usr/bin/env python3
"""Builds the wheels of the Python package, with the program inside.

    scripts/wheels.py [--out DIR] [PLATFORM...]

PLATFORM is linux-amd64, linux-arm64, darwin-amd64, darwin-arm64 or windows-amd64; by
default all. DIR is python/dist. It needs Go and a Python with setuptools 77 or later. The same source
gives the same bytes.
"""
import argparse, base64, hashlib, os, pathlib, subprocess, sys, tempfile, zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The program is static, so that any C library does. Go 1.26 needs Linux 3.2 and macOS 12.
PLATFORMS = {
    "linux-amd64": ["manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"],
    "linux-arm64": ["manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"],
    "darwin-amd64": ["macosx_12_0_x86_64"],
    "darwin-arm64": ["macosx_12_0_arm64"],
    "windows-amd64": ["win_amd64"],
}


def program(platform, version, path):
    """Builds the program as .goreleaser.yaml does."""
    goos, goarch = platform.split("-")
    flags = f"-s -w -buildid= -X github.com/streamsvm/streamsvm/internal/version.release=v{version}"
    subprocess.run(
        ["go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", str(path), "./cmd/streamsvm"],
        cwd=ROOT, check=True, env={**os.environ, "CGO_ENABLED": "0", "GOOS": goos, "GOARCH": goarch},
    )  # fmt: skip
    return path.read_bytes()


def pure(out):
    """Builds the package without the program, and returns its files."""
    code = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    source = out / "source"  # setuptools leaves files behind
    for path in [ROOT / "python" / "pyproject.toml", ROOT / "python" / "README.md", *(ROOT / "python" / "src" / "streamsvm").glob("*.*")]:
        copy = source / path.relative_to(ROOT / "python")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    (source / "LICENSE").write_bytes((ROOT / "LICENSE").read_bytes())
    done = subprocess.run([sys.executable, "-c", code, str(out)], cwd=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(done.stdout)
    with zipfile.ZipFile(next(out.glob("*.whl"))) as z:
        return {i.filename: z.read(i) for i in z.infolist()}


def wheel(files, platform, binary, out):
    """Writes the wheel of a platform."""
    info = next(n for n in files if n.endswith(".dist-info/WHEEL")).rpartition("/")[0]
    tags = PLATFORMS[platform]
    files = {n: b for n, b in files.items() if not n.endswith("/RECORD")}
    name = "streamsvm/bin/streamsvm" + (".exe" if platform.startswith("windows") else "")
    files[name] = binary
    lines = ["Wheel-Version: 1.0", "Generator: streamsvm scripts/wheels.py", "Root-Is-Purelib: false"]
    files[f"{info}/WHEEL"] = "\n".join(lines + [f"Tag: py3-none-{t}" for t in tags] + [""]).encode()
    digest = lambda b: base64.urlsafe_b64encode(hashlib.sha256(b).digest()).rstrip(b"=").decode()
    record = "".join(f"{n},sha256={digest(b)},{len(b)}\n" for n, b in sorted(files.items()))
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    path = out / f"{info.removesuffix('.dist-info')}-py3-none-{'.'.join(tags)}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for n, b in sorted(files.items(), key=lambda f: (info in f[0], f[0])):  # what describes the others comes last
            entry = zipfile.ZipInfo(n, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if n == name else 0o100644) << 16
            z.writestr(entry, b)
    return path


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=pathlib.Path, default=ROOT / "python" / "dist", help="directory to write to")
    ap.add_argument("platforms", nargs="*", metavar="PLATFORM")
    args = ap.parse_args()
    if unknown := set(args.platforms) - set(PLATFORMS):
        ap.error(f"unknown: {', '.join(sorted(unknown))}; want {', '.join(PLATFORMS)}")
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as d:
        tmp = pathlib.Path(d)
        files = pure(tmp)
        version = next(n for n in files if ".dist-info/" in n).split(".dist-info")[0].split("-")[1]
        for platform in args.platforms or PLATFORMS:
            binary = program(platform, version, tmp / platform)
            path = wheel(files, platform, binary, args.out)
            print(f"{path.name}: {path.stat().st_size:,} bytes, the program {len(binary):,}")


if __name__ == "__main__":
    main()
