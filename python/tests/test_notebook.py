"""The tutorial as a notebook: all of it runs in Jupyter, and the bar is drawn there.

With ``DESKGRID_BLESS=1`` what its cells give is written into it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from world import World

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "tutorial.ipynb"


def executed(notebook: Any, world: World, monkeypatch: Any, where: Path) -> Any:
    """Runs a notebook in a kernel of its own. A cell that raises fails the test."""
    monkeypatch.setenv("DESKGRID_DIR", world.user)
    # A runner's own directories may be read only.
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(where / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(where / "ipython"))
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", record_timing=False,
        resources={"metadata": {"path": str(where)}},
    )  # fmt: skip
    client.execute()
    return notebook


def texts(cell: Any) -> str:
    """All that a cell gives, as text and as HTML."""
    # What is printed comes in pieces, wherever the kernel's clock cuts it.
    printed = "".join(output.get("text", "") for output in cell.outputs)
    shown = [str(data) for output in cell.outputs for data in output.get("data", {}).values()]
    return "\n".join([printed, *shown])


def cell_with(notebook: Any, words: str) -> Any:
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and words in cell.source]
    return cell


def test_every_cell_of_the_notebook_runs(world: World, monkeypatch: Any, tmp_path: Path) -> None:
    notebook = executed(nbformat.read(NOTEBOOK, as_version=4), world, monkeypatch, tmp_path)
    assert "pi is about 3.1" in texts(cell_with(notebook, "pi is about"))
    assert "50005000" in texts(cell_with(notebook, "10_000, 0"))
    assert "raised there: ZeroDivisionError: division by zero" in texts(cell_with(notebook, "inverse"))
    assert "finished 12 results []" in texts(cell_with(notebook, "again"))
    assert "hello ada\nhello ben\n" in texts(cell_with(notebook, "g.run"))
    bag = cell_with(notebook, "bag.wait()")
    html = [output.data["text/html"] for output in bag.outputs if "text/html" in output.get("data", {})]
    assert "4 finished" in html[-1] and "<b>job " in html[-1]
    if "DESKGRID_BLESS" in os.environ:
        nbformat.write(notebook, NOTEBOOK)


@pytest.mark.parametrize("tqdm", [False, True])
def test_a_bar_is_drawn_in_a_notebook(
    world: World, monkeypatch: Any, tmp_path: Path, tqdm: bool
) -> None:
    if tqdm:
        pytest.importorskip("tqdm")
        pytest.importorskip("ipywidgets")
    hidden = "" if tqdm else "sys.modules['tqdm'] = None\n"
    cell = nbformat.v4.new_code_cell(
        "import sys, time\n" + hidden + "from deskgrid import Grid\n"
        "def slow(x):\n"
        "    time.sleep(0.3)\n"
        "    return 1 // x\n"
        "with Grid() as g:\n"
        "    futures = g._futures(slow, [[1, 1, 0, 1, 1, 1]], 1, {})\n"
        "print([type(future.exception()).__name__ for future in futures])\n"
    )
    notebook = nbformat.v4.new_notebook(cells=[cell])
    executed(notebook, world, monkeypatch, tmp_path)
    (bar,) = [output for output in cell.outputs if output.output_type == "display_data"]
    if tqdm:
        assert "6/6" in bar.data["text/plain"]
    else:
        # One picture that was drawn again and again: the last one stands.
        html = bar.data["text/html"]
        assert "<progress max=6 value=6></progress> 6/6, 1 failed" in html and ">slow " in html
    assert "ZeroDivisionError" in texts(cell)
    assert not [output for output in cell.outputs if output.get("name") == "stderr"], texts(cell)
