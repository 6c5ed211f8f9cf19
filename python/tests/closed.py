"""A network that has no way out: all that is in it reaches the master, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

#: The addresses of both ends of the cable; the net is one that nobody else has.
NET = f"10.83.{os.getpid() % 250}"
MASTER, HOST = f"{NET}.1", f"{NET}.2"


class ClosedNetwork:
    """A network namespace at the end of a cable, without a route to anywhere.

    Raises:
        OSError: It cannot be made here; the text says why.
    """

    def __init__(self) -> None:
        for program in ("unshare", "nsenter", "ip"):
            if shutil.which(program) is None:
                raise OSError(f"there is no {program}")
        # It is there for as long as its first process, which ends with its input.
        self._first: Any = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            if self._first.stdout.readline() != "ready\n":
                raise OSError(self._first.stderr.read().strip() or "no network namespace can be made")
            self._lay()
        except BaseException:
            self.close()
            raise

    @property
    def words(self) -> list[str]:
        """The beginning of a command that runs in it."""
        return ["nsenter", f"--net=/proc/{self._first.pid}/ns/net"]

    def _lay(self) -> None:
        ours, theirs = f"dg{os.getpid()}", "cable"
        pid = str(self._first.pid)
        _ip([], "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", pid)
        for words, name, address in (([], ours, MASTER), (self.words, theirs, HOST)):
            _ip(words, "address", "add", f"{address}/30", "dev", name)
            _ip(words, "link", "set", name, "up")

    def close(self) -> None:
        """Removes it, and the cable with it."""
        self._first.stdin.close()
        self._first.wait(10)


def _ip(words: list[str], *args: str) -> None:
    ran = subprocess.run([*words, "ip", *args], capture_output=True, text=True)
    if ran.returncode != 0:
        raise OSError(f"ip {' '.join(args)}: {ran.stderr.strip()}")
