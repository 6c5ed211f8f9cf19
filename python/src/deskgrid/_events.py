"""A reader of the grid's events. It goes on where it was when a connection, the gateway or the
master is gone and back, so that none is missed and none comes twice.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable

from ._api import FIRST_PAUSE, LONGEST_PAUSE, Api, Json, _problem, where
from .errors import DeskgridError, GridUnreachable, from_problem

#: The server says something every 15 s; one that is silent for so many seconds is gone.
SILENCE = 60.0


class Events:
    """Reads events in a thread of its own.

    Args:
        query: Which events: ``job`` or ``label``; with ``after``, those of before as well.
        on_event: Is called with each event.
        on_failure: Is called if there will be no more of them, with the reason.
        awaited: Says whether anybody waits for one. While somebody does, a master that is away
            for longer than the patience of `api` is a failure.
    """

    def __init__(
        self,
        api: Api,
        query: Json,
        on_event: Callable[[Json], None],
        on_failure: Callable[[BaseException], None],
        awaited: Callable[[], bool],
    ) -> None:
        self._api = api
        self._query = {**query, "results": "true"}
        self._on_event = on_event
        self._on_failure = on_failure
        self._awaited = awaited
        self._away_since: float | None = None
        self._busy: GridUnreachable | None = None
        self._pause = FIRST_PAUSE
        self._failure: BaseException | None = None
        self._last: str | None = None
        self._open = threading.Event()
        self._over = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._run, name="deskgrid-events", daemon=True)
        self._thread.start()

    def wait_until_open(self) -> None:
        """Waits until no event from now on can be missed.

        Raises:
            GridUnreachable: The master was away, or the gateway busy, for too long.
        """
        if not self._open.wait(self._api.patience):
            raise self._busy or _away(self._api.patience)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Ends the reading."""
        self._over.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                # Wakes up whoever reads from it.
                connection.sock.shutdown(2)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._follow_once()
            except BaseException as error:
                # Nobody may wait for what will not be told.
                self._failure = error
                self._open.set()
                if not self._over.is_set():
                    self._on_failure(error)
                if not isinstance(error, DeskgridError):
                    raise
                return
            self._over.wait(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _follow_once(self) -> None:
        """Reads until the connection, the gateway or the master is gone."""
        try:
            self._follow()
        except DeskgridError as failure:
            if not isinstance(failure, GridUnreachable) or not failure.passing:
                raise
            self._busy = failure if failure.busy else None
            self._look()
        except (OSError, http.client.HTTPException):
            self._busy = None
            self._look()
        finally:
            if self._connection is not None:
                self._connection.close()

    def _look(self) -> None:
        """Looks whether the master is there: a gateway holds its readers while it is not.

        Raises:
            GridUnreachable: It has been away, or the gateway busy, for longer than anybody wants to
                wait.
        """
        now = time.monotonic()
        found: Exception | None = None
        if not self._over.is_set() and self._awaited():
            found = self._busy or self._api.hindrance()
        if found is None:
            self._away_since = None
            return
        if self._away_since is None:
            self._away_since = now
        until = self._away_since + self._api.patience
        self._api.tell(found, until)
        away = time.monotonic() - self._away_since
        if away >= self._api.patience:
            busy = isinstance(found, GridUnreachable) and found.busy
            raise found if busy else _away(away)

    def _follow(self) -> None:
        """Reads one stream to its end."""
        connection = self._connection = self._api.gateway.connect(SILENCE)
        headers = {**self._api.gateway.headers(), "Accept": "text/event-stream"}
        if self._last is not None:
            headers["Last-Event-ID"] = self._last
        connection.request("GET", where("/events", self._query), None, headers)
        response = connection.getresponse()
        if response.status != 200:
            raise from_problem(response.status, _problem(response.read()))
        self._pause = FIRST_PAUSE
        self._busy = None
        if self._last is not None or "after" in self._query:
            self._open.set()
        data: list[bytes] = []
        last = None
        while not self._over.is_set():
            line = response.readline()
            if not line:
                raise ConnectionError
            line = line.rstrip(b"\r\n")
            if line.startswith(b"data: "):
                data.append(line[6:])
            elif line.startswith(b":"):
                self._look()
            elif line.startswith(b"id: "):
                last = line[4:].decode()
            elif not line:
                if data:
                    self._on_event(json.loads(b"\n".join(data)))
                    data.clear()
                if last is not None:
                    self._last = last
                    # The number of the newest event: from here on nothing can be missed.
                    self._open.set()


def _away(seconds: float) -> GridUnreachable:
    return GridUnreachable(f"the master has not answered for {seconds:.0f} s", "deskgrid doctor says what is wrong")
