"""The grid breaks down around a Grid, which notices as little as it can."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from world import World, eventually, script

import deskgrid
from deskgrid import Grid, TaskFuture, _api, _results, _session
from deskgrid._api import Api
from deskgrid._gateway import Gateway
from deskgrid._pack import Store
from deskgrid._results import Results
from deskgrid._session import Session
from deskgrid._stream import Call, Stream, Task
from deskgrid._work import LiveJob


def test_a_master_that_is_away_in_the_middle_is_waited_for(own_world: World) -> None:
    own_world.worker("desk-1")
    with Grid(dir=own_world.user, progress=False) as g:
        before = g.submit(abs, -1)
        assert before.result(60) == 1
        over_it = g.submit(time.sleep, 1.0)
        eventually("it runs", over_it.running)
        own_world.kill_master()
        meanwhile = g.submit(abs, -2)
        results = g.map(abs, [-3, -4])
        own_world.start_master()
        assert over_it.result(60) is None
        assert meanwhile.result(60) == 2
        assert list(results) == [3, 4]


def test_a_master_that_is_away_for_longer_than_a_lease_is_waited_for(
    own_world: World,
) -> None:
    """Leases of these tests are 4 s; ``DESKGRID_AWAY`` says for how many seconds it is away."""
    own_world.worker("desk-1", slots=2)
    with Grid(dir=own_world.user, progress=False) as g:
        bag = g.bag(time.sleep, [1.0] * 4)
        results = g.map(lambda x: (time.sleep(0.5), -x)[1], range(12), chunksize=4)
        eventually("the bag runs", lambda: bag.futures[0].running())
        own_world.kill_master()
        end = time.monotonic() + float(os.environ.get("DESKGRID_AWAY", "6"))
        meanwhile = g.submit(abs, -2)
        eventually("it is long away", lambda: time.monotonic() > end, 600)
        own_world.start_master()
        assert meanwhile.result(120) == 2
        assert list(results) == [-x for x in range(12)]
        assert bag.result(120) == [None] * 4


def test_a_result_beyond_the_limit_of_its_host_says_so(own_world: World) -> None:
    """The limit is 4 GiB by default; here it is 3 MB."""
    own_world.worker("desk-1", config="output_limit_bytes = 3_000_000")
    with Grid(dir=own_world.user, progress=False) as g:
        assert len(g.submit(bytes, 2_900_000).result(60)) == 2_900_000
        futures = [g.submit(bytes, size) for size in (5_000_000, 10)]
        with pytest.raises(deskgrid.TaskFailed, match="takes at most 2.9 MiB") as raised:
            futures[0].result(60)
        assert "output_limit_bytes" in raised.value.hint
        assert len(futures[1].result(60)) == 10


def test_a_master_that_stays_away_is_an_error_in_the_end_and_the_grid_goes_on_when_it_is_back(
    own_world: World, capfd: Any
) -> None:
    own_world.worker("desk-1", slots=2)
    with Grid(dir=own_world.user, progress=False, patience=0.5) as g:
        call, bag = g.submit(time.sleep, 1.0), g.bag(time.sleep, [1.0])
        futures = [call, *bag.futures]
        eventually("both run", lambda: all(future.running() for future in futures))
        own_world.stop_master()
        # What runs is awaited by its events, what is new by the answer to its submission.
        late = g.submit(abs, -2)
        with pytest.raises(deskgrid.GridUnreachable):
            late.result(60)
        for future in futures:
            with pytest.raises(deskgrid.GridUnreachable, match="has not answered for") as raised:
                future.result(60)
            number = str(future.task).split(".")[0]
            assert f"Grid().job({number}) gets its results" in raised.value.hint
        assert "the master does not answer" in capfd.readouterr().err
        # It is the same Grid that goes on when the master is back.
        own_world.start_master()
        assert g.submit(abs, -3).result(60) == 3
        assert g.job(bag.id).result(60) == [None]


def test_failed_calls_are_tried_again_after_the_grid_was_away_for_too_long(own_world: World) -> None:
    own_world.worker("desk-1", slots=2)
    with Grid(dir=own_world.user, progress=False, patience=0.5) as g:
        bag = g.bag(lambda x: 1 / x, [0, 0], policy="FCFS")
        assert bag.wait(60) and len(bag.failures()) == 2
        waiting = g.bag(time.sleep, [600.0, 600.0], policy="FCFS")
        eventually("it runs", lambda: waiting.futures[0].running())
        adopted = g.job(waiting.id)
        assert not adopted.futures[1].done()
        own_world.stop_master()
        for job in (waiting, adopted):
            assert job.wait(60)
        own_world.start_master()

        waiting.cancel()
        eventually("it has room", lambda: waiting.state == "cancelled")
        before = list(bag.futures)
        assert bag.retry() == 2
        assert bag.wait(60) and len(bag.failures()) == 2 and set(bag.futures).isdisjoint(before)
        assert adopted.retry(failed=False) == 2
        adopted.cancel()
        assert adopted.wait(60) and all(future.done() for future in adopted.futures)


def test_a_retry_that_is_refused_leaves_the_futures_as_they_were(grid: Grid) -> None:
    job = grid.bag(lambda x: 1 / x, [0], policy="FCFS")
    assert job.wait(60)
    before = list(job.futures)
    call = grid._session.api.call

    def refused(method: str, path: str, *args: Any, **more: Any) -> Any:
        if path.endswith("/retry"):
            raise deskgrid.Refused("not now")
        return call(method, path, *args, **more)

    grid._session.api.call = refused  # type: ignore[method-assign]
    with pytest.raises(deskgrid.Refused, match="not now"):
        job.retry()
    assert job.futures == before and job.wait(0)


def test_whoever_waits_for_a_job_that_goes_on_is_told_when_the_grid_is_shut_down(
    world: World, grid: Grid
) -> None:
    with Grid(dir=world.user, progress=False) as g:
        bag, program = g.bag(time.sleep, [600]), g.run(["sleep", "600"])
        adopted = g.job(bag.id)
        futures = [*bag.futures, *program.futures, *adopted.futures]
    for future, job in zip(futures, (bag, program, adopted)):
        with pytest.raises(deskgrid.GridUnreachable, match="was shut down") as raised:
            future.result(10)
        assert f"Grid().job({job.id}) gets its results" in raised.value.hint
    for job in (bag, program):
        assert grid.job(job.id).state in ("running", "waiting")
        grid.job(job.id).cancel()


def test_tasks_that_end_while_others_are_cancelled_hinder_nobody(grid: Grid) -> None:
    results = grid._session.results
    tasks = {}

    class Ending(int):
        """The number of a task of which one ends when it is looked at."""

        def __ge__(self, other: int) -> bool:
            tasks.pop(Ending(9), None)
            return int(self) >= other

    futures: list[TaskFuture[None]] = [TaskFuture(grid._session) for _ in range(9)]
    tasks.update({Ending(at + 1): Task(at + 1, [Call(future)]) for at, future in enumerate(futures)})
    results.await_job(LiveJob(1_000_000, "run", tasks))
    results._on_event({"event": "tasks-cancelled", "job": 1_000_000, "tasks": "1-4"})
    assert [future.done() for future in futures] == [True] * 4 + [False] * 5


@pytest.mark.parametrize("status", [410, 404])
def test_a_result_that_was_removed_is_an_error_that_says_so(grid: Grid, status: int) -> None:
    call = grid._session.api.call

    def removed(method: str, path: str, *args: Any, **more: Any) -> Any:
        if path.endswith("/files"):
            raise deskgrid.Refused("what it left was removed", "request the task", status)
        return call(method, path, *args, **more)

    grid._session.api.call = removed  # type: ignore[method-assign]
    future: TaskFuture[None] = TaskFuture(grid._session)
    results = grid._session.results
    results.await_job(LiveJob(1_000_000, "run", {3: Task(3, [Call(future)])}))
    # Its event tells nothing of what it has left.
    results._on_event({"event": "task-finished", "job": 1_000_000, "task": "1000000.3"})
    with pytest.raises(deskgrid.ResultGone, match="was removed") as raised:
        future.result(60)
    assert raised.value.task == "1000000.3" and raised.value.hint == "request the task"


@pytest.mark.parametrize("what", ["/files", "/stderr"])
@pytest.mark.parametrize(
    "trouble", [deskgrid.Refused("not now", "", 500), deskgrid.GridUnreachable("it does not answer")]
)
def test_a_program_that_failed_says_why_though_the_rest_cannot_be_had(
    grid: Grid, monkeypatch: Any, what: str, trouble: Exception
) -> None:
    def answer(path: str) -> Any:
        if path.endswith(what):
            raise trouble
        return {"files": [{"path": "left.txt", "bytes": 2}]}

    monkeypatch.setattr(grid._session.api, "call", lambda method, path, *_, **__: answer(path))
    monkeypatch.setattr(grid._session.api, "read", lambda path: str(answer(path)).encode())
    future: TaskFuture[None] = TaskFuture(grid._session)
    results = grid._session.results
    live = LiveJob(1_000_000, "run", {3: Task(3, [Call(future)])})
    results.await_job(live)
    ended = {"event": "task-failed", "job": 1_000_000, "task": "1000000.3", "reason": "exit code 3"}
    results._on_event(ended)
    with pytest.raises(deskgrid.TaskFailed, match="exit code 3") as raised:
        future.result(60)
    assert raised.value.exit_code == 3
    assert list(raised.value.output.files) == ([] if what == "/files" else ["left.txt"])


def test_a_gateway_that_is_killed_while_the_master_is_away_is_started_again(own_world: World) -> None:
    own_world.worker("desk-1")
    with Grid(dir=own_world.user, progress=False) as g:
        over_it = g.submit(time.sleep, 1.0)
        eventually("it runs", over_it.running)
        own_world.kill_master()
        gateway = g._session.api.gateway.pid
        assert gateway is not None
        os.kill(gateway, signal.SIGKILL)
        meanwhile = g.submit(abs, -2)
        first = g._session.api.gateway._generation
        eventually("another one was tried", lambda: g._session.api.gateway._generation > first)
        own_world.start_master()
        assert over_it.result(60) is None
        assert meanwhile.result(60) == 2


def test_a_gateway_that_is_killed_is_started_again(grid: Grid) -> None:
    assert grid.submit(abs, -1).result(60) == 1
    running = grid.submit(time.sleep, 0.5)
    eventually("it runs", running.running)
    gateway = grid._session.api.gateway.pid
    assert gateway is not None
    os.kill(gateway, signal.SIGKILL)
    assert grid.submit(abs, -2).result(60) == 2
    assert running.result(60) is None
    assert grid._session.api.gateway.pid != gateway


def test_a_call_of_a_lost_host_is_made_on_another_one(own_world: World) -> None:
    own_world.worker("desk-1")
    with Grid(dir=own_world.user, progress=False) as g:
        mark = own_world.dir / "mark"

        def where(mark: Path) -> str:
            host = os.environ["DESKGRID_HOST"]
            while host == "desk-1":
                time.sleep(0.01)
            return host

        future = g.submit(where, mark)
        eventually("it runs", future.running)
        own_world.worker("desk-2")
        own_world.kill_worker("desk-1")
        assert future.result(60) == "desk-2"


def test_hosts_that_are_lost_too_often_are_an_error(own_world: World) -> None:
    own_world.worker("desk-1")
    with Grid(dir=own_world.user, progress=False) as g:
        future = g.using(max_losses=0).submit(time.sleep, 600)
        eventually("it runs", future.running)
        own_world.kill_worker("desk-1")
        with pytest.raises(deskgrid.HostsLost):
            future.result(60)


class GoneEvents:
    """Events of which none is kept any more."""

    def __init__(self, api: Any, query: Any, on_event: Any, on_failure: Any, awaited: Any) -> None:
        on_event({"event": "lagged", "after": 0, "from": 1_000_000})

    def close(self) -> None:
        pass


def test_results_are_there_although_the_events_of_them_are_not_kept(own_world: World, monkeypatch: Any) -> None:
    own_world.worker("desk-1")
    with Grid(dir=own_world.user, progress=False) as g:
        job = g.bag(lambda x: 1 / x, [1, 0, 2], chunksize=2)
        assert job.wait(60)
        program = g.run(["sh", "-c", "echo oh dear >&2; exit 3"])
        assert program.wait(60)
    monkeypatch.setattr(_results, "Events", GoneEvents)
    with Grid(dir=own_world.user, progress=False) as g:
        again = g.job(job.id)
        assert again.wait(60)
        assert [f.exception() is None for f in again.futures] == [True, False, True]
        with pytest.raises(deskgrid.TaskFailed, match="oh dear"):
            g.job(program.id).result(60)


class ToldEvents:
    """Events of which a test tells, and a list of a job's tasks in which it finds them."""

    def __init__(self) -> None:
        self.readers: list[Any] = []
        self.done: list[str] = []
        self.away = False

    def __call__(self, api: Any, query: Any, on_event: Any, on_failure: Any, awaited: Any) -> Any:
        reader = SimpleNamespace(tell=on_event, fail=on_failure, wait_until_open=self.open, close=lambda: None)
        self.readers.append(reader)
        return reader

    def open(self) -> None:
        self.done.append("open")
        if self.away and len(self.readers) > 1:
            raise deskgrid.GridUnreachable("the master is away")

    def pages(self, path: str, name: str, query: Any) -> Iterator[Any]:
        self.done.append(path)
        yield {"task": "7.1", "state": "cancelled", "reason": "it was missed"}


