"""Jobs as handles: bags, programs, disclosed work, and coming back."""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
import gc
import io
import os
import signal
import tarfile
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import own_module
import pytest
from world import World, eventually, script

import deskgrid
from deskgrid import Grid, _results
from deskgrid._unpack import unpack


def test_a_bag_is_one_job_with_a_task_for_each_call(grid: Grid) -> None:
    job = grid.bag(own_module.times, range(5), labels=["five"])
    assert list(job.results()) == [0, 3, 6, 9, 12]
    assert job.wait(60) and job.state == "finished"
    progress = job.progress()
    assert (progress.total, progress.done, progress.failed) == (5, 5, 0)
    assert job.failures() == []


def test_a_bag_of_nothing_is_refused(grid: Grid) -> None:
    with pytest.raises(ValueError):
        grid.bag(abs, [])


def test_results_that_come_before_the_number_of_their_job_are_not_missed(
    grid: Grid, world: World
) -> None:
    call = grid._session.api.call

    def late(method: str, path: str, *args: Any, **more: Any) -> Any:
        answer = call(method, path, *args, **more)
        if (method, path) == ("POST", "/jobs"):
            world.command("user", "job", "wait", str(answer["job"]), "--timeout", "60s")
        return answer

    grid._session.api.call = late  # type: ignore[method-assign]
    assert grid.bag(abs, [-1, -2]).result(10) == [1, 2]
    assert grid.submit(abs, -3).result(60) == 3
    (output,) = grid.run(["echo", "hello"]).result(10)
    assert output.stdout == "hello\n"


def test_another_grid_gets_the_results_of_a_bag(grid: Grid, world: World) -> None:
    def maybe(x: int) -> int:
        if x == 7:
            raise own_module.Odd(x, because="seven")
        return x * x

    job = grid.bag(maybe, range(10), chunksize=3)
    with Grid(dir=world.user, progress=False) as other:
        again = other.job(job.id)
        assert len(again) == 10
        assert again.wait(60)
        assert [f.result() for f in again.futures if not f.exception()] == [
            x * x for x in range(10) if x != 7
        ]
        (failure,) = again.failures()
        assert failure.number == 7
        assert isinstance(failure.error, own_module.Odd)
        assert len(list(other.job("last").as_completed(60))) == 10


def test_calls_that_were_submitted_come_back_by_their_jobs(grid: Grid, world: World) -> None:
    # Once it is known how short they are, a task has several.
    assert [grid.submit(own_module.times, x).result(60) for x in range(2)] == [0, 3]
    futures = [grid.submit(own_module.times, x) for x in range(200)]
    tasks = [(future.result(60), str(future.task)) for future in futures]
    assert len({task for _, task in tasks}) < 200
    made: dict[int, list[int]] = {}
    for value, task in tasks:
        made.setdefault(int(task.split(".")[0]), []).append(value)
    with Grid(dir=world.user, progress=False) as other:
        for number, values in made.items():
            assert other.job(number).result(60) == values


def test_calls_that_were_handed_back_say_so_to_whoever_comes_back(grid: Grid, world: World) -> None:
    g = grid.using(own_process=True)
    assert list(g.map(time.sleep, [3, 0, 0], chunksize=3)) == [None] * 3
    jobs = grid._session.api.call("GET", "/jobs", query={"label": grid._session.label})["jobs"]
    first, second = sorted(job["job"] for job in jobs)
    with Grid(dir=world.user, progress=False) as other:
        long, *behind = other.job(first).futures
        assert long.result(60) is None and len(behind) == 2
        for future in behind:
            with pytest.raises(deskgrid.TaskFailed, match="handed back, not made") as raised:
                future.result(60)
            assert "in another job" in raised.value.hint
        assert other.job(second).result(60) == [None, None]


def test_failed_calls_can_be_tried_again(grid: Grid) -> None:
    def first_attempt_fails(x: int) -> int:
        attempt = int(os.environ["DESKGRID_ATTEMPT_ID"].rpartition("#")[2])
        if x == 1 and attempt == 1:
            raise OSError("not the first time")
        return x

    # A policy that makes no second attempt by itself.
    job = grid.bag(first_attempt_fails, range(3), policy="FCFS")
    assert job.wait(60)
    assert [failure.number for failure in job.failures()] == [1]
    assert job.retry() == 1
    assert list(job.results(timeout=60)) == [0, 1, 2]
    assert job.retry() == 0


