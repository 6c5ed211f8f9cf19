"""The way to the grid: a child process ``deskgrid dashboard`` that serves the API to this process
alone, over a Unix socket (on Windows over loopback with a ticket). It is started again when it
ends, and ends with this process.

Not here: what is asked (:mod:`deskgrid._api`).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from .errors import BinaryNotFound, GridUnreachable, Refused

#: Whether programs get in over the loopback address instead of a Unix socket.
LOOPBACK = not hasattr(socket, "AF_UNIX") or sys.platform == "win32"

#: The codes of failures after which the same command may succeed later.
PASSING = ("unreachable", "unavailable", "damaged")

#: The longest time in seconds until an answer begins or goes on.
ANSWER = 120.0

#: The longest time in seconds until the child says where it is.
STARTUP = 60.0


def find_binary() -> str:
    """Returns the path of the program ``deskgrid``.

    It is looked for in the environment variable ``DESKGRID_BINARY``, beside this Python, where the
    wheel has put it, and on ``PATH``.

    Raises:
        BinaryNotFound: There is none.
    """
    name = "deskgrid.exe" if sys.platform == "win32" else "deskgrid"
    named = os.environ.get("DESKGRID_BINARY")
    if named:
        if not os.access(named, os.X_OK):
            raise BinaryNotFound(
                f"DESKGRID_BINARY is {named}, which is no program",
                "set it to the path of `deskgrid`, or unset it",
            )
        return named
    places = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    with contextlib.suppress(KeyError):
        places.append(Path(sysconfig.get_path("scripts", f"{os.name}_user")))
    for place in places:
        if os.access(place / name, os.X_OK):
            return str(place / name)
    found = shutil.which("deskgrid")
    if found is None:
        raise BinaryNotFound(
            "the program `deskgrid` is not on this machine",
            "install the wheel that has it (docs/get.md), or set DESKGRID_BINARY to its path",
        )
    return found


#: Children are in a group of their own: Ctrl-C in the terminal is for this process alone.
_SESSION = sys.platform != "win32"
_FLAGS = 0 if _SESSION else 0x00000200


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("d")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.connect(self._path)
        except OSError as error:
            self.sock.close()
            if isinstance(error, FileNotFoundError):
                # The child is about to end: its socket goes before it does.
                raise ConnectionRefusedError(f"the gateway has left {self._path}") from error
            raise


class Gateway:
    """The child process, and connections to it. Methods may be called from any thread."""

    def __init__(self, dir: str | None, loopback: bool = LOOPBACK) -> None:
        self._binary = find_binary()
        self._dir = dir
        self._loopback = loopback
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._home = tempfile.mkdtemp(prefix="deskgrid-")
        self._child: subprocess.Popen[bytes] | None = None
        self._generation = 0
        self._closed = False
        self._address = ""
        self._cookie = ""
        self._pid = os.getpid()
        try:
            with self._lock:
                self._start()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int | None:
        """The process id of the child."""
        return self._child.pid if self._child else None

    def _start(self) -> None:
        self._generation += 1
        path = os.path.join(self._home, f"g{self._generation}.sock")
        args = [self._binary]
        if self._dir is not None:
            args += ["--dir", self._dir]
        args += ["--output", "json", "dashboard", "--no-open", "--tied"]
        if not self._loopback:
            args += ["--socket", path]
        log = os.path.join(self._home, "log")
        with open(log, "wb") as err:
            child = subprocess.Popen(
                args,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                start_new_session=_SESSION,
                creationflags=_FLAGS,
            )
        self._child = child
        assert child.stdout is not None
        first = _first_line(child.stdout, STARTUP)
        where = json.loads(first) if first else {}
        if "url" not in where:
            _end(child)
            with open(log, encoding="utf-8", errors="replace") as said:
                raise _did_not_start(where or _last_json(said.read()))
        self._address = where.get("socket") or where["url"]
        if self._loopback:
            self._cookie = self._exchange(where["url"])

    def _exchange(self, url: str) -> str:
        """Exchanges the ticket of an address for a cookie."""
        parts = urlsplit(url)
        self._address = parts.netloc
        connection = http.client.HTTPConnection(parts.netloc, timeout=STARTUP)
        headers = {"Sec-Fetch-Site": "same-origin"}
        connection.request("POST", parts.path, parts.fragment.encode(), headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        cookie = answer.getheader("set-cookie")
        if answer.status != 204 or not cookie:
            raise GridUnreachable("the gateway lets nobody in", "try again")
        return cookie.split(";")[0]

    def connect(self, timeout: float | None = ANSWER) -> http.client.HTTPConnection:
        """Returns a connection of the caller's own. Starts the child again if it has ended."""
        self.check_process()
        with self._lock:
            if self._closed:
                raise GridUnreachable("the Grid has been shut down", "make another one")
            if self._child is None or self._child.poll() is not None:
                self._idle.clear()
                self._start()
        connection: http.client.HTTPConnection
        if self._loopback:
            connection = http.client.HTTPConnection(self._address)
        else:
            connection = _UnixConnection(self._address)
        connection.timeout = timeout
        connection.connect()
        assert connection.sock is not None
        connection.sock.settimeout(timeout)
        return connection

    def check_process(self) -> None:
        """Raises if this process is not the one that started the child.

        Raises:
            GridUnreachable: It was forked from that one.
        """
        if os.getpid() != self._pid:
            raise GridUnreachable(
                "a Grid cannot be used in a process that was forked from its own",
                "make a Grid there",
            )

    def headers(self) -> dict[str, str]:
        """What proves to the child that it is this process which asks."""
        if not self._loopback:
            return {}
        return {"Cookie": self._cookie, "Sec-Fetch-Site": "same-origin"}

    @contextlib.contextmanager
    def request(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] | None,
        headers: dict[str, str],
        silence: float = ANSWER,
    ) -> Any:
        """Sends one request, and yields the response: to be read inside.

        Args:
            silence: How long in seconds it may say nothing.

        Raises:
            OSError, http.client.HTTPException: The connection broke.
        """
        self.check_process()
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        used = connection is not None
        connection = connection or self.connect(silence)
        connection.timeout = silence
        if connection.sock is not None:
            connection.sock.settimeout(silence)
        done = False
        try:
            sent = {**self.headers(), **headers}
            try:
                connection.request(method, path, body, sent)
                response = connection.getresponse()
            except (ConnectionError, http.client.RemoteDisconnected):
                # An idle connection may have been closed meanwhile.
                if not used or not isinstance(body, (bytes, type(None))):
                    raise
                connection.close()
                connection = self.connect(silence)
                connection.request(method, path, body, sent)
                response = connection.getresponse()
            yield response
            # What is left of its length does not come any more.
            done = response.isclosed() and not response.will_close and not response.length
        finally:
            if done and not self._closed:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def command(self, *args: str, limit: float) -> dict[str, Any]:
        """Runs a command that answers with JSON, for at most `limit` seconds.

        Raises:
            GridUnreachable: The master is away, or the command has not ended in time.
            Refused: It says no.
        """
        head = [self._binary]
        if self._dir is not None:
            head += ["--dir", self._dir]
        try:
            ran = subprocess.run(
                [*head, "--output", "json", *args],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=limit,
                start_new_session=_SESSION,
                creationflags=_FLAGS,
            )
        except subprocess.TimeoutExpired as late:
            what = f"deskgrid {' '.join(args[:2])} has not ended within {limit:.0f} s, and was ended"
            failure = GridUnreachable(what, "deskgrid doctor says what is wrong")
            failure.passing = True
            raise failure from late
        if ran.returncode == 0:
            answer: dict[str, Any] = json.loads(ran.stdout)
            return answer
        said = _last_json((ran.stdout + b"\n" + ran.stderr).decode(errors="replace"))
        error = said.get("error") or {}
        message = error.get("message") or f"deskgrid {' '.join(args[:2])} failed"
        if error.get("code") in PASSING:
            failure = GridUnreachable(message, error.get("hint") or "")
            failure.passing = True
            raise failure
        raise Refused(message, error.get("hint") or "", code=error.get("code") or "")

    def leave_to_parent(self) -> None:
        """This process was forked from the one that started the child, which lives for as long as
        anybody can write to it."""
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()

    def close(self) -> None:
        """Ends the child and all connections."""
        with self._lock:
            self._closed = True
            child, self._child = self._child, None
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if child is not None and os.getpid() == self._pid:
            _end(child)
        if os.getpid() == self._pid:
            shutil.rmtree(self._home, ignore_errors=True)


def _first_line(stream: IO[bytes], patience: float) -> bytes:
    """Reads one line; nothing if it does not come in time."""
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(stream.readline()), daemon=True)
    reader.start()
    reader.join(patience)
    return got[0] if got else b""


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the child: by the end of its input, or else by force."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _last_json(text: str) -> dict[str, Any]:
    for line in reversed(text.splitlines()):
        with contextlib.suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict):
                return value
    return {"error": {"message": text.strip()}}


def _did_not_start(said: dict[str, Any]) -> GridUnreachable:
    error = said.get("error") or {}
    message = error.get("message") or "the gateway (`deskgrid dashboard`) did not start"
    because = error.get("because")
    if because:
        message = f"{message}: {because}"
    failure = GridUnreachable(message, error.get("hint") or "deskgrid doctor says what is wrong")
    failure.passing = error.get("code") == "unreachable"
    return failure
