"""The options of jobs, and what becomes of them in a submission."""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, Union

if TYPE_CHECKING:
    from .env import Env

if sys.version_info >= (3, 11):
    from typing import Unpack as Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack

Duration = Union[str, float, datetime.timedelta]
"""A length of time: ``"90s"``, ``"1h 30m"``, a number of seconds, or a ``timedelta``."""


class Options(TypedDict, total=False):
    """How tasks are run. Every option has a default; ``Grid(…)`` sets others for all its jobs."""

    name: str
    """The name of the job; by default that of the function."""
    labels: Sequence[str]
    """Labels by which the job is found again."""
    own_process: bool
    """Whether each call has a process of its own, in which it finds nothing of others and fails
    alone (no: short calls share one)."""
    retries: int
    """How often a call that failed is tried again (0)."""
    max_losses: int
    """How many attempts of a task may be lost with their hosts (10)."""
    max_fails: int
    """The number of failed tasks beyond which the rest is cancelled (no limit)."""
    time_limit: Duration
    """The longest run time of one call, without suspensions (no limit)."""
    estimate: Duration | Callable[[Any], float]
    """The run time of one call on a host of speed 1; or a function that says it in seconds, given
    the (first) argument of each call."""
    deadline: Duration | datetime.datetime
    """The time by which all of it has to be done: a date, or a duration from now."""
    priority: int
    """The priority among your own jobs: higher goes first (0)."""
    policy: str
    """The policy that places the tasks."""
    quorum: int
    """The number of results of a task that have to agree (1)."""
    checkpoint: Duration
    """The interval at which tasks save their state (none is saved)."""
    memory: str
    """The main memory of a task: ``"4G"``."""
    cpus: int
    """The processors of a task (1)."""
    gpus: int
    """The graphics processors of a task (0)."""
    needs: str | Sequence[str]
    """Other needs of a task, such as ``"os=linux,label=lab3"``."""
    network: bool
    """Whether tasks use the network (no)."""
    files: Sequence[str | PathLike[str]]
    """Files and directories that tasks find in their directory, under their own names."""
    variables: Mapping[str, str]
    """Variables of the tasks' environment."""
    env: Env
    """The Python in which functions run."""


#: The label of jobs whose tasks call a function: by it they are known when somebody comes back to them.
CALLS = "deskgrid-calls"

#: Options that hold for a job as a whole, or make its tasks too different to be put together.
ONE_BY_ONE = frozenset({"quorum", "checkpoint", "time_limit", "retries"})
ALL_AT_ONCE = frozenset({"deadline", "max_fails"})

_KNOWN = frozenset(Options.__annotations__)


def one_by_one(options: Mapping[str, Any]) -> bool:
    """Whether calls with these options are not put together."""
    asked = set(ONE_BY_ONE & options.keys())
    if options.get("own_process") and seconds_of(options.get("time_limit")) is not None:
        # The limit of a call is kept where it runs.
        asked.discard("time_limit")
    return bool(asked)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PARTS = re.compile(r"\s*(\d+)\s*(ms|s|m|h|d)(?![a-z])")


def seconds_of(value: Duration | None) -> float | None:
    """Returns a length of time in seconds; ``None`` for a text with words that only the master
    knows."""
    if value is None or not isinstance(value, str):
        return None if value is None else _number(value)
    parts = _PARTS.findall(value)
    if not parts or _PARTS.sub("", value).strip():
        return None
    return float(sum(int(count) * _UNITS[unit] for count, unit in parts))


def _number(value: float | datetime.timedelta) -> float:
    return value.total_seconds() if isinstance(value, datetime.timedelta) else float(value)


def duration(value: Duration) -> str:
    """Returns a length of time as the API reads it.

    Raises:
        ValueError: It is negative.
    """
    if isinstance(value, str):
        return value
    seconds = _number(value)
    if not 0 <= seconds < 1e10:
        raise ValueError(f"{value!r} is no length of time")
    return f"{round(seconds * 1000)}ms"


def _deadline(value: Duration | datetime.datetime) -> str:
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return duration(value)


def merged(defaults: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options with the defaults behind them.

    Raises:
        TypeError: There is no such option.
        ValueError: A label is the library's own.
    """
    unknown = sorted(set(options) - _KNOWN)
    if unknown:
        raise TypeError(f"there is no option {unknown[0]!r}; there are {', '.join(sorted(_KNOWN))}")
    both = {**defaults, **{name: value for name, value in options.items() if value is not None}}
    if "labels" in both:
        both["labels"] = several(both["labels"])
        if CALLS in both["labels"]:
            raise ValueError(f"the label {CALLS!r} says that a job calls a function: give another one")
    return both


def body_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options as fields of a submission."""
    body: dict[str, Any] = {}
    plain = {
        "retries": "retries",
        "max_losses": "max-losses",
        "max_fails": "max-fails",
        "priority": "priority",
        "policy": "policy",
        "quorum": "quorum",
        "network": "network",
    }
    for name, field in plain.items():
        if name in options:
            body[field] = options[name]
    for name, field in {"time_limit": "timeout", "checkpoint": "checkpoint"}.items():
        if name in options:
            body[field] = duration(options[name])
    if "estimate" in options and not callable(options["estimate"]):
        body["estimate"] = duration(options["estimate"])
    if "deadline" in options:
        body["deadline"] = _deadline(options["deadline"])
    needs = _needs(options)
    if needs:
        body["needs"] = needs
    variables = dict(options.get("variables") or {})
    wrong = [name for name in variables if not name or "=" in name]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no name of a variable")
    body["env"] = [f"{name}={_literal(value)}" for name, value in variables.items()]
    body["label"] = several(options.get("labels"))
    return body


def several(said: Any) -> list[Any]:
    """Returns what was said as a list: one text or path is one, and not its letters."""
    if said is None:
        return []
    return [said] if isinstance(said, (str, bytes, PathLike)) else list(said)


def _needs(options: Mapping[str, Any]) -> list[str]:
    needs: list[str] = several(options.get("needs"))
    for option, need in (("memory", "mem"), ("cpus", "cpus"), ("gpus", "gpu")):
        if option in options:
            needs.append(f"{need}={options[option]}")
    return needs


def _literal(text: str) -> str:
    """Returns a text in which nothing is a placeholder."""
    return str(text).replace("%{", "%%{")
