"""The work of one Grid: which calls wait, which jobs they become, and what of them is cancelled.

A thread of its own submits what waits. Not here: the rules by which calls are put together
(:mod:`deskgrid._stream`), what is sent (:mod:`deskgrid._sending`) and what comes back
(:mod:`deskgrid._results`).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ._api import Api, Json
from ._pack import Packed, Store
from ._results import Results
from ._sending import Sender
from ._stream import Call, Stream, Task
from ._work import LiveJob, Work
from .errors import Refused

if TYPE_CHECKING:
    from .future import TaskFuture

#: How often, in seconds, the number of slots is asked for while calls wait.
COUNT_SLOTS = 10.0

#: The number of functions of which the run times of calls are remembered.
IDLE_STREAMS = 100


class Session:
    """See the module. Methods may be called from any thread."""

    def __init__(self, dir: str | None, label: str, patience: float) -> None:
        self.api = Api(dir, patience)
        self.label = label
        self.store = Store()
        self.sender = Sender(self.api)
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self.results = Results(self.api, self.store, label, self._wake)
        self._streams: dict[Any, Stream] = {}
        self._to_cancel: dict[int, set[int]] = defaultdict(set)
        self._cancel_jobs: set[int] = set()
        self._slots = 0
        self._slots_at = 0.0
        self._closing = False
        self._closed = False
        self._close_soon = False
        #: The stream of which calls are being submitted, and the jobs of which tasks are being cancelled.
        self._fed: Stream | None = None
        self._cancelling: set[int] = set()
        _sessions.add(self)
        threading.Thread(target=self._dispatch, name="deskgrid-submit", daemon=True).start()

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
            self.results.listen()
            stream.abandoned = False
            stream.add(calls)
            self._wake.notify_all()
            return True

    def drop(self, call: Call) -> None:
        """A future was cancelled: its call is not made, if it has not been."""
        with self._wake:
            if self._closed:
                return
            task = call.task
            if task is None:
                self.results.release(call)
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

    def cancel_all(self, owner: object = None) -> None:
        """Cancels every call of an owner, or of all, also those that run, but for jobs that people have
        handles of."""
        with self._lock:
            for stream in self._streams_of(owner):
                stream.abandoned = True
        self.cancel_waiting(owner)
        with self._wake:
            self._cancel_jobs |= {job.id for job in self._jobs_of(owner)}
            self._wake.notify_all()

    def busy(self, owner: object = None) -> bool:
        """Whether anything of an owner, or of all, is awaited."""
        with self._lock:
            cancelled = self._to_cancel.keys() | self._cancel_jobs | self._cancelling
            if owner is not None:
                cancelled &= {job.id for job in self._jobs_of(owner)}
            return bool(
                cancelled
                or (self._fed is not None and _is_of(self._fed, owner))
                or any(stream.waits() for stream in self._streams_of(owner))
                or any(job.tasks for job in self._jobs_of(owner))
                or any(job.stream and _is_of(job.stream, owner) for job in self.results.told_now())
            )

    def _streams_of(self, owner: object) -> Iterator[Stream]:
        for stream in self._streams.values():
            if _is_of(stream, owner):
                yield stream

    def _jobs_of(self, owner: object) -> Iterator[LiveJob]:
        """Yields jobs of calls, and not those that people have handles of."""
        for job in self.results.jobs.values():
            if job.stream is not None and _is_of(job.stream, owner):
                yield job

    def over(self) -> bool:
        """Whether no call is taken any more."""
        return self._closing

    def open_jobs(self, owner: object = None) -> list[int]:
        """The jobs of which results are awaited; of an owner, those of calls."""
        with self._lock:
            jobs = self.results.jobs.values() if owner is None else self._jobs_of(owner)
            return sorted(job.id for job in jobs if job.tasks)

    def cancel_waiting(self, owner: object = None) -> None:
        """Cancels every call of an owner, or of all, that has not begun."""
        with self._lock:
            calls = [call for stream in self._streams_of(owner) for call in stream.waiting()]
            for job in self._jobs_of(owner):
                calls += [call for task in job.tasks.values() for call in task.calls]
        for call in calls:
            call.future.cancel()

    def wait_idle(self, most: float | None = None, owner: object = None) -> bool:
        """Waits until nothing of an owner, or of all, is awaited, or for so many seconds; returns whether
        nothing is."""
        end = None if most is None else time.monotonic() + most
        with self._wake:
            while self.busy(owner) and not self._closed:
                left = 1.0 if end is None else min(1.0, end - time.monotonic())
                if left <= 0:
                    return False
                self._wake.wait(left)
        return True

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
        self.results.close()
        self.api.close()
        self.store.close()

    def leave_to_parent(self) -> None:
        """This process was forked from the one whose session it is. No thread of that is here, but a
        lock that one of them held; what is awaited there is nobody's business here."""
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._closing = self._closed = True
        self._streams = {}
        self.results.jobs = {}
        self.api.gateway.leave_to_parent()

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
                self._cancelling = jobs | set(cancel)
            self._cancel(cancel, jobs)
            with self._wake:
                self._cancelling = set()
                self._wake.notify_all()
            for stream in due:
                self._feed(stream)
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
            # Where the number of calls of a task is given, slots do not matter: all hosts would be listed.
            slots = self.slots() if stream.chunksize is None else 1
            with self._lock:
                self._fed = stream
                chunks = stream.take(time.monotonic(), slots)
            tasks: list[Task] = []
            for chunk in chunks:
                task = self._task_of([call for call in chunk if self._packed(call)], len(tasks) + 1)
                if task is not None:
                    tasks.append(task)
            with self._lock:
                stream.withdraw(len(chunks) - len(tasks))
            if tasks:
                self.submit_calls(stream.work, tasks, stream)
            with self._lock:
                stream.submitted()
        except BaseException as error:
            with self._lock:
                failed = stream.fail()
            for call in failed:
                self.results.finish(call, None, error)
        finally:
            with self._wake:
                self._fed = None
                self._wake.notify_all()

    def _packed(self, call: Call) -> bool:
        """Whether a call could be packed; if not, its future has been told."""
        if call.future.cancelled():
            return False
        if call.packed is None:
            try:
                call.pack(self.store)
            except BaseException as error:
                self.results.finish(call, None, error)
                return False
        return True

    def _task_of(self, calls: list[Call], index: int) -> Task | None:
        """Returns the task that makes these calls, without those that were cancelled meanwhile: who
        cancels one later finds it in its task."""
        wanted: list[Call] = []
        with self._lock:
            for call in calls:
                if call.future.cancelled():
                    self.results.release(call)
                else:
                    wanted.append(call)
            return Task(index, wanted) if wanted else None

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

    def submit_calls(
        self,
        work: Work,
        tasks: list[Task],
        stream: Stream | None,
        more: Json | None = None,
    ) -> LiveJob:
        """Submits tasks as one job; `more` are further fields of the submission."""
        body = {**self.sender.body_of_calls(work, tasks), **(more or {})}
        live = self.submit(body, "calls", tasks, stream)
        for task in tasks:
            for call in task.calls:
                if call.args is not None:
                    # Should it have to be made again, it is packed again.
                    self.results.release(call)
        return live

    def submit(
        self, body: Json, kind: Literal["calls", "run"], tasks: list[Task], stream: Stream | None
    ) -> LiveJob:
        """Submits a job, and awaits its results."""
        body["label"] = [*body["label"], self.label]
        self.sender.check(body)
        with self.results.submission():
            answer = self.api.call("POST", "/jobs", body, key=str(uuid.uuid4()))
            if answer["job"] is None:
                raise Refused(answer.get("refused_because") or "the job was refused")
            self.sender.warn(answer)
            live = LiveJob(answer["job"], kind, {task.index: task for task in tasks}, stream)
            for task in tasks:
                task.job = live.id
                for call in task.calls:
                    call.future.launched(live.id, task.index)
            self.results.await_job(live)
        self._cancel_what_was_cancelled(live)
        return live

    def _cancel_what_was_cancelled(self, live: LiveJob) -> None:
        """Cancels of a new job what could not be found while it was submitted."""
        with self._wake:
            tasks = live.tasks.values()
            dropped = [task.index for task in tasks if all(c.future.cancelled() for c in task.calls)]
            if dropped:
                self._to_cancel[live.id].update(dropped)
            if live.stream is not None and live.stream.abandoned:
                self._cancel_jobs.add(live.id)
            self._wake.notify_all()


def _is_of(stream: Stream, owner: object) -> bool:
    """Whether calls are an owner's; of all, if that is nobody."""
    return owner is None or owner in stream.owners


#: The sessions of this process. One that is forked from it has none of its own.
_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _leave_all_to_parent() -> None:
    for session in list(_sessions):
        session.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)
