"""Calls through `map` and `submit`, and what travels with them."""

from __future__ import annotations

import concurrent.futures
import functools
import gc
import os
import threading
import time
from typing import Any

import own_module
import pytest
from world import World

import deskgrid
from deskgrid import Grid, _sending


def test_map_yields_results_in_order(grid: Grid) -> None:
    offset = 7

    def shifted(x: int) -> int:
        return x + offset

    assert list(grid.map(shifted, range(50))) == [x + 7 for x in range(50)]


def test_map_takes_several_iterables_and_stops_at_the_shortest(grid: Grid) -> None:
    assert list(grid.map(pow, [2, 3, 4], [5, 2])) == [32, 9]


def test_map_of_nothing_yields_nothing(grid: Grid) -> None:
    assert list(grid.map(abs, [])) == []


def test_results_come_as_they_are_there_when_their_order_does_not_matter(grid: Grid) -> None:
    assert sorted(grid.map(abs, range(-5, 5), ordered=False)) == sorted(map(abs, range(-5, 5)))


def test_many_short_calls_become_few_tasks(grid: Grid) -> None:
    with grid.using(labels=["few"]) as g:
        assert sum(g.map(abs, range(3_000))) == sum(range(3_000))
    jobs = grid._session.api.call("GET", "/jobs", query={"label": "few"})["jobs"]
    assert sum(job["tasks"]["total"] for job in jobs) < 300


def test_a_chunksize_that_is_given_is_obeyed(grid: Grid) -> None:
    ids = list(grid.map(lambda _: os.environ["DESKGRID_TASK_ID"], range(10), chunksize=4))
    assert ids == ["1"] * 4 + ["2"] * 4 + ["3"] * 2
    with pytest.raises(ValueError):
        grid.map(abs, [1], chunksize=0)


def test_tasks_whose_calls_are_counted_by_the_user_need_no_list_of_hosts(
    grid: Grid, monkeypatch: Any
) -> None:
    monkeypatch.setattr(grid._session.api, "pages", lambda *_: pytest.fail("hosts were listed"))
    assert list(grid.map(abs, [-1, -2, -3], chunksize=2)) == [1, 2, 3]


