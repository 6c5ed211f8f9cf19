"""The behaviours that CPython asks of its own executors, asked of a Grid."""

from __future__ import annotations

import concurrent.futures
import gc
import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, CancelledError
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from world import World, eventually

import deskgrid
from deskgrid import Grid


def fail() -> None:
    raise ValueError("on purpose")


def test_it_is_an_executor(grid: Grid) -> None:
    assert isinstance(grid, concurrent.futures.Executor)
    assert isinstance(grid.submit(abs, 1), concurrent.futures.Future)
    assert grid._max_workers == 2


def python_with_its_tests() -> str | None:
    """A Python that has CPython's own tests: this one, or another one of this machine."""
    installed = Path.home().glob(".pyenv/versions/3.*/bin/python3")
    names = [f"python3.{minor}" for minor in range(10, 20)]
    code = "import sys, test.test_concurrent_futures; sys.exit(sys.version_info < (3, 10))"
    for program in [sys.executable, *names, *map(str, sorted(installed, reverse=True))]:
        found = shutil.which(program)
        if found and subprocess.run([found, "-c", code], capture_output=True).returncode == 0:
            return found
    return None


def test_the_executor_tests_of_cpython_pass(world: World, tmp_path: Path) -> None:
    if "DESKGRID_PLUGINS" not in os.environ:
        pytest.skip("it takes minutes: DESKGRID_PLUGINS=1 python/test runs it")
    python = python_with_its_tests()
    if python is None:
        pytest.skip("there is no Python with CPython's own tests (test.test_concurrent_futures)")
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "cloudpickle").symlink_to(Path(cloudpickle.__file__).parent)
    here = Path(__file__).parent
    env = {
        **os.environ,
        "PYTHONPATH": f"{Path(deskgrid.__file__).parents[1]}:{packages}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    ran = subprocess.run(
        [python, here / "cpython_suite.py", world.user], env=env,
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr.count(" ... ok\n") >= 20, ran.stderr


# Shutdown.


def test_nothing_can_be_submitted_after_shutdown(world: World) -> None:
    g = Grid(dir=world.user, progress=False)
    g.shutdown()
    with pytest.raises(RuntimeError):
        g.submit(pow, 2, 5)
    with pytest.raises(RuntimeError):
        g.map(abs, [1])
    with pytest.raises(RuntimeError):
        g.bag(abs, [1])
    g.shutdown()


def test_shutdown_waits_for_the_calls_submitted_before(world: World) -> None:
    g = Grid(dir=world.user, progress=False)
    futures = [g.submit(time.sleep, 0.1) for _ in range(5)]
    g.shutdown()
    assert all(future.done() for future in futures)


def test_leaving_the_context_waits(world: World) -> None:
    with Grid(dir=world.user, progress=False) as g:
        results = g.map(abs, range(-5, 5))
    assert list(results) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]


def test_shutdown_without_waiting_ends_behind_the_scenes(world: World) -> None:
    g = Grid(dir=world.user, progress=False)
    gateway = g._session.api.gateway
    results = g.map(abs, range(-5, 5))
    g.shutdown(wait=False)
    assert list(results) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
    eventually("the gateway has ended", lambda: gateway.pid is None)


def test_shutdown_can_cancel_waiting_calls(world: World) -> None:
    g = Grid(dir=world.user, progress=False)
    futures = [g.submit(time.sleep, 0.3) for _ in range(50)]
    eventually("one runs", lambda: any(future.running() for future in futures))
    g.shutdown(cancel_futures=True)
    cancelled = [future for future in futures if future.cancelled()]
    others = [future for future in futures if not future.cancelled()]
    assert len(cancelled) >= 35
    assert others and all(future.done() and future.exception() is None for future in others)


def test_a_grid_without_references_ends_by_itself(world: World) -> None:
    g = Grid(dir=world.user, progress=False)
    gateway = g._session.api.gateway
    future = g.submit(abs, -5)
    del g
    gc.collect()
    assert future.result(60) == 5
    del future
    gc.collect()
    eventually("the gateway has ended", lambda: gateway.pid is None)


def test_leaving_other_options_by_an_exception_cancels_their_calls_alone(grid: Grid) -> None:
    beside = grid.submit(time.sleep, 600)
    eventually("it runs", beside.running)
    with pytest.raises(ZeroDivisionError), grid.using(retries=2) as g:
        futures = [g.submit(time.sleep, 20), g.using(memory="10M").submit(time.sleep, 20)]
        g.map(time.sleep, [20, 20])
        eventually("one runs", lambda: any(future.running() for future in futures))
        began = time.monotonic()
        raise ZeroDivisionError
    # Whoever waited for them had waited for longer.
    assert time.monotonic() - began < 20
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(60)
    assert g.submit(time.sleep, 0).result(60) is None
    assert not beside.done()


