"""The wheel."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import streamsvm

ROOT = Path(__file__).resolve().parents[2]


def test_wheel(program: str, tmp_path: Path) -> None:
    """What pip installs from a wheel of scripts/wheels.py works without this folder, and has
    the command."""
    pytest.importorskip("setuptools", "77")
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "scripts" / "wheels.py")
    assert spec and spec.loader
    wheels: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheels)
    files = wheels.pure(tmp_path)
    windows = wheels.wheel(files, "windows-amd64", b"a program", tmp_path)
    assert windows.name.endswith("-py3-none-win_amd64.whl")
    with zipfile.ZipFile(windows) as z:
        assert {"streamsvm/py.typed", "streamsvm/bin/streamsvm.exe"} < set(z.namelist())
        record = z.read(next(n for n in z.namelist() if n.endswith("/RECORD"))).decode()
        assert len(record.splitlines()) == len(z.namelist())
    machine = {"linux": "linux", "darwin": "darwin", "win32": "windows"}[sys.platform] + "-" + {"x86_64": "amd64", "AMD64": "amd64"}.get(os.uname().machine, "arm64")
    here = wheels.wheel(files, machine, Path(program).read_bytes(), tmp_path)
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", "--target", str(site), str(here)]
    subprocess.run(pip, check=True)
    env = {"PYTHONPATH": str(site), "PATH": ""}
    out = subprocess.run([sys.executable, "-c", "import streamsvm; print(streamsvm.program())"], env=env, capture_output=True, text=True, check=True).stdout
    assert out.strip() == str(site / "streamsvm" / "bin" / "streamsvm")
    out = subprocess.run([site / "bin" / "streamsvm", "--version"], env=env, capture_output=True, text=True, check=True).stdout
    assert out.startswith("streamsvm ")


def test_program_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of the package, which pip puts first on the PATH of an environment, is not
    the program."""
    script, program = tmp_path / "env" / "streamsvm", tmp_path / "bin" / "streamsvm"
    for path, text in (script, "#!python\nfrom streamsvm._pipe import main\n"), (program, "#!/bin/sh\n"):
        path.parent.mkdir()
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.delenv("STREAMSVM_BIN", raising=False)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{program.parent}")
    assert streamsvm.program() == str(program)
    program.unlink()
    with pytest.raises(streamsvm.ProgramError, match="no program"):
        streamsvm.program()
