"""Brings functions, arguments, files and environments to the master, and describes a job that uses
them.

Not here: when a job is submitted (:mod:`deskgrid._session`).
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Literal

from . import _runtime
from ._api import MOST_POSTED, Api, Json, Ref
from ._directory import Directory
from ._options import CALLS, body_of, duration, seconds_of, several
from ._pack import FRESH, Large
from ._stream import Task
from ._work import Work
from .env import OWN, Env, Prepared
from .errors import NotRunnable, Refused

#: Calls of up to this many bytes together travel in one piece with their function.
TOGETHER = 1 << 20

#: The number of files that are sent by one command.
MOST_PARTS = 500

#: The most tasks whose calls are a file each: the master is told of each one. Calls of more tasks go
#: together to each host, if they have no more bytes than this.
MOST_APART = 50_000
MOST_SHARED = 256 << 20

#: The longest lists of what differs between the tasks of a job, in bytes: the API takes 8 MiB.
MOST_LISTED = 7 << 20


#: After how many seconds a task whose calls have processes of their own hands back those that it has
#: not begun; and for how much longer it may run than the limits of its calls say.
HAND_BACK = 2.0
SPARE = 30.0


class Sender:
    """See the module. Methods may be called from any thread."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._lock = threading.Lock()
        self._sent: dict[bytes, tuple[Ref, float]] = {}
        self._prepared: dict[Env, tuple[Prepared, float]] = {}
        self._looked = {json.dumps([[], []])}
        self._warned: set[str] = set()

    def prepare(self, work: Work) -> Prepared:
        """Sends the environment and the files of some work, once."""
        now = time.monotonic()
        if work.prepared is None or now - work.prepared_at > FRESH:
            prepared = self._environment(work)
            work.files = self.inputs(work.options.get("files") or ())
            # At the end: what has no files yet is not prepared.
            work.prepared, work.prepared_at = prepared, now
        return work.prepared

    def _environment(self, work: Work) -> Prepared:
        """Sends an environment; the same one is not looked at again."""
        prepared, at = self._prepared.get(work.env, (None, 0.0))
        if prepared is None or work.env.by_function or time.monotonic() - at > FRESH:
            prepared = work.env.prepare(self.api, work.original)
            self._prepared[work.env] = (prepared, time.monotonic())
        return prepared

    def inputs(
        self, paths: Iterable[str | os.PathLike[str]] | Mapping[str, str | os.PathLike[str]]
    ) -> list[Json]:
        """Sends files and directories; returns the inputs that name them, by the keys of a mapping
        or as they are named here."""
        if isinstance(paths, Mapping):
            return [{**self._file(path), "name": name} for name, path in paths.items()]
        return [self._file(path) for path in several(paths)]

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

    def _send_once(self, content: bytes) -> Ref:
        """Sends content that several jobs may have in common."""
        with self._lock:
            ref, at = self._sent.get(content, (None, 0.0))
        if ref is None or time.monotonic() - at > FRESH:
            ref = self.api.send(content)
            with self._lock:
                self._sent[content] = (ref, time.monotonic())
        return ref

    def body_of_calls(self, work: Work, tasks: list[Task]) -> Json:
        """Sends all that some calls need; returns the submission of a job that makes them.

        Raises:
            Refused: It has too many tasks for one job; nothing was sent.
        """
        lists = _lists(work, tasks)
        way_out = "give a larger chunksize=…, so that a task makes several calls, or submit several jobs"
        check_lists(lists, len(tasks), way_out)
        shared = _shared(work, tasks)
        where = _place_of(tasks, set(shared), way_out)
        prepared = self.prepare(work)
        inputs = self._calls(tasks, shared, where)
        job: Json = {
            "function": work.function.payload,
            "buffers": [large.name for large in work.function.buffers],
            "calls": [task.packed() for task in tasks] if where == "job" else where,
            # Results that are compared must not differ by the time that they took.
            "timed": "quorum" not in work.options,
            "apart": _apart(work, tasks),
        }
        program = self._send_once(_runtime.runner())
        head = self.api.send(pickle.dumps(job, protocol=5))

        body = body_of(work.options)
        body["name"] = work.name
        body["label"] = [*body["label"], CALLS]
        body["command"] = [*prepared.python, f"{OWN}/run.pyc"]
        body["env"] = [*body["env"], f"DESKGRID_PATHS={':'.join(prepared.paths)}"]
        if job["apart"] is not None:
            _let_calls_fail_alone(body, job["apart"]["limit"], tasks)
        if "quorum" in work.options:
            # Nor by the order of what is in a set, which Python draws anew in each process.
            body["command"] = [*prepared.same_each_time(), f"{OWN}/run.pyc"]
            body["env"].append("PYTHONHASHSEED=0")
        body["output-file"] = [f"{OWN}/out.*"]
        body["input"] = [
            {"name": f"{OWN}/run.pyc", **program._asdict()},
            {"name": f"{OWN}/job", **head._asdict()},
            *self._sources(work),
            *inputs,
            *prepared.inputs,
            *work.files,
        ]

        body.update(lists)
        return body

    def _sources(self, work: Work) -> list[Json]:
        """Sends the sources of the user's modules; returns the input that names them."""
        if not work.sources:
            return []
        content = pickle.dumps(work.sources, protocol=5)
        return [{"name": f"{OWN}/sources", **self._send_once(content)._asdict()}]

    def check(self, body: Json) -> None:
        """Raises if the hosts of the grid could never do a job that asks something of them."""
        platforms = [sorted(some["per-platform"]) for some in body["input"] if "per-platform" in some]
        asked = json.dumps([sorted(body.get("needs", ())), platforms])
        if asked in self._looked:
            return
        # Owners that a quorum lacks may be those of hosts that are about to join.
        question = {**body, "quorum": 1}
        answer = self.api.call("POST", "/jobs", question, query={"dry-run": "true"})
        why = answer.get("no_host_qualifies")
        if why:
            hint = "ask for less, with needs=…, or let more hosts join"
            raise NotRunnable(f"the hosts of the grid cannot do it: {why}", hint)
        self._looked.add(asked)

    def warn(self, answer: Json) -> None:
        """Says, once for each reason, that a job which was submitted waits for more hosts or owners."""
        why = answer.get("no_host_qualifies")
        if why and why not in self._warned:
            self._warned.add(why)
            print(f"deskgrid: job {answer['job']} will wait until the hosts suffice: {why}", file=sys.stderr)

    def _calls(self, tasks: list[Task], shared: list[Large], where: str) -> list[Json]:
        """Sends the large values of tasks, and their calls unless these are part of the job; returns
        the inputs that name them."""
        inputs = [{"name": f"{OWN}/{large.name}", **self._send_large(large)._asdict()} for large in shared]
        if where == "calls":
            inputs.append({"name": f"{OWN}/calls", **self._send_table(tasks)._asdict()})
        elif where == "part":
            parts = self._send_parts(tasks, set(shared))
            inputs.append({"name": f"{OWN}/part", "per-task": [part._asdict() for part in parts]})
        return inputs

    def _send_large(self, large: Large) -> Ref:
        with large.lock:
            if large.ref is None:
                assert large.path is not None
                large.ref = self.api.send_files([large.path])[0]
                large.sent_at = time.monotonic()
            return large.ref

    def _send_table(self, tasks: list[Task]) -> Ref:
        """Sends the calls of all tasks as one file, in which each task finds its own."""
        with Directory() as directory:
            path = os.path.join(directory, "calls")
            with open(path, "wb") as file:
                _write_table(file, tasks)
            return self.api.send_files([path])[0]

    def _send_parts(self, tasks: list[Task], shared: set[Large]) -> list[Ref]:
        """Sends for each task its calls, with what is large in them and no other task's."""
        refs: list[Ref] = []
        for at in range(0, len(tasks), MOST_PARTS):
            with Directory() as directory:
                paths = [os.path.join(directory, str(i)) for i in range(len(tasks[at : at + MOST_PARTS]))]
                for path, task in zip(paths, tasks[at:]):
                    with open(path, "wb") as file:
                        _write_part(file, task, shared)
                refs += self.api.send_files(paths)
        return refs