def given_up_while_submitted(events: ToldEvents, monkeypatch: Any) -> list[TaskFuture[None]]:
    """Awaits job 7 with two tasks, whose events are given up while it is submitted."""
    monkeypatch.setattr(_results, "Events", events)
    api: Any = events
    results = Results(api, Store(), "label", threading.Condition(threading.RLock()))
    session: Any = None
    futures: list[TaskFuture[None]] = [TaskFuture(session) for _ in range(2)]
    tasks = {at + 1: Task(at + 1, [Call(future)]) for at, future in enumerate(futures)}
    with results.submission():
        events.readers[0].fail(deskgrid.GridUnreachable("the master has not answered for 600 s"))
        results.await_job(LiveJob(7, "run", tasks))
    return futures


def test_a_job_whose_events_are_given_up_while_it_is_submitted_is_heard_of_anew(monkeypatch: Any) -> None:
    events = ToldEvents()
    missed, later = given_up_while_submitted(events, monkeypatch)
    with pytest.raises(deskgrid.Cancelled, match="it was missed"):
        missed.result(60)
    # What was missed is asked for once nothing more can be.
    assert events.done == ["open", "open", "/jobs/7/tasks"] and not later.done()
    events.readers[1].tell({"event": "tasks-cancelled", "job": 7, "tasks": "2", "reason": "it was told"})
    with pytest.raises(deskgrid.Cancelled, match="it was told"):
        later.result(0)


