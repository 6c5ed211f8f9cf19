"""Jobs as handles: they outlive this process, and can be come back to."""

from __future__ import annotations

import concurrent.futures
import datetime
import html
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ._bar import Progress
from ._options import CALLS
from ._results import THREADS
from ._run import TaskOutput
from ._stream import Call, Task
from ._work import LiveJob, Standing
from .errors import DeskgridError, GridUnreachable, Refused
from .future import TaskFuture

if TYPE_CHECKING:
    from .grid import Grid

T = TypeVar("T")

#: How long in seconds a failure that the grid knows of may take to get here.
HEARD = 60.0


#: The least time in seconds that a request of disclosed calls gets, however short somebody waits.
LEAST_REQUEST = 1.0


class Forecast(NamedTuple):
    """When a job should be done: it is before ``high`` and after ``low`` with 80 %."""

    best: datetime.datetime
    low: datetime.datetime
    high: datetime.datetime


class Failure(NamedTuple):
    """A call that failed: its number, from 0, and why."""

    number: int
    error: BaseException


class Job(Generic[T]):
    """A job of the grid.

    Made by :meth:`Grid.bag`, :meth:`Grid.run`, :meth:`Grid.speculate` and :meth:`Grid.job`.

    Attributes:
        id: Its number, by which :meth:`Grid.job` finds it again.
    """

    def __init__(self, grid: Grid, id: int, futures: list[TaskFuture[T]] | None = None) -> None:
        self._grid = grid
        self._session = grid._session
        self._futures = futures
        self._lock = threading.Lock()
        self._shown = False
        self.id = id

    def __repr__(self) -> str:
        return f"<deskgrid job {self.id}>"

    def __len__(self) -> int:
        return len(self.futures)

    # -- how it stands -------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """Returns all that the grid knows of the job, as the API tells it."""
        info: dict[str, Any] = self._session.api.call("GET", f"/jobs/{self.id}")
        return info

    @property
    def state(self) -> str:
        """``waiting``, ``running``, ``finished``, ``failed``, ``cancelled`` or ``refused``."""
        return str(self.info()["state"])

    def progress(self) -> Progress:
        """Returns how many tasks are in which state."""
        tasks = self.info()["tasks"]
        return Progress(
            tasks["total"],
            tasks["finished"],
            tasks["failed"],
            tasks["cancelled"],
            tasks["running"] + tasks["suspended"],
            tasks["waiting"] + tasks["disclosed"],
        )

    def eta(self) -> Forecast | None:
        """Returns when it should be done; ``None`` if nobody knows yet, or if it is done."""
        answer = self._session.api.call("GET", f"/jobs/{self.id}/forecast")
        return forecast_of(answer)

    def explain(self) -> str:
        """Says why its tasks wait, and why each host takes none of them."""
        answer = self._session.api.call("GET", f"/jobs/{self.id}/explain")
        lines = [f"job {self.id} is {answer['state']}"]
        lines += [f"tasks {wait['tasks']}: {wait['reason']}" for wait in answer["waiting"]]
        lines += [f"{host['host']}: {host['reason']}" for host in answer["hosts"]]
        return "\n".join(lines)

    # -- results -------------------------------------------------------------------------------

    @property
    def futures(self) -> list[TaskFuture[T]]:
        """The futures of its calls, in their order."""
        with self._lock:
            if self._futures is None:
                self._futures = self._come_back()
            return self._futures

    def wants(self, future: TaskFuture[T], number: int) -> None:
        """(Of the library.) The call of this number is disclosed: its result requests it."""


        def request(timeout: float | None) -> None:
            if self._is_requested([number], timeout):
                future.wanted = None

        future.wanted = request

    def _awaited(self, timeout: float | None) -> list[TaskFuture[T]]:
        """Returns the futures, for which somebody waits now, for so long at most: disclosed ones are
        requested, and there is a bar."""
        futures = self.futures
        wanted = any(future.wanted and not future.done() for future in futures)
        if wanted and self._is_requested(None, timeout):
            for future in futures:
                future.wanted = None
        if not self._shown:
            self._shown = True
            self._grid.show([future for future in futures if not future.done()], f"job {self.id}")
        return futures

    def _is_requested(self, indices: list[int] | None, timeout: float | None) -> bool:
        """Requests calls as :meth:`request` does, where there is anything to request; returns whether
        there was time enough for that."""
        most = None if timeout is None else max(timeout, LEAST_REQUEST)
        end = None if most is None else time.monotonic() + most
        try:
            self._request(indices, most)
        except Refused as refusal:
            # They are cancelled, or the job is forgotten, as their futures are about to hear.
            if refusal.code != "conflict" and refusal.status != 404:
                raise
        except GridUnreachable:
            if end is None or most is None or most > self._session.api.patience:
                raise
            return False
        return True

    def _come_back(self) -> list[TaskFuture[T]]:
        """Makes the futures of a job that another process may have submitted."""
        api = self._session.api
        # In this order: what happens from now on is told by events.
        newest = api.newest_event(self.id)
        info = self.info()
        views = list(api.pages(f"/jobs/{self.id}/tasks", "tasks"))
        live = self._live(info)
        futures: list[TaskFuture[T]] = []
        for view in views:
            index = int(view["task"].split(".")[1])
            count = _calls(view.get("item")) if live.kind == "calls" else 1
            made = []
            for _ in range(count):
                future: TaskFuture[T] = TaskFuture(self._session)
                future.launched(self.id, index)
                if not view["requested"]:
                    self.wants(future, index - 1)
                made.append(Call(future))
                futures.append(future)
            live.tasks[index] = Task(index, made)
            live.tasks[index].job = self.id
        return self._session.results.adopt(live, futures, Standing(newest, info, views))

    def _live(self, info: dict[str, Any]) -> LiveJob:
        """Makes the job of which `info` tells, of no task of which anything is awaited yet."""
        return LiveJob(self.id, "calls" if CALLS in info["labels"] else "run", {})

    def results(self, ordered: bool = True, timeout: float | None = None) -> Iterator[T]:
        """Yields the results as they are there; by default in the order of the calls. Disclosed
        calls are requested.

        Args:
            ordered: Whether in their order, or as they come.
            timeout: The longest time in seconds to wait for all of them.

        Raises:
            TimeoutError: It took longer.
            Exception: What a call raised, when it is reached.
        """
        if not ordered:
            for future in self.as_completed(timeout):
                yield future.result()
            return
        end = None if timeout is None else time.monotonic() + timeout
        for future in self._awaited(timeout):
            yield future.result(_left(end))

    def as_completed(self, timeout: float | None = None) -> Iterator[TaskFuture[T]]:
        """Yields the futures as they are done. Disclosed calls are requested."""
        end = None if timeout is None else time.monotonic() + timeout
        futures = self._awaited(timeout)
        for future in concurrent.futures.as_completed(futures, _left(end)):
            assert isinstance(future, TaskFuture)
            yield future

    def result(self, timeout: float | None = None) -> list[T]:
        """Returns all results."""
        return list(self.results(timeout=timeout))

    def failures(self) -> list[Failure]:
        """Returns the calls that have failed so far."""
        done = [(i, f) for i, f in enumerate(self.futures) if f.done() and not f.cancelled()]
        failed = [(i, f.exception()) for i, f in done]
        return [Failure(i, error) for i, error in failed if error is not None]

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all calls have ended, however; returns whether they have. Disclosed calls are
        requested.

        Args:
            timeout: The longest time to wait, in seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        futures = self._awaited(timeout)
        return not concurrent.futures.wait(futures, _left(end)).not_done

    # -- changes -------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Cancels what has not ended."""
        self._session.api.call("POST", f"/jobs/{self.id}/cancel", {})

    def retry(self, failed: bool = True) -> int:
        """Makes failed tasks wait again, and with ``failed=False`` cancelled ones too.

        Returns:
            The number of tasks that wait again. Their calls have new futures.

        Raises:
            GridUnreachable: The master does not answer: the futures are as they were.
        """
        if self._futures is not None and any(_is_lost(future) for future in self._futures):
            # The grid was away for too long.
            with self._lock:
                self._futures = self._come_back()
        futures = self.futures
        states = "failed" if failed else "failed,cancelled"
        api = self._session.api
        again = list(api.pages(f"/jobs/{self.id}/tasks", "tasks", {"state": states}))
        indices = {int(view["task"].split(".")[1]) for view in again}
        body: dict[str, Any] = {"failed": failed}
        unheard = _unheard([future for future in futures if future.index in indices])
        if unheard:
            indices -= unheard
            body["tasks"] = ",".join(str(index) for index in sorted(indices))

        new: dict[int, TaskFuture[T]] = {}
        calls: dict[int, list[Call]] = {index: [] for index in indices}
        for at, old in enumerate(futures):
            if old.index in indices:
                new[at] = TaskFuture(self._session)
                new[at].launched(self.id, old.index)
                calls[old.index].append(Call(new[at]))
        if not indices:
            return 0
        live = self._live(self.info())
        for index, made in calls.items():
            live.tasks[index] = Task(index, made)
            live.tasks[index].job = self.id
        with self._session.results.waiting_again(live, futures):
            api.call("POST", f"/jobs/{self.id}/retry", body)
        for at, future in new.items():
            futures[at] = future
        return len(indices)

    def request(self, indices: list[int] | None = None) -> None:
        """Requests calls of a job that was speculated on: somebody now waits for them.

        Args:
            indices: The numbers of the calls, from 0; all of them by default.
        """
        self._request(indices)

    def _request(self, indices: list[int] | None, patience: float | None = None) -> None:
        body = {} if indices is None else {"tasks": ",".join(str(i + 1) for i in sorted(indices))}
        self._session.api.call("POST", f"/jobs/{self.id}/request", body, patience=patience)

    def forget(self) -> None:
        """Removes the job, which has ended, with its results."""
        self.info()
        try:
            self._session.api.call("POST", f"/jobs/{self.id}/forget", {})
        except Refused as refusal:
            # It was there just now: the answer was lost, and it was asked again.
            if refusal.status != 404:
                raise

    # -- for people ----------------------------------------------------------------------------

    def fetch(self, into: str | Path) -> list[Path]:
        """Writes the output files of all tasks into ``into/TASK``; returns their paths."""
        saved = []
        for future in self.futures:
            output = future.result()
            if not isinstance(output, TaskOutput):
                raise DeskgridError("the job calls a function: it has results and no files")
            saved += output.save(Path(into, str(future.index)))
        return saved

    def attempts(self) -> list[dict[str, Any]]:
        """Returns the attempts of all tasks as the API tells of them, each with ``task``."""
        rows = []
        for view in self._session.api.pages(f"/jobs/{self.id}/tasks", "tasks"):
            for attempt in view["attempts"]:
                rows.append({"task": view["task"], "item": view.get("item"), **attempt})
        return rows

    def to_pandas(self) -> Any:
        """Returns the attempts as a ``pandas.DataFrame``: one row each, with ``task``, ``host``,
        ``state``, ``assigned``, ``started``, ``finished`` (UTC), ``run_s``, ``cpu_s`` and
        ``suspended_s`` (seconds).

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas

        frame = pandas.DataFrame(self.attempts())
        for column in ("assigned", "started", "finished"):
            if column in frame:
                frame[column] = pandas.to_datetime(frame[column], utc=True)
        return frame

    def _repr_html_(self) -> str:
        try:
            info = self.info()
        except (DeskgridError, Refused) as error:
            return f"<pre>{html.escape(repr(self))}: {html.escape(str(error))}</pre>"
        tasks = info["tasks"]
        colours = {"finished": "#3a7", "failed": "#c33", "running": "#27c", "cancelled": "#999"}
        total = max(tasks["total"], 1)
        bars = "".join(
            f'<span style="display:inline-block;height:1em;background:{colour};'
            f'width:{20 * tasks[state] / total:.2f}em" title="{tasks[state]} {state}"></span>'
            for state, colour in colours.items()
            if tasks[state]
        )
        words = ", ".join(f"{count} {state}" for state, count in tasks.items() if count and state != "total")
        return (
            f"<div><b>job {self.id}</b> {html.escape(str(info['name']))}: {info['state']}<br>"
            f'<span style="display:inline-block;width:20em;background:#ddd">{bars}</span><br>'
            f"{html.escape(words)}</div>"
        )


def _left(end: float | None) -> float | None:
    """Returns how many seconds there are until then."""
    return None if end is None else max(0.0, end - time.monotonic())


def _unheard(futures: list[TaskFuture[Any]]) -> set[int]:
    """Waits until futures have heard that their tasks have ended: else that would count for the next
    attempts. Returns the tasks of which they cannot hear, since this is called by what tells them.

    Raises:
        GridUnreachable: They have not heard it in time.
    """
    told_here = threading.current_thread().name in THREADS
    concurrent.futures.wait(futures, 0 if told_here else HEARD)
    unheard = {future.index for future in futures if not future.done()}
    if unheard and not told_here:
        raise GridUnreachable("the grid does not say how its tasks have ended", "try again")
    return unheard


def _is_lost(future: TaskFuture[Any]) -> bool:
    """Whether nobody has heard what came of a call."""
    return future.done() and not future.cancelled() and isinstance(future.exception(), GridUnreachable)


def time_of(text: str) -> datetime.datetime:
    """Returns a time as the API writes it."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def forecast_of(answer: dict[str, Any]) -> Forecast | None:
    """Returns what an answer predicts."""
    best = answer.get("predicted_finish")
    if not best:
        return None
    low, high = answer.get("predicted_low") or best, answer.get("predicted_high") or best
    return Forecast(time_of(best), time_of(low), time_of(high))


def _calls(item: str | None) -> int:
    """Returns how many calls a task makes, by its item, their numbers within the job: ``7``, ``7-12``, or
    nothing for one."""
    first, _, last = (item or "0").partition("-")
    return int(last or first) - int(first) + 1
