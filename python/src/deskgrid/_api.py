"""What can be asked of the grid, over the API that docs/api.md describes. A master that is away is
waited for; what it refuses becomes an exception.

Not here: what the answers mean for functions (:mod:`deskgrid._results`).
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from ._directory import Directory
from ._gateway import ANSWER, Gateway
from .errors import DeskgridError, GridUnreachable, Refused, from_problem

#: The pauses in seconds between two tries to reach a master that is away.
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0

#: The longest content in bytes that the API takes without its hash.
MOST_POSTED = 8 << 20

#: The statuses of answers after which a request can be sent again: the body came too slowly, or the master is away.
PASSING = (408, 503)

#: The number of bytes that are read at a time.
PIECE = 1 << 20

#: How often an answer may break off.
MOST_ANSWERS = 3

#: The longest time in seconds that sending content may take, beside a second for so many bytes of it.
SENDING = 600.0
SLOWEST = 16 << 10

#: How often in a row a transfer may break off before anything new has come.
MOST_BREAKS = 5

Json = dict[str, Any]
T = TypeVar("T")


class Ref(NamedTuple):
    """Content that the master has, by the BLAKE3 hash of its bytes."""

    blake3: str
    bytes: int


class Api:
    """The grid as one user sees it. Methods may be called from any thread.

    Args:
        dir: The directory with the user's identity; ``None`` for the usual one.
        patience: How long in seconds a master that is away is waited for.
    """

    def __init__(self, dir: str | None, patience: float) -> None:
        self.gateway = Gateway(dir)
        self.patience = patience
        self._closing = threading.Event()
        self._told = False

    def close(self) -> None:
        """Ends the gateway. Whoever waits for the master gets an exception."""
        self._closing.set()
        self.gateway.close()

    def hurry(self) -> None:
        """Lets whoever waits for the master go with an exception."""
        self._closing.set()

    def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: Json | None = None,
        key: str | None = None,
        patience: float | None = None,
    ) -> Any:
        """Asks for a document.

        Args:
            key: The key under which a submission counts once, however often it is sent.
            patience: How long in seconds to wait for the answer, if not as long as ever.

        Raises:
            Refused: The master says no.
            GridUnreachable: It did not answer in time.
        """
        headers = {}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        request = (method, path, data, query, headers, patience)
        text = self._read_answer(http.client.HTTPResponse.read, *request)
        return json.loads(text) if text else None

    def newest_event(self, job: int) -> int:
        """Returns the number of the newest event, of whatever job; this user may follow `job`.

        Raises:
            Refused: There is no such job.
            GridUnreachable: The master did not answer in time.
        """
        headers = {"Accept": "text/event-stream"}
        return self._read_answer(_first_id, "GET", "/events", None, {"job": job}, headers)

    def _read_answer(self, read: Callable[[http.client.HTTPResponse], T], *request: Any) -> T:
        """Sends a request until `read` has what it wants of the answer.

        Raises:
            GridUnreachable: It broke off again and again.
        """
        broke: Exception | None = None
        for _ in range(MOST_ANSWERS):
            try:
                with self._ask(*request) as response:
                    return read(response)
            except (OSError, http.client.HTTPException) as error:
                # The answer broke off: every request may be sent again.
                if isinstance(error, DeskgridError):
                    raise
                broke = error
        raise GridUnreachable(f"the answer to {request[1]} breaks off: {broke}", "try again later") from broke

    def send(self, content: bytes) -> Ref:
        """Sends content, so that jobs can name it. What the master has is not sent again."""
        if len(content) > MOST_POSTED:
            with Directory() as directory:
                path = os.path.join(directory, "content")
                with open(path, "wb") as file:
                    file.write(content)
                return self.send_files([path])[0]
        headers = {"Content-Type": "application/octet-stream"}
        request = ("POST", "/content", content, None, headers)
        answer = json.loads(self._read_answer(http.client.HTTPResponse.read, *request))
        return Ref(answer["blake3"], answer["bytes"])

    def send_files(self, paths: Sequence[str]) -> list[Ref]:
        """Sends files of any size."""
        return [Ref(sent["blake3"], sent["bytes"]) for sent in self._content(paths)]

    def send_tree(self, path: str) -> Json:
        """Sends a directory or archive as a tree; returns what an input has to say of it."""
        sent = self._content([path], "--tree")[0]
        return {name: sent[name] for name in ("blake3", "bytes", "parts")}

    def _content(self, paths: Sequence[str], *options: str) -> list[Json]:
        """Sends content by the command, again until the master has it."""
        if not paths:
            return []
        limit = SENDING + sum(_bytes_at(path) for path in paths) / SLOWEST
        until = time.monotonic() + self.patience
        wait = FIRST_PAUSE
        while True:
            try:
                answer = self.gateway.command("content", "send", *options, *paths, limit=limit)
                break
            except GridUnreachable as failure:
                if not failure.passing:
                    raise
                self._rest(failure, until, wait)
                wait = min(2 * wait, LONGEST_PAUSE)
        self._told = False
        content: list[Json] = answer["content"]
        return content

    def fetch(self, path: str, into: IO[bytes], query: Json | None = None) -> None:
        """Writes what is at a path into a file. A transfer that breaks off goes on.

        Raises:
            GridUnreachable: It broke off again and again with nothing new.
        """
        start = into.tell()
        furthest = breaks = 0
        while True:
            got = into.tell() - start
            headers = {"Range": f"bytes={got}-"} if got else {}
            with self._ask("GET", path, None, query, headers) as response:
                if got and response.status != 206:
                    into.seek(start)
                    into.truncate()
                broke = _copy(response, into)
            if broke is None:
                return
            got = into.tell() - start
            breaks = 0 if got > furthest else breaks + 1
            furthest = max(got, furthest)
            if breaks == MOST_BREAKS or self._closing.wait(min(FIRST_PAUSE * 2**breaks, LONGEST_PAUSE)):
                raise GridUnreachable(
                    f"the transfer of {path} breaks off after {furthest} bytes: {broke}", "try again later"
                ) from broke

    def read(self, path: str, query: Json | None = None) -> bytes:
        """Returns what is at a path."""
        with io.BytesIO() as into:
            self.fetch(path, into, query)
            return into.getvalue()

    def pages(self, path: str, name: str, query: Json | None = None) -> Iterator[Json]:
        """Yields the entries of a list, page by page."""
        after = None
        while True:
            asked = {"limit": 1000, **(query or {})}
            if after is not None:
                asked["after"] = after
            page = self.call("GET", path, query=asked)
            yield from page[name]
            after = page.get("next")
            if after is None:
                return

    @contextlib.contextmanager
    def _ask(
        self,
        method: str,
        path: str,
        data: Any,
        query: Json | None,
        headers: dict[str, str],
        patience: float | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Sends a request until somebody answers."""
        target = where(path, query)
        most = self.patience if patience is None else min(patience, self.patience)
        until = time.monotonic() + most
        wait = FIRST_PAUSE
        with contextlib.ExitStack() as stack:
            while True:
                silence = ANSWER if patience is None else min(ANSWER, max(until - time.monotonic(), 0.1))
                answer = self._try(stack, method, target, data, headers, silence)
                if isinstance(answer, http.client.HTTPResponse):
                    self._told = False
                    break
                self._rest(answer, until, wait)
                wait = min(2 * wait, LONGEST_PAUSE)
                if hasattr(data, "seek"):
                    data.seek(0)
            yield answer

    def _try(
        self,
        stack: contextlib.ExitStack,
        method: str,
        target: str,
        data: Any,
        headers: dict[str, str],
        silence: float = ANSWER,
    ) -> http.client.HTTPResponse | Exception:
        """Sends a request once. Returns a failure after which it can be sent again."""
        with contextlib.ExitStack() as attempt:
            try:
                request = self.gateway.request(method, target, data, headers, silence)
                response: http.client.HTTPResponse = attempt.enter_context(request)
                if response.status < 400:
                    stack.push(attempt.pop_all())
                    return response
                failure = from_problem(response.status, _problem(response.read()))
            except (ConnectionError, http.client.HTTPException, TimeoutError) as error:
                if isinstance(error, GridUnreachable) and not error.passing:
                    # There is no gateway, and there will be none.
                    raise
                return error
        if response.status not in PASSING:
            raise failure
        return failure

    def _rest(self, failure: Exception, until: float, seconds: float) -> None:
        """Waits before the next try, or raises if there is none."""
        if self._closing.is_set() or time.monotonic() + seconds > until:
            if isinstance(failure, GridUnreachable):
                raise failure
            raise GridUnreachable(
                f"the grid does not answer: {failure}", "deskgrid doctor says what is wrong"
            ) from failure
        if seconds > 1:
            self.tell(failure, until)
        self._closing.wait(seconds)

    def tell(self, failure: Exception, until: float) -> None:
        """Says once that something is waited for, and for how long at most."""
        if not self._told and not self._closing.is_set():
            self._told = True
            why = str(failure.args[0] if isinstance(failure, DeskgridError) else failure)
            left = max(until - time.monotonic(), 0.0)
            if isinstance(failure, GridUnreachable) and failure.busy:
                what = f"{why}; waiting for room"
            else:
                what = f"the master does not answer ({why}); waiting for it"
            print(f"deskgrid: {what} (at most {left:.0f} s)", file=sys.stderr)

    def hindrance(self) -> Exception | None:
        """Returns why the master does not answer now; nothing if it does.

        Raises:
            Refused: It has put this user out.
        """
        with contextlib.ExitStack() as stack:
            try:
                # No job has this number: of all that the master itself answers it costs the least.
                answer = self._try(stack, "GET", where("/jobs/0", None), None, {})
            except Refused as refusal:
                if refusal.status in (401, 403):
                    raise
            else:
                if isinstance(answer, Exception):
                    return answer
        self._told = False
        return None