def test_a_job_whose_events_cannot_be_had_anew_is_given_up_with_a_way_back(monkeypatch: Any) -> None:
    events = ToldEvents()
    events.away = True
    for future in given_up_while_submitted(events, monkeypatch):
        with pytest.raises(deskgrid.GridUnreachable, match="the master is away") as raised:
            future.result(60)
        assert "Grid().job(7) gets its results" in raised.value.hint


def test_what_is_called_when_a_call_has_ended_is_waited_for_but_by_itself(monkeypatch: Any) -> None:
    api = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(_session, "Api", lambda dir, patience: api)
    session = Session(None, "label", 60)
    work: Any = None
    seen: list[bool] = []

    def told(job: int) -> None:
        future: TaskFuture[None] = TaskFuture(session)
        future.add_done_callback(lambda _: seen.append(session.busy()))
        tasks = {1: Task(1, [Call(future)])}
        session.results.await_job(LiveJob(job, "calls", tasks, Stream(work, 1, 1.0)))
        session.results._on_event({"event": "tasks-cancelled", "job": job, "tasks": "1"})

    told(7)
    assert seen == [True] and not session.busy()
    teller = threading.Thread(target=told, args=[8], name=_results.THREADS[0])
    teller.start()
    teller.join()
    assert seen == [True, False]
    session.close()


