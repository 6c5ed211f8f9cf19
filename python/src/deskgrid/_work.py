"""What a function's calls have in common, and the jobs that they became.

Not here: how they get to the grid (:mod:`deskgrid._sending`) and back (:mod:`deskgrid._results`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ._api import Json
from ._events import Events
from ._pack import Packed
from ._stream import Stream, Task
from .env import Env, Prepared


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


class Standing(NamedTuple):
    """How a job stands when somebody comes back to it.

    Attributes:
        event: The number of the newest event before that was asked for.
        info: The job, as the API tells of it.
        tasks: Its tasks, as the API tells of them.
    """

    event: int
    info: Json
    tasks: Sequence[Json]