def check_lists(lists: Json, tasks: int, way_out: str) -> None:
    """Refuses what the API would not take, before anything is sent.

    Raises:
        Refused: What differs between the tasks is too much to list.
    """
    size = len(json.dumps(lists))
    if size > MOST_LISTED:
        raise Refused(
            f"the job has too many tasks: what differs between its {tasks} tasks is a list of {size} bytes, "
            f"of {MOST_LISTED} that a job may have",
            way_out,
        )


def _lists(work: Work, tasks: list[Task]) -> Json:
    """Returns what the grid is told of each task."""
    lists: Json = {}
    if all(len(task.calls) == 1 for task in tasks):
        lists["array"] = f"1-{len(tasks)}"
    else:
        lists["items"] = _items(tasks)
    estimate: Any = work.options.get("estimate")
    if callable(estimate):
        lists["estimates"] = [task.estimate(estimate) for task in tasks]
    return lists


def _items(tasks: list[Task]) -> list[str]:
    """Returns the numbers of each task's calls within the job: ``7``, or ``7-12``. Whoever comes back
    to the job knows from them how many calls there are."""
    ends = list(itertools.accumulate(len(task.calls) for task in tasks))
    firsts = [end - len(task.calls) for end, task in zip(ends, tasks)]
    return [str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in zip(firsts, ends)]


