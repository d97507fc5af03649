"""The notebook of examples/python, executed."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.filterwarnings("ignore")
def test_notebook(program: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Every cell runs, and learning on beats a model that has stopped."""
    for module in ("sklearn", "pandas", "matplotlib", "ipykernel", "nbformat", "nbclient"):
        pytest.importorskip(module, reason=f"{module} cannot be had: the notebook is not executed")
    nbclient: Any = importlib.import_module("nbclient")
    nbformat: Any = importlib.import_module("nbformat")
    monkeypatch.setenv("STREAMSVM_BIN", program)
    monkeypatch.setenv("PYTHONPATH", str(Path("src").resolve()))
    monkeypatch.setenv("ROWS", "6000")
    monkeypatch.setenv("STREAMSVM_DATA", os.environ.get("STREAMSVM_DATA", str(ROOT.parent / "shared" / "data")))
    notebook = nbformat.read(ROOT / "examples" / "python" / "electricity.ipynb", 4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT / "examples" / "python")}}).execute()
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    assert sum("image/png" in o.get("data", {}) for o in outputs) == 3
    text = "\n".join(o.get("text", "") + o.get("data", {}).get("text/plain", "") for o in outputs)
    figures = dict(line.rsplit(None, 1) for line in text.splitlines() if line.startswith(("learning on", "frozen", "yesterday")))
    assert float(figures["learning on"]) > float(figures["frozen"]), text
    assert "same state: True" in text