def test_a_callback_that_exits_ends_no_thread_of_the_library(caplog: Any) -> None:
    session: Any = None
    future: TaskFuture[int] = TaskFuture(session)
    told: list[Any] = []
    future.add_done_callback(lambda _: sys.exit(3))
    future.add_done_callback(told.append)

    def tell() -> None:
        future.settle(1, None)
        told.append("it goes on")

    teller = threading.Thread(target=tell, name=_results.THREADS[1])
    teller.start()
    teller.join()
    assert told == [future, "it goes on"] and future.result() == 1
    assert "SystemExit" in caplog.text
    # In a thread of the program's it does what it says.
    with pytest.raises(SystemExit):
        future.add_done_callback(lambda _: sys.exit(3))


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    program = tmp_path / "deskgrid"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    gateway = object.__new__(Gateway)
    gateway._binary, gateway._dir = str(program), None
    with pytest.raises(deskgrid.GridUnreachable, match="content send has not ended within") as raised:
        gateway.command("content", "send", "some", limit=0.5)
    assert raised.value.passing


def test_the_more_is_sent_the_longer_it_may_take(tmp_path: Path, monkeypatch: Any) -> None:
    limits: list[float] = []

    def command(*args: str, limit: float) -> Any:
        limits.append(limit)
        return {"content": [{"blake3": "", "bytes": 0, "parts": []}]}

    gateway = SimpleNamespace(command=command)
    monkeypatch.setattr(_api, "Gateway", lambda dir: gateway)
    (tmp_path / "tree" / "below").mkdir(parents=True)
    for name in ("tree/a", "tree/below/b"):
        (tmp_path / name).write_bytes(bytes(1 << 20))
    api = Api(None, 60)
    api.send_files([str(tmp_path / "not there")])
    api.send_files([str(tmp_path / "tree/a")])
    api.send_tree(str(tmp_path / "tree"))
    assert [limit - limits[0] for limit in limits] == [0, 64, 128]


