"""The wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_wheel(tmp_path: Path) -> None:
    """What a wheel holds works without this folder."""
    pytest.importorskip("build")
    source = tmp_path / "source"
    for name in ["pyproject.toml", "README.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("src/streamsvm/*") if p.is_file())]:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("streamsvm-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as z:
        assert "streamsvm/py.typed" in z.namelist()
        z.extractall(tmp_path / "site")
    code = "import streamsvm; print(streamsvm.__file__, streamsvm.load)"
    out = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); {code}"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert str(tmp_path) in out
