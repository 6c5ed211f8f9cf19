"""The grid for ``asyncio``: the same calls, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ._options import Options
from .future import TaskFuture
from .grid import Grid
from .job import Job

if TYPE_CHECKING:
    from ._options import Unpack

T = TypeVar("T")


class AsyncGrid:
    """A :class:`Grid` whose calls are awaited. It takes the same arguments.

    Example::

        async with AsyncGrid() as g:
            async for y in g.map(f, range(100)):
                print(y)
            print(await g.submit(f, 7))
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._grid: Grid | None = None

    @property
    def grid(self) -> Grid:
        """The grid behind it.

        Raises:
            RuntimeError: It was not entered with ``async with``.
        """
        if self._grid is None:
            raise RuntimeError("enter it first: async with AsyncGrid() as g")
        return self._grid

    async def __aenter__(self) -> AsyncGrid:
        self._grid = await asyncio.to_thread(lambda: Grid(**self._options))
        return self

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self.grid.__exit__, *error)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> TaskFuture[T]:
        """Calls a function; the future can be awaited."""
        return self.grid.submit(fn, *args, **kwargs)

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        chunksize: int | Literal["auto"] = "auto",
        ordered: bool = True,
        **options: Unpack[Options],
    ) -> AsyncGenerator[T, None]:
        """Calls a function with each item; see :meth:`Grid.map`. Leaving the loop cancels the rest."""
        return _results(self.grid._futures(fn, iterables, chunksize, options), ordered)

    async def bag(self, fn: Callable[..., T], *iterables: Iterable[Any], **options: Any) -> Job[T]:
        """Submits a job that outlives this process; see :meth:`Grid.bag`."""
        return await asyncio.to_thread(lambda: self.grid.bag(fn, *iterables, **options))

    async def run(self, argv: list[str], **options: Any) -> Job[Any]:
        """Runs any program; see :meth:`Grid.run`."""
        return await asyncio.to_thread(lambda: self.grid.run(argv, **options))


async def _results(futures: list[TaskFuture[T]], ordered: bool) -> AsyncGenerator[T, None]:
    """Yields results. Whoever stops listening cancels the rest."""
    if ordered:
        futures.reverse()
    coming = [] if ordered else [asyncio.wrap_future(future) for future in futures]
    try:
        while ordered and futures:
            # A result that was yielded is kept by nobody here.
            yield await futures.pop()
        for done in asyncio.as_completed(coming):
            yield await done
    finally:
        for one in coming:
            # Nobody is told of those that fail later, or have failed already.
            if not one.cancel() and not one.cancelled():
                one.exception()
        for future in futures:
            future.cancel()
