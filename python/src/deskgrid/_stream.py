"""Calls of one function on their way to the grid, and how many of them make a task: one at first,
and once it is known how long they take, as many as fill the time that a task is worth.

Not here: submission (:mod:`deskgrid._session`). Nothing here waits or locks.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ._options import duration
from ._pack import Large, Packed, Store, pack_call

if TYPE_CHECKING:
    from ._work import Work
    from .future import TaskFuture

#: For how long in seconds calls are gathered before they are submitted, and how many at most.
GATHER = 0.02
MOST_GATHERED = 1_000

#: A chunk grows at most by this factor from one wave to the next.
GROWTH = 16

#: The most tasks of one job, and the most bytes of their calls.
MOST_TASKS = 10_000
MOST_BYTES = 64 << 20

#: The number of run times of which the median is taken.
REMEMBERED = 201


class Call:
    """One call of a function, and the future that awaits it."""

    __slots__ = (
        "args", "kwargs", "packed", "future", "stream", "task", "seconds", "failures"
    )

    def __init__(
        self,
        future: TaskFuture[Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        packed: Packed | None = None,
    ) -> None:
        self.future = future
        self.args: tuple[Any, ...] | None = args
        self.kwargs = kwargs
        self.packed = packed
        self.stream: Stream | None = None
        self.task: Task | None = None
        self.seconds: float | None = None
        self.failures = 0

    def pack(self, store: Store) -> None:
        """Packs the arguments."""
        assert self.args is not None
        self.packed = pack_call(self.args, self.kwargs or {}, store)

    def payload(self) -> bytes:
        """The packed arguments, without what is large in them."""
        assert self.packed is not None
        return self.packed.payload

    def large(self) -> tuple[Large, ...]:
        """The large values among the arguments."""
        return self.packed.buffers if self.packed is not None else ()

    def estimate(self, of: Callable[..., Any]) -> float:
        """The estimated run time, in seconds."""
        return estimated(of, self.args or ()) if self.seconds is None else self.seconds

    def can_repeat(self) -> bool:
        """Whether the arguments are still here."""
        return self.packed is not None or self.args is not None


def estimated(of: Any, args: tuple[Any, ...]) -> float:
    """The run time in seconds that a function says, given the first argument."""
    return float(of(*args[:1]))


class Task:
    """The calls that one task makes."""

    __slots__ = ("index", "calls", "job", "tries")

    def __init__(self, index: int, calls: list[Call]) -> None:
        self.index = index
        self.calls = calls
        self.job: int | None = None
        self.tries = 0
        for call in calls:
            call.task = self

    def packed(self) -> list[tuple[bytes, list[str]]]:
        """The calls as the runner reads them."""
        return [(call.payload(), [large.name for large in call.large()]) for call in self.calls]

    def estimate(self, of: Callable[..., Any]) -> str:
        """The estimated run time."""
        return duration(sum(call.estimate(of) for call in self.calls))


class Stream:
    """See the module.

    Args:
        chunksize: The number of calls of a task; ``None``: it is found out.
        target: The run time in seconds of a task that is worth its cost.
        at_once: Whether all that waits is submitted at once.
        once: Whether no calls are added later.
        least: The least that a call takes, in seconds.
        owners: Whose calls they are: the tokens of the handles of the grid that they came by.
    """

    def __init__(
        self,
        work: Work,
        chunksize: int | None,
        target: float,
        at_once: bool = False,
        once: bool = False,
        least: float = 1e-6,
        owners: tuple[object, ...] = (),
    ) -> None:
        self.work = work
        self.chunksize = chunksize
        self.target = target
        self.at_once = at_once
        self.once = once
        self.least = least
        self.owners = owners
        #: Whether all of its calls are cancelled: what is being submitted as soon as it has a number.
        self.abandoned = False
        self._waiting: deque[Call] = deque()
        self._since: float | None = None
        self._live = 0
        self._asked = False
        self._began_at: float | None = None
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)
        self._size = 1
        self._taken: list[Call] = []

    def add(self, calls: Iterable[Call], again: bool = False) -> None:
        """Adds calls behind those that wait."""
        for call in calls:
            call.stream = self
            self._waiting.append(call)
        if again:
            self._size = 1

    def waits(self) -> bool:
        """Whether any call waits that nobody has cancelled."""
        while self._waiting and self._waiting[0].future.cancelled():
            self._waiting.popleft()
        return bool(self._waiting)

    def idle(self) -> bool:
        """Whether nothing waits, and nothing is at the grid."""
        return not self._live and not self.waits()

    def waiting(self) -> list[Call]:
        """The calls that wait, also for the answer to their submission."""
        leaving = [call for call in self._taken if call.task is None or call.task.job is None]
        return [*leaving, *self._waiting]

    def began(self, now: float) -> None:
        """A task runs. How long the first calls take counts from here, and not from when they were
        submitted: on a grid that is busy with other work they wait."""
        if self._began_at is None:
            self._began_at = now

    def done(self, task: Task, seconds: Sequence[float]) -> None:
        """A task has ended; its calls took so long."""
        self._live -= 1
        self._seconds.extend(seconds)

    def withdraw(self, chunks: int) -> None:
        """So many of the chunks that were taken did not become tasks: no call of theirs is left."""
        self._live -= chunks

    def submitted(self) -> None:
        """What was taken is at the grid: its calls, and what comes of them, are not kept here."""
        self._taken = []

    def fail(self) -> list[Call]:
        """Returns the calls that were taken last, and all that wait."""
        calls = [*self._taken, *self._waiting]
        self._live -= len({id(call.task) for call in self._taken if call.task})
        self._waiting.clear()
        self._taken = []
        return [call for call in calls if not call.future.done()]

    def due(self, now: float, slots: int) -> bool:
        """Whether there is something to submit now."""
        if not self.waits():
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if self.chunksize is None and not self._wanted(now, slots):
            return False
        return self.at_once or len(self._waiting) >= MOST_GATHERED or now - self._since >= GATHER

    def next_due(self, now: float) -> float | None:
        """In how many seconds that is to be asked again."""
        if not self.waits():
            return None
        if self._since is not None and now - self._since < GATHER:
            return GATHER - (now - self._since)
        if self._began_at is not None and not self._seconds:
            return max(self._began_at + self._patience() - now, 0.01)
        return None

    def _patience(self) -> float:
        """How long the first calls may take until they count as long ones."""
        return min(2 * self.target, 10.0)

    def _wanted(self, now: float, slots: int) -> int:
        """How many tasks the grid should have more."""
        if self._seconds:
            if statistics.median(self._seconds) >= self.target:
                return MOST_TASKS
            return 3 * slots - self._live if self._live <= 1.5 * slots else 0
        if not self._asked or not self._live:
            return max(2 * slots, 4)
        long = self._began_at is not None and now - self._began_at >= self._patience()
        return MOST_TASKS if long else 0

    def take(self, now: float, slots: int) -> list[list[Call]]:
        """Takes the calls of the tasks to be submitted now."""
        calls = [call for call in self._waiting if not call.future.cancelled()]
        self._waiting.clear()
        self._since = None
        size, count = self._shape(now, slots, len(calls))
        count = min(count, MOST_TASKS)
        used = calls[: size * count]
        self._waiting.extend(calls[size * count :])
        self._asked = True
        chunks = [used[at : at + size] for at in range(0, len(used), size)]
        self._taken = used
        self._live += len(chunks)
        return chunks

    def _shape(self, now: float, slots: int, waiting: int) -> tuple[int, int]:
        """How many calls make a task, and how many tasks."""
        if self.chunksize is not None:
            return self.chunksize, MOST_TASKS
        count = max(self._wanted(now, slots), 1)
        if self._seconds:
            typical = max(statistics.median(self._seconds), self.least)
            fair = math.ceil(waiting / (2 * slots))
            self._size = max(1, min(int(self.target / typical), GROWTH * self._size, fair))
        return self._size, count