def test_leaving_other_options_waits_for_their_calls_alone(grid: Grid) -> None:
    beside = grid.submit(time.sleep, 600)
    eventually("it runs", beside.running)
    with grid.using(retries=2) as g:
        future = g.submit(abs, -1)
    assert future.done() and not beside.done()


@pytest.mark.parametrize("what", ["/jobs", "/cancel"])
def test_leaving_other_options_does_not_wait_for_what_others_ask_of_the_grid(grid: Grid, what: str) -> None:
    call = grid._session.api.call
    asking, go_on = threading.Event(), threading.Event()

    def slow(method: str, path: str, *args: Any, **more: Any) -> Any:
        if method == "POST" and path.endswith(what):
            asking.set()
            go_on.wait(30)
        return call(method, path, *args, **more)

    with grid.using(retries=2) as g:
        assert g.submit(abs, -1).result(60) == 1
        others = [grid.submit(time.sleep, 600) for _ in range(6)]
        if what == "/cancel":
            eventually("all are at the grid", lambda: all(future.task for future in others))
        grid._session.api.call = slow  # type: ignore[method-assign]
        if what == "/cancel":
            assert any([future.cancel() for future in others])
        else:
            others.append(grid.using(memory="10M").submit(abs, -2))
        assert asking.wait(60)
        began = time.monotonic()
    left = time.monotonic() - began
    go_on.set()
    assert left < 15


def test_threads_that_submit_and_shut_down_do_not_lock_each_other(world: World) -> None:
    for _ in range(3):
        g = Grid(dir=world.user, progress=False)
        g.submit(abs, 1)
        g.shutdown(wait=True, cancel_futures=True)


def test_calls_that_are_being_submitted_are_cancelled_too(world: World) -> None:
    g = Grid(dir=world.user, progress=False)
    call = g._session.api.call
    sending, go_on = threading.Event(), threading.Event()

    def slow(method: str, path: str, *args: Any, **more: Any) -> Any:
        if (method, path) == ("POST", "/jobs"):
            sending.set()
            go_on.wait(60)
        return call(method, path, *args, **more)

    g._session.api.call = slow  # type: ignore[method-assign]
    futures = [g.submit(time.sleep, 600) for _ in range(2)]
    assert sending.wait(60)
    g._session.cancel_all()
    go_on.set()
    assert concurrent.futures.wait(futures, 60).not_done == set()
    assert all(future.cancelled() for future in futures)
    g.shutdown()
    with Grid(dir=world.user, progress=False) as other:
        eventually("the grid does nothing of it", lambda: other.job().state == "cancelled")


# Waiting.


def test_wait_returns_at_the_first_that_is_done(grid: Grid) -> None:
    first, second = grid.submit(abs, 21), grid.submit(time.sleep, 600)
    done, rest = concurrent.futures.wait([first, second], 60, FIRST_COMPLETED)
    assert (done, rest) == ({first}, {second})


def test_wait_returns_at_the_first_exception(grid: Grid) -> None:
    good, bad, long = grid.submit(abs, 2), grid.submit(fail), grid.submit(time.sleep, 600)
    done, rest = concurrent.futures.wait([good, bad, long], 60, FIRST_EXCEPTION)
    assert bad in done and long in rest


def test_wait_for_all_and_for_a_while(grid: Grid) -> None:
    one, long = grid.submit(abs, 1), grid.submit(time.sleep, 600)
    assert one.result(60) == 1
    done, rest = concurrent.futures.wait([one, long], 0.1, ALL_COMPLETED)
    assert (done, rest) == ({one}, {long})
    grid._session.cancel_all()
    assert concurrent.futures.wait([one, long], 60).not_done == set()


def test_a_cancelled_call_counts_as_done_for_wait(grid: Grid) -> None:
    running = [grid.submit(time.sleep, 600) for _ in range(2)]
    eventually("both run", lambda: all(future.running() for future in running))
    waiting = grid.submit(abs, 1)
    assert waiting.cancel() and waiting.cancelled() and waiting.done()
    assert not running[0].cancel()
    done, _ = concurrent.futures.wait([waiting, *running], 60, FIRST_COMPLETED)
    assert waiting in done
    with pytest.raises(CancelledError):
        waiting.result(60)
    assert waiting.cancel()


def test_as_completed_yields_each_once(grid: Grid) -> None:
    futures = [grid.submit(abs, i) for i in range(4)]
    done = list(concurrent.futures.as_completed(itertools.chain(futures, futures), 60))
    assert set(done) == set(futures) and len(done) == 4


