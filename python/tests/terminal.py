"""A program on a terminal of its own: what it draws, and keys that are pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import deskgrid

CTRL_C = b"\x03"

#: The words with which a program begins that uses the library.
HEAD = "from deskgrid import Grid\nimport os, sys, time\n"


class Terminal:
    """Runs Python in the foreground of a new terminal."""

    def __init__(self, text: str, columns: int = 80) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        here = Path(deskgrid.__file__).parents[1]
        env = {**os.environ, "PYTHONPATH": f"{here}:{Path(__file__).parent}", "TERM": "xterm"}
        # What a test runner says of its own terminal is not true of this one.
        for name in ("COLUMNS", "LINES"):
            env.pop(name, None)

        def be_in_the_foreground() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [sys.executable, "-c", HEAD + text], stdin=theirs, stdout=theirs, stderr=theirs,
            env=env, start_new_session=True, preexec_fn=be_in_the_foreground,
        )  # fmt: skip
        os.close(theirs)
        self._end = ours
        self.text = ""

    def press(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def until(self, words: str, seconds: float = 60.0) -> str:
        """Reads until some words are on the terminal; returns all that was written."""
        end = time.monotonic() + seconds
        while words not in self.text:
            assert self._read(end), f"{words!r} was not written: {self.text}"
        return self.text

    def finish(self, seconds: float = 60.0) -> int:
        """Waits for the end of the program; returns its exit code."""
        end = time.monotonic() + seconds
        while self._read(end):
            pass
        return self.process.wait(max(end - time.monotonic(), 0.1))

    def _read(self, end: float) -> bool:
        """Reads what comes until then; returns whether anything did."""
        ready, _, _ = select.select([self._end], [], [], max(end - time.monotonic(), 0))
        try:
            got = os.read(self._end, 1 << 16) if ready else b""
        except OSError:
            # Nobody has the other end any more.
            got = b""
        self.text += got.decode(errors="replace")
        return bool(got)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._end)
