"""Hears what becomes of jobs, and tells the futures of their calls.

Not here: how an outcome is read (:mod:`deskgrid._outcome`).
"""

from __future__ import annotations

import contextlib
import queue
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple

from . import _outcome
from ._api import Api, Json
from ._events import Events
from ._outcome import Place, Result, failure_of
from ._pack import Store
from ._run import output_of
from ._stream import Call, Task
from ._work import LiveJob, Standing
from .env import OWN
from .errors import (
    Cancelled,
    DeskgridError,
    EnvError,
    GridUnreachable,
    HostsLost,
    Refused,
    ResultGone,
    TaskFailed,
)

#: How often a call is tried again whose host has no Python.
MOST_TRIES = 3

#: What a task leaves: a line for each outcome, and what is too long for a line.
OUT, LONG = f"{OWN}/out.txt", f"{OWN}/out.bin"

#: The number of threads that fetch long results.
FETCHERS = 4

#: The names of the threads that tell futures.
THREADS = ("deskgrid-events", "deskgrid-fetch")


class Ended(NamedTuple):
    """A task that has ended, well or not."""

    task: Task
    well: bool
    reason: str


class Results:
    """See the module. Methods may be called from any thread."""

    def __init__(self, api: Api, store: Store, label: str, wake: threading.Condition) -> None:
        self.jobs: dict[int, LiveJob] = {}
        self._api = api
        self._store = store
        self._label = label
        self._wake = wake
        self._submissions = 0
        self._early: dict[int, list[Json]] = defaultdict(list)
        self._early_lost = False
        self._adopted: dict[int, tuple[LiveJob, list[Any]]] = {}
        self._told: Counter[LiveJob] = Counter()
        self._events: Events | None = None
        self._closed = False
        self._fetches: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        for _ in range(FETCHERS):
            threading.Thread(target=self._fetch_all, name="deskgrid-fetch", daemon=True).start()

    def close(self) -> None:
        """Ends all threads, and the waiting for jobs that go on."""
        with self._wake:
            self._closed = True
            adopted = [live for live, _ in self._adopted.values()]
            jobs = [*self.jobs.values(), *adopted]
        for events in [self._events, *(job.events for job in adopted)]:
            if events is not None:
                events.close()
        for _ in range(FETCHERS):
            self._fetches.put(None)
        for live in jobs:
            self._give_up(live, _shut_down())

    @contextlib.contextmanager
    def submission(self) -> Iterator[None]:
        """While a job is submitted, events may come of it before its number does: they are kept. From
        here on nothing of it is missed."""
        with self._wake:
            self._submissions += 1
        try:
            self.listen().wait_until_open()
            yield
        finally:
            with self._wake:
                self._submissions -= 1
                if not self._submissions:
                    self._early.clear()
                    self._early_lost = False

    def await_job(self, live: LiveJob) -> None:
        """Awaits the results of a job that was submitted just now."""
        with self._wake:
            closed = self._closed
            self.jobs[live.id] = live
            early = self._early.pop(live.id, ())
            lost = self._early_lost
        for event in early:
            self._on_event(event)
        if closed:
            self._give_up(live, _shut_down())
        elif lost:
            self._fetches.put(lambda: self._listen_anew(live))

    def _listen_anew(self, live: LiveJob) -> None:
        """Hears of a job though events of it were lost while it was submitted: they may have been given
        up, since the master was away for too long for another job."""
        try:
            self.listen().wait_until_open()
        except BaseException as error:
            self._give_up(live, error)
        else:
            self._look_at(live)

    def finish(self, call: Call, value: Any, error: BaseException | None) -> None:
        """A call has ended: its future is told, and its arguments go."""
        self.release(call)
        call.future.settle(value, error)

    def release(self, call: Call) -> None:
        """Forgets the packed arguments of a call."""
        packed, call.packed = call.packed, None
        if packed is not None:
            for large in packed.buffers:
                self._store.used(large)

    def listen(self) -> Events:
        """Begins to hear of this session's jobs, unless it does. Early: at the end of a program no
        thread can be started any more."""
        with self._wake:
            if self._events is None:
                query = {"label": self._label}
                self._events = Events(
                    self._api, query, self._on_event, self._on_failure, self._awaits_anything
                )
            return self._events

    def _awaits_anything(self) -> bool:
        with self._wake:
            return any(live.tasks for live in self.jobs.values())

    def adopt(self, live: LiveJob, futures: list[Any], standing: Standing) -> list[Any]:
        """Awaits the results of a job that another process may have submitted, and that stands so.

        Returns the futures of its calls: those that somebody awaits already, if there are any.
        """
        with self._wake:
            before = self._adopted.get(live.id)
            if before is not None:
                return before[1]
            self._adopted[live.id] = (live, futures)
        try:
            if standing.info["state"] == "refused":
                self._over(live, "refused", standing.info.get("reason") or "")
            ended = {end.task.index: end for end in self._standing(live, standing.tasks)}
            self._follow(live, ended, standing.event)
        except BaseException:
            # Whoever comes back to it next does all of this anew.
            self._let_go(live)
            self._give_up(live, GridUnreachable("whoever came back to the job was interrupted"))
            raise
        return futures

    def _standing(self, live: LiveJob, views: Iterable[Json]) -> Iterator[Ended]:
        """Tells the futures of a job how its tasks stand; yields those that have ended, whose results
        are still to come."""
        for view in views:
            task = live.tasks.get(_index(view["task"]))
            if task is None:
                continue
            if view["state"] in ("running", "suspended"):
                self._runs(live, task)
            elif view["state"] == "cancelled":
                self._cancelled(live, task, view.get("reason") or "it was cancelled")
            elif view["state"] in ("finished", "failed") and not _is_made_again(view):
                yield Ended(task, view["state"] == "finished", view.get("reason") or "")

    def _follow(self, live: LiveJob, ended: dict[int, Ended], newest: int) -> None:
        """Hears of one job: the results of the tasks that have ended, and what happens after the event
        `newest`.

        Older events only bring these results along, many at a time: what they say became of a task may
        not hold any more, since it can have waited again.
        """

        def on_event(event: Json) -> None:
            if event["event"] in ("lagged", "restored"):
                self._fetches.put(lambda: self._look_at(live))
            elif event.get("job") != live.id:
                return
            elif event["seq"] > newest:
                self._tell(live, event["event"], event)
            elif event["event"] in ("task-finished", "task-failed"):
                end = ended.pop(_index(event["task"]), None)
                if end is not None and live.tasks.get(end.task.index) is end.task:
                    self._hear(live, end.task, end.well, event.get("result"), end.reason)

        def on_failure(failure: BaseException) -> None:
            self._let_go(live)
            self._give_up(live, failure)

        with self._wake:
            if not live.tasks:
                self._let_go(live)
                return
        query = {"job": live.id, "after": 0 if ended else newest}
        events = Events(self._api, query, on_event, on_failure, lambda: bool(live.tasks))
        with self._wake:
            live.events = events
            closed = self._closed
            if closed or not live.tasks:
                self._let_go(live)
        if closed:
            self._give_up(live, _shut_down())

    def _let_go(self, live: LiveJob) -> None:
        """All of a job is told, and what came of it belongs to whoever has a handle of it. Of a bag or
        program of this Grid the number is kept: tasks of it may wait again."""
        with self._wake:
            adopted = self._adopted.get(live.id)
            if adopted is not None and adopted[0] is live:
                del self._adopted[live.id]
            elif live.stream is not None:
                self.jobs.pop(live.id, None)
            events, live.events = live.events, None
        if events is not None:
            events.close()

    @contextlib.contextmanager
    def waiting_again(self, again: LiveJob, futures: list[Any]) -> Iterator[None]:
        """While tasks of a job are made to wait again: what comes of them is awaited from now on, but
        not if that fails.

        Args:
            again: The job with these tasks.
            futures: Those of all its calls.
        """
        newest = self._api.newest_event(again.id)
        tasks = dict(again.tasks)
        with self._wake:
            if self._closed:
                hint = f"ask for it with Grid().job({again.id})"
                raise GridUnreachable("nothing is heard of the job any more", hint)
            live = self.live(again.id)
            if live is None:
                # All that was known of it is told.
                live = again
                self._adopted[live.id] = (live, futures)
            live.tasks.update(tasks)
        try:
            if live is again:
                self._follow(live, {}, newest)
            yield
        except BaseException:
            with self._wake:
                for index in tasks:
                    live.tasks.pop(index, None)
                if not live.tasks:
                    self._let_go(live)
            raise

    def live(self, job: int) -> LiveJob | None:
        """Returns a job whose results are awaited."""
        with self._wake:
            adopted = self._adopted.get(job)
            return adopted[0] if adopted else self.jobs.get(job)

    def _on_failure(self, failure: BaseException) -> None:
        """There will be no events any more, but of jobs to come: nobody may wait for them."""
        with self._wake:
            self._events = None
            self._early_lost = self._submissions > 0
            jobs = list(self.jobs.values())
            self.jobs.clear()
        for live in jobs:
            self._give_up(live, failure)

    def _give_up(self, live: LiveJob, failure: BaseException) -> None:
        """Ends the waiting for a job, which goes on."""
        if isinstance(failure, GridUnreachable):
            hint = f"job {live.id} is still at the grid: Grid().job({live.id}) gets its results"
            failure = GridUnreachable(str(failure.args[0]), hint)
        for task in list(live.tasks.values()):
            self._settle_all(live, task, failure)

    def _on_event(self, event: Json) -> None:
        kind = event["event"]
        if kind in ("lagged", "restored"):
            with self._wake:
                jobs = list(self.jobs.values())
                self._early_lost = self._submissions > 0
            for job in jobs:
                self._fetches.put(lambda job=job: self._look_at(job))  # type: ignore[misc]
            return
        number = event.get("job")
        if number is None:
            return
        with self._wake:
            live = self.jobs.get(number)
            if live is None:
                if self._submissions:
                    self._early[number].append(event)
                return
        self._tell(live, kind, event)

    def _tell(self, live: LiveJob, kind: str, event: Json) -> None:
        task = live.tasks.get(_index(event["task"])) if "task" in event else None
        if kind == "task-running" and task is not None:
            self._runs(live, task)
        elif kind in ("task-finished", "task-failed") and task is not None:
            result = event.get("result")
            self._hear(live, task, kind == "task-finished", result, event.get("reason") or "")
        elif kind == "tasks-cancelled":
            why = event.get("reason") or "it was cancelled"
            for first, last in _ranges(event["tasks"]):
                for index in [i for i in list(live.tasks) if first <= i <= last]:
                    task = live.tasks.get(index)
                    if task is not None:
                        self._cancelled(live, task, why)
        elif kind == "job-settled":
            self._over(live, event.get("state") or "", event.get("reason") or "")
        elif kind == "job-forgotten":
            for task in list(live.tasks.values()):
                gone = ResultGone("the job was forgotten", "", f"{live.id}.{task.index}")
                self._settle_all(live, task, gone)

    def _runs(self, live: LiveJob, task: Task) -> None:
        for call in task.calls[:1]:
            call.future.begin()
        with self._wake:
            if live.stream is not None:
                live.stream.began(time.monotonic())
            self._wake.notify_all()

    def _cancelled(self, live: LiveJob, task: Task, why: str) -> None:
        name = f"{live.id}.{task.index}"
        self._settle_all(live, task, Cancelled(f"it was cancelled: {why}", "", name))

    def _over(self, live: LiveJob, state: str, why: str) -> None:
        """A job is settled. Of the tasks of one that was refused nothing comes by events."""
        if state == "refused":
            for task in list(live.tasks.values()):
                self._settle_all(live, task, Refused(why or "the job was refused"))

    def _hear(
        self, live: LiveJob, task: Task, well: bool, result: Json | None, reason: str
    ) -> None:
        """A task has ended. Whatever is wrong with what it left is its calls' trouble alone."""
        try:
            self._hear_of(live, task, well, result, reason)
        except Exception as error:
            self._settle_all(live, task, error)

    def _hear_of(
        self, live: LiveJob, task: Task, well: bool, result: Json | None, reason: str
    ) -> None:
        if live.kind == "calls" and not well and "not found in PATH" in reason:
            self._fetches.put(lambda: self._elsewhere(live, task, reason))
        elif result is None:
            # What it has left is too much for an event, or nothing.
            self._fetches.put(lambda: self._ask(live, task, well, reason))
        elif live.kind == "run":
            output = output_of(self._api, live.id, task.index, well, result, reason)
            with self._telling(live):
                self._done(live, task)
                self.finish(task.calls[0], *output)
        else:
            self._hear_of_calls(live, task, well, result, reason)

    def _hear_of_calls(
        self, live: LiveJob, task: Task, well: bool, result: Json, reason: str
    ) -> None:
        files = {file["path"]: file for file in result.get("files", ())}
        text = files.get(OUT, {}).get("text")
        if OUT in files and (text is None or LONG in files):
            self._fetches.put(lambda: self._fetch(live, task, well, result, reason, text))
        else:
            self._read(live, task, well, result, reason, text or "", None)

    def _ask(self, live: LiveJob, task: Task, well: bool, reason: str) -> None:
        """Asks for what a task has left, where no event tells it."""
        try:
            result = self._left_by(live, task, well)
        except Exception as error:
            self._settle_all(live, task, error)
        else:
            self._hear(live, task, well, result, reason)

    def _left_by(self, live: LiveJob, task: Task, well: bool) -> Json:
        """Returns what a task has left, as an event would tell it; of one that has failed, as much as
        there is: its reason is known.

        Raises:
            ResultGone: It was removed.
            GridUnreachable: The master does not answer, and the calls may have left outcomes.
        """
        path = f"/jobs/{live.id}/tasks/{task.index}"
        result: Json = {}
        if well:
            with _reading(live, task):
                result = self._api.call("GET", f"{path}/files")
            return result
        try:
            result = self._api.call("GET", f"{path}/files")
        except GridUnreachable:
            if live.kind == "calls":
                raise
            return result
        except DeskgridError:
            # Its hosts were lost, for example.
            pass
        with contextlib.suppress(DeskgridError):
            result["stderr"] = self._api.read(f"{path}/stderr").decode(errors="replace")
        return result

    def _elsewhere(self, live: LiveJob, task: Task, reason: str) -> None:
        """A host has no such Python: another one may have."""
        task.tries += 1
        if task.tries <= MOST_TRIES and live.stream is not None:
            body = {"tasks": str(task.index), "failed": True}
            try:
                self._api.call("POST", f"/jobs/{live.id}/retry", body)
            except Exception as error:
                self._settle_all(live, task, error)
            return
        hint = "send a Python along with env=Env.auto(), or install it on the hosts"
        self._settle_all(live, task, EnvError(f"task {live.id}.{task.index}: {reason}", hint))

    def _fetch_all(self) -> None:
        while (fetch := self._fetches.get()) is not None:
            try:
                fetch()
            except BaseException as error:
                if not self._closed:
                    print(f"deskgrid: {type(error).__name__}: {error}", file=sys.stderr)
            # It knows calls, and they their results.
            del fetch

    def _fetch(
        self, live: LiveJob, task: Task, well: bool, result: Json, reason: str, text: str | None
    ) -> None:
        path = f"/jobs/{live.id}/tasks/{task.index}/files"
        files = {file["path"] for file in result["files"]}
        try:
            with _reading(live, task), contextlib.ExitStack() as stack:
                if text is None:
                    text = self._api.read(f"{path}/{OUT}").decode(errors="replace")
                long = None
                if LONG in files:
                    long = stack.enter_context(tempfile.TemporaryFile())
                    self._api.fetch(f"{path}/{LONG}", long)
                self._read(live, task, well, result, reason, text, long)
        except BaseException as error:
            self._settle_all(live, task, error)

    def _read(
        self,
        live: LiveJob,
        task: Task,
        well: bool,
        result: Json,
        reason: str,
        text: str,
        long: IO[bytes] | None,
    ) -> None:
        """Tells the futures of a task what came of them."""
        place = Place(
            f"{live.id}.{task.index}", result.get("host") or "", _last(result.get("stderr"))
        )
        outcomes = _outcome.read(text)
        handed_back = len(outcomes) > 1 and outcomes[-1].kind == "H"
        if handed_back:
            outcomes.pop()

        settled: list[tuple[Call, Result]] = []
        again: list[Call] = []
        for call, outcome in zip(task.calls, outcomes):
            if outcome.kind in "EX" and self._is_tried_again(live, call):
                again.append(call)
            elif outcome.data is None and long is None:
                # It was too large, or could not be kept.
                failure = failure_of(reason or "its long result was not kept", place)
                settled.append((call, Result(None, failure)))
            else:
                settled.append((call, _outcome.value_of(outcome, long, place)))
        rest = task.calls[len(outcomes) :]
        if len(outcomes) == 1 and outcomes[0].kind == "N":
            settled += [(call, settled[0][1]) for call in rest]
            rest = []
        failure = failure_of(reason or "its host did not write down what came of it", place)
        if rest and not handed_back and not self._is_tried_again(live, rest[0], failure):
            # It ended its task.
            settled.append((rest.pop(0), Result(None, failure)))

        for call, outcome in zip(task.calls, outcomes):
            call.future.seconds = outcome.seconds
        seconds = [outcome.seconds for outcome in outcomes if outcome.kind in "RE"]
        with self._telling(live):
            with self._wake:
                # At once: nobody may find that nothing is left to do.
                if not self._done(live, task, seconds):
                    return
                left = self._again(live, again + rest, as_small=not handed_back)
            if handed_back:
                failure = _not_made(place)
            settled += [(call, Result(None, failure)) for call in left]
            while settled:
                # Whoever gets a result may be the only one who has it.
                self.finish(*_flat(*settled.pop(0)))

    def _is_tried_again(
        self, live: LiveJob, call: Call, failure: BaseException | None = None
    ) -> bool:
        """Whether a call that failed is made again: one with a process of its own fails alone, and
        not its task, which the grid would try again as a whole."""
        if live.stream is None or not live.stream.work.options.get("own_process"):
            return False
        call.failures += 1
        most = live.stream.work.options.get("retries", 0)
        return call.failures <= most and call.can_repeat() and not isinstance(failure, HostsLost)

    def _again(self, live: LiveJob, calls: list[Call], as_small: bool) -> list[Call]:
        """Makes calls again: those that failed, and those behind the end of their task, in tasks that
        are as small as the first ones if `as_small`. Returns those that cannot be made again."""
        with self._wake:
            if live.stream is None or self._closed:
                return calls
            left = [call for call in calls if not call.can_repeat()]
            repeated = [call for call in calls if call.can_repeat()]
            for call in repeated:
                call.task = None
            live.stream.add(repeated, again=bool(repeated) and as_small)
            self._wake.notify_all()
        return left

    def _done(self, live: LiveJob, task: Task, seconds: Sequence[float] = ()) -> bool:
        """A task has ended; returns whether that is news."""
        with self._wake:
            if live.tasks.get(task.index) is not task:
                return False
            del live.tasks[task.index]
            if live.stream is not None:
                live.stream.done(task, seconds)
            if not live.tasks:
                self._let_go(live)
            self._wake.notify_all()
            return True

    @contextlib.contextmanager
    def _telling(self, live: LiveJob) -> Iterator[None]:
        """While a task of a job has ended and its futures are told, with whatever is called then."""
        with self._wake:
            self._told[live] += 1
        try:
            yield
        finally:
            with self._wake:
                self._told -= Counter({live: 1})
                self._wake.notify_all()

    def told_now(self) -> list[LiveJob]:
        """Returns the jobs of which futures are being told; who is called by that cannot wait for it. It
        takes no lock, as a forked process might never get it: the session has it."""
        return [] if threading.current_thread().name in THREADS else list(self._told)

    def _settle_all(self, live: LiveJob, task: Task, error: BaseException) -> None:
        with self._telling(live):
            self._done(live, task)
            for call in task.calls:
                self.finish(call, None, error)

    def _look_at(self, live: LiveJob) -> None:
        """Asks for the tasks of a job, of which events are gone."""
        path, settled = f"/jobs/{live.id}/tasks", {"state": "finished,failed,cancelled"}
        try:
            for task, well, reason in self._standing(live, self._api.pages(path, "tasks", settled)):
                self._ask(live, task, well, reason)
        except Exception as error:
            self._give_up(live, error)


