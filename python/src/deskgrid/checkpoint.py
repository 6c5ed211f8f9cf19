"""The state of a task that outlives its PC. The job has to be submitted with the option
``checkpoint="30s"``, the interval at which states are brought to the master.

Example::

    def simulate(seed):
        step, state = deskgrid.checkpoint.load(default=(0, start(seed)))
        for step in range(step, 1000):
            state = advance(state)
            deskgrid.checkpoint.save((step + 1, state))
        return state

Outside a task, or in one that keeps no states, ``load`` returns the default and ``save`` does
nothing.
"""

from __future__ import annotations

import os
import pickle
from typing import Any, TypeVar

T = TypeVar("T")

_FILE = "state.pickle"


def _directory() -> str | None:
    return os.environ.get("DESKGRID_CHECKPOINT_DIR")


def load(default: T) -> T | Any:
    """Returns the newest state that an earlier attempt of this task saved, or ``default``."""
    directory = _directory()
    if directory is None:
        return default
    try:
        with open(os.path.join(directory, _FILE), "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        return default


def save(state: Any) -> None:
    """Saves a state, whole or not at all. It can be anything that pickles.

    The worker takes a copy of it at the job's interval: so this may be called as often as you like.
    """
    directory = _directory()
    if directory is None:
        return
    path = os.path.join(directory, _FILE)
    with open(path + ".new", "wb") as file:
        try:
            pickle.dump(state, file, protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError):
            import cloudpickle

            file.seek(0)
            file.truncate()
            cloudpickle.dump(state, file, protocol=5)
    os.replace(path + ".new", path)
