"""The work of one Grid: which calls wait, which tasks they became, and what came of them.

Two threads of its own: one submits what waits, one hears what happens. Not here: the rules by which
calls are put together (:mod:`deskgrid._stream`).
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from . import _outcome, _runtime
from ._api import MOST_POSTED, Api, Json, Ref
from ._events import Events
from ._options import body_of
from ._outcome import Place
from ._run import failure_of, output_of
from ._pack import FRESH, Large, Packed, Store
from ._stream import Call, Stream, Task
from .env import Env, Prepared
from .errors import (
    Cancelled,
    DeskgridError,
    EnvError,
    NotRunnable,
    Refused,
    ResultGone,
)

if TYPE_CHECKING:
    from .future import TaskFuture

#: The label of jobs whose tasks call a function.
CALLS = "python"

#: Calls of up to this many bytes together travel in one piece with their function.
TOGETHER = 1 << 20

#: How often, in seconds, the number of slots is asked for while calls wait.
COUNT_SLOTS = 10.0

#: The number of files that are sent by one command.
MOST_PARTS = 500

#: The number of functions of which the run times of calls are remembered.
IDLE_STREAMS = 100

#: How often a call is tried again whose host has no Python.
MOST_TRIES = 3

#: The number of threads that fetch long results.
FETCHERS = 4


@dataclass(eq=False)
class Work:
    """A function with its options: what all tasks of some jobs have in common."""

    function: Packed
    original: Callable[..., Any]
    sources: dict[str, tuple[str, str]]
    options: dict[str, Any]
    env: Env
    name: str
    prepared: Prepared | None = None
    prepared_at: float = 0.0
    files: Sequence[Json] = ()


@dataclass(eq=False)
class LiveJob:
    """A job whose results are awaited."""

    id: int
    kind: Literal["calls", "run"]
    tasks: dict[int, Task]
    stream: Stream | None = None
    events: Events | None = None
    settled: threading.Event = field(default_factory=threading.Event)


class Session:
    """See the module. Methods may be called from any thread."""

    def __init__(self, dir: str | None, label: str, patience: float) -> None:
        self.api = Api(dir, patience)
        self.label = label
        self.store = Store()
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._streams: dict[Any, Stream] = {}
        self._jobs: dict[int, LiveJob] = {}
        self._adopted: dict[int, tuple[LiveJob, list[Any]]] = {}
        self._early: dict[int, list[Json]] = defaultdict(list)
        self._to_cancel: dict[int, set[int]] = defaultdict(set)
        self._cancel_jobs: set[int] = set()
        self._events: Events | None = None
        self._slots = 0
        self._slots_at = 0.0
        self._closing = False
        self._closed = False
        self._close_soon = False
        self._abandoned = False
        self._launching = 0
        self._fetches: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._sent: dict[bytes, tuple[Ref, float]] = {}
        self._prepared: dict[Env, tuple[Prepared, float]] = {}
        self._looked = {json.dumps([[], []])}
        self.listeners: list[Callable[[], None]] = []
        threading.Thread(target=self._dispatch, name="deskgrid-submit", daemon=True).start()
        for _ in range(FETCHERS):
            threading.Thread(target=self._fetch_all, name="deskgrid-fetch", daemon=True).start()

    # -- calls ---------------------------------------------------------------------------------

    def add(
        self,
        key: Any,
        make: Callable[[], Stream],
        calls: Sequence[Call],
        function: Packed | None = None,
    ) -> bool:
        """Puts calls into the stream of this key, which is made if there is none. Returns whether
        the stream calls this `function`; else nothing is put."""
        with self._wake:
            if self._closing:
                raise RuntimeError("cannot schedule new futures after shutdown")
            stream = self._streams.get(key)
            if stream is None:
                stream = self._streams[key] = make()
            elif function is not None and stream.work.function != function:
                return False
            stream.add(calls)
            self._wake.notify_all()
            return True

    def drop_packed(self, call: Call) -> None:
        """Forgets the packed arguments of a call."""
        self._release(call)

    def drop(self, call: Call) -> None:
        """A future was cancelled: its call is not made, if it has not been."""
        with self._wake:
            task = call.task
            if task is None:
                if call.stream is not None:
                    call.stream.drop(call)
                self._release(call)
            elif task.job is not None and all(c.future.cancelled() for c in task.calls):
                self._to_cancel[task.job].add(task.index)
            self._wake.notify_all()

    def stop(self, futures: Iterable[TaskFuture[Any]]) -> None:
        """Cancels calls, also those that run; but no task in which others run as well."""
        stopped = {future for future in futures if not future.done() and not future.cancel()}
        with self._wake:
            for future in stopped:
                task = future.task_of()
                if task is None or task.job is None:
                    continue
                if all(call.future in stopped or call.future.done() for call in task.calls):
                    self._to_cancel[task.job].add(task.index)
            self._wake.notify_all()

    def _release(self, call: Call) -> None:
        packed, call.packed = call.packed, None
        if packed is not None:
            for large in packed.buffers:
                self.store.used(large)

    def cancel_all(self) -> None:
        """Cancels every call, also those that run, but for jobs that people have handles of."""
        with self._lock:
            # What is being submitted right now is cancelled as soon as it has a number.
            self._abandoned = True
        self.cancel_waiting()
        with self._wake:
            self._cancel_jobs |= {job.id for job in self._jobs.values() if job.stream is not None}
            self._wake.notify_all()

    def busy(self) -> bool:
        """Whether anything is awaited."""
        with self._lock:
            return bool(
                self._launching
                or self._to_cancel
                or self._cancel_jobs
                or any(stream.waits() for stream in self._streams.values())
                or any(job.tasks for job in self._jobs.values() if job.stream is not None)
            )

    def over(self) -> bool:
        """Whether no call is taken any more."""
        return self._closing

    def open_jobs(self) -> list[int]:
        """The jobs of which results are awaited."""
        with self._lock:
            return sorted(job.id for job in self._jobs.values() if job.tasks)

    def cancel_waiting(self) -> None:
        """Cancels every call that has not begun."""
        with self._lock:
            calls = [call for stream in self._streams.values() for call in stream.waiting()]
            for job in self._jobs.values():
                if job.stream is not None:
                    calls += [call for task in job.tasks.values() for call in task.calls]
        for call in calls:
            call.future.cancel()

    def wait_idle(self, most: float | None = None) -> None:
        """Waits until nothing is awaited, or for so many seconds."""
        end = None if most is None else time.monotonic() + most
        with self._wake:
            while self.busy() and not self._closed:
                if end is not None and time.monotonic() > end:
                    return
                self._wake.wait(1.0)

    def close_when_idle(self) -> None:
        """Ends behind the scenes once nothing is awaited."""
        with self._wake:
            self._close_soon = True
            self._wake.notify_all()

    def finish(self) -> None:
        """From now on no call is taken."""
        with self._wake:
            self._closing = True

    def close(self) -> None:
        """Ends all threads and the gateway."""
        with self._wake:
            if self._closed:
                return
            self._closing = self._closed = True
            self._wake.notify_all()
            jobs = [live for live, _ in self._adopted.values()]
        for events in [self._events, *(job.events for job in jobs)]:
            if events is not None:
                events.close()
        for _ in range(FETCHERS):
            self._fetches.put(None)
        self.api.close()
        self.store.close()

    # -- submission ----------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Submits what waits, and cancels what is to be cancelled."""
        while True:
            with self._wake:
                now = time.monotonic()
                self._forget_streams()
                due = [s for s in self._streams.values() if s.due(now, self._slots or 1)]
                cancel, self._to_cancel = self._to_cancel, defaultdict(set)
                jobs, self._cancel_jobs = self._cancel_jobs, set()
                if not (due or cancel or jobs):
                    if not self.busy():
                        self.store.rest()
                        if self._close_soon:
                            break
                    if self._closed:
                        return
                    waits = [s.next_due(now) for s in self._streams.values()]
                    self._to_cancel, self._cancel_jobs = cancel, jobs
                    self._wake.wait(min([w for w in waits if w is not None], default=None))
                    continue
                self._launching += 1
            try:
                self._cancel(cancel, jobs)
                for stream in due:
                    self._feed(stream)
            finally:
                with self._wake:
                    self._launching -= 1
                    self._wake.notify_all()
        self.close()

    def _forget_streams(self) -> None:
        """Forgets the streams that no call can come to any more, and the oldest that are idle."""
        idle = [key for key, stream in self._streams.items() if stream.idle()]
        spare = len(idle) - IDLE_STREAMS
        for at, key in enumerate(idle):
            if self._streams[key].once or at < spare:
                del self._streams[key]

    def _cancel(self, tasks: dict[int, set[int]], jobs: set[int]) -> None:
        for job in jobs:
            with contextlib.suppress(Exception):
                self.api.call("POST", f"/jobs/{job}/cancel", {})
        for job, some in tasks.items():
            if job not in jobs:
                with contextlib.suppress(Exception):
                    listed = ",".join(str(task) for task in sorted(some))
                    self.api.call("POST", f"/jobs/{job}/cancel", {"tasks": listed})

    def _feed(self, stream: Stream) -> None:
        """Submits what a stream has for the grid now."""
        try:
            slots = self.slots()
            with self._lock:
                chunks = stream.take(time.monotonic(), slots)
            tasks: list[Task] = []
            for chunk in chunks:
                calls = [call for call in chunk if self._packed(call)]
                if calls:
                    tasks.append(Task(len(tasks) + 1, calls))
            if tasks:
                self.submit_calls(stream.work, tasks, stream)
        except BaseException as error:
            with self._lock:
                failed = stream.fail()
            for call in failed:
                self._finish(call, None, error)

    def _packed(self, call: Call) -> bool:
        """Whether a call could be packed; if not, its future has been told."""
        if call.future.cancelled():
            return False
        if call.packed is None:
            try:
                call.pack(self.store)
            except BaseException as error:
                self._finish(call, None, error)
                return False
        return True

    def _finish(self, call: Call, value: Any, error: BaseException | None) -> None:
        """A call has ended: its future is told, and its arguments go."""
        self._release(call)
        call.future.settle(value, error)

    def slots(self) -> int:
        """Returns the number of slots of the grid; at least 1."""
        now = time.monotonic()
        if not self._slots or now - self._slots_at > COUNT_SLOTS:
            self._slots_at = now
            try:
                hosts = self.api.pages("/hosts", "hosts")
                count = sum(host["slots_usable"] for host in hosts if not host["gone"])
            except Refused:
                count = 4
            self._slots = max(count, 1)
        return self._slots

    def listen(self) -> None:
        """Makes sure that nothing of this session's jobs is missed from now on."""
        with self._lock:
            if self._events is None:
                query = {"label": self.label}
                self._events = Events(self.api, query, self._on_event, self._on_failure)
            events = self._events
        if not events.wait_until_open(self.api.patience):
            raise DeskgridError("the grid tells of no events", "try again")

    def prepare(self, work: Work) -> Prepared:
        """Sends the environment and the files of some work, once."""
        now = time.monotonic()
        if work.prepared is None or now - work.prepared_at > FRESH:
            work.prepared = self._environment(work)
            work.files = self.send_inputs(work.options.get("files") or ())
            work.prepared_at = now
        return work.prepared

    def _environment(self, work: Work) -> Prepared:
        """Sends an environment; the same one is not looked at again."""
        prepared, at = self._prepared.get(work.env, (None, 0.0))
        if prepared is None or work.env.by_function or time.monotonic() - at > FRESH:
            prepared = work.env.prepare(self.api, work.original)
            self._prepared[work.env] = (prepared, time.monotonic())
        return prepared

    def send_inputs(
        self, paths: Iterable[str | os.PathLike[str]] | Mapping[str, str | os.PathLike[str]]
    ) -> list[Json]:
        """Sends files and directories; returns the inputs that name them, by the keys of a mapping
        or as they are named here."""
        if isinstance(paths, Mapping):
            return [{**self._file(path), "name": name} for name, path in paths.items()]
        return [self._file(path) for path in paths]

    def _file(self, path: str | os.PathLike[str]) -> Json:
        file = Path(path).absolute()
        if file.is_dir():
            return {"name": file.name, **self.api.send_tree(str(file))}
        if file.stat().st_size <= MOST_POSTED:
            ref = self.api.send(file.read_bytes())
        else:
            ref = self.api.send_files([str(file)])[0]
        executable = os.access(file, os.X_OK)
        return {"name": file.name, **ref._asdict(), "executable": executable}

    def send_once(self, content: bytes) -> Ref:
        """Sends content that several jobs may have in common."""
        with self._lock:
            ref, at = self._sent.get(content, (None, 0.0))
        if ref is None or time.monotonic() - at > FRESH:
            ref = self.api.send(content)
            with self._lock:
                self._sent[content] = (ref, time.monotonic())
        return ref

    def submit_calls(
        self,
        work: Work,
        tasks: list[Task],
        stream: Stream | None,
        more: Json | None = None,
    ) -> LiveJob:
        """Submits tasks as one job; `more` are further fields of the submission."""
        self.listen()
        prepared = self.prepare(work)
        inputs, calls = self._inputs(work, tasks)
        job = {
            "function": work.function.payload,
            "buffers": [large.name for large in work.function.buffers],
            "calls": calls,
        }
        program = self.send_once(_runtime.runner())
        head = self.api.send(pickle.dumps(job, protocol=5))
        inputs = [
            {"name": "run.pyc", **program._asdict()},
            {"name": "job", **head._asdict()},
            *self._sources(work),
            *inputs,
            *prepared.inputs,
            *work.files,
        ]
        body = {**body_of(work.options), **(more or {})}
        body["env"] = [*body["env"], f"DESKGRID_PATHS={':'.join(prepared.paths)}"]
        body["name"] = work.name
        body["command"] = [*prepared.python, "run.pyc"]
        body["input"] = inputs
        body["output-file"] = ["out.*"]
        body["label"] = [*body["label"], CALLS]
        if all(len(task.calls) == 1 and task.calls[0].index + 1 == task.index for task in tasks):
            body["array"] = f"1-{len(tasks)}"
        else:
            body["items"] = [task.item() for task in tasks]
        estimate: Any = work.options.get("estimate")
        if callable(estimate):
            body["estimates"] = [task.estimate(estimate) for task in tasks]
        live = self.submit(body, "calls", tasks, stream)
        for task in tasks:
            for call in task.calls:
                if call.args is not None:
                    # Should it have to be made again, it is packed again.
                    self._release(call)
        return live

    def _sources(self, work: Work) -> list[Json]:
        """Sends the sources of the user's modules; returns the input that names them."""
        if not work.sources:
            return []
        content = pickle.dumps(work.sources, protocol=5)
        return [{"name": "sources", **self.send_once(content)._asdict()}]

    def submit(
        self, body: Json, kind: Literal["calls", "run"], tasks: list[Task], stream: Stream | None
    ) -> LiveJob:
        """Submits a job, and awaits its results."""
        self.listen()
        body["label"] = [*body["label"], self.label]
        self._look(body)
        with self._lock:
            key = str(uuid.uuid4())
        answer = self.api.call("POST", "/jobs", body, key=key)
        if answer["job"] is None:
            raise Refused(answer.get("refused_because") or "the job was refused")
        live = LiveJob(answer["job"], kind, {task.index: task for task in tasks}, stream)
        for task in tasks:
            task.job = live.id
            for call in task.calls:
                call.future.launched(live.id, task.index)
        with self._wake:
            self._jobs[live.id] = live
            early = self._early.pop(live.id, ())
            # Whoever was cancelled meanwhile could not be found.
            dropped = [t.index for t in tasks if all(c.future.cancelled() for c in t.calls)]
            if dropped:
                self._to_cancel[live.id].update(dropped)
            if self._abandoned and stream is not None:
                self._cancel_jobs.add(live.id)
        for event in early:
            self._on_event(event)
        return live

    def _look(self, body: Json) -> None:
        """Raises if no host could ever run a job that needs something of its hosts."""
        platforms = [sorted(some["per-platform"]) for some in body["input"] if "per-platform" in some]
        asked = json.dumps([sorted(body.get("needs", ())), platforms])
        if asked in self._looked:
            return
        answer = self.api.call("POST", "/jobs", body, query={"dry-run": "true"})
        why = answer.get("no_host_qualifies")
        if why:
            raise NotRunnable(f"no host of the grid can run it: {why}", "ask for less, with needs=…")
        self._looked.add(asked)

    def _inputs(self, work: Work, tasks: list[Task]) -> tuple[list[Json], Any]:
        """Sends the large values and calls of tasks; returns the inputs that name them, and the
        calls if they are short."""
        used: dict[Large, int] = dict.fromkeys(work.function.buffers, 2)
        for task in tasks:
            for large in {large for call in task.calls for large in call.large()}:
                used[large] = max(used.get(large, 0) + 1, large.seen)
        # What the only task has is sent like what all have: so a later job finds it there.
        shared = [large for large, times in used.items() if times > 1 or len(tasks) == 1]
        inputs = [{"name": large.name, **self._send_large(large)._asdict()} for large in shared]
        apart = len(used) > len(shared)
        size = sum(len(call.payload()) for task in tasks for call in task.calls)
        if size <= TOGETHER and not apart:
            return inputs, [task.packed() for task in tasks]
        parts = self._send_parts(tasks, set(shared))
        inputs.append({"name": "part", "per-task": [part._asdict() for part in parts]})
        return inputs, None

    def _send_large(self, large: Large) -> Ref:
        with large.lock:
            if large.ref is None:
                assert large.path is not None
                large.ref = self.api.send_files([large.path])[0]
                large.sent_at = time.monotonic()
            return large.ref

    def _send_parts(self, tasks: list[Task], shared: set[Large]) -> list[Ref]:
        """Sends for each task its calls, with what is large in them and no other task's."""
        refs: list[Ref] = []
        for at in range(0, len(tasks), MOST_PARTS):
            with tempfile.TemporaryDirectory(prefix="deskgrid-") as directory:
                paths = [os.path.join(directory, str(i)) for i in range(len(tasks[at : at + MOST_PARTS]))]
                for path, task in zip(paths, tasks[at:]):
                    with open(path, "wb") as file:
                        _write_part(file, task, shared)
                refs += self.api.send_files(paths)
        return refs

    # -- results -------------------------------------------------------------------------------

    def adopt(self, live: LiveJob, futures: list[Any]) -> list[Any]:
        """Awaits the results of a job that another process may have submitted.

        Returns the futures of its calls: those that somebody awaits already, if there are any.
        """
        with self._lock:
            before = self._adopted.get(live.id)
            if before is not None:
                return before[1]
            self._adopted[live.id] = (live, futures)

        def on_event(event: Json) -> None:
            if event["event"] in ("lagged", "restored"):
                self._fetches.put(lambda: self._look_at(live))
            elif event.get("job") == live.id:
                self._tell(live, event["event"], event)

        def on_failure(failure: BaseException) -> None:
            for task in list(live.tasks.values()):
                self._settle_all(live, task, failure)

        live.events = Events(self.api, {"job": live.id, "after": 0}, on_event, on_failure)
        return futures

    def live(self, job: int) -> LiveJob | None:
        """Returns a job whose results are awaited."""
        with self._lock:
            adopted = self._adopted.get(job)
            return adopted[0] if adopted else self._jobs.get(job)

    def _on_failure(self, failure: BaseException) -> None:
        """There will be no events any more: nobody may wait for them."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            for task in list(job.tasks.values()):
                self._settle_all(job, task, failure)

    def _on_event(self, event: Json) -> None:
        kind = event["event"]
        if kind in ("lagged", "restored"):
            with self._lock:
                jobs = list(self._jobs.values())
            for job in jobs:
                self._fetches.put(lambda job=job: self._look_at(job))  # type: ignore[misc]
            return
        number = event.get("job")
        if number is None:
            return
        with self._lock:
            live = self._jobs.get(number)
            if live is None:
                if self._launching or kind == "job-submitted":
                    self._early[number].append(event)
                return
        self._tell(live, kind, event)

    def _tell(self, live: LiveJob, kind: str, event: Json) -> None:
        index = int(event["task"].split(".")[1]) if "task" in event else 0
        task = live.tasks.get(index)
        if kind == "task-running" and task is not None:
            for call in task.calls[:1]:
                call.future.begin()
        elif kind in ("task-finished", "task-failed") and task is not None:
            result = event.get("result")
            self._hear(live, task, kind == "task-finished", result, event.get("reason") or "")
        elif kind == "tasks-cancelled":
            why = event.get("reason") or "it was cancelled"
            for first, last in _ranges(event["tasks"]):
                for index in [i for i in live.tasks if first <= i <= last]:
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
        """A task has ended."""
        if live.kind == "run":
            output = output_of(self.api, live.id, task.index, well, result, reason)
            self._done(live, task)
            self._finish(task.calls[0], *output)
            return
        if not well and "not found in PATH" in reason:
            self._fetches.put(lambda: self._elsewhere(live, task, reason))
            return
        files = {file["path"]: file for file in (result or {}).get("files", ())}
        text = files.get("out.txt", {}).get("text")
        if "out.txt" in files and (text is None or "out.bin" in files):
            self._fetches.put(lambda: self._fetch(live, task, well, result or {}, reason, text))
        else:
            self._read(live, task, well, result, reason, text or "", None)

    def _elsewhere(self, live: LiveJob, task: Task, reason: str) -> None:
        """A host has no such Python: another one may have."""
        task.tries += 1
        if task.tries <= MOST_TRIES and live.stream is not None:
            body = {"tasks": str(task.index), "failed": True}
            self.api.call("POST", f"/jobs/{live.id}/retry", body)
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

    def _fetch(
        self, live: LiveJob, task: Task, well: bool, result: Json, reason: str, text: str | None
    ) -> None:
        path = f"/jobs/{live.id}/tasks/{task.index}/files"
        files = {file["path"] for file in result["files"]}
        try:
            if text is None:
                text = self.api.read(f"{path}/out.txt").decode()
            with contextlib.ExitStack() as stack:
                long = None
                if "out.bin" in files:
                    long = stack.enter_context(tempfile.TemporaryFile())
                    self.api.fetch(f"{path}/out.bin", long)
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

        def opened() -> IO[bytes]:
            if long is None:
                raise EOFError("out.bin is missing")
            return long

        settled = []
        for call, outcome in zip(task.calls, outcomes):
            settled.append((call, _outcome.value_of(outcome, opened, place)))
        if len(outcomes) == 1 and outcomes[0].kind == "N":
            settled = [(call, settled[0][1]) for call in task.calls]
        rest = task.calls[len(settled) :]
        seconds = [outcome.seconds for outcome in outcomes if outcome.kind in "RE"]
        self._done(live, task, seconds)
        for call, outcome in zip(task.calls, outcomes):
            call.future.seconds = outcome.seconds
        for call, (value, error) in settled:
            self._finish(call, value, error)
        if rest:
            failure = failure_of(reason, place)
            self._finish(rest[0], None, failure)
            self._again(live, rest[1:], failure)

    def _again(self, live: LiveJob, calls: list[Call], failure: BaseException) -> None:
        """Calls that came behind one that ended its task are made again."""
        with self._wake:
            if calls and live.stream is not None and not self._closed and calls[0].can_repeat():
                for call in calls:
                    call.task = None
                live.stream.add(calls, again=True)
                self._wake.notify_all()
                return
        for call in calls:
            self._finish(call, None, failure)

    def _done(self, live: LiveJob, task: Task, seconds: Sequence[float] = ()) -> None:
        with self._wake:
            if live.tasks.pop(task.index, None) is None:
                return
            if live.stream is not None:
                live.stream.done(task, seconds)
            if not live.tasks and live.stream is not None:
                # Of a job that nobody has a handle of, nothing more is wanted.
                self._jobs.pop(live.id, None)
            self._wake.notify_all()

    def _settle_all(self, live: LiveJob, task: Task, error: BaseException) -> None:
        self._done(live, task)
        for call in task.calls:
            self._finish(call, None, error)

    def _look_at(self, live: LiveJob) -> None:
        """Asks for the tasks of a job, of which events are gone."""
        path = f"/jobs/{live.id}/tasks"
        for view in self.api.pages(path, "tasks", {"state": "finished,failed,cancelled"}):
            index = int(view["task"].split(".")[1])
            task = live.tasks.get(index)
            if task is None:
                continue
            if view["state"] == "cancelled":
                self._cancelled(live, task, view.get("reason") or "")
                continue
            try:
                result = self.api.call("GET", f"{path}/{index}/files")
            except Refused:
                result = None
            well = view["state"] == "finished"
            self._hear(live, task, well, result, view.get("reason") or "")
        if self.api.call("GET", f"/jobs/{live.id}").get("finished"):
            live.settled.set()


def _write_part(file: IO[bytes], task: Task, shared: set[Large]) -> None:
    """Writes the calls of a task as the runner reads them: their list, and then large values."""
    own: list[Large] = []
    for call in task.calls:
        own += [large for large in call.large() if large not in shared and large not in own]
    places: dict[Large, Any] = {large: large.name for large in shared}
    calls = [(call.payload(), list(call.large())) for call in task.calls]
    # The list has the places of what follows it, so it gets a room that is surely large enough.
    longest = [(payload, [(1 << 60, 1 << 60)] * len(large)) for payload, large in calls]
    room = len(pickle.dumps(longest, 5))
    at = 8 + room
    for large in own:
        places[large] = (at, large.size)
        at += large.size
    head = pickle.dumps([(payload, [places[b] for b in large]) for payload, large in calls], 5)
    file.write(len(head).to_bytes(8, "little") + head.ljust(max(room, len(head)), b"\0"))
    for large in own:
        assert large.path is not None
        with open(large.path, "rb") as content:
            shutil.copyfileobj(content, file, 1 << 20)


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield int(first), int(last or first)


def _last(text: str | None, lines: int = 20) -> str:
    return "\n".join((text or "").splitlines()[-lines:])