def test_whoever_comes_back_to_a_job_that_was_tried_again_gets_what_came_of_that(grid: Grid, world: World) -> None:
    def not_at_first(x: int) -> int:
        if os.environ["DESKGRID_ATTEMPT_ID"].rpartition("#")[2] == "1":
            if x == 0:
                raise OSError("not the first time")
            time.sleep(600)
        time.sleep(2)
        return x

    job = grid.bag(not_at_first, range(2), policy="FCFS")
    with pytest.raises(OSError, match="not the first time"):
        job.futures[0].result(60)
    eventually("the other one runs", job.futures[1].running)
    job.cancel()
    assert job.wait(60) and isinstance(job.futures[1].exception(), deskgrid.Cancelled)
    assert job.retry(failed=False) == 2
    # While it waits again, and when it has ended.
    for _ in range(2):
        with Grid(dir=world.user, progress=False) as other:
            assert other.job(job.id).result(60) == [0, 1]
    assert job.result(60) == [0, 1]


def test_a_job_that_was_come_back_to_is_let_go_once_all_of_it_is_told(grid: Grid, world: World) -> None:
    def fails_at_first(x: int) -> int:
        attempt = int(os.environ["DESKGRID_ATTEMPT_ID"].rpartition("#")[2])
        if x == 1 and attempt == 1:
            raise OSError("not the first time")
        return x

    def read() -> bool:
        new = set(threading.enumerate()) - before
        return any(thread.name == "deskgrid-events" for thread in new)

    job = grid.bag(fails_at_first, range(3), policy="FCFS")
    assert job.wait(60)
    with Grid(dir=world.user, progress=False) as other:
        before = set(threading.enumerate())
        again = other.job(job.id)
        assert again.wait(60) and [failure.number for failure in again.failures()] == [1]
        eventually("nobody reads its events", lambda: not read())
        # What waits again is heard of again.
        assert again.retry() == 1
        assert again.result(60) == [0, 1, 2]
        eventually("nobody reads its events", lambda: not read())
        assert again.retry() == 0

        kept = weakref.ref(again.futures[0])
        del again
        eventually("its results are nobody's", lambda: gc.collect() >= 0 and kept() is None)


def test_whoever_was_interrupted_on_the_way_back_to_a_job_can_come_back(
    grid: Grid, world: World, monkeypatch: Any
) -> None:
    def fails_at_first(x: int) -> int:
        if os.environ["DESKGRID_ATTEMPT_ID"].rpartition("#")[2] == "1":
            raise OSError("not the first time")
        return x

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    job = grid.bag(fails_at_first, range(2), policy="FCFS")
    assert job.wait(60)
    with Grid(dir=world.user, progress=False) as other:
        again = other.job(job.id)
        with monkeypatch.context() as patched:
            patched.setattr(_results, "Events", interrupted)
            with pytest.raises(KeyboardInterrupt):
                again.wait(60)
        assert again.wait(60) and len(again.failures()) == 2
        with monkeypatch.context() as patched:
            patched.setattr(_results, "Events", interrupted)
            with pytest.raises(KeyboardInterrupt):
                again.retry()
        assert again.retry() == 2
        assert again.result(60) == [0, 1]


def test_a_job_can_be_cancelled_and_forgotten(grid: Grid) -> None:
    job = grid.bag(time.sleep, [600] * 3)
    job.cancel()
    assert job.wait(60)
    assert job.state == "cancelled"
    job.forget()
    with pytest.raises(deskgrid.Refused) as raised:
        job.info()
    assert raised.value.status == 404


def test_a_job_says_how_it_stands(grid: Grid) -> None:
    job = grid.bag(time.sleep, [600] * 4, estimate="10m")
    assert "tasks" in eventually("it is explained", job.explain)
    forecast = eventually("it is predicted", job.eta)
    assert forecast.low <= forecast.best <= forecast.high
    assert f"job {job.id}" in job._repr_html_()
    job.cancel()
    assert job.wait(60)
    assert job.eta() is None


