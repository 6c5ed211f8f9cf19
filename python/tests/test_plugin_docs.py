"""The page on plugins: every block of it runs where its tool is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from world import World

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python-plugins.md"
BLOCKS = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text())
TOOLS = ["sklearn", "dask.array", "parsl"]


@pytest.mark.parametrize("tool, block", list(zip(TOOLS, BLOCKS)), ids=TOOLS)
def test_a_block_of_the_page_on_plugins_runs(
    packaged: World, tmp_path: Path, tool: str, block: str
) -> None:
    assert len(BLOCKS) == len(TOOLS) and tool in block
    pytest.importorskip(tool, reason=f"{tool} is not installed")
    script = tmp_path / "block.py"
    script.write_text(block)
    env = {**os.environ, "DESKGRID_DIR": packaged.user}
    ran = subprocess.run(
        [sys.executable, script], env=env, capture_output=True, text=True, cwd=tmp_path, timeout=600
    )
    assert ran.returncode == 0 and ran.stdout.strip(), ran.stdout + ran.stderr
