"""The notebook of the examples, executed from top to bottom. TIDEMILL_NOTEBOOK=1 writes its outputs."""

from __future__ import annotations

import os
import re

import nbformat
import pytest
from nbclient import NotebookClient

from tests.places import ROOT

NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


def _without_numbers(text: str) -> str:
    """What a plan says apart from counts and times."""
    return re.sub(r"[\d.,\s]+", " ", text)


@pytest.mark.spark
@pytest.mark.crash
def test_the_notebook_of_the_examples(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    book = nbformat.read(NOTEBOOK, 4)
    before = [_texts(cell) for cell in book.cells if cell.cell_type == "code"]
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    after = [_texts(cell) for cell in book.cells if cell.cell_type == "code"]
    assert any("<svg" in text for text in after) and any("<table>" in text for text in after)
    if os.environ.get("TIDEMILL_NOTEBOOK"):
        for cell in book.cells:
            cell.metadata.pop("execution", None)
        nbformat.write(book, NOTEBOOK)
    else:  # what readers see is what comes out: answers, not times
        assert _without_numbers(after[4]) == _without_numbers(before[4])
        assert after[6] == before[6]


def _texts(cell) -> str:
    found = [output.get("data", {}) for output in cell.outputs]
    return "".join(data.get("text/html", data.get("text/plain", "")) for data in found)
