"""The programs of the README and of docs/python.md, run as they stand but for the
address and the names of topics."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from . import wire
from .test_follower import fraud, payment


def run(what: str, args: list[str], log: Path, **kwargs: Any) -> str:
    done = subprocess.run(args, capture_output=True, text=True, timeout=240, **kwargs)
    assert done.returncode == 0, f"{what}: {done.stdout}{done.stderr}{log.read_text()}"
    print(done.stdout)
    return str(done.stdout)


@pytest.mark.parametrize("page", ["python/README.md", "docs/python.md"])
def test_programs(page: str, brokers: str, program: str, tmp_path: Path) -> None:
    """The blocks of Python make one program, which runs beside the commands before the last of
    them. Then come the program in Go and the other commands."""
    pytest.importorskip("sklearn", reason="scikit-learn cannot be had: the programs of the documents are not run")
    text = (wire.DOCS.parent / page).read_text()
    with socket.create_server(("127.0.0.1", 0)) as s:
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{s.getsockname()[1]}")
    text = text.replace("127.0.0.1:9092", brokers)
    for name in ("examples", "payments", "models"):
        own = f"{name}-{uuid.uuid4()}"
        text = re.sub(rf"(-topics?) {name}\b", rf"\1 {own}", text).replace(f'{brokers}", "{name}"', f'{brokers}", "{own}"')
    blocks = re.findall(r"^```(sh|python|go)\n(.*?)^```$", text, re.M | re.S)
    last = max(i for i, (kind, _) in enumerate(blocks) if kind == "python")
    code = "\n".join(b for kind, b in blocks if kind == "python")
    before, after = ("".join(b for kind, b in part if kind == "sh") for part in (blocks[:last], blocks[last:]))
    r = random.Random(6)
    with open(tmp_path / "payments.json", "w") as f:
        for _ in range(4000):
            e = payment(r)
            f.write(json.dumps({**e, "fraud": fraud(e)}) + "\n")
    (tmp_path / "streamsvm").symlink_to(program)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "STREAMSVM_BROKERS": brokers, "STREAMSVM_BIN": program}
    path, log = tmp_path / "log", open(tmp_path / "log", "wb")
    shell = subprocess.Popen(["bash", "-ec", before + "\nwait"], cwd=tmp_path, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        out = run("Python", [sys.executable, "-c", code], path, cwd=tmp_path, env={**env, "PYTHONPATH": str(Path("src").resolve())})
        if after:
            kill = "trap 'kill $(jobs -p)' EXIT\n"
            (answer,) = json.loads(run("commands", ["bash", "-ec", kill + after], path, cwd=tmp_path, env=env))["predictions"]
            assert out.endswith(f" True: {answer['probability']}}}\n"), (out, answer)
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait(60)
        log.close()
    for b in (b for kind, b in blocks if kind == "go"):
        (tmp_path / "main.go").write_text(b)
        if shutil.which("go"):
            run("go build", ["go", "build", "-o", str(tmp_path / "main"), str(tmp_path / "main.go")], path, cwd=wire.DOCS.parent)
            assert run("Go", [str(tmp_path / "main")], path, cwd=tmp_path).split() == ["false", str(answer["probability"])]
    if page == "python/README.md":
        lines = out.splitlines()[-10:]
        assert all(re.fullmatch(r"version \d+: \[ ?-?1 +-?1\], probabilities \[\[\S+ +\S+\]\]", x) for x in lines), lines
        assert lines[0].split(":")[0] != lines[-1].split(":")[0], "the version has not changed"
        assert out.startswith("['other' 'same']"), out
    else:
        assert re.match(r"\[False +True\] \[False +(True|False)\] ", out), out
