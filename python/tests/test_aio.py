"""The grid in asyncio."""

from __future__ import annotations

import asyncio

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


def test_it_has_to_be_entered() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        AsyncGrid().submit(abs, 1)
