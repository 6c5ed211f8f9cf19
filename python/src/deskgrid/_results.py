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
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from . import _outcome
from ._api import Api, Json
from ._events import Events
from ._outcome import Place, Result, failure_of
from ._pack import Store
from ._run import output_of
from ._stream import Call, Task
from ._work import LiveJob
from .env import OWN
from .errors import Cancelled, EnvError, GridUnreachable, HostsLost, Refused, ResultGone

#: How often a call is tried again whose host has no Python.
MOST_TRIES = 3

#: What a task leaves: a line for each outcome, and what is too long for a line.
OUT, LONG = f"{OWN}/out.txt", f"{OWN}/out.bin"

#: The number of threads that fetch long results.
FETCHERS = 4

#: The names of the threads that tell futures.
THREADS = ("deskgrid-events", "deskgrid-fetch")


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
        self.listen().wait_until_open()
        with self._wake:
            self._submissions += 1
        try:
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
            self._fetches.put(lambda: self._look_at(live))

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

    def adopt(self, live: LiveJob, futures: list[Any]) -> list[Any]:
        """Awaits the results of a job that another process may have submitted.

        Returns the futures of its calls: those that somebody awaits already, if there are any.
        """
        with self._wake:
            before = self._adopted.get(live.id)
            if before is not None:
                return before[1]
            self._adopted[live.id] = (live, futures)
        self._follow(live)
        return futures

    def _follow(self, live: LiveJob) -> None:
        """Hears of one job, from its beginning."""

        def on_event(event: Json) -> None:
            if event["event"] in ("lagged", "restored"):
                self._fetches.put(lambda: self._look_at(live))
            elif event.get("job") == live.id:
                self._tell(live, event["event"], event)

        def on_failure(failure: BaseException) -> None:
            with self._wake:
                self._adopted.pop(live.id, None)
            self._give_up(live, failure)

        query = {"job": live.id, "after": 0}
        events = Events(self._api, query, on_event, on_failure, lambda: bool(live.tasks))
        with self._wake:
            live.events = events
            closed = self._closed
        if closed:
            events.close()
            self._give_up(live, _shut_down())

    @contextlib.contextmanager
    def waiting_again(self, job: int, tasks: list[Task]) -> Iterator[None]:
        """While tasks of a job are made to wait again: what comes of them is awaited from now on, but
        not if that fails."""
        with self._wake:
            live = self.live(job)
            if live is None or self._closed:
                raise GridUnreachable("nothing is heard of the job any more", f"ask for it with Grid().job({job})")
            live.tasks.update({task.index: task for task in tasks})
            live.settled.clear()
        try:
            yield
        except BaseException:
            with self._wake:
                for task in tasks:
                    live.tasks.pop(task.index, None)
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
        index = int(event["task"].split(".")[1]) if "task" in event else 0
        task = live.tasks.get(index)
        if kind == "task-running" and task is not None:
            for call in task.calls[:1]:
                call.future.begin()
            with self._wake:
                if live.stream is not None:
                    live.stream.began(time.monotonic())
                self._wake.notify_all()
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
            live.settled.set()

    def _cancelled(self, live: LiveJob, task: Task, why: str) -> None:
        name = f"{live.id}.{task.index}"
        self._settle_all(live, task, Cancelled(f"it was cancelled: {why}", "", name))

    def _over(self, live: LiveJob, state: str, why: str) -> None:
        """A job is settled. What is still open of it will not come by events."""
        live.settled.set()
        if live.tasks and state == "refused":
            for task in list(live.tasks.values()):
                self._settle_all(live, task, Refused(why or "the job was refused"))
        with self._wake:
            self._wake.notify_all()

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
        if live.kind == "run":
            output = output_of(self._api, live.id, task.index, well, result, reason)
            self._done(live, task)
            self.finish(task.calls[0], *output)
            return
        if not well and "not found in PATH" in reason:
            self._fetches.put(lambda: self._elsewhere(live, task, reason))
            return
        files = {file["path"]: file for file in (result or {}).get("files", ())}
        text = files.get(OUT, {}).get("text")
        if OUT in files and (text is None or LONG in files):
            self._fetches.put(lambda: self._fetch(live, task, well, result or {}, reason, text))
        else:
            self._read(live, task, well, result, reason, text or "", None)

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
            except Exception as error:
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
            if text is None:
                text = self._api.read(f"{path}/{OUT}").decode(errors="replace")
            with contextlib.ExitStack() as stack:
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
        result: Json | None,
        reason: str,
        text: str,
        long: IO[bytes] | None,
    ) -> None:
        """Tells the futures of a task what came of them."""
        result = result or {}
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
        with self._wake:
            # At once: nobody may find that nothing is left to do.
            if not self._done(live, task, seconds):
                return
            left = self._again(live, again + rest, as_small=not handed_back)
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
            if not live.tasks and live.stream is not None:
                # Of a job that nobody has a handle of, nothing more is wanted.
                self.jobs.pop(live.id, None)
            self._wake.notify_all()
            return True

    def _settle_all(self, live: LiveJob, task: Task, error: BaseException) -> None:
        self._done(live, task)
        for call in task.calls:
            self.finish(call, None, error)

    def _look_at(self, live: LiveJob) -> None:
        """Asks for the tasks of a job, of which events are gone."""
        try:
            self._look_at_tasks(live)
        except Exception as error:
            for task in list(live.tasks.values()):
                self._settle_all(live, task, error)

    def _look_at_tasks(self, live: LiveJob) -> None:
        path = f"/jobs/{live.id}/tasks"
        for view in self._api.pages(path, "tasks", {"state": "finished,failed,cancelled"}):
            index = int(view["task"].split(".")[1])
            task = live.tasks.get(index)
            if task is None:
                continue
            if view["state"] == "cancelled":
                self._cancelled(live, task, view.get("reason") or "")
                continue
            try:
                result = self._api.call("GET", f"{path}/{index}/files")
            except Refused:
                result = None
            well = view["state"] == "finished"
            self._hear(live, task, well, result, view.get("reason") or "")
        if self._api.call("GET", f"/jobs/{live.id}").get("finished"):
            live.settled.set()


def _shut_down() -> GridUnreachable:
    return GridUnreachable("the Grid was shut down while the job went on")


def _flat(call: Call, result: Result) -> tuple[Call, Any, BaseException | None]:
    return call, result.value, result.error


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield int(first), int(last or first)


def _last(text: str | None, lines: int = 20) -> str:
    return "\n".join((text or "").splitlines()[-lines:])
