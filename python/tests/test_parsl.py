"""The Parsl executor."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from world import World, eventually

parsl = pytest.importorskip("parsl", reason="Parsl is not installed")

from deskgrid import Grid  # noqa: E402
from deskgrid.parsl import DeskgridExecutor  # noqa: E402


@pytest.fixture
def loaded(packaged: World, tmp_path: Path) -> Iterator[None]:
    config = parsl.Config(
        executors=[DeskgridExecutor(dir=packaged.user)], run_dir=str(tmp_path), usage_tracking=0
    )
    with parsl.load(config):
        yield
    parsl.clear()


def test_apps_run_on_the_grid_and_wait_for_each_other(loaded: None) -> None:
    square = parsl.python_app(lambda x: x * x)

    @parsl.python_app
    def add(inputs: Any = ()) -> int:
        return sum(inputs)

    assert add(inputs=[square(n) for n in range(10)]).result(120) == 285


def test_an_app_that_raises_does_so_here(loaded: None) -> None:
    @parsl.python_app
    def fails() -> None:
        raise KeyError("nothing")

    with pytest.raises(KeyError, match="nothing"):
        fails().result(120)


def test_a_command_of_an_app_runs_on_the_grid(loaded: None) -> None:
    @parsl.bash_app
    def leave(code: int) -> str:
        return f"exit {code}"

    assert leave(0).result(120) == 0
    with pytest.raises(parsl.app.errors.BashExitFailure, match="3"):
        leave(3).result(120)


def test_an_app_says_what_it_needs(loaded: None) -> None:
    @parsl.python_app
    def cores(parsl_resource_specification: Any = {}) -> str:
        import os

        return os.environ["OMP_NUM_THREADS"]

    asked = cores(parsl_resource_specification={"cores": 1, "memory": 100})
    assert asked.result(120) == "1"
    with pytest.raises(Exception, match="colour"):
        cores(parsl_resource_specification={"colour": "red"}).result(120)


def test_the_end_of_an_executor_waits_for_its_calls_on_a_grid_that_was_given(packaged: World) -> None:
    with Grid(dir=packaged.user, progress=False) as g:
        other = g.submit(time.sleep, 600)
        eventually("it runs", other.running)
        executor = DeskgridExecutor(grid=g)
        executor.start()
        calls = [executor.submit(abs, {}, -1), executor.submit(abs, {"memory": 100}, -2)]
        handle = executor._grid
        assert handle is not None
        executor.shutdown()
        assert not g._session.busy(handle._token)
        assert [call.result(60) for call in calls] == [1, 2]
        # The grid goes on, with what others ask of it.
        assert not other.done() and g.submit(abs, -3).result(60) == 3
        g._session.stop([other])
