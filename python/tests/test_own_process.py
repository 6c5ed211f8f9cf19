"""Calls that have processes of their own, several in one task."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from world import World, eventually

import deskgrid
from deskgrid import Grid, _outcome, _runtime
from deskgrid._options import one_by_one, seconds_of
from deskgrid._pack import Store, pack_call, pack_function


@pytest.fixture(params=["forked", "started anew"])
def no_fork(request: Any, tmp_path: Path) -> dict[str, str]:
    """The environment of a Python that can fork, and of one that cannot, as on Windows."""
    if request.param == "forked":
        return {}
    (tmp_path / "usercustomize").mkdir()
    (tmp_path / "usercustomize" / "sitecustomize.py").write_text("import os\ndel os.fork\n")
    return {"PYTHONPATH": str(tmp_path / "usercustomize")}


def outcomes(
    path: Path, function: Any, calls: list[Any], variables: dict[str, str], **apart: Any
) -> list[_outcome.Outcome]:
    """Runs a task as a worker would."""
    store = Store()
    packed = pack_function(function, store)
    job = {
        "function": packed.payload,
        "buffers": [],
        "calls": [[(pack_call((call,), {}, store).payload, []) for call in calls]],
        "timed": True,
        "apart": {"limit": None, "hand_back": None, **apart},
    }
    store.close()
    own = path / ".deskgrid"
    own.mkdir()
    (own / "run.pyc").write_bytes(_runtime.runner())
    (own / "job").write_bytes(pickle.dumps(job))
    words = [sys.executable, "-s", ".deskgrid/run.pyc"]
    environment = {"DESKGRID_TASK_ID": "1", **variables}
    subprocess.run(words, cwd=path, env=environment, stderr=subprocess.DEVNULL, timeout=120)
    return _outcome.read((own / "out.txt").read_text())


def value(outcome: _outcome.Outcome) -> Any:
    assert outcome.data is not None
    return pickle.loads(outcome.data)


def ends_badly(how: str) -> Any:
    if how == "exit":
        os._exit(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raise":
        raise ValueError(how)
    if how == "half":
        # Its host is turned off while it writes.
        with open(".deskgrid/out.txt", "ab") as out:
            out.write(b"R 0.1 gAVLA")
        os._exit(9)
    return how


def test_a_call_that_ends_its_process_fails_alone(tmp_path: Path, no_fork: dict[str, str]) -> None:
    found = outcomes(tmp_path, ends_badly, ["a", "exit", "b", "kill", "raise", "half", "c"], no_fork)
    assert [o.kind for o in found] == ["R", "X", "R", "X", "E", "X", "R"]
    assert [value(o) for o in found if o.kind == "R"] == ["a", "b", "c"]
    assert "exit code 0" in value(found[1]) and "SIGKILL" in value(found[3])
    assert "exit code 9" in value(found[5])


def test_a_call_finds_nothing_that_another_left_in_memory(
    tmp_path: Path, no_fork: dict[str, str]
) -> None:
    def leave(x: int) -> Any:
        found = getattr(sys, "left", None)
        sys.left = [x] * 1_000  # type: ignore[attr-defined]
        return found, os.getpid()

    found = [value(o) for o in outcomes(tmp_path, leave, [1, 2, 3], no_fork)]
    assert [left for left, _ in found] == [None] * 3
    assert len({process for _, process in found}) == 3


def test_a_time_limit_holds_for_each_call(tmp_path: Path, no_fork: dict[str, str]) -> None:
    found = outcomes(tmp_path, time.sleep, [0, 600, 0], no_fork, limit=2.0)
    assert [o.kind for o in found] == ["R", "X", "R"]
    assert "time limit of 2 s" in value(found[1])
    place = _outcome.Place("7.1", "desk-1", "")
    assert isinstance(_outcome.value_of(found[1], None, place).error, deskgrid.TaskTimeout)


def test_calls_that_are_not_begun_are_handed_back_behind_a_long_one(
    tmp_path: Path, no_fork: dict[str, str]
) -> None:
    found = outcomes(tmp_path, time.sleep, [0.2, 0, 0], no_fork, hand_back=0.1)
    assert [o.kind for o in found] == ["R", "H"]


def test_what_a_call_does_at_its_end_is_done(tmp_path: Path, no_fork: dict[str, str]) -> None:
    def later(name: str) -> None:
        import atexit

        atexit.register(Path(name + ".exit").touch)
        wait = threading.Timer(0.2, Path(name + ".thread").touch)
        wait.start()

    (outcome,) = outcomes(tmp_path, later, ["a"], no_fork)
    assert outcome.kind == "R"
    assert (tmp_path / "a.exit").exists() and (tmp_path / "a.thread").exists()


def test_modules_that_arguments_need_are_loaded_once(tmp_path: Path, monkeypatch: Any) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "heavy.py").write_text("import os\nLOADED_BY = os.getpid()\nclass Data: pass\n")
    monkeypatch.syspath_prepend(str(installed))
    import heavy  # type: ignore[import-not-found]

    def has_loaded_it(data: Any) -> bool:
        return bool(sys.modules["heavy"].LOADED_BY == os.getpid())  # type: ignore[attr-defined]

    found = outcomes(tmp_path, has_loaded_it, [heavy.Data()] * 3, {"PYTHONPATH": str(installed)})
    assert [value(outcome) for outcome in found] == [False] * 3


def test_what_a_call_leaves_running_ends_with_it(tmp_path: Path) -> None:
    def leave(x: int) -> int:
        return subprocess.Popen(["sleep", "600"]).pid

    (outcome,) = outcomes(tmp_path, leave, [1], {"PATH": os.environ["PATH"]})
    left = Path(f"/proc/{value(outcome)}/stat")

    def gone() -> bool:
        try:
            return left.read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    eventually("it has ended", gone)


def number_and_start() -> tuple[int, str]:
    return os.getpid(), Path("/proc/self/stat").read_text().split()[21]


def test_calls_with_own_processes_are_put_together_and_come_back_in_order(grid: Grid) -> None:
    g = grid.using(own_process=True)
    assert list(g.map(lambda x: (x, 2 * x), range(200))) == [(x, 2 * x) for x in range(200)]
    # Each attempt of a task counts its processes anew: numbers may be equal, but not the times of
    # their starts, too.
    futures = [g.submit(number_and_start) for _ in range(100)]
    assert len({(future.task, future.result(60)) for future in futures}) == 100
    assert len({future.task for future in futures}) < 50


def test_a_chunk_of_calls_with_own_processes_survives_one_that_is_killed(grid: Grid) -> None:
    job = grid.bag(ends_badly, ["a", "kill", "exit", "b"], chunksize=4, own_process=True)
    first, killed, left, last = job.futures
    assert [first.result(60), last.result(60)] == ["a", "b"]
    with pytest.raises(deskgrid.TaskFailed, match="SIGKILL"):
        killed.result(60)
    with pytest.raises(deskgrid.TaskFailed, match="exit code 0"):
        left.result(60)
    assert {future.task for future in job.futures} == {f"{job.id}.1"}


def test_a_time_limit_ends_one_call_of_a_task(grid: Grid) -> None:
    job = grid.bag(time.sleep, [0, 600, 0], chunksize=3, own_process=True, time_limit="1s")
    first, long, last = job.futures
    with pytest.raises(deskgrid.TaskTimeout, match="time limit of 1 s"):
        long.result(60)
    assert first.result(60) is None and last.result(60) is None


def test_calls_behind_a_long_one_are_made_elsewhere(grid: Grid) -> None:
    g = grid.using(own_process=True)
    pause = g.map(time.sleep, [3, 0, 0, 0], chunksize=4)
    assert list(pause) == [None] * 4
    # The first task has handed back what it had not begun.
    jobs = grid._session.api.call("GET", "/jobs", query={"label": grid._session.label})["jobs"]
    assert len(jobs) == 2


def test_a_call_that_fails_is_tried_again_alone(grid: Grid) -> None:
    def at_first(x: int) -> int:
        if x == 3 and os.environ["DESKGRID_TASK_ID"] == "2":
            os._exit(5)
        return x

    # What is tried again is another task: the first of its job.
    g = grid.using(own_process=True)
    assert list(g.map(at_first, range(4), chunksize=2, retries=1)) == [0, 1, 2, 3]
    with pytest.raises(deskgrid.TaskFailed, match="exit code 5"):
        list(g.map(at_first, range(4), chunksize=2))


def test_random_numbers_of_calls_differ(packaged: World) -> None:
    import numpy
    import random

    def draw(_: int) -> Any:
        return random.random(), float(numpy.random.random())

    with Grid(dir=packaged.user, progress=False) as g:
        drawn = list(g.map(draw, range(4), chunksize=4, own_process=True))
    assert len({a for a, _ in drawn}) == len({b for _, b in drawn}) == 4


def test_a_limit_that_only_the_master_can_read_is_left_to_it() -> None:
    assert [seconds_of(text) for text in ("90s", "1h 30m", "250ms", 2)] == [90, 5400, 0.25, 2]
    assert seconds_of("2 weeks") is seconds_of("soon") is seconds_of(None) is None
    assert not one_by_one({"own_process": True, "time_limit": "90s"})
    assert one_by_one({"own_process": True, "time_limit": "2 weeks"})
    assert one_by_one({"time_limit": "90s"}) and one_by_one({"own_process": True, "quorum": 2})