def test_attempts_are_a_frame(grid: Grid) -> None:
    pandas = pytest.importorskip("pandas")
    job = grid.bag(abs, [1, 2])
    job.wait(60)
    frame = job.to_pandas()
    # A host with nothing to do may have made a call a second time.
    assert sorted(set(frame["task"])) == [f"{job.id}.1", f"{job.id}.2"]
    assert isinstance(frame["started"].dtype, pandas.DatetimeTZDtype)
    assert (frame["run_s"] >= 0).all() and "finished" in set(frame["state"])


def test_a_program_runs_for_each_item(grid: Grid, tmp_path: Path) -> None:
    (tmp_path / "head.txt").write_text("head of ")
    job = grid.run(
        ["sh", "-c", "cat head.txt > out-%{ITEM}.txt; echo %{ITEM} | tee -a out-%{ITEM}.txt; echo e >&2"],
        items=["ada", "ben"],
        inputs=[tmp_path / "head.txt"],
        outputs=["out-*.txt"],
    )
    ada, ben = job.results()
    assert (ada.stdout, ben.stderr) == ("ada\n", "e\n")
    assert ada.read("out-ada.txt") == b"head of ada\n"
    assert ben.files == {"out-ben.txt": 12}
    with pytest.raises(KeyError):
        ada.read("none")
    paths = job.fetch(tmp_path / "into")
    assert [path.relative_to(tmp_path) for path in paths] == [
        Path("into/1/out-ada.txt"),
        Path("into/2/out-ben.txt"),
    ]
    assert paths[1].read_text() == "head of ben\n"


def test_a_program_that_fails_tells_its_exit_code_and_last_words(grid: Grid) -> None:
    job = grid.run(["sh", "-c", "echo oh dear >&2; echo x > left.txt; exit 3"], outputs=["left.txt"])
    with pytest.raises(deskgrid.TaskFailed) as raised:
        job.result(60)
    assert raised.value.exit_code == 3
    assert "oh dear" in str(raised.value)
    assert raised.value.output.read("left.txt") == b"x\n"


def test_long_output_of_a_program_is_fetched(grid: Grid, tmp_path: Path) -> None:
    words = "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done | tee long.txt"
    (output,) = grid.run(["sh", "-c", words], outputs=["*.txt"]).results()
    lines = "".join(f"{i}\n" for i in range(20_000))
    assert output.stdout == lines
    output.save(tmp_path)
    assert (tmp_path / "long.txt").read_text() == lines


def test_outputs_that_are_too_many_for_an_event_come_all_the_same(grid: Grid, world: World) -> None:
    words = (
        "mkdir out; i=0; while [ $i -lt 2000 ]; do echo the content of the file $i > out/$i; i=$((i+1)); done; "
        "echo oh dear >&2; exit %{ITEM}"
    )
    job = grid.run(["sh", "-c", words], items=["0", "3"], outputs=["out/"])
    with Grid(dir=world.user, progress=False) as other:
        for well, failed in (job.futures, other.job(job.id).futures):
            output = well.result(60)
            assert output.host.startswith("desk-") and output.stderr == "oh dear\n"
            assert output.files == {f"out/{i}": len(f"the content of the file {i}\n") for i in range(2_000)}
            assert output.read("out/1999") == b"the content of the file 1999\n"
            with pytest.raises(deskgrid.TaskFailed, match="oh dear") as raised:
                failed.result(60)
            assert raised.value.exit_code == 3 and len(raised.value.output.files) == 2_000


def test_outputs_that_cannot_be_files_everywhere_come_back(grid: Grid, tmp_path: Path) -> None:
    words = "mkdir -p out/empty; echo odd > out/a:b.log; ln -s a:b.log out/latest; echo good > out/good; mkfifo out/pipe"
    job = grid.run(["sh", "-c", words], outputs=["out/"])
    (output,) = job.result(60)
    paths = output.save(tmp_path / "all")
    assert sorted(str(path.relative_to(tmp_path / "all")) for path in paths) == [
        "out/a:b.log", "out/empty", "out/good", "out/latest",
    ]  # fmt: skip
    assert (tmp_path / "all/out/latest").read_text() == "odd\n" and (tmp_path / "all/out/empty").is_dir()
    assert os.readlink(tmp_path / "all/out/latest") == "a:b.log"
    assert sorted(os.listdir(tmp_path / "all")) == ["out"]
    assert any("`out/pipe`" in warning for warning in output.warnings)
    # Once more, and what somebody has asked for alone.
    assert sorted(output.save(tmp_path / "all")) == sorted(paths)
    assert output.save(tmp_path / "some", only=["out/a:b.log"]) == [tmp_path / "some/out/a:b.log"]


