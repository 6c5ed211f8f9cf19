"""The future of one call."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ._session import Session
    from ._stream import Call, Task

T = TypeVar("T")

#: Where `concurrent.futures` logs what callbacks raise.
_LOG = logging.getLogger("concurrent.futures")


class TaskFuture(concurrent.futures.Future[T]):
    """A ``concurrent.futures.Future`` that knows its task. It can be awaited, too."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._turn = threading.Lock()
        self._begun: bool | None = None
        self._call: Call | None = None
        self._job: int | None = None
        self._index = 0
        #: (Of the library.) Requests the call, which is disclosed, within so many seconds.
        self.wanted: Callable[[float | None], None] | None = None
        #: The run time of the call on its host in seconds, once it has ended there.
        self.seconds: float | None = None

    @property
    def task(self) -> str | None:
        """The task that makes the call, such as ``7.3``; ``None`` until it is submitted."""
        return None if self._job is None else f"{self._job}.{self._index}"

    @property
    def index(self) -> int:
        """(Of the library.) The number of its task in its job."""
        return self._index

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[T]], object]) -> None:
        """Calls `fn` with this future once the call has ended. Exceptions that it raises are logged; in a thread
        of the library's, ``SystemExit`` and the like, too, since other calls need that thread."""

        def told(future: concurrent.futures.Future[T]) -> None:
            try:
                fn(future)
            except Exception:
                raise
            except BaseException:
                if not threading.current_thread().name.startswith("deskgrid-"):
                    raise
                _LOG.exception("exception calling callback for %r", future)

        super().add_done_callback(told)

    def waits_for(self, call: Call) -> None:
        """(Of the library.) The call that it is the future of."""
        self._call = call

    def task_of(self) -> Task | None:
        """(Of the library.) The task that makes the call, once there is one and until it ends."""
        return None if self._call is None else self._call.task

    def launched(self, job: int, index: int) -> None:
        """(Of the library.) The call was submitted."""
        self._job, self._index = job, index

    def begin(self) -> bool:
        """(Of the library.) The call runs; returns whether anybody still wants it."""
        with self._turn:
            if self._begun is None:
                self._begun = self.set_running_or_notify_cancel()
            return self._begun

    def settle(self, value: Any, error: BaseException | None) -> None:
        """(Of the library.) The call has ended."""
        call, self._call = self._call, None
        self.wanted = None
        if call is not None:
            call.args = call.kwargs = None
        if not self.begin():
            return
        # Who is the first to say what came of it is right: the grid, or the end of this Grid.
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error)

    def cancel(self) -> bool:
        """Cancels the call, unless it runs or has ended; returns whether it is cancelled."""
        if not super().cancel():
            return False
        call, self._call = self._call, None
        self.wanted = None
        self.begin()
        if call is not None:
            self._session.drop(call)
        return True

    def result(self, timeout: float | None = None) -> T:
        """Returns the result, for which it waits; of disclosed work it requests it first.

        Args:
            timeout: The longest time to wait, in seconds.

        Raises:
            TimeoutError: It was not there in time.
            CancelledError: The call was cancelled.
            Exception: What the call raised.
        """
        value = super().result(self._request(timeout))
        # Before Python 3.13 an exception that counts as false was no exception.
        if self._exception is not None:
            raise self._exception
        return value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns what the call raised, for which it waits; of disclosed work it requests it first.

        Args:
            timeout: The longest time to wait, in seconds.

        Raises:
            TimeoutError: It was not there in time.
            CancelledError: The call was cancelled.
        """
        return super().exception(self._request(timeout))

    def __await__(self) -> Generator[Any, None, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        if self.wanted is not None:
            await asyncio.to_thread(self._request)
        return await asyncio.wrap_future(self)

    def _request(self, timeout: float | None = None) -> float | None:
        """Somebody waits for the call: if it is a disclosed one, it is requested, once. Returns how
        much of the time is left."""
        wanted = self.wanted
        if wanted is None or self.done():
            return timeout
        end = None if timeout is None else time.monotonic() + timeout
        wanted(timeout)
        return None if end is None else max(0.0, end - time.monotonic())

    def attempts(self) -> list[dict[str, Any]]:
        """Returns what the grid knows of the attempts of its task, as the API tells it."""
        view = self._info()
        attempts: list[dict[str, Any]] = view["attempts"] if view else []
        return attempts

    def stdout(self) -> str:
        """Returns what its task has written to standard output so far."""
        return self._written("stdout")

    def stderr(self) -> str:
        """Returns what its task has written to standard error so far."""
        return self._written("stderr")

    def explain(self) -> str:
        """Says how the call stands, and why it waits."""
        view = self._info()
        if view is None:
            return "the call is not submitted yet"
        reason = f": {view['reason']}" if view.get("reason") else ""
        return f"task {self.task} is {view['state']}{reason}"

    def _info(self) -> dict[str, Any] | None:
        if self._job is None:
            return None
        view: dict[str, Any] = self._session.api.call("GET", f"/jobs/{self._job}/tasks/{self._index}")
        return view

    def _written(self, stream: str) -> str:
        from .errors import Refused

        if self._job is None:
            return ""
        path = f"/jobs/{self._job}/tasks/{self._index}/{stream}"
        try:
            return self._session.api.read(path).decode(errors="replace")
        except Refused as refused:
            if refused.status == 404:
                return ""
            raise
