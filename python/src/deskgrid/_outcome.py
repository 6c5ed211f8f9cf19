"""Reads what the runner has written down of the calls of a task.

Not here: how it gets here (:mod:`deskgrid._results`).
"""

from __future__ import annotations

import binascii
import linecache
import pickle
import re
import threading
from typing import IO, Any, NamedTuple

from .errors import BadResult, EnvError, ForeignError, HostsLost, RemoteError, TaskFailed, TaskTimeout

FIRST_LINE = "deskgrid 1"


class Place(NamedTuple):
    """The task of an outcome."""

    task: str
    host: str
    stderr: str


class Outcome(NamedTuple):
    """One line of ``out.txt``.

    ``kind`` is ``R`` for a result, ``E`` for an exception, ``U`` for a result that does not pickle,
    ``N`` for a function that cannot be read on its host, ``X`` for a call whose own process has
    ended without an outcome, and ``H`` for all calls that are left: they are handed back.
    """

    kind: str
    seconds: float
    data: bytes | None
    offset: int
    size: int


class Result(NamedTuple):
    """A value, or the exception in its place."""

    value: Any
    error: BaseException | None


class MissingModule(EnvError, ModuleNotFoundError):
    """A function needs a module that the Python of a host does not have."""


#: No call took as long, in seconds.
LONGEST = 1e9

_LINE = re.compile(r"([REUNXHreun]) (\d+\.?\d*) (?:([A-Za-z0-9+/]*={0,2})|(\d{1,18}) (\d{1,18}))", re.ASCII)


def read(text: str) -> list[Outcome]:
    """Reads ``out.txt``, up to a line that was not written to its end or has no meaning: not every
    host writes what ours do."""
    first, *lines = text.split("\n")
    if first != FIRST_LINE:
        return []
    outcomes = []
    for line in lines[:-1]:
        outcome = _outcome_of(line)
        if outcome is None:
            break
        outcomes.append(outcome)
    return outcomes


def _outcome_of(line: str) -> Outcome | None:
    found = _LINE.fullmatch(line)
    if found is None or float(found[2]) > LONGEST or found[1].isupper() != (found[3] is not None):
        return None
    kind, seconds = found[1].upper(), float(found[2])
    if found[3] is None:
        return Outcome(kind, seconds, None, int(found[4]), int(found[5]))
    try:
        return Outcome(kind, seconds, binascii.a2b_base64(found[3]), 0, 0)
    except binascii.Error:
        return None


def value_of(outcome: Outcome, long: IO[bytes] | None, place: Place) -> Result:
    """Returns the value or exception of an outcome. `long` is ``out.bin``. It raises nothing: what
    is read may be of any kind, and whoever reads it has other results to read."""
    try:
        if outcome.data is not None:
            value = pickle.loads(outcome.data)
        else:
            assert long is not None
            long.seek(outcome.offset)
            value = pickle.load(long)
        if outcome.kind == "R":
            return Result(value, None)
        if outcome.kind == "X":
            return Result(None, failure_of(str(value), place))
        return Result(None, _error(outcome.kind, value, place))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        bad = BadResult(
            f"its result cannot be read here: {type(error).__name__}: {_words_of(error)}",
            "import the modules of its class here, or return plain data",
            *place,
        )
        bad.__cause__ = error
        return Result(None, bad)


def failure_of(reason: str, place: Place) -> TaskFailed:
    """Returns the exception for a task that did not end well."""
    kind: type[TaskFailed] = TaskFailed
    hint = ""
    if "time limit" in reason or "timed out" in reason or "ran longer" in reason:
        kind, hint = TaskTimeout, "give it more time with time_limit=…"
    elif "lost" in reason:
        kind = HostsLost
    elif "wanted more memory" in reason:
        hint = "ask for hosts with more of it, with memory=…"
    elif "this worker takes at most" in reason:
        hint = "return less, or let the owner of the host raise `output_limit_bytes` of its worker"
    code = re.search(r"exit code (\d+)", reason)
    return kind(
        reason or "it ended before its function did",
        *place,
        exit_code=int(code[1]) if code else None,
        hint=hint,
    )


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return "(its text cannot be had)"


def _error(kind: str, told: tuple[str, bytes, str, str, str], place: Place) -> BaseException:
    how, data, name, message, traceback = told
    error = _original(how, data)
    if error is None:
        error = ForeignError(f"{name}: {message}", "", place.task, place.host)
    if not isinstance(error, Exception):
        error = TaskFailed(f"the function ended with {name}({message})", *place)
    elif kind == "U":
        error = BadResult(
            f"its result cannot be sent: {message}",
            "return data instead of generators, open files, locks or connections",
            place.task,
            place.host,
        )
    elif kind == "N" and isinstance(error, ModuleNotFoundError):
        error = MissingModule(
            f"{message}, on {place.host}",
            "send the packages along with env=Env.auto(), or install them on the hosts",
        )
    elif kind == "N":
        error = BadResult(
            f"the function cannot be read there: {name}: {message}",
            "use the same versions of its packages on both sides: env=Env.auto()",
            place.task,
            place.host,
        )
    elif kind == "E" and isinstance(error, ModuleNotFoundError):
        way_out = f"the Python on {place.host} lacks it: name it in env=Env.auto([…]), or install it on the hosts"
        # What `add_note` does, which came with Python 3.11.
        _set(error, "__notes__", [*getattr(error, "__notes__", ()), way_out])
    cause = RemoteError(_with_lines(traceback), place.task, place.host, place.stderr)
    # A class of the user's may let nobody change its exceptions.
    _set(error, "__cause__", cause)
    return error


def _with_lines(traceback: str) -> str:
    """Adds the lines of source that this machine has and the host has not."""
    lines = traceback.splitlines(keepends=True)
    told = []
    for line, after in zip(lines, [*lines[1:], ""]):
        told.append(line)
        frame = _FRAME.match(line)
        if frame and not after.startswith("    "):
            source = linecache.getline(frame[1], int(frame[2])).strip()
            told += [f"    {source}\n"] if source else []
    return "".join(told)


_FRAME = re.compile(r'  File "(.+)", line (\d+), in ')


def _original(how: str, data: bytes) -> BaseException | None:
    try:
        if how == "whole":
            error = pickle.loads(data)
        elif how == "parts":
            kind, args, state = pickle.loads(data)
            # Its class cannot be called with its `args`.
            error = kind.__new__(kind, *args)
            _set(error, "args", args)
            error.__dict__.update(state)
        else:
            return None
    except Exception:
        return None
    return error if isinstance(error, BaseException) else None


def _set(error: BaseException, name: str, value: Any) -> None:
    BaseException.__setattr__(error, name, value)
