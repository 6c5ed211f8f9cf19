"""The tutorial: every block of it runs, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from world import World

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_every_block_of_the_tutorial_runs(world: World, tmp_path: Path) -> None:
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text())
    assert len(blocks) > 8
    script = tmp_path / "tutorial.py"
    # Each block at the line where it stands on the page: so a traceback names the line there.
    text, lines = PAGE.read_text(), [""] * len(PAGE.read_text().splitlines())
    for block in blocks:
        at = text[: text.index(block)].count("\n")
        lines[at : at + block.count("\n")] = block.splitlines()
    script.write_text("\n".join(lines))
    env = {**os.environ, "DESKGRID_DIR": world.user}
    ran = subprocess.run(
        [sys.executable, script], env=env, capture_output=True, text=True, cwd=tmp_path, timeout=600
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "hello ada" in ran.stdout and "ZeroDivisionError" in ran.stdout