def _shared(work: Work, tasks: list[Task]) -> list[Large]:
    """Returns the large values that are not one task's alone."""
    used: dict[Large, int] = dict.fromkeys(work.function.buffers, 2)
    for task in tasks:
        for large in {large for call in task.calls for large in call.large()}:
            used[large] = max(used.get(large, 0) + 1, large.seen)
    # What the only task has is sent like what all have: so a later job finds it there.
    return [large for large, times in used.items() if times > 1 or len(tasks) == 1]


def _place_of(
    tasks: list[Task], shared: set[Large], way_out: str
) -> Literal["job", "calls", "part"]:
    """Returns where the calls travel: with their function, in one file, or in a file for each task.

    Raises:
        Refused: They are too many for each of these.
    """
    alone = any(large not in shared for task in tasks for call in task.calls for large in call.large())
    size = sum(len(call.payload()) for task in tasks for call in task.calls)
    if size <= TOGETHER and not alone:
        return "job"
    if len(tasks) <= MOST_APART:
        return "part"
    if size <= MOST_SHARED and not alone:
        return "calls"
    raise Refused(
        f"the job has too many tasks: {len(tasks)}, of {MOST_APART} that may have arguments as long as these",
        way_out,
    )


def _apart(work: Work, tasks: list[Task]) -> Json | None:
    """Returns how calls are made that have processes of their own; ``None`` if they have not."""
    if not work.options.get("own_process"):
        return None
    # What is submitted as a job of its own is made by it.
    hand_back = HAND_BACK if _awaited_here(tasks) else None
    return {"limit": seconds_of(work.options.get("time_limit")), "hand_back": hand_back}


def _awaited_here(tasks: list[Task]) -> bool:
    return tasks[0].calls[0].stream is not None


def _let_calls_fail_alone(body: Json, limit: float | None, tasks: list[Task]) -> None:
    """Leaves to the processes of calls, and to this one, what else the grid does with whole tasks."""
    if limit is not None:
        most = max(len(task.calls) for task in tasks)
        body["timeout"] = duration(limit * most + SPARE)
    if _awaited_here(tasks):
        body.pop("retries", None)


def _write_table(file: IO[bytes], tasks: list[Task]) -> None:
    """Writes the calls of all tasks as the runner reads them: where the list of each begins and the
    last one ends, and then the lists."""
    lists = [pickle.dumps(task.packed(), 5) for task in tasks]
    at = 8 * (len(lists) + 1)
    file.write(at.to_bytes(8, "little"))
    for calls in lists:
        at += len(calls)
        file.write(at.to_bytes(8, "little"))
    file.writelines(lists)


def _write_part(file: IO[bytes], task: Task, shared: set[Large]) -> None:
    """Writes the calls of a task as the runner reads them: their list, and then large values."""
    own: list[Large] = []
    for call in task.calls:
        own += [large for large in call.large() if large not in shared and large not in own]
    places: dict[Large, Any] = {large: large.name for large in shared}
    calls = [(call.payload(), list(call.large())) for call in task.calls]
    # The list names the places behind it, and those move when it grows: so it is packed until it fits.
    room = -1
    head = b""
    while len(head) > room:
        room = len(head)
        at = 8 + room
        for large in own:
            places[large] = (at, large.size)
            at += large.size
        head = pickle.dumps([(payload, [places[b] for b in large]) for payload, large in calls], 5)
    file.write(len(head).to_bytes(8, "little") + head.ljust(room, b"\0"))
    for large in own:
        assert large.path is not None
        with open(large.path, "rb") as content:
            shutil.copyfileobj(content, file, 1 << 20)