def test_outputs_that_have_no_place_here_are_an_error_and_stay_in_their_archive(
    grid: Grid, tmp_path: Path
) -> None:
    words = "mkdir -p out; ln -s good out/a; ln -s /etc out/b; echo good > out/good"
    (output,) = grid.run(["sh", "-c", words], outputs=["out/"]).result(60)
    (tmp_path / "out/a").mkdir(parents=True)
    with pytest.raises(deskgrid.TaskError, match="`out/a`: there is something else already") as raised:
        output.save(tmp_path)
    assert "tar -xf" in raised.value.hint and "`out/b`: it is a link that leads out" in str(raised.value)
    assert (tmp_path / "out/good").read_text() == "good\n"
    assert (tmp_path / "deskgrid-apart.tar").exists() and not os.path.lexists(tmp_path / "out/b")


def test_entries_that_cannot_be_made_keep_no_others_in_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "deskgrid-apart.tar"
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        long = tarfile.TarInfo("a" * 300)
        long.type, long.linkname = tarfile.SYMTYPE, "x"
        tar.addfile(long)
        good = tarfile.TarInfo("good")
        good.size = 3
        tar.addfile(good, io.BytesIO(b"yes"))
        sparse = tarfile.TarInfo("holes")
        sparse.type = tarfile.GNUTYPE_SPARSE
        tar.addfile(sparse)
    made, left = unpack(archive, None)
    assert made == [tmp_path / "good"] and made[0].read_bytes() == b"yes"
    assert len(left) == 2 and not (tmp_path / "holes").exists()


def test_a_program_is_one_whatever_its_labels_are(grid: Grid, world: World) -> None:
    job = grid.run(["echo", "hello"], labels=["python"])
    with Grid(dir=world.user, progress=False) as other:
        (output,) = other.job(job.id).result(60)
        assert output.stdout == "hello\n"
    with pytest.raises(ValueError, match="give another one"):
        grid.using(labels=["sweep", "deskgrid-calls"])
    with pytest.raises(ValueError, match="give another one"):
        Grid(dir=world.user, label="deskgrid-calls")


def test_disclosed_calls_are_made_when_their_results_are_asked_for(grid: Grid, world: World) -> None:
    job = grid.speculate(own_module.times, range(4))
    assert job.futures[2].result(60) == 6
    asked = {task["task"]: task["requested"] for task in grid._session.api.pages(f"/jobs/{job.id}/tasks", "tasks")}
    assert asked == {f"{job.id}.{i}": i == 3 for i in (1, 2, 3, 4)}
    with Grid(dir=world.user, progress=False) as other:
        assert other.job(job.id).result(60) == [0, 3, 6, 9]
    assert job.result(60) == [0, 3, 6, 9]


def test_a_result_that_was_removed_unrequested_is_made_again_for_whoever_comes_back() -> None:
    def long(x: int) -> bytes:
        time.sleep(1)
        return bytes([x]) * 60_000

    own = World(master="[limits]\nunrequested_bytes_per_user = 100000\n")
    try:
        own.worker("desk-1", slots=2)
        with Grid(dir=own.user, progress=False) as g:
            job = g.speculate(long, range(2))
            tasks = f"/jobs/{job.id}/tasks"

            def removed() -> bool:
                return any(task["speculation"]["removed"] for task in g._session.api.pages(tasks, "tasks"))

            eventually("there is room for one of them", removed)
        with Grid(dir=own.user, progress=False) as g:
            assert g.job(job.id).result(60) == [bytes([x]) * 60_000 for x in range(2)]
    finally:
        own.close()


def requested(job: deskgrid.Job[Any]) -> list[int]:
    """The numbers of the calls that somebody has asked for."""
    views = job._session.api.pages(f"/jobs/{job.id}/tasks", "tasks")
    return [number for number, view in enumerate(views) if view["requested"]]


