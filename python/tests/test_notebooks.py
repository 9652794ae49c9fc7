"""The notebooks of the documents run from start to end."""

from pathlib import Path

import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient


@pytest.mark.parametrize("path", sorted((ROOT / "docs/tutorials").glob("*.ipynb")), ids=lambda p: p.name)
def test_notebook_runs(path: Path, stand_in, monkeypatch):
    monkeypatch.setenv("STAND_IN_PACE", "1")
    notebook = nbformat.read(path, as_version=4)
    assert all(cell.get("outputs", []) == [] for cell in notebook.cells), "a stored output can be out of date"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in shown)
