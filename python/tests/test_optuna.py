"""The example of a search that drops candidates early."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from world import World

pytest.importorskip("optuna", reason="Optuna is not installed")

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "optuna_early_dropping.py"


def test_a_search_leaves_out_scores_of_dropped_candidates(world: World) -> None:
    env = {**os.environ, "DESKGRID_DIR": world.user}
    ran = subprocess.run([sys.executable, EXAMPLE], env=env, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = re.search(r"requested (\d+) of (\d+) scores; dropped (\d+) of (\d+)", ran.stdout)
    assert found, ran.stdout
    requested, disclosed, dropped, candidates = map(int, found.groups())
    assert (disclosed, candidates) == (72, 18)
    assert 0 < dropped < candidates
    # A candidate that was dropped has three of its four scores at most never requested.
    assert disclosed - 3 * dropped <= requested < disclosed

    jobs = world.json("job", "list", "--all", "--label", "search")["jobs"]
    assert len(jobs) == 3
    counts = [job["tasks"] for job in jobs]
    assert sum(count["finished"] + count["cancelled"] for count in counts) == disclosed
