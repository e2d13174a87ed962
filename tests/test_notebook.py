"""The analyst's guide in a real kernel without ipywidgets, cell by cell."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from seorep_async.sandbox import Sandbox
from tests.test_guides import FOLDER, PAGES
from tests.threads import in_a_thread

WITHOUT_WIDGETS = "import sys; sys.modules['ipywidgets'] = None"
CHARTS = ["positions.svg", "movers.svg"]
LAST_CELLS = ["report", "months", "campaigns", "moved"]
"""Names of objects that a cell shows as a table when it ends with them."""
HISTORY = """
from seorep_async.history import changes, open_history, report as page_of
with open_history("rankings.duckdb") as history:
    print(history)
moved = changes("rankings.duckdb")
page_of("rankings.duckdb", out="page.html")
"""


@pytest.mark.heavy
def test_the_guide_of_tables_runs_in_a_kernel_without_widgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = [block.code.strip() for block in PAGES["tables"]]
    codes = [WITHOUT_WIDGETS, *examples, HISTORY, *LAST_CELLS]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(code) for code in codes]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    with in_a_thread(Sandbox(campaigns=12, keywords=30, seed=1)) as sandbox:
        monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("SEOREP_API_KEY", sandbox.api_key)
        resources = {"metadata": {"path": str(tmp_path)}}
        NotebookClient(notebook, timeout=500, startup_timeout=500, resources=resources).execute()
    pages = [cell.outputs[-1].data["text/html"] for cell in notebook.cells[-len(LAST_CELLS) :]]
    for page in pages:
        assert "<table" in page
    assert "12 reports, 0 failures: 72 rows" in pages[1]
    for chart in CHARTS:
        advice = "run the guide, and keep the charts that it saves"
        assert labels(tmp_path / chart) == labels(FOLDER / chart), advice


def labels(drawing: Path) -> set[str]:
    """Return the texts of a chart. Their places depend on fonts."""
    return set(re.findall(r"<text[^>]*>([^<]+)</text>", drawing.read_text(encoding="utf-8")))
