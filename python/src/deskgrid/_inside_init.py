"""The package ``deskgrid`` as functions see it inside a task."""

from typing import Any

from deskgrid import checkpoint
from deskgrid._inside import progress

__all__ = ["checkpoint", "progress"]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"inside a task `deskgrid` has no `{name}`: only `progress` and `checkpoint`")
