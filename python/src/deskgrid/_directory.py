"""Temporary directories that are removed by the process that made them and by no other: one that was
forked from it knows them, too, and ends when it likes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref


class Directory:
    """A temporary directory, until it is left, forgotten, or the program ends."""

    def __init__(self, prefix: str = "deskgrid-") -> None:
        self.path = tempfile.mkdtemp(prefix=prefix)
        self._end = weakref.finalize(self, _remove, self.path, os.getpid())

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Removes it with all that is in it."""
        self._end()


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
