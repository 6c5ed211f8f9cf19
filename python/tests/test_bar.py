"""The bar, and how it stands in numbers."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest
from world import World, eventually

from deskgrid import Grid, Progress, _bar
from deskgrid._bar import picture


def test_a_function_is_told_how_it_stands(world: World) -> None:
    told: list[Progress] = []
    with Grid(dir=world.user, progress=told.append) as g:

        def slow(x: int) -> float:
            import time

            time.sleep(0.3)
            return 1 / x

        with pytest.raises(ZeroDivisionError):
            list(g.map(slow, [1, 1, 1, 1, 0], chunksize=1))
        eventually("all was told", lambda: told and told[-1].done == 5)
    assert [progress.total for progress in told] == [5] * len(told)
    assert told[-1].failed == 1 and told[-1].finished == 4


def test_a_function_that_is_told_may_cancel_calls(monkeypatch: Any) -> None:
    monkeypatch.setattr(_bar, "SOON", 0.0)
    monkeypatch.setattr(_bar, "PAUSE", 0.0)
    futures: list[Future[int]] = [Future() for _ in range(3)]
    told: list[Progress] = []

    def cancel_the_rest(progress: Progress) -> None:
        told.append(progress)
        for future in futures:
            future.cancel()

    _bar.Bar(futures, "sweep", cancel_the_rest)
    thread = threading.Thread(target=futures[0].set_result, args=[1], daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert [(progress.finished, progress.cancelled) for progress in told] == [(1, 0), (1, 2)]


def test_the_bar_fits_its_line() -> None:
    half = Progress(1000, 499, 1, 0, 0, 500)
    line = picture("sweep", half, 90, 80)
    assert line.endswith(" 500/1000  1 failed  1:30 left") and line.startswith("sweep █")
    assert len(line) <= 80
    assert line.count("█") in (line.count("░"), line.count("░") + 1, line.count("░") - 1)
    cut = Progress(20, 1, 0, 19, 0, 0)
    assert picture("sweep", cut, 4, 80).endswith(" 20/20  19 cancelled  0:04")
    done = Progress(3, 3, 0, 0, 0, 0)
    assert picture("f", done, 3700, 40).endswith(" 3/3  1:01:40")
