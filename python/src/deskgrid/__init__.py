"""deskgrid: run Python functions and any programs on the PCs of your office, while nobody needs
them.

::

    from deskgrid import Grid

    with Grid() as g:
        for y in g.map(f, items):
            print(y)
"""

from __future__ import annotations

from . import checkpoint
from ._bar import Progress
from ._inside import progress
from ._options import Options
from ._outcome import MissingModule
from ._pack import Shared
from ._run import TaskOutput
from .env import Env
from .errors import (
    BadResult,
    BinaryNotFound,
    Cancelled,
    DeskgridError,
    EnvError,
    ForeignError,
    GridUnreachable,
    HostsLost,
    NotPicklable,
    NotPromised,
    NotRunnable,
    Refused,
    RemoteError,
    ResultGone,
    TaskError,
    TaskFailed,
    TaskTimeout,
)
from .future import TaskFuture
from .aio import AsyncGrid
from .grid import Grid
from .job import Failure, Forecast, Job

__all__ = [
    "AsyncGrid",
    "BadResult",
    "BinaryNotFound",
    "Cancelled",
    "DeskgridError",
    "Env",
    "EnvError",
    "Failure",
    "Forecast",
    "ForeignError",
    "Grid",
    "GridUnreachable",
    "HostsLost",
    "Job",
    "MissingModule",
    "NotPicklable",
    "NotPromised",
    "NotRunnable",
    "Options",
    "Progress",
    "Refused",
    "RemoteError",
    "ResultGone",
    "Shared",
    "TaskError",
    "TaskFailed",
    "TaskFuture",
    "TaskOutput",
    "TaskTimeout",
    "checkpoint",
    "progress",
]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        return version("deskgrid")
    raise AttributeError(f"module 'deskgrid' has no attribute {name!r}")