def test_a_forked_process_is_told_to_make_its_own(grid: Grid) -> None:
    assert grid.submit(abs, -1).result(60) == 1
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            grid.hosts()
            os.write(write, b"no error")
        except deskgrid.GridUnreachable as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"make a Grid there" in os.read(read, 1000)
    assert grid.submit(abs, -2).result(60) == 2


def test_a_forked_process_that_ends_does_not_wait_for_its_parents_calls(world: World) -> None:
    program = script(
        world,
        "import signal\n"
        "g = Grid(dir=DIR, progress=False)\n"
        "running = g.submit(time.sleep, 2)\n"
        "while not running.running(): time.sleep(0.01)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.alarm(20)\n"
        "    try: g.submit(abs, -1)\n"
        "    except ConnectionError as error: print(error.hint)\n"
        "    sys.exit()\n"
        "print('it ended with', os.waitpid(child, 0)[1], 'and here', running.result())\n",
    )
    out, _ = program.communicate(timeout=60)
    first, last = out.splitlines()
    assert (first, last) == ("make a Grid there", "it ended with 0 and here None")


def test_a_forked_process_that_ends_removes_nothing_of_its_parent(world: World) -> None:
    program = script(
        world,
        "with Grid(dir=DIR, progress=False) as g:\n"
        "    results = g.map(len, [bytes(1_500_000), bytes(1_600_000)])\n"
        "    print(next(results), flush=True)\n"
        "    child = os.fork()\n"
        "    if child == 0: sys.exit()\n"
        "    os.waitpid(child, 0)\n"
        "    print(next(results), g.submit(len, bytes(1_700_000)).result())\n",
    )
    out, _ = program.communicate(timeout=60)
    assert out == "1500000\n1600000 1700000\n"


def test_a_forked_process_that_goes_on_does_not_hold_up_the_end(world: World) -> None:
    program = script(
        world,
        "with Grid(dir=DIR, progress=False) as g:\n"
        "    g.submit(abs, -1).result()\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        time.sleep(30)\n"
        "        os._exit(0)\n"
        "    gateway = g._session.api.gateway._child\n"
        "print('killed' if gateway.returncode < 0 else 'ended by itself')\n"
        "os.kill(child, 9)\n",
    )
    out, _ = program.communicate(timeout=60)
    assert out == "ended by itself\n"
