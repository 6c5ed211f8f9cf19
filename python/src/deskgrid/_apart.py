"""Gives each call of a task a process of its own, and waits for it: what a call leaves in memory no
other finds, and one that ends its process, or takes too long, fails alone. It travels with the job.

The processes are forked from one that has loaded the function, which costs a millisecond or two
where a Python that starts anew costs ten. Where that is not possible (on Windows), or not safe (on
macOS, whose own libraries do not stand it), each is a Python that starts anew.
"""

from __future__ import annotations

import os
import signal
import sys
from time import monotonic, perf_counter, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Any

#: The times in seconds between two looks whether a call with a time limit has ended.
SHORTEST_LOOK = 0.0005
LONGEST_LOOK = 0.05

#: The longest time in seconds between two looks that counts: a task that is suspended does not run.
MOST_COUNTED = 1.0


class Apart:
    """See the module.

    Args:
        out: The file of the outcomes.
        write_down: Writes one into it.
        task: The directory of the task.
        limit: The longest run time of a call in seconds, or ``None``.
        hand_back: After how many seconds the calls that are left are handed back, or ``None``:
            whoever awaits the others has waited for long enough.
    """

    def __init__(
        self,
        out: IO[bytes],
        write_down: Callable[[IO[bytes], str, float, Any], None],
        task: str,
        limit: float | None,
        hand_back: float | None,
    ) -> None:
        self.out = out
        self.write_down = write_down
        self.task = task
        self.limit = limit
        self.hand_back = hand_back
        forks = hasattr(os, "fork") and sys.platform != "darwin"
        self.process: type[Forked] | type[Started] = Forked if forks else Started

    def make(self, one: Callable[[int], bool], count: int, prepare: Callable[[], None]) -> bool:
        """Makes calls; `one` makes the one with a number in this process, and `prepare` loads what
        all of them need. Returns whether none of them failed."""
        if count > 1 and self.process is Forked:
            prepare()
        share_nothing_yet()
        began = monotonic()
        well = True
        for at in range(count):
            if at and self.hand_back is not None and monotonic() - began > self.hand_back:
                self.write_down(self.out, "H", 0.0, None)
                break
            well = self._one(one, at) and well
        return well

    def _one(self, one: Callable[[int], bool], at: int) -> bool:
        size = self.out.seek(0, 2)
        started = perf_counter()
        process = self.process(one, at, self.task)
        in_time = self.limit is None or ended_within(process, self.limit)
        if not in_time:
            process.kill()
        code = process.wait()
        if self._written_since(size):
            return code == 0
        # Nobody says that it was written to its end.
        self.out.truncate(size)
        self.out.seek(size)
        why = reason(code) if in_time else f"the call reached its time limit of {self.limit:g} s"
        print(f"deskgrid: {why}", file=sys.stderr, flush=True)
        self.write_down(self.out, "X", perf_counter() - started, why)
        return False

    def _written_since(self, size: int) -> bool:
        """Whether an outcome was written down as a whole."""
        if self.out.seek(0, 2) == size:
            return False
        self.out.seek(-1, 2)
        return self.out.read(1) == b"\n"


def share_nothing_yet() -> None:
    """Makes ready for processes that begin as copies of this one."""
    import gc

    # What is printed so far is printed once; and a look for garbage would copy all memory.
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()


def ended_within(process: Forked | Started, limit: float) -> bool:
    """Waits for a process; returns whether it has ended after so many seconds."""
    spent, pause = 0.0, SHORTEST_LOOK
    while not process.has_ended():
        if spent >= limit:
            return False
        before = monotonic()
        sleep(pause)
        spent += min(monotonic() - before, MOST_COUNTED)
        pause = min(2 * pause, LONGEST_LOOK)
    return True


def reason(code: int) -> str:
    """Says why a call has no outcome."""
    if code >= 0:
        return f"the call ended its process with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the process of the call was killed by {name}"


class Forked:
    """A copy of this process that makes a call."""

    def __init__(self, one: Callable[[int], bool], at: int, task: str) -> None:
        self.pid = os.fork()
        if self.pid:
            return
        code = 1
        try:
            os.setpgid(0, 0)
            be_another()
            code = 0 if one(at) else 1
            end_in_order()
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
        finally:
            os._exit(code)

    def has_ended(self) -> bool:
        """Whether it has ended, however that was."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def kill(self) -> None:
        """Ends it, and all that it has started and that has not left its group."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            # It is not yet in a group of its own, or its last one has ended.
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Waits for its end, and ends what it has left running. Returns its exit code; if it was
        killed, the signal with a minus."""
        # As long as it is not buried, its number is nobody else's.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self.kill()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Started:
    """A Python that starts anew and makes a call."""

    def __init__(self, one: Callable[[int], bool], at: int, task: str) -> None:
        from subprocess import Popen

        words = [sys.executable, *sys.orig_argv[1:]]
        self.child = Popen(words, cwd=task, env={**os.environ, "DESKGRID_CALL": str(at)})

    def has_ended(self) -> bool:
        """Whether it has ended, however that was."""
        return self.child.poll() is not None

    def kill(self) -> None:
        """Ends it; what it has started ends with the task."""
        self.child.kill()

    def wait(self) -> int:
        """Waits for its end. Returns its exit code; if it was killed, the signal with a minus."""
        return self.child.wait()


def be_another() -> None:
    """Makes a copy differ in what should never be the same in two processes."""
    import atexit

    # What is to be done at the end of the process that this one was copied from, it does itself.
    atexit._clear()
    # Python's own generator is seeded anew by Python, and NumPy's by nobody.
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def end_in_order() -> None:
    """Does what Python does at its end, as far as a call may have asked for it."""
    import atexit

    threads = sys.modules.get("threading")
    if threads is not None:
        threads._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