def where(path: str, query: Json | None) -> str:
    """Returns the target of a request."""
    target = "/api/v1" + quote(path)
    return f"{target}?{urlencode(query)}" if query else target


def _copy(response: http.client.HTTPResponse, into: IO[bytes]) -> Exception | None:
    """Writes an answer into a file; returns why it broke off, if it did."""
    while True:
        try:
            piece = response.read(PIECE)
        except (OSError, http.client.HTTPException) as error:
            return error
        if not piece:
            # It says how much is left. A connection that ends too early is no error of it.
            return http.client.IncompleteRead(b"", response.length) if response.length else None
        into.write(piece)


def _bytes_at(path: str) -> int:
    """Returns the bytes of a file, or of all files below a directory; what cannot be read has none."""
    below = [path]
    if os.path.isdir(path):
        below = [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]
    size = 0
    for file in below:
        with contextlib.suppress(OSError):
            size += os.path.getsize(file)
    return size


def _first_id(stream: http.client.HTTPResponse) -> int:
    """Returns the number with which a stream of events begins: that of the newest one."""
    while line := stream.readline():
        if line.startswith(b"id: "):
            return int(line[len(b"id: ") :])
    raise ConnectionError("the events ended before the first of them")


def _problem(text: bytes) -> Json:
    try:
        value = json.loads(text)
    except ValueError:
        return {"title": text.decode(errors="replace").strip()}
    return value if isinstance(value, dict) else {}
