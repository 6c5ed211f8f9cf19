"""The program of a task, apart from any grid."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import own_module

from deskgrid import _outcome, _runtime
from deskgrid._pack import Store, pack_call, pack_function


def outcomes(path: Path, function: Any, calls: list[tuple[Any, ...]]) -> list[_outcome.Outcome]:
    """Runs a task as a worker would."""
    store = Store()
    packed = pack_function(function, store)
    chunk = [(pack_call(args, {}, store).payload, []) for args in calls]
    job = {"function": packed.payload, "buffers": [], "calls": [chunk], "timed": True, "apart": None}
    (path / ".deskgrid").mkdir()
    (path / ".deskgrid" / "run.pyc").write_bytes(_runtime.runner())
    (path / ".deskgrid" / "job").write_bytes(pickle.dumps(job))
    store.close()
    words = [sys.executable, "-I", ".deskgrid/run.pyc"]
    subprocess.run(words, cwd=path, env={"DESKGRID_TASK_ID": "1"}, stderr=subprocess.DEVNULL)
    return _outcome.read((path / ".deskgrid" / "out.txt").read_text())



def test_a_plain_function_loads_little(tmp_path: Path) -> None:
    (outcome,) = outcomes(tmp_path, lambda: "logging" in sys.modules, [()])
    assert outcome.data is not None and pickle.loads(outcome.data) is False


def test_functions_that_need_all_of_cloudpickle_get_it(tmp_path: Path) -> None:
    kind = type("Made", (own_module.Point,), {"twice": lambda self: 2 * self.x})

    def back(x: int) -> Any:
        return kind(x, 0), own_module.mirrored(own_module.Point(x, 7))

    first, second = outcomes(tmp_path, back, [(1,), (2,)])
    assert [first.kind, second.kind] == ["R", "R"]
    assert first.data is not None
    made, point = pickle.loads(first.data)
    assert made.twice() == 2 and point == own_module.Point(7, 1)


def test_closures_and_functions_that_call_themselves_are_read(tmp_path: Path) -> None:
    factor = [3]

    def outer(n: int) -> Any:
        def inner(k: int) -> int:
            return factor[0] * k if k < 2 else inner(k - 1) + inner(k - 2)

        return inner(n), [own_module.times(i) for i in range(2)]

    (outcome,) = outcomes(tmp_path, outer, [(4,)])
    assert outcome.data is not None and pickle.loads(outcome.data) == (9, [0, 3])


def test_the_light_part_is_taken_from_the_installed_version_or_left_out() -> None:
    import cloudpickle.cloudpickle

    text = Path(cloudpickle.cloudpickle.__file__).read_text()
    assert "def _make_function" in _runtime.light(text)
    assert _runtime.light(text.replace("types.FunctionType(", "unheard_of(")) == ""
    assert _runtime.light("x = 1") == ""


def test_an_outcome_that_was_not_written_to_its_end_is_left_out() -> None:
    whole = "deskgrid 1\nR 0.5 gAVLAS4=\n"
    assert [o.seconds for o in _outcome.read(whole)] == [0.5]
    assert len(_outcome.read(whole + "R 0.1 gAVL")) == 1
    assert _outcome.read("") == [] and _outcome.read("something else\n") == []


def test_tasks_find_nothing_of_the_environment_of_their_client() -> None:
    assert "PYTHONPATH" in os.environ
    assert b"PYTHONPATH" not in _runtime.runner()