def test_submit_passes_arguments_by_position_and_name(grid: Grid) -> None:
    def told(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    future = grid.submit(told, 1, fn=2, self=3)
    assert future.result(60) == ((1,), {"fn": 2, "self": 3})
    assert future.task is not None


def test_calls_that_are_submitted_together_become_one_job(grid: Grid) -> None:
    futures = [grid.submit(time.sleep, 0.01) for _ in range(50)]
    concurrent.futures.wait(futures, 60)
    assert len({str(future.task).split(".")[0] for future in futures}) <= 10


def test_arguments_are_packed_when_they_are_submitted(grid: Grid) -> None:
    numbers = [1, 2]
    future = grid.submit(sum, numbers)
    numbers.append(100)
    assert future.result(60) == 3


def test_functions_and_classes_of_own_modules_travel(grid: Grid) -> None:
    assert list(grid.map(own_module.times, [1, 2])) == [3, 6]
    point = grid.submit(own_module.mirrored, own_module.Point(1, 2)).result(60)
    assert type(point) is own_module.Point
    assert point == own_module.Point(2, 1)
    assert grid.submit(own_module.late, 4).result(60) == 8


def test_globals_of_a_module_are_those_of_the_moment(grid: Grid, monkeypatch: Any) -> None:
    monkeypatch.setattr(own_module, "FACTOR", 10)
    assert grid.submit(own_module.times, 2).result(60) == 20


def test_calls_can_be_submitted_from_many_threads(grid: Grid) -> None:
    got: list[int] = []

    def some(start: int) -> None:
        got.extend(f.result(60) for f in [grid.submit(abs, -i) for i in range(start, start + 5)])

    threads = [threading.Thread(target=some, args=(5 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(20))


def test_a_large_argument_of_many_calls_is_sent_once(grid: Grid) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(300_000, dtype="float64")
    # The hosts' Python has no numpy: the bytes of the array will do.
    data = array.tobytes()
    sent: list[str] = []
    send = grid._session.api.send_files
    grid._session.api.send_files = lambda paths: (sent.extend(paths), send(paths))[1]  # type: ignore[method-assign]
    sizes = list(grid.map(lambda data, i: len(data) + i, [data] * 6, range(6), chunksize=2))
    assert sizes == [2_400_000 + i for i in range(6)]
    assert len(sent) == 1


def test_large_arguments_of_single_calls_go_to_their_tasks_alone(grid: Grid) -> None:
    def ends(data: bytes) -> tuple[int, int, int]:
        big = [entry for entry in os.scandir(".deskgrid") if entry.stat().st_size > 1_000_000]
        return data[0], data[-1], len(big)

    blobs = [bytes([i]) * (1_500_000 + i) for i in range(4)]
    assert list(grid.map(ends, blobs, chunksize=1)) == [(i, i, 1) for i in range(4)]


@pytest.mark.parametrize(("calls", "values"), [(1, 3), (3, 1), (10, 1), (4, 2)])
def test_large_arguments_of_a_chunk_arrive_as_they_are(grid: Grid, calls: int, values: int) -> None:
    """Two tasks have values of their own, and one that both share."""
    shared = b"shared" * 200_000
    own = [[bytes([call, value]) * 600_000 for call in range(2 * calls)] for value in range(values)]

    def all_as_sent(call: int, shared: bytes, *own: bytes) -> list[bool]:
        sent = [bytes([call, value]) * 600_000 for value in range(len(own))]
        return [shared == b"shared" * 200_000, *(blob == other for blob, other in zip(own, sent))]

    arrived = grid.map(all_as_sent, range(2 * calls), [shared] * 2 * calls, *own, chunksize=calls)
    assert list(arrived) == [[True] * (1 + values)] * 2 * calls


def test_a_large_value_inside_a_function_travels(grid: Grid) -> None:
    table = bytes(range(256)) * 8_000
    at = functools.partial(lambda table, i: table[i], table)
    assert list(grid.map(at, [0, 5, 255])) == [0, 5, 255]


def test_a_value_that_was_put_arrives_as_itself(grid: Grid) -> None:
    shared = grid.put({"a": list(range(400_000))})
    assert list(grid.map(lambda s, i: s["a"][i], [shared] * 3, range(3))) == [0, 1, 2]


def test_a_task_may_change_its_large_argument(grid: Grid) -> None:
    def changed(data: bytearray) -> int:
        data[0] = 77
        return data[0] + data[1]

    data = bytearray(2_000_000)
    assert list(grid.map(changed, [data] * 4, chunksize=2)) == [77] * 4
    assert data[0] == 0


def test_long_results_come_back_whole(grid: Grid) -> None:
    def of_length(n: int) -> bytes:
        return b"x" * n

    sizes = [0, 10, 30_000, 70_000, 3_000_000]
    assert [len(r) for r in grid.map(of_length, sizes, chunksize=5)] == sizes


def test_a_function_may_go_to_another_directory(grid: Grid) -> None:
    def elsewhere(n: int) -> bytes:
        os.makedirs("below", exist_ok=True)
        os.chdir("below")
        import own_late_module

        return b"x" * own_late_module.twice(n)

    results = grid.map(elsewhere, [1, 50_000], chunksize=2)
    assert [len(result) for result in results] == [2, 100_000]


def test_printed_text_can_be_read(grid: Grid) -> None:
    future = grid.submit(print, "hello from far away")
    future.result(60)
    assert future.stdout() == "hello from far away\n"
    attempts = future.attempts()
    assert attempts[0]["state"] == "finished"
    assert "finished" in future.explain()


def test_a_function_may_call_its_files_what_it_likes(grid: Grid, tmp_path: Any) -> None:
    names = ["job", "part", "sources", "python", "packages", "run.pyc"]
    for name in names:
        (tmp_path / name).write_text(name)

    def work(x: int) -> list[str]:
        found = sorted(name for name in os.listdir() if name[0] != ".")
        with open("out.txt", "w") as out:
            out.write("results\n" * x)
        return found

    g = grid.using(files=[tmp_path / name for name in names])
    assert list(g.map(work, [1, 10_000], chunksize=2)) == [sorted(names), sorted([*names, "out.txt"])]


def test_files_are_beside_the_function(grid: Grid, tmp_path: Any) -> None:
    (tmp_path / "data.txt").write_text("42")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "deep.txt").write_text("7")

    def read() -> int:
        return int(open("data.txt").read()) + int(open("more/deep.txt").read())

    g = grid.using(files=[tmp_path / "data.txt", tmp_path / "more"])
    assert g.submit(read).result(60) == 49


def test_variables_reach_the_function_as_they_are(grid: Grid) -> None:
    g = grid.using(variables={"GREETING": "a %{ITEM} = 100%"})
    assert g.submit(lambda: os.environ["GREETING"]).result(60) == "a %{ITEM} = 100%"


def test_a_call_that_fails_is_tried_again(grid: Grid) -> None:
    def second_time() -> str:
        attempt = os.environ["DESKGRID_ATTEMPT_ID"]
        if attempt.endswith("1"):
            raise OSError(f"not yet: {attempt}")
        return attempt

    assert grid.using(retries=2, policy="FCFS").submit(second_time).result(60).endswith("2")


def test_one_text_is_one_and_not_its_letters(grid: Grid, tmp_path: Any) -> None:
    (tmp_path / "data.txt").write_text("42")
    future = grid.using(labels="sweep", files=str(tmp_path / "data.txt")).submit(lambda: open("data.txt").read())
    assert future.result(60) == "42"
    (newest,) = [j for j in grid._session.api.pages("/jobs", "jobs", {"label": "sweep"})]
    assert "sweep" in newest["labels"] and "s" not in newest["labels"]
    run = grid.run(["sh", "-c", "cat data.txt > out.txt"], inputs=tmp_path / "data.txt", outputs="out.txt")
    assert run.result(60)[0].read("out.txt") == b"42"
    with pytest.raises(TypeError, match=r"\['echo', 'hello'\]"):
        grid.run("echo hello")
    with pytest.raises(ValueError, match="'A=B' is no name of a variable"):
        grid.bag(abs, [1], variables={"A=B": "c"})


def test_results_of_several_hosts_agree(grid: Grid) -> None:
    def letters() -> set[str]:
        time.sleep(0.01)
        return set("abcdefghijklmnopqrstuvwxyz")

    future = grid.using(quorum=2).submit(letters)
    assert len(future.result(60)) == 26
    assert {attempt["host"] for attempt in future.attempts()} == {"desk-1", "desk-2"}


def test_calls_of_very_many_tasks_travel_in_one_file(grid: Grid, monkeypatch: Any) -> None:
    monkeypatch.setattr(_sending, "TOGETHER", 100)
    monkeypatch.setattr(_sending, "MOST_APART", 3)
    shared = bytes(range(200)) * 10_000

    def found(number: int, shared: bytes) -> tuple[int, int, list[str]]:
        names = [entry.name for entry in os.scandir(".deskgrid")]
        return number, shared[number], sorted({"calls", "part"} & set(names))

    job = grid.bag(found, range(9), [shared] * 9, chunksize=2)
    assert job.result(60) == [(number, number, ["calls"]) for number in range(9)]
    assert grid.bag(abs, range(5), chunksize=2).result(60) == list(range(5))


def test_an_option_that_does_not_exist_is_refused(grid: Grid) -> None:
    with pytest.raises(TypeError, match="no option 'retrys'"):
        grid.map(abs, [1], retrys=3)  # type: ignore[call-arg]


def test_state_and_progress_are_there_inside_a_task_and_harmless_outside(grid: Grid) -> None:
    def work() -> Any:
        before = deskgrid.checkpoint.load(default="nothing")
        deskgrid.checkpoint.save({"step": 3})
        deskgrid.progress(0.5, "half\nway")
        return before, deskgrid.checkpoint.load(default="nothing")

    assert work() == ("nothing", "nothing")
    kept = grid.using(checkpoint="30s").submit(work).result(60)
    assert kept == ("nothing", {"step": 3})
    with pytest.raises(ValueError):
        deskgrid.progress(1.5)


def test_a_grid_cannot_be_sent_to_a_task(grid: Grid) -> None:
    with pytest.raises(deskgrid.NotPicklable, match="Grid cannot be sent"):
        grid.submit(lambda: grid).result(60)


def test_another_process_of_the_same_user_sees_nothing_of_ours(world: World) -> None:
    with Grid(dir=world.user, progress=False) as one, Grid(dir=world.user, progress=False) as two:
        futures = [g.submit(abs, -i) for i, g in enumerate([one, two, one, two])]
        assert [f.result(60) for f in futures] == [0, 1, 2, 3]


def test_functions_that_differ_are_submitted_together(grid: Grid) -> None:
    futures = [grid.submit(lambda y, x=x: (x, y), 7) for x in range(5)]
    futures += [grid.submit(functools.partial(pow, x), 2) for x in range(5)]
    assert [future.result(60) for future in futures[:5]] == [(x, 7) for x in range(5)]
    assert [future.result(60) for future in futures[5:]] == [x**2 for x in range(5)]
    assert len({str(future.task).split(".")[0] for future in futures}) <= 6


def test_a_value_that_went_to_one_task_can_go_to_many_later(grid: Grid) -> None:
    data = os.urandom(1_200_000)
    for count in (1, 1, 4):
        assert list(grid.map(len, [data] * count, chunksize=1)) == [1_200_000] * count


def test_calls_that_cannot_be_packed_hold_up_no_others(grid: Grid) -> None:
    items = [1] * 4 + [threading.Lock()] * 300 + [2] * 300
    futures = grid._futures(abs, [items], "auto", {})
    done, _ = concurrent.futures.wait(futures, 60)
    assert len(done) == len(items)
    assert [f.exception() is None for f in futures] == [item in (1, 2) for item in items]


def test_options_of_one_grid_do_not_reach_calls_of_another(grid: Grid) -> None:
    def variable() -> str | None:
        return os.environ.get("WHICH")

    def of(which: str) -> Any:
        return grid.using(variables={"WHICH": which}).submit(variable)

    futures = [of(which) for which in "abc"]
    assert [future.result(60) for future in futures] == ["a", "b", "c"]


def test_the_grid_behind_other_options_lives_as_long_as_they_do(world: World) -> None:
    g = Grid(dir=world.user, progress=False).using(retries=1)
    gc.collect()
    assert g.submit(abs, -1).result(60) == 1
    g.shutdown()
    assert g.submit(abs, -2).result(60) == 2
