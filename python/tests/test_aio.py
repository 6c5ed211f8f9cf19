"""The grid in asyncio."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest
from world import World

from deskgrid import AsyncGrid


def test_calls_are_awaited(world: World) -> None:
    async def work() -> tuple[list[int], list[int], int, list[int]]:
        async with AsyncGrid(dir=world.user, progress=False) as g:
            ordered = [y async for y in g.map(abs, range(-4, 0))]
            others = sorted([y async for y in g.map(abs, range(-4, 0), ordered=False)])
            one = await g.submit(abs, -7)
            job = await g.bag(abs, [-1, -2])
            return ordered, others, one, [await future for future in job.futures]

    assert asyncio.run(work()) == ([4, 3, 2, 1], [1, 2, 3, 4], 7, [1, 2])


def test_a_failure_ends_an_asynchronous_map(world: World) -> None:
    async def work() -> None:
        async with AsyncGrid(dir=world.user, progress=False) as g:
            async for _ in g.map(lambda x: 1 / x, [1, 0, 1]):
                pass

    with pytest.raises(ZeroDivisionError):
        asyncio.run(work())


@pytest.mark.parametrize("ordered", [True, False])
def test_a_loop_that_is_left_cancels_the_rest(world: World, ordered: bool) -> None:
    async def work() -> int:
        async with AsyncGrid(dir=world.user, progress=False) as g:
            async for _ in g.map(time.sleep, [0] + [600] * 20, chunksize=1, ordered=ordered):
                break
            (number,) = g.grid._session.open_jobs()
            job = g.grid.job(number)
            until = time.monotonic() + 20
            while (cancelled := job.progress().cancelled) < 18 and time.monotonic() < until:
                await asyncio.sleep(0.1)
            # What runs is nobody's here.
            g.grid._session.cancel_all()
            return cancelled

    assert asyncio.run(work()) >= 18


def test_an_asynchronous_map_can_be_closed(world: World) -> None:
    async def work() -> list[bool]:
        async with AsyncGrid(dir=world.user, progress=False) as g:
            results = g.map(time.sleep, [0] + [600] * 20, chunksize=1)
            await results.__anext__()
            (job,) = g.grid._session.results.jobs.values()
            futures = [call.future for task in job.tasks.values() for call in task.calls]
            await results.aclose()
            cancelled = [future.cancelled() for future in futures]
            g.grid._session.cancel_all()
            return cancelled

    assert sum(asyncio.run(work())) >= 18


def test_calls_that_fail_after_their_loop_was_left_are_not_logged(world: World) -> None:
    told: list[str] = []

    def fail_late(x: int) -> None:
        time.sleep(0.5)
        if x:
            time.sleep(2)
            raise OSError("late")

    async def work() -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(str(context["message"])))
        async with AsyncGrid(dir=world.user, progress=False) as g:
            results = g.map(fail_late, [0, 1], chunksize=1, ordered=False)
            await results.__anext__()
            (job,) = g.grid._session.results.jobs.values()
            late = [call.future for task in job.tasks.values() for call in task.calls]
            while not all(future.running() for future in late):
                await asyncio.sleep(0.01)
            await results.aclose()
            del results
            while not all(future.done() for future in late):
                await asyncio.sleep(0.01)
            # Whoever is told is told by the loop.
            await asyncio.sleep(0.1)
            gc.collect()
            return len(late)

    assert asyncio.run(work()) == 1
    assert told == []


def test_it_has_to_be_entered() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        AsyncGrid().submit(abs, 1)
