"""What functions can use inside a task. It travels with every job.

Not here: anything that needs the grid; a task has no way to it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any


def progress(part: float, words: str = "") -> None:
    """Reports how far the task is. Outside a task this does nothing.

    Args:
        part: The part that is done, from 0 to 1.
        words: What it is doing, at most 200 bytes.

    Raises:
        ValueError: ``part`` is not between 0 and 1.
    """
    if not 0.0 <= part <= 1.0:
        raise ValueError(f"the part that is done is {part}, and not between 0 and 1")
    path = os.environ.get("DESKGRID_PROGRESS")
    if path is None:
        return
    line = f"{part:.6f} {' '.join(words.split())}".strip()
    # Renamed into place: whoever reads it sees a whole line.
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(line + "\n")
    os.replace(path + ".new", path)


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a function: so that calls of many functions are calls of one."""
    return function(*args, **kwargs)


def unpack(payload: Any, *buffers: Any) -> Any:
    """Returns the value that was packed on its own."""
    return pickle.loads(payload, buffers=list(buffers))
