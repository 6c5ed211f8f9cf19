"""Everything that can go wrong in a call, and the exception that it becomes."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import pickle
import signal
import sys
import threading
import time
from typing import Any

import own_module
import pytest
from world import World, eventually

import deskgrid
from deskgrid import Grid, RemoteError
from deskgrid._outcome import Place, failure_of

LOCK = threading.Lock()


def test_an_exception_is_raised_with_its_remote_traceback(grid: Grid) -> None:
    results = grid.map(lambda x: 1 / x, [1, 0, 2])
    assert next(results) == 1.0
    with pytest.raises(ZeroDivisionError) as raised:
        next(results)
    cause = raised.value.__cause__
    assert isinstance(cause, RemoteError)
    assert "ZeroDivisionError: division by zero" in cause.traceback
    assert "test_errors.py" in cause.traceback
    assert "lambda x: 1 / x" in cause.traceback
    assert cause.host.startswith("desk-") and "." in cause.task
    assert cause.host in str(cause) and "ZeroDivisionError" in str(cause)


def test_an_exception_with_a_class_that_needs_arguments_arrives_as_itself(grid: Grid) -> None:
    with pytest.raises(own_module.Odd, match="3 is odd: it is") as raised:
        grid.submit(own_module.only_even, 3).result(60)
    assert (raised.value.number, raised.value.because) == (3, "it is")


def test_an_exception_that_cannot_be_sent_arrives_as_text(grid: Grid) -> None:
    def fail() -> None:
        error = ValueError("has a lock")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error

    with pytest.raises(deskgrid.ForeignError, match="ValueError: has a lock") as raised:
        grid.submit(fail).result(60)
    assert isinstance(raised.value.__cause__, RemoteError)


def test_an_exception_that_lies_about_itself_hangs_nothing(grid: Grid) -> None:
    class Awful(Exception):
        def __reduce__(self) -> Any:
            raise RuntimeError("no")

        def __str__(self) -> str:
            raise RuntimeError("no")

    def fail() -> None:
        raise Awful

    with pytest.raises(Exception) as raised:
        grid.submit(fail).result(60)
    assert type(raised.value).__name__ == "Awful"


def test_a_function_that_cannot_be_pickled_is_an_error_with_a_way_out(grid: Grid) -> None:
    lock = threading.Lock()

    def guarded(x: int) -> int:
        with lock:
            return x

    with pytest.raises(deskgrid.NotPicklable, match="guarded cannot be sent with its `lock`: .*'_thread.lock'") as raised:
        grid.map(guarded, [1])
    assert isinstance(raised.value, pickle.PicklingError)
    assert isinstance(raised.value.__cause__, TypeError)
    assert "inside the function" in raised.value.hint
    with pytest.raises(deskgrid.NotPicklable):
        grid.submit(guarded, 1).result(60)


def test_what_hinders_a_function_is_found_wherever_it_is_used(grid: Grid) -> None:
    class Holder:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def method(self, x: int) -> int:
            return x

    def outer(x: int) -> int:
        return len(str(LOCK)) + sum(len(str(LOCK)) for _ in range(x))

    with pytest.raises(deskgrid.NotPicklable, match="outer cannot be sent with its `LOCK`"):
        grid.map(outer, [1])
    with pytest.raises(deskgrid.NotPicklable, match="method cannot be sent with its object, a Holder: .*lock"):
        grid.map(Holder().method, [1])
    with pytest.raises(deskgrid.NotPicklable, match=r"outer cannot be sent with its argument 1 \(a lock\): .*lock"):
        grid.map(functools.partial(outer, threading.Lock()), [1])


def test_an_argument_that_cannot_be_pickled_is_named_and_the_others_go_on(grid: Grid) -> None:
    futures = [grid.submit(lambda x, y: 1, 0, y) for y in (1, threading.Lock(), 3)]
    assert futures[0].result(60) == futures[2].result(60) == 1
    with pytest.raises(deskgrid.NotPicklable, match=r"argument 2 \(a lock\)"):
        futures[1].result(60)


def test_a_result_that_cannot_be_pickled_fails_its_call_alone(grid: Grid) -> None:
    def odd(x: int) -> Any:
        return threading.Lock() if x == 1 else x

    results = grid.map(odd, range(3), chunksize=3, ordered=True)
    assert next(results) == 0
    with pytest.raises(deskgrid.BadResult, match="cannot be sent.*lock"):
        next(results)


def test_a_result_that_cannot_be_read_here_says_so(grid: Grid) -> None:
    class Broken:
        def __reduce__(self) -> Any:
            return os.getpgid, ("no number",)

    with pytest.raises(deskgrid.BadResult, match="cannot be read here: TypeError"):
        grid.submit(Broken).result(60)


def test_a_module_that_the_host_does_not_have_is_named_with_a_way_out(grid: Grid) -> None:
    def needs_it() -> Any:
        return numpy.ones(3)

    numpy = pytest.importorskip("numpy")
    with pytest.raises(ModuleNotFoundError, match="numpy") as raised:
        grid.submit(needs_it).result(60)
    assert isinstance(raised.value, deskgrid.EnvError)
    assert "Env.auto()" in raised.value.hint


def test_a_module_that_is_missed_while_a_function_runs_is_named_with_a_way_out(grid: Grid) -> None:
    def needs_it() -> Any:
        import numpy

        return numpy.ones(3)

    with pytest.raises(ModuleNotFoundError, match="numpy") as raised:
        grid.submit(needs_it).result(60)
    (note,) = raised.value.__notes__  # type: ignore[attr-defined]
    assert note.startswith("the Python on desk-") and "env=Env.auto([" in note
    assert isinstance(raised.value.__cause__, RemoteError)


def test_a_call_that_wants_more_memory_than_it_may_have_says_how_to_ask_for_it() -> None:
    why = "attempt 1 exceeded a limit: it wanted more memory than its 200 MiB"
    assert "memory=" in failure_of(why, Place("7.1", "desk-1", "")).hint


def test_a_call_that_ends_its_process_fails_and_those_around_it_do_not(grid: Grid) -> None:
    def fatal(x: int) -> int:
        if x == 1:
            print("last words", file=sys.stderr, flush=True)
            os._exit(7)
        return x

    g = grid.using(labels=["fatal"])
    futures = [g.submit(fatal, x) for x in range(3)]
    with pytest.raises(deskgrid.TaskFailed) as raised:
        futures[1].result(60)
    assert raised.value.exit_code == 7
    assert "last words" in raised.value.stderr and "last words" in str(raised.value)
    assert [futures[0].result(60), futures[2].result(60)] == [0, 2]


def test_calls_behind_one_that_ends_its_process_are_made_again(grid: Grid) -> None:
    def fatal(x: int) -> int:
        if x == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    calls = grid.map(fatal, range(4), chunksize=4)
    assert next(calls) == 0
    with pytest.raises(deskgrid.TaskFailed, match="KILL|signal 9"):
        next(calls)


def test_leaving_python_is_a_failure_and_does_not_leave_this_one(grid: Grid) -> None:
    with pytest.raises(deskgrid.TaskFailed, match=r"SystemExit\(3\)"):
        grid.submit(sys.exit, 3).result(60)


def test_a_call_that_takes_longer_than_its_limit_times_out(grid: Grid) -> None:
    with pytest.raises(deskgrid.TaskTimeout) as raised:
        grid.using(time_limit=1).submit(time.sleep, 600).result(60)
    assert isinstance(raised.value, TimeoutError)


def test_waiting_has_a_limit_of_its_own(grid: Grid) -> None:
    future = grid.submit(time.sleep, 600)
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0.2)
    with pytest.raises(concurrent.futures.TimeoutError):
        list(grid.map(time.sleep, [600], timeout=0.2))
    eventually("it runs", future.running)
    grid._session.cancel_all()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(60)


def test_a_job_that_is_cancelled_elsewhere_is_cancelled_here(grid: Grid, world: World) -> None:
    future = grid.submit(time.sleep, 600)
    eventually("it runs", future.running)
    world.command("user", "job", "cancel", str(future.task).split(".")[0])
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(60)


def test_a_job_for_hosts_that_do_not_exist_is_refused_before_it_is_submitted(grid: Grid) -> None:
    with pytest.raises(deskgrid.NotRunnable, match="windows"):
        grid.bag(abs, [1], needs="os=windows")
    with pytest.raises(deskgrid.NotRunnable):
        grid.using(memory="9000G").submit(abs, 1).result(60)


def test_a_job_with_too_few_owners_for_its_quorum_waits_with_a_warning(grid: Grid, capfd: Any) -> None:
    job = grid.bag(abs, [1], quorum=5)
    said = capfd.readouterr().err
    assert "will wait until the hosts suffice: 5 results of different owners' hosts" in said
    job.cancel()


def test_a_senseless_option_is_refused_in_the_words_of_the_master(grid: Grid) -> None:
    with pytest.raises(deskgrid.Refused, match="policy"):
        grid.bag(abs, [1], policy="NONE-SUCH")


def test_a_deadline_that_cannot_be_promised_names_one_that_can(grid: Grid) -> None:
    with pytest.raises(deskgrid.NotPromised) as raised:
        # So far beyond that no experience with the estimates of earlier tests makes it possible.
        grid.bag(time.sleep, [1] * 20, deadline="1s", estimate="100h")
    assert raised.value.earliest is not None
    # No task of this one would be done in time.
    assert raised.value.hint.startswith("ask for a deadline by 2") and "fit" not in raised.value.hint
    job = grid.bag(abs, [-1, -2], deadline="2h", estimate="10s")
    assert list(job.results()) == [1, 2]


def test_an_identity_that_is_not_there_is_an_error_with_a_way_out(tmp_path: Any) -> None:
    with pytest.raises(deskgrid.GridUnreachable, match="no identity") as raised:
        Grid(dir=tmp_path)
    assert "deskgrid login" in raised.value.hint


def test_a_program_that_is_not_there_is_an_error_with_a_way_out(monkeypatch: Any) -> None:
    monkeypatch.setenv("DESKGRID_BINARY", "/nowhere/deskgrid")
    with pytest.raises(deskgrid.BinaryNotFound, match="/nowhere/deskgrid"):
        Grid()


def test_another_version_of_python_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(deskgrid.EnvError, match="Python 3.6"):
        deskgrid.Env.host("3.6")
