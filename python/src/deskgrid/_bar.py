"""A bar for people who wait: of tqdm where that is installed, else our own.

Not here: when calls have ended, which their futures say.
"""

from __future__ import annotations

import concurrent.futures
import html
import importlib
import importlib.util
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

#: No bar is shown of what takes less, in seconds.
SOON = 0.5

#: The shortest time in seconds between two pictures.
PAUSE = 0.1


class Progress(NamedTuple):
    """How many calls (of a job: tasks) there are in each state."""

    total: int
    finished: int
    failed: int
    cancelled: int
    running: int
    waiting: int

    @property
    def done(self) -> int:
        """The calls that have ended in one way or another."""
        return self.finished + self.failed + self.cancelled


def in_jupyter() -> bool:
    """Whether this runs in a notebook."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


class Bar:
    """Counts futures as they are done, and shows that.

    Args:
        wanted: Whether to show it, or who is told instead.
    """

    def __init__(
        self,
        futures: Sequence[concurrent.futures.Future[Any]],
        name: str,
        wanted: bool | Literal["auto"] | Callable[[Progress], None],
    ) -> None:
        self._lock = threading.Lock()
        self._total = len(futures)
        self._finished = self._failed = self._cancelled = 0
        self._start = time.monotonic()
        self._drawn = self._start + SOON - PAUSE
        self._shown = False
        self._showing = False
        self._next: Progress | None = None
        self._show = self._way(name, wanted)
        if self._show is not None:
            for future in futures:
                future.add_done_callback(self._count)

    def _way(self, name: str, wanted: Any) -> Callable[[Progress], None] | None:
        if callable(wanted):
            return wanted  # type: ignore[no-any-return]
        if wanted == "auto":
            wanted = in_jupyter() or sys.stderr.isatty()
        if not wanted:
            return None
        # In a notebook tqdm draws with widgets, and without them no better than a terminal.
        drawn_by_tqdm = ["tqdm", "ipywidgets"] if in_jupyter() else ["tqdm"]
        if all(importlib.util.find_spec(name) is not None for name in drawn_by_tqdm):
            return _Tqdm(name)
        return _Notebook(name) if in_jupyter() else _Terminal(name, self._start)

    def _count(self, future: concurrent.futures.Future[Any]) -> None:
        with self._lock:
            if future.cancelled():
                self._cancelled += 1
            elif future.exception() is not None:
                self._failed += 1
            else:
                self._finished += 1
            now = time.monotonic()
            done = self._finished + self._failed + self._cancelled
            over = done == self._total
            if now - self._drawn < PAUSE and not (over and self._shown):
                return
            self._drawn, self._shown = now, True
            self._next = Progress(
                self._total, self._finished, self._failed, self._cancelled, 0, self._total - done
            )
            if self._showing:
                # Who shows one now shows this one next: a function may itself cancel calls.
                return
            self._showing = True
        while (progress := self._to_show()) is not None:
            assert self._show is not None
            try:
                self._show(progress)
            except Exception:
                # A picture that cannot be drawn is nobody's loss.
                self._show = lambda progress: None

    def _to_show(self) -> Progress | None:
        """Takes what is to be shown next; if there is nothing, nobody shows anything any more."""
        with self._lock:
            progress, self._next = self._next, None
            self._showing = progress is not None
            return progress


class _Tqdm:
    def __init__(self, name: str) -> None:
        self.name = name
        self.bar: Any = None

    def __call__(self, progress: Progress) -> None:
        if self.bar is None:
            from tqdm.auto import tqdm

            self.bar = tqdm(total=progress.total, desc=self.name)
        self.bar.update(progress.done - self.bar.n)
        if progress.failed:
            self.bar.set_postfix(failed=progress.failed)
        if progress.done == progress.total:
            self.bar.close()


class _Terminal:
    def __init__(self, name: str, start: float) -> None:
        self.name = name
        self.start = start

    def __call__(self, progress: Progress) -> None:
        line = picture(self.name, progress, time.monotonic() - self.start, _width())
        end = "\n" if progress.done == progress.total else ""
        print(f"\r{line}\x1b[K{end}", end="", file=sys.stderr, flush=True)


def _width() -> int:
    return shutil.get_terminal_size().columns


def picture(name: str, progress: Progress, seconds: float, width: int) -> str:
    """Returns one line that says how it stands."""
    part = progress.done / max(progress.total, 1)
    failed = f"  {progress.failed} failed" if progress.failed else ""
    failed += f"  {progress.cancelled} cancelled" if progress.cancelled else ""
    left = seconds * (progress.total - progress.done) / max(progress.done, 1)
    when = f"{_clock(left)} left" if progress.done < progress.total else _clock(seconds)
    words = f" {progress.done}/{progress.total}{failed}  {when}"
    room = max(min(40, width - len(name) - len(words) - 3), 5)
    full = round(room * part)
    return f"{name} {chr(0x2588) * full}{chr(0x2591) * (room - full)}{words}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class _Notebook:
    def __init__(self, name: str) -> None:
        self.name = name
        self.handle: Any = None

    def __call__(self, progress: Progress) -> None:
        shows: Any = importlib.import_module("IPython.display")
        failed = f", {progress.failed} failed" if progress.failed else ""
        shown = shows.HTML(
            f"<div>{html.escape(self.name)} <progress max={progress.total} "
            f"value={progress.done}></progress> {progress.done}/{progress.total}{failed}</div>"
        )
        if self.handle is None:
            self.handle = shows.display(shown, display_id=True)
        else:
            self.handle.update(shown)
