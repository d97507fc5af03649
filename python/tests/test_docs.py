"""The programs of the README and of docs/python.md, run as they stand but for the
address and the names of topics."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from . import wire
from .test_follower import fraud, payment


@pytest.mark.parametrize("page", ["python/README.md", "docs/python.md"])
def test_programs(page: str, brokers: str, program: str, tmp_path: Path) -> None:
    text = (wire.DOCS.parent / page).read_text()
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```$", text, re.M | re.S)
    assert [kind for kind, _ in blocks] == ["sh", "python"]
    commands, code = (b.replace("127.0.0.1:9092", brokers) for _, b in blocks)
    for name in ("examples", "payments", "models"):
        own = f"{name}-{uuid.uuid4()}"
        commands = re.sub(rf"(-topics?) {name}\b", rf"\1 {own}", commands)
        code = code.replace(f'{brokers}", "{name}"', f'{brokers}", "{own}"')
    r = random.Random(6)
    with open(tmp_path / "payments.json", "w") as f:
        for _ in range(4000):
            e = payment(r)
            f.write(json.dumps({**e, "fraud": fraud(e)}) + "\n")
    (tmp_path / "streamsvm").symlink_to(program)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "STREAMSVM_BROKERS": brokers}
    with open(tmp_path / "log", "wb") as log:
        shell = subprocess.Popen(["bash", "-ec", commands + "\nwait"], cwd=tmp_path, env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**env, "PYTHONPATH": str(Path("src").resolve())}, capture_output=True, text=True, timeout=240)
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
            shell.wait(60)
    assert done.returncode == 0, done.stderr + (tmp_path / "log").read_text()
    print(done.stdout)
    if page == "docs/python.md":
        # What the second one is depends on the version that it meets.
        assert re.match(r"\[False +(True|False)\]\n", done.stdout), done.stdout
    else:
        lines = done.stdout.splitlines()
        assert len(lines) == 10 and all(re.fullmatch(r"version \d+: \[ ?-?1 +-?1\], probabilities \[\[\S+ +\S+\]\]", x) for x in lines), lines
        assert lines[0].split(":")[0] != lines[-1].split(":")[0], "the version has not changed"