def test_as_completed_stops_when_its_time_is_up(grid: Grid) -> None:
    long = grid.submit(time.sleep, 600)
    with pytest.raises(concurrent.futures.TimeoutError):
        list(concurrent.futures.as_completed([long], 0))


# Calls.


def test_an_exception_is_raised_where_it_is_reached(grid: Grid) -> None:
    results = grid.map(divmod, [1, 1, 1, 1], [2, 3, 0, 5])
    assert [next(results), next(results)] == [(0, 1), (0, 1)]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_an_exception_can_be_had_without_being_raised(grid: Grid) -> None:
    future = grid.submit(fail)
    error = future.exception(60)
    assert isinstance(error, ValueError) and error.args == ("on purpose",)
    assert grid.submit(abs, 1).exception(60) is None


def test_an_exception_that_counts_as_false_is_raised_all_the_same(grid: Grid) -> None:
    class Falsey(Exception):
        def __bool__(self) -> bool:
            return False

        def __len__(self) -> int:
            return 0

    def raise_it() -> None:
        raise Falsey("false")

    with pytest.raises(Exception, match="false"):
        grid.submit(raise_it).result(60)


def test_callbacks_are_called_with_their_future_and_may_fail(grid: Grid, caplog: Any) -> None:
    called: list[Any] = []
    future = grid.submit(pow, 5, 2)
    future.add_done_callback(lambda f: 1 / 0)
    future.add_done_callback(called.append)
    assert future.result(60) == 25
    eventually("it is called", lambda: called)
    future.add_done_callback(called.append)
    assert called == [future, future]


def test_a_callback_may_submit_again(grid: Grid) -> None:
    second: list[Any] = []
    first = grid.submit(abs, -1)
    first.add_done_callback(lambda f: second.append(grid.submit(abs, -2)))
    first.result(60)
    eventually("it was submitted", lambda: second)
    assert second[0].result(60) == 2


def test_results_and_arguments_are_not_kept(grid: Grid) -> None:
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    results = grid.map(id, [thing])
    list(results)
    del thing, results
    gc.collect()
    assert gone() is None
    class Result:
        def method(self) -> int:
            return 7

    for value in grid.map(lambda x: Result(), range(4), chunksize=2):
        result = weakref.ref(value)
        del value
        gc.collect()
        eventually("the result is gone", lambda: result() is None)

    owner = Result()
    owner_gone = weakref.ref(owner)
    assert grid.submit(owner.method).result(60) == 7
    del owner
    gc.collect()
    eventually("what a method belongs to is gone", lambda: owner_gone() is None)


def test_a_call_that_is_submitted_while_another_is_cancelled_is_made(grid: Grid) -> None:
    second: list[Any] = []

    def submit_another(_: Any) -> None:
        # Meanwhile the cancelled one is looked for among those that wait.
        time.sleep(0.2)
        second.append(grid.submit(abs, -2))

    first = grid.submit(abs, -1)
    first.add_done_callback(submit_another)
    assert first.cancel()
    assert second[0].result(60) == 2


def test_a_call_that_is_cancelled_while_it_is_packed_takes_no_others_with_it(grid: Grid) -> None:
    futures: list[Any] = []
    ready = threading.Event()

    class Cancels:
        """A number that cancels the call before its own when it is packed."""

        def __reduce__(self) -> Any:
            assert ready.wait(60)
            futures[0].cancel()
            return int, (2,)

    futures += grid._futures(abs, [[1, Cancels(), 3]], 3, {})
    ready.set()
    assert [future.result(60) for future in futures[1:]] == [2, 3]
    assert futures[0].cancelled()


def test_a_consumer_that_stops_cancels_the_rest(grid: Grid) -> None:
    results = grid.map(time.sleep, [0] + [600] * 20, chunksize=1)
    next(results)
    (job,) = grid._session.open_jobs()
    results.close()  # type: ignore[attr-defined]
    eventually("what had not begun is cancelled", lambda: grid.job(job).progress().cancelled >= 18)


def test_submitting_while_python_ends_is_refused_and_hangs_nothing(world: World) -> None:
    text = (
        "import atexit\n"
        "from deskgrid import Grid\n"
        f"g = Grid(dir={world.user!r}, progress=False)\n"
        "g.submit(abs, -1).result()\n"
        "def late():\n"
        "    try: g.submit(abs, 1)\n"
        "    except RuntimeError as error: print('refused:', error)\n"
        "g.shutdown()\n"
        "atexit.register(late)\n"
    )
    src = os.path.dirname(os.path.dirname(deskgrid.__file__))
    ran = subprocess.run(
        [sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": src},
        capture_output=True, text=True, timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("refused: cannot schedule new futures")