@contextlib.contextmanager
def _reading(live: LiveJob, task: Task) -> Iterator[None]:
    """While what a task has left is read: it may have been removed, or the job forgotten.

    Raises:
        ResultGone: It was.
    """
    try:
        yield
    except Refused as refusal:
        if refusal.status not in (404, 410):
            raise
        why, name = str(refusal.args[0]), f"{live.id}.{task.index}"
        raise ResultGone(why, refusal.hint, name) from refusal


def _not_made(place: Place) -> TaskFailed:
    """What came of a call that its task has handed back, where this is not the Grid that it was for."""
    return TaskFailed(
        "the call was handed back, not made: its task took long, and left it to the program that submitted it",
        place.task,
        place.host,
        hint="that program makes it in another job; if it has ended, submit it again",
    )


def _shut_down() -> GridUnreachable:
    return GridUnreachable("the Grid was shut down while the job went on")


def _flat(call: Call, result: Result) -> tuple[Call, Any, BaseException | None]:
    return call, result.value, result.error


def _index(task: str) -> int:
    """Returns the number of a task, such as ``7.3``, in its job."""
    return int(task.split(".")[1])


def _is_made_again(view: Json) -> bool:
    """Whether what a task left was removed before anybody requested it: a request makes it again."""
    return view["state"] == "finished" and bool((view.get("speculation") or {}).get("removed"))


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield int(first), int(last or first)


def _last(text: str | None, lines: int = 20) -> str:
    return "\n".join((text or "").splitlines()[-lines:])