@pytest.fixture
def disclosed(grid: Grid) -> Iterator[deskgrid.Job[int]]:
    """Four disclosed calls on a grid that has other things to do."""
    busy = [grid.submit(time.sleep, 600) for _ in range(2)]
    eventually("it is busy", lambda: all(future.running() for future in busy))
    job = grid.speculate(own_module.times, range(4))
    assert requested(job) == []
    yield job
    job.cancel()


def test_disclosed_calls_are_requested_however_they_are_awaited(disclosed: deskgrid.Job[int]) -> None:
    async def wait_for(number: int) -> None:
        waiting = asyncio.ensure_future(disclosed.futures[number])
        until = time.monotonic() + 20
        while number not in requested(disclosed) and time.monotonic() < until:
            await asyncio.sleep(0.05)
        assert requested(disclosed) == [2, number]
        waiting.cancel()

    with pytest.raises(concurrent.futures.TimeoutError):
        disclosed.futures[2].exception(0.1)
    assert requested(disclosed) == [2]
    asyncio.run(wait_for(3))


@pytest.mark.parametrize("way", ["wait", "as_completed"])
def test_waiting_for_a_disclosed_job_requests_all_of_it(disclosed: deskgrid.Job[int], way: str) -> None:
    if way == "wait":
        assert not disclosed.wait(0.1)
    else:
        with pytest.raises(concurrent.futures.TimeoutError):
            list(disclosed.as_completed(0.1))
    assert requested(disclosed) == [0, 1, 2, 3]


def test_a_request_that_fails_is_made_again(disclosed: deskgrid.Job[int], monkeypatch: Any) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise deskgrid.Refused("not now")

    with monkeypatch.context() as patched:
        patched.setattr(disclosed._session.api, "call", refused)
        with pytest.raises(deskgrid.Refused, match="not now"):
            disclosed.futures[1].result(0.1)
    with pytest.raises(concurrent.futures.TimeoutError):
        disclosed.futures[1].result(0.1)
    assert requested(disclosed) == [1]


def test_a_disclosed_job_that_was_cancelled_is_waited_for_like_any_other(
    disclosed: deskgrid.Job[int], world: World
) -> None:
    with Grid(dir=world.user, progress=False) as other:
        before = other.job(disclosed.id)
        assert len(before) == 4
        disclosed.cancel()
        for job in (disclosed, before, other.job(disclosed.id)):
            assert job.wait(60)
            assert len(list(job.as_completed(60))) == 4
            assert all(isinstance(future.exception(60), deskgrid.Cancelled) for future in job.futures)


def test_a_disclosed_job_whose_results_are_here_is_waited_for_though_it_is_forgotten(grid: Grid) -> None:
    job = grid.speculate(own_module.times, range(2))
    assert not concurrent.futures.wait(job.futures, 60).not_done
    job.forget()
    assert job.wait(10) and job.result(10) == [0, 3]


def test_waiting_for_a_disclosed_job_takes_as_long_as_it_may_though_the_master_is_away(own_world: World) -> None:
    own_world.worker("desk-1")
    with Grid(dir=own_world.user, progress=False, patience=30) as g:
        running = g.bag(time.sleep, [600])
        eventually("it runs", running.futures[0].running)
        job = g.speculate(own_module.times, range(2))
        own_world.kill_master()
        began = time.monotonic()
        assert not job.wait(0.1)
        for wait in (job.futures[0].result, job.futures[0].exception, lambda most: list(job.as_completed(most))):
            with pytest.raises(concurrent.futures.TimeoutError):
                wait(0.1)
        assert time.monotonic() - began < 20
        # What could not be requested is requested later.
        own_world.start_master()
        assert not job.wait(0.1) and requested(job) == [0, 1]


