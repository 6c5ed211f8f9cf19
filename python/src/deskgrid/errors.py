"""The exceptions of deskgrid. What a function of yours raises arrives as it is; these tell of
everything else.

Every message says what happened and why; the attribute ``hint`` says what to do.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import pickle
import re
from typing import Any


class DeskgridError(Exception):
    """The base of all exceptions of this library.

    Attributes:
        hint: What to do about it, or an empty text.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.hint = hint

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message}\n  try: {self.hint}" if self.hint else message


class BinaryNotFound(DeskgridError):
    """The program ``deskgrid`` is not on this machine."""


class GridUnreachable(DeskgridError, ConnectionError):
    """The master does not answer, or this machine has no identity at it yet."""

    #: (Of the library.) Whether it may answer later.
    passing = False
    #: (Of the library.) Whether it was not asked, since the gateway has as many requests as it takes.
    busy = False


class Refused(DeskgridError):
    """The master refuses what it was asked.

    Attributes:
        status: The HTTP status of the answer.
        code: A word for programs, such as ``not-found``.
    """

    def __init__(self, message: str, hint: str = "", status: int = 0, code: str = "") -> None:
        super().__init__(message, hint)
        self.status = status
        self.code = code


class NotPromised(DeskgridError):
    """The deadline of a job cannot be promised; nothing was submitted.

    Attributes:
        earliest: The earliest deadline that could be promised, or ``None``.
        fits: The number of tasks that could be done by the deadline.
    """

    def __init__(
        self, message: str, earliest: datetime.datetime | None = None, fits: int = 0
    ) -> None:
        ways = [f"a deadline by {earliest:%Y-%m-%d %H:%M:%S %Z}"] if earliest else []
        if fits:
            ways.append(f"the {fits} tasks that fit" if fits > 1 else "the one task that fits")
        super().__init__(message, f"ask for {', or for '.join(ways)}" if ways else "give more time")
        self.earliest = earliest
        self.fits = fits


class NotRunnable(DeskgridError):
    """The hosts of the grid could never do the job; nothing was submitted."""


class EnvError(DeskgridError):
    """The environment of a task cannot be made, or does not fit."""


class NotPicklable(DeskgridError, pickle.PicklingError):
    """A function or an argument cannot be sent. ``__cause__`` says why."""


class TaskError(DeskgridError):
    """The base of what can befall a task.

    Attributes:
        task: The task, such as ``7.3``.
        host: The host of its last attempt, or an empty text.
        stderr: The last lines that it wrote to standard error.
    """

    def __init__(
        self, message: str, hint: str = "", task: str = "", host: str = "", stderr: str = ""
    ) -> None:
        super().__init__(message, hint)
        self.task = task
        self.host = host
        self.stderr = stderr

    def __str__(self) -> str:
        where = f"task {self.task} on {self.host}: " if self.host else (
            f"task {self.task}: " if self.task else ""
        )
        wrote = f"\n  it wrote:\n{_indented(self.stderr)}" if self.stderr else ""
        return f"{where}{super().__str__()}{wrote}"


class RemoteError(TaskError):
    """The cause (``__cause__``) of an exception that a function raised on a host.

    Attributes:
        traceback: The traceback as the host wrote it.
    """

    def __init__(
        self, traceback: str, task: str = "", host: str = "", stderr: str = ""
    ) -> None:
        super().__init__(f"in task {task} on {host}", "", task, host, stderr)
        self.traceback = traceback

    def __str__(self) -> str:
        return f'in task {self.task} on {self.host}\n"""\n{self.traceback}"""'


class ForeignError(TaskError):
    """A function raised an exception that cannot be sent: this has its text."""


class BadResult(TaskError, pickle.UnpicklingError):
    """A result cannot be sent by its host, or not be read here. ``__cause__`` says why."""


class TaskFailed(TaskError):
    """A task ended before its function did: it exited, was killed, or took too much memory.

    Attributes:
        exit_code: The exit code of its process, or ``None``.
        reason: The reason in the master's words.
        output: What a program left (a ``TaskOutput``), if the task ran one.
    """

    def __init__(
        self,
        reason: str,
        task: str = "",
        host: str = "",
        stderr: str = "",
        exit_code: int | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(reason, hint, task, host, stderr)
        self.reason = reason
        self.exit_code = exit_code
        self.output: Any = None


class HostsLost(TaskFailed):
    """The hosts of a task were lost as often as the option ``max_losses`` allows."""


class TaskTimeout(TaskFailed, TimeoutError):
    """A call took longer than its option ``time_limit``."""


class Cancelled(TaskError, concurrent.futures.CancelledError):
    """A task was cancelled on the grid, by a command or by another program."""


class ResultGone(TaskError):
    """What a task left was removed, by ``forget`` or since nobody had requested it."""


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


#: What a gateway says that takes no more requests at a time, with the code of a master that is away.
_BUSY = re.compile(r"\d+ requests are under way")


def _overload(title: str) -> GridUnreachable:
    failure = GridUnreachable(
        f"too much is asked of the grid at a time: {title}",
        "await fewer jobs at a time: each that you come back to takes a request until it has ended",
    )
    failure.passing = failure.busy = True
    return failure


def from_problem(status: int, problem: dict[str, Any]) -> DeskgridError:
    """Makes the exception for an answer that tells of an error."""
    title = str(problem.get("title") or f"the answer has the status {status}")
    hint = str(problem.get("try") or "")
    code = str(problem.get("code") or "")
    if code == "not-promised":
        earliest = problem.get("earliest_deadline")
        when = datetime.datetime.fromisoformat(earliest.replace("Z", "+00:00")) if earliest else None
        return NotPromised(title, when, int(problem.get("fits_tasks") or 0))
    if status == 503 and _BUSY.match(title):
        return _overload(title)
    if status in (408, 502, 503):
        failure = GridUnreachable(title, hint)
        failure.passing = status != 502
        return failure
    return Refused(title, hint, status, code)
