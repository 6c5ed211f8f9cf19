"""A reader of the grid's events. It goes on where it was when a connection, the gateway or the
master is gone and back, so that none is missed and none comes twice.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Callable

from ._api import FIRST_PAUSE, LONGEST_PAUSE, Api, Json, _problem, where
from .errors import DeskgridError, from_problem

#: The server says something every 15 s; one that is silent for so many seconds is gone.
SILENCE = 60.0


class Events:
    """Reads events in a thread of its own.

    Args:
        query: Which events: ``job`` or ``label``; with ``after``, those of before as well.
        on_event: Is called with each event.
        on_failure: Is called if there will be no more of them, with the reason.
    """

    def __init__(
        self,
        api: Api,
        query: Json,
        on_event: Callable[[Json], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._api = api
        self._query = {**query, "results": "true"}
        self._on_event = on_event
        self._on_failure = on_failure
        self._last: str | None = None
        self._open = threading.Event()
        self._over = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._run, name="deskgrid-events", daemon=True)
        self._thread.start()

    def wait_until_open(self, seconds: float) -> bool:
        """Waits until no event from now on can be missed."""
        return self._open.wait(seconds)

    def close(self) -> None:
        """Ends the reading."""
        self._over.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                # Wakes up whoever reads from it.
                connection.sock.shutdown(2)

    def _run(self) -> None:
        wait = FIRST_PAUSE
        while not self._over.is_set():
            try:
                self._follow()
                wait = FIRST_PAUSE
            except DeskgridError as failure:
                if not self._over.is_set():
                    self._open.set()
                    self._on_failure(failure)
                return
            except (OSError, http.client.HTTPException, ValueError):
                wait = min(2 * wait, LONGEST_PAUSE)
            except Exception as error:
                # Nobody may wait for what will not be told.
                self._open.set()
                self._on_failure(error)
                raise
            finally:
                if self._connection is not None:
                    self._connection.close()
            self._over.wait(wait)

    def _follow(self) -> None:
        """Reads one stream to its end."""
        connection = self._connection = self._api.gateway.connect(SILENCE)
        headers = {**self._api.gateway.headers(), "Accept": "text/event-stream"}
        if self._last is not None:
            headers["Last-Event-ID"] = self._last
        connection.request("GET", where("/events", self._query), None, headers)
        response = connection.getresponse()
        if response.status == 503:
            response.read()
            raise ConnectionError
        if response.status != 200:
            raise from_problem(response.status, _problem(response.read()))
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