def test_a_bag_outlives_its_process_and_leaves_no_gateway(world: World, grid: Grid) -> None:
    program = script(
        world,
        "g = Grid(dir=DIR, progress=False)\n"
        "job = g.bag(lambda x: (time.sleep(0.1), x + 100)[1], range(6))\n"
        "print(job.id, g._session.api.gateway.pid, flush=True)\n"
        "time.sleep(600)\n",
    )
    number, gateway = map(int, program.stdout.readline().split())
    program.send_signal(signal.SIGKILL)
    program.wait()
    eventually("the gateway is gone", lambda: not alive(gateway))
    assert list(grid.job(number).results(timeout=60)) == [100 + x for x in range(6)]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_ctrl_c_cancels_calls_and_keeps_bags(world: World, grid: Grid) -> None:
    program = script(
        world,
        "with Grid(dir=DIR, progress=False) as g:\n"
        "    bag = g.bag(time.sleep, [600])\n"
        "    future = g.submit(time.sleep, 600)\n"
        "    while not (future.running() or bag.futures[0].running()): time.sleep(0.01)\n"
        "    while future.task is None: time.sleep(0.01)\n"
        "    print(bag.id, future.task.split('.')[0], flush=True)\n"
        "    list(g.map(time.sleep, [600] * 3))\n",
    )
    bag, call = map(int, program.stdout.readline().split())
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=60)
    assert program.returncode == -signal.SIGINT or program.returncode == 1
    assert "KeyboardInterrupt" in said
    assert f"Grid().job({bag})" in said
    assert grid.job(call).state == "cancelled"
    assert grid.job(bag).state in ("running", "waiting")
    grid.job(bag).cancel()


def test_leaving_the_context_does_not_wait_for_a_bag(world: World, grid: Grid) -> None:
    with Grid(dir=world.user, progress=False) as g:
        bag = g.bag(time.sleep, [600])
    assert grid.job(bag.id).state in ("running", "waiting")
    with pytest.raises(ZeroDivisionError), Grid(dir=world.user, progress=False) as g:
        other = g.bag(time.sleep, [600])
        raise ZeroDivisionError
    assert grid.job(other.id).state in ("running", "waiting")
    for job in (bag, other):
        grid.job(job.id).cancel()


def test_an_executor_that_was_not_shut_down_finishes_its_calls(world: World) -> None:
    program = script(
        world,
        "g = Grid(dir=DIR, progress=False)\n"
        "g.submit(abs, -3).add_done_callback(lambda f: print('got', f.result(), flush=True))\n",
    )
    out, said = program.communicate(timeout=60)
    assert (program.returncode, out, said) == (0, "got 3\n", "")


def test_calls_are_made_at_the_end_of_a_program_that_can_start_no_thread_any_more(world: World) -> None:
    """Python 3.12 refuses that there; later ones say that they may."""
    program = script(
        world,
        "import atexit, threading\n"
        "g = Grid(dir=DIR, progress=False)\n"
        "def refuse(self): raise RuntimeError(\"can't create new thread at interpreter shutdown\")\n"
        # What is registered last comes first.
        "atexit.register(setattr, threading.Thread, 'start', refuse)\n"
        "future = g.submit(abs, -3)\n"
        "future.add_done_callback(lambda f: print('got', f.exception() or f.result(), flush=True))\n",
    )
    out, said = program.communicate(timeout=60)
    assert (program.returncode, out, said) == (0, "got 3\n", "")


def test_a_function_of_main_travels(world: World) -> None:
    program = script(
        world,
        "class Pair:\n"
        "    def __init__(self, a, b): self.a, self.b = a, b\n"
        "def swapped(pair): return Pair(pair.b, pair.a)\n"
        "with Grid(dir=DIR, progress=False) as g:\n"
        "    (back,) = g.map(swapped, [Pair(1, 2)])\n"
        "    print(type(back) is Pair, back.a, back.b)\n",
    )
    out, said = program.communicate(timeout=60)
    assert (out, said) == ("True 2 1\n", "")


def test_estimates_of_single_calls_reach_the_grid(grid: Grid) -> None:
    g = grid.using(estimate=lambda x: 60.0 * x)
    assert g.submit(abs, 2).result(60) == 2
    assert list(g.map(abs, [1, 2])) == [1, 2]
    soon, late = grid.forecast(10, estimate="10m"), grid.forecast(20, estimate="10m")
    assert datetime.datetime.now(datetime.timezone.utc) < soon < late
    with pytest.raises(deskgrid.NotPromised):
        grid.forecast(100, estimate="10m", deadline="10s")
