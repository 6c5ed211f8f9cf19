"""The grid as an executor."""

from __future__ import annotations

import atexit
import concurrent.futures
import datetime
import functools
import sys
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from . import _pack
from ._bar import Bar, Progress
from ._options import ALL_AT_ONCE, Options, body_of, merged, one_by_one, several
from ._pack import Shared, dump, pack_call, pack_function, pack_own, sources_of
from ._run import TaskOutput
from ._sending import check_lists
from ._session import Session
from ._stream import Call, Stream, Task, estimated
from ._work import Work
from .env import Env, Prepared
from .future import TaskFuture
from .job import Job, time_of

if TYPE_CHECKING:
    from ._options import Unpack

    from typing_extensions import ParamSpec

    P = ParamSpec("P")

T = TypeVar("T")

#: The run times in seconds that make a task worth its cost: of `map`, and of calls that are
#: submitted one by one, where somebody may wait for each.
MAP_TARGET = 30.0
SUBMIT_TARGET = 1.0

#: The run time in seconds of a call that does nothing in a process of its own.
OWN_PROCESS = 0.002

#: For how long in seconds the grid is waited for when calls are cancelled: without a word, and then
#: with one.
SOON = 1.0
CANCELLING = 9.0


class Grid(concurrent.futures.Executor):
    """The grid: an executor whose calls run on the PCs of an office.

    Args:
        dir: The directory with your identity (``deskgrid login``); by default the usual one.
        label: A label for all jobs.
        progress: Whether to show a bar: ``"auto"`` on terminals and in Jupyter. A function is
            called with a :class:`Progress` instead, several times a second at most.
        patience: How long in seconds a master that is away is waited for.
        defaults: Options for all jobs: ``env``, the Python in which functions run, and the others
            of :class:`Options`.

    Raises:
        BinaryNotFound: The program ``deskgrid`` is not here.
        GridUnreachable: This machine has no identity at a master.

    Example::

        with Grid() as g:
            for y in g.map(f, range(100)):
                print(y)
    """

    def __init__(
        self,
        *,
        dir: str | PathLike[str] | None = None,
        label: str | None = None,
        progress: bool | Literal["auto"] | Callable[[Progress], None] = "auto",
        patience: float = 600.0,
        **defaults: Unpack[Options],
    ) -> None:
        if label is not None:
            defaults["labels"] = [*several(defaults.get("labels")), label]
        self._defaults = merged({}, defaults)
        self._progress: bool | Literal["auto"] | Callable[[Progress], None] = progress
        self._session = Session(
            None if dir is None else str(dir), f"py-{uuid.uuid4().hex[:12]}", patience
        )
        self._owner = True
        self._root: Grid | None = None
        self._token = object()
        self._tokens: tuple[object, ...] = ()
        self._kept: set[int] = set()
        session = self._session
        self._at_exit = weakref.finalize(self, _leave, session)
        self._at_exit.atexit = False
        atexit.register(_at_exit, weakref.ref(session))

    def using(self, **options: Unpack[Options]) -> Grid:
        """Returns the same grid with other options, for :meth:`submit` above all::

            g.using(retries=3, memory="4G").submit(f, x)

        A ``with`` of it waits for its calls, and of an exception cancels them; the grid goes on.
        """
        other = object.__new__(Grid)
        other.__dict__.update(self.__dict__)
        other._defaults = merged(self._defaults, options)
        other._owner = False
        other._token = object()
        # What is made of a handle ends with it.
        other._tokens = (*self._tokens, other._token)
        # The grid goes on as long as anybody has one of both.
        other._root = self
        return other

    @property
    def _max_workers(self) -> int:
        """The number of slots, as other libraries ask for it."""
        return self._session.slots()

    def __reduce__(self) -> Any:
        raise TypeError("a Grid cannot be sent to a task: tasks have no way to the grid")

    # -- calls ---------------------------------------------------------------------------------

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> TaskFuture[T]:
        """Calls ``fn(*args, **kwargs)`` on the grid.

        Calls are gathered for 20 ms into one job. Short ones are put together as it becomes known
        how long they take. Arguments are packed at once: what is changed later does not count.

        Raises:
            RuntimeError: The grid was shut down.
        """
        return self._submit(fn, args, kwargs, fn)

    def _submit(
        self,
        fn: Callable[..., T],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        original: Callable[..., Any],
    ) -> TaskFuture[T]:
        """Submits a call. `original` is what it comes to: the job is named after it, and has the
        packages that it imports."""
        self._check_open()
        future: TaskFuture[T] = TaskFuture(self._session)
        try:
            function = pack_function(fn, self._session.store)
            packed = pack_call(args, kwargs, self._session.store)
        except TypeError:
            raise
        except Exception as error:
            future.settle(None, error)
            return future
        call = Call(future, packed=packed)
        call.args = None
        estimate: Any = self._defaults.get("estimate")
        if callable(estimate):
            call.seconds = estimated(estimate, args)
        future.waits_for(call)
        named = getattr(original, "func", original)
        key = (self._token, getattr(named, "__module__", ""), getattr(named, "__qualname__", ""))

        def make() -> Stream:
            return self._stream(original, function, {}, None, SUBMIT_TARGET)

        if not self._session.add(key, make, [call], function):
            # A lambda or partial that differs from those before it: it goes with its call.
            self._session.results.release(call)
            call.packed = pack_own(fn, args, kwargs, self._session.store)
            self._session.add(key, make, [call])
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | Literal["auto"] = "auto",
        ordered: bool = True,
        **options: Unpack[Options],
    ) -> Iterator[T]:
        """Calls a function with each item, and yields the results as they are asked for.

        Args:
            timeout: The longest time in seconds, from now, until a result is there.
            chunksize: How many calls make one task. By itself it is one at first, and then as many
                as take about 30 s.
            ordered: Whether the results come in the order of the items, or as they are there.

        Raises:
            TimeoutError: A result was not there in time.
            Exception: What a call raised, when it is reached; the rest is cancelled then.
        """
        end = None if timeout is None else time.monotonic() + timeout
        return _results(self._futures(fn, iterables, chunksize, options), end, ordered)

    def _futures(
        self,
        fn: Callable[..., T],
        iterables: Sequence[Iterable[Any]],
        chunksize: int | Literal["auto"],
        options: Any,
    ) -> list[TaskFuture[T]]:
        """Starts the calls of a `map`."""
        self._check_open()
        if chunksize != "auto" and chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        function = pack_function(fn, self._session.store)
        futures: list[TaskFuture[T]] = []
        calls: list[Call] = []
        for args in zip(*iterables):
            future: TaskFuture[T] = TaskFuture(self._session)
            call = Call(future, args)
            future.waits_for(call)
            futures.append(future)
            calls.append(call)
        if calls:
            size = None if chunksize == "auto" else chunksize
            stream = self._stream(fn, function, options, size, MAP_TARGET, once=True)
            self._session.add(object(), lambda: stream, calls)
        self.show(futures, getattr(fn, "__name__", "map"))
        return futures

    def bag(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        **options: Unpack[Options],
    ) -> Job[T]:
        """Submits a call for each item as one job that outlives this process.

        Its number finds it again, from any machine: ``Grid().job(7).results()``.

        Raises:
            NotPromised: The deadline cannot be promised; nothing was submitted.
            NotRunnable: No host could ever run it; nothing was submitted.
            Refused: There are too many tasks for one job; nothing was sent.
            NotPicklable: The function or an argument cannot be sent.
        """
        return self._bag(fn, iterables, chunksize, options, {})

    def speculate(
        self, fn: Callable[..., T], *iterables: Iterable[Any], **options: Unpack[Options]
    ) -> Job[T]:
        """Discloses a call for each item: the grid makes them while it has nothing better to do.

        Asking for a result (``job.futures[3].result()``, or ``await``) requests it: only then somebody
        waits for it, and it goes before what is merely disclosed. :meth:`Job.results` and the other
        ways to wait for the job request all. Functions of ``concurrent.futures`` request nothing.
        """
        job = self._bag(fn, iterables, 1, options, {"disclose": True})
        for index, future in enumerate(job.futures):
            job.wants(future, index)
        return job

    def _bag(
        self,
        fn: Callable[..., T],
        iterables: Sequence[Iterable[Any]],
        chunksize: int,
        options: Any,
        more: dict[str, Any],
    ) -> Job[T]:
        self._check_open()
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        store = self._session.store
        function = pack_function(fn, store)
        calls: list[Call] = []
        futures: list[TaskFuture[T]] = []
        for args in zip(*iterables):
            future: TaskFuture[T] = TaskFuture(self._session)
            futures.append(future)
            calls.append(Call(future, args, None, pack_call(args, {}, store)))
        if not calls:
            raise ValueError("there are no items: a job needs one at least")
        starts = range(0, len(calls), chunksize)
        tasks = [Task(at + 1, calls[i : i + chunksize]) for at, i in enumerate(starts)]
        work = self._work(fn, function, options)
        live = self._session.submit_calls(work, tasks, None, more)
        self._kept.add(live.id)
        return Job(self, live.id, futures)

    def run(
        self,
        argv: Sequence[str | PathLike[str]],
        *,
        items: Iterable[Any] | None = None,
        inputs: Iterable[str | PathLike[str]] | Mapping[str, str | PathLike[str]] = (),
        outputs: Iterable[str] = (),
        stdin: str | None = None,
        prepared: Prepared | None = None,
        **options: Unpack[Options],
    ) -> Job[TaskOutput]:
        """Runs any program: one task, or one for each item.

        Args:
            argv: The program and its arguments. ``%{ITEM}``, ``%{TASK_ID}`` and the other
                placeholders of ``deskgrid submit`` stand for what they stand for there.
            inputs: Files and directories on this machine that each task finds in its directory,
                under their own names; or a mapping from their paths there.
            outputs: Patterns of the files to bring back: ``out/*.csv``.
            stdin: The name of the input that is its standard input.
            prepared: (Of the library.) An environment that goes with it.

        Returns:
            A job whose results are :class:`TaskOutput`. A task that fails raises ``TaskFailed``.

        Raises:
            Refused: The items are too many for one job; nothing was sent.
        """
        self._check_open()
        if isinstance(argv, (str, bytes)):
            raise TypeError(f"the command is one text: give its words, such as {str(argv).split()!r}")
        given = merged(self._defaults, options)
        body = body_of(given)
        count = 1
        if items is not None:
            body["items"] = [str(item) for item in items]
            count = len(body["items"])
            if not count:
                raise ValueError("there are no items: a job needs one at least")
            check_lists({"items": body["items"]}, count, "submit several jobs with some of the items each")
        body["command"] = [str(word) for word in argv]
        body["output-file"] = several(outputs)
        more = prepared.inputs if prepared is not None else []
        files = self._session.sender.inputs(given.get("files") or ())
        body["input"] = [*self._session.sender.inputs(inputs), *files, *more]
        if stdin is not None:
            body["stdin"] = stdin
        if "name" in given:
            body["name"] = given["name"]
        futures: list[TaskFuture[TaskOutput]] = [TaskFuture(self._session) for _ in range(count)]
        tasks = [Task(i + 1, [Call(future)]) for i, future in enumerate(futures)]
        live = self._session.submit(body, "run", tasks, None)
        self._kept.add(live.id)
        return Job(self, live.id, futures)

    def job(self, id: int | Literal["last"] = "last") -> Job[Any]:
        """Returns a job by its number, whoever submitted it; ``"last"`` is your newest one."""
        info = self._session.api.call("GET", f"/jobs/{id}")
        return Job(self, info["job"])

    def put(self, value: Any) -> Shared:
        """Packs a value once, for many calls. Functions get the value itself.

        It is rarely needed: large arguments that are equal are sent once all the same.
        """
        return Shared(*dump(value))

    def hosts(self) -> list[dict[str, Any]]:
        """Returns the hosts of the grid, as the API tells of them."""
        return [host for host in self._session.api.pages("/hosts", "hosts") if not host["gone"]]

    def forecast(self, count: int, **options: Unpack[Options]) -> datetime.datetime:
        """Says by when so many calls would be done, could the grid be asked to promise it now.

        Args:
            options: ``estimate`` above all, the run time of one of them.

        Raises:
            NotPromised: The ``deadline`` (100 days, if none is given) cannot be promised.
        """
        options.setdefault("deadline", "100d")
        body = body_of(merged(self._defaults, options))
        body.update({"command": ["true"], "array": f"1-{count}"})
        answer = self._session.api.call("POST", "/jobs", body, query={"dry-run": "true"})
        return time_of(answer["promised_finish"])

    def _work(self, fn: Callable[..., Any], function: _pack.Packed, options: Any) -> Work:
        options = merged(self._defaults, options)
        name = options.get("name") or _name_of(fn)
        clean = "".join(c if c.isprintable() else "?" for c in str(name))[:50]
        env = options.get("env") or Env.host()
        # Objects of the user's are not kept: of a method its function will do.
        original = functools.partial(fn).func if env.by_function else abs
        original = getattr(original, "__func__", original)
        return Work(function, original, sources_of(fn), options, env, clean or "call")

    def _stream(
        self,
        fn: Callable[..., Any],
        function: _pack.Packed,
        options: Any,
        size: int | None,
        target: float,
        once: bool = False,
    ) -> Stream:
        work = self._work(fn, function, options)
        at_once = not ALL_AT_ONCE.isdisjoint(work.options)
        if size is None and (at_once or one_by_one(work.options)):
            size = 1
        stream = Stream(work, size, target, at_once or once, once, owners=self._tokens)
        if work.options.get("own_process"):
            stream.target, stream.least = SUBMIT_TARGET, OWN_PROCESS
        return stream

    # -- the end -------------------------------------------------------------------------------

    def _check_open(self) -> None:
        self._session.api.gateway.check_process()
        if self._session.over():
            raise RuntimeError("cannot schedule new futures after shutdown")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls.

        Jobs of :meth:`bag` and :meth:`run` go on at the grid, whoever waits for them.

        Args:
            wait: Whether to wait until all other calls have ended. If not, that happens behind the
                scenes, at the latest when this program ends.
            cancel_futures: Whether to cancel them instead.
        """
        if not self._owner:
            return
        self._session.finish()
        if cancel_futures:
            self._session.cancel_waiting()
        if wait:
            self._session.wait_idle()
            self._session.close()
        else:
            self._session.close_when_idle()

    def __enter__(self) -> Grid:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._owner:
            # The grid behind it goes on, with the calls of others.
            if error is None:
                self._session.wait_idle(owner=self._token)
            else:
                self._cancel_calls(error, self._token)
            return
        if error is None:
            self.shutdown(wait=True)
            return
        self._session.finish()
        try:
            self._cancel_calls(error, None)
        finally:
            self._session.close()

    def _cancel_calls(self, error: BaseException, owner: object) -> None:
        """Cancels the calls of an owner, or of all, and says what goes on at the grid."""
        cancelled = False
        try:
            self._session.cancel_all(owner)
            cancelled = self._cancelled(owner)
        finally:
            if not cancelled:
                for job in sorted(set(self._session.open_jobs(owner)) - self._kept):
                    print(f"deskgrid: job {job} goes on; Grid().job({job}) gets it back", file=sys.stderr)
            if self._kept and isinstance(error, KeyboardInterrupt):
                kept = ", ".join(f"Grid().job({job})" for job in sorted(self._kept))
                print(f"deskgrid: bags go on at the grid; {kept} gets them back", file=sys.stderr)

    def _cancelled(self, owner: object) -> bool:
        """Waits until the grid has cancelled what it was told to; returns whether it has."""
        if self._session.wait_idle(SOON, owner):
            return True
        print("deskgrid: cancelling; Ctrl-C leaves at once", file=sys.stderr, flush=True)
        return self._session.wait_idle(CANCELLING, owner)

    def show(self, futures: Sequence[TaskFuture[Any]], name: str) -> None:
        """(Of the library.) Shows a bar for these calls, if that is wanted."""
        if self._progress is not False and len(futures) > 1:
            Bar(futures, name, self._progress)


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _leave(session: Session) -> None:
    """Nobody has the Grid any more: what it was given to do is done."""
    session.finish()
    session.close_when_idle()


def _at_exit(session: weakref.ref[Session]) -> None:
    """The program ends: as with other executors, its calls are waited for."""
    living = session()
    if living is not None:
        living.finish()
        living.wait_idle()
        living.close()


def _results(futures: list[TaskFuture[T]], end: float | None, ordered: bool) -> Iterator[T]:
    """Yields results. Whoever stops listening cancels the rest."""

    def left() -> float | None:
        return None if end is None else max(0.0, end - time.monotonic())

    def in_order() -> Iterator[T]:
        futures.reverse()
        try:
            while futures:
                # A result that was yielded is kept by nobody here.
                yield futures.pop().result(left())
        finally:
            for future in futures:
                future.cancel()

    def as_they_come() -> Iterator[T]:
        waiting = set(futures)
        futures.clear()
        try:
            for future in concurrent.futures.as_completed(set(waiting), left()):
                waiting.discard(future)
                yield future.result()
        finally:
            for rest in waiting:
                rest.cancel()

    return in_order() if ordered else as_they_come()
