"""Functions and arguments as bytes. What belongs to the user's own modules travels by value, so
that no host needs them; large values are kept apart, so that each is sent once.

Not here: sending (:mod:`deskgrid._sending`).
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import importlib.util
import io
import mmap
import os
import pickle
import sys
import sysconfig
import threading
import time
import types
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle

from . import _inside
from ._api import Ref
from ._by_name import with_qualname
from ._directory import Directory
from .errors import NotPicklable

#: Values of this many bytes and more are kept apart.
LARGE = 1 << 20

#: For how long in seconds the master surely keeps what was sent, though no job names it any more.
FRESH = 1200.0

#: The number of large values against which the next one is compared before it is hashed.
RECENT = 4

#: The most bytes of sources of the user's modules that travel with a job.
MOST_SOURCES = 4 << 20


@dataclass(eq=False)
class Large:
    """A large value: its bytes in a file until the master has them."""

    name: str
    size: int
    path: str | None
    seen: int = 0
    ref: Ref | None = None
    sent_at: float = 0.0
    queued: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Packed(NamedTuple):
    """A value as bytes, and the large values beside them."""

    payload: bytes
    buffers: tuple[Large, ...]


class Store:
    """The large values of a Grid, each of them once."""

    def __init__(self) -> None:
        self._dir = Directory("deskgrid-large-")
        self._known: dict[bytes, Large] = {}
        # Objects that cannot change are known by themselves, while work goes on.
        self._objects: OrderedDict[int, tuple[object, Any]] = OrderedDict()
        self._owners: OrderedDict[int, tuple[bytes, Large]] = OrderedDict()
        self._recent: OrderedDict[Large, mmap.mmap] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Removes all of it."""
        with self._lock:
            for mapped in self._recent.values():
                mapped.close()
            self._recent.clear()
            self._known.clear()
        self._dir.remove()

    def of_object(self, value: object, make: Callable[[], Any]) -> Any:
        """Returns what was made of an object that cannot change, or makes it."""
        with self._lock:
            before = self._objects.get(id(value))
        if before is not None:
            return before[1]
        made = make()
        self._remember(self._objects, value, made)
        return made

    def _remember(self, among: OrderedDict[int, Any], value: object, made: object) -> None:
        with self._lock:
            among[id(value)] = (value, made)
            while len(among) > RECENT:
                among.popitem(last=False)

    def rest(self) -> None:
        """Nothing is awaited: objects of the user's are not kept."""
        with self._lock:
            self._objects.clear()
            self._owners.clear()

    def keep_all(self, views: Iterable[memoryview]) -> tuple[Large, ...]:
        """Takes copies of the large parts of a value: of all, or of none."""
        kept: list[Large] = []
        try:
            for view in views:
                kept.append(self.keep(view))
        except BaseException:
            for large in kept:
                self.used(large)
            raise
        return tuple(kept)

    def keep(self, view: memoryview) -> Large:
        """Takes a copy of some bytes, unless there is one."""
        owner = view.obj
        if not isinstance(owner, bytes):
            return self._keep(view, self._seen_lately(view))
        with self._lock:
            before = self._owners.get(id(owner))
        large = self._keep(view, before[1] if before else self._seen_lately(view))
        self._remember(self._owners, owner, large)
        return large

    def _keep(self, view: memoryview, large: Large | None) -> Large:
        with self._lock:
            if large is None:
                key = hashlib.sha256(view).digest()
                name = f"b-{len(self._known)}-{key[:8].hex()}"
                large = self._known.setdefault(key, Large(name, view.nbytes, None))
            if large.ref is not None and time.monotonic() - large.sent_at > FRESH:
                large.ref = None
            if large.path is None and large.ref is None:
                self._write(large, view)
            large.seen += 1
            large.queued += 1
            return large

    def _seen_lately(self, view: memoryview) -> Large | None:
        """Finds the same bytes among the last few: a look at memory is faster than a hash of it."""
        with self._lock:
            for large, mapped in reversed(self._recent.items()):
                if large.size == view.nbytes and _equal(mapped, view):
                    self._recent.move_to_end(large)
                    return large
        return None

    def _write(self, large: Large, view: memoryview) -> None:
        """Writes a value into its file. It has none before that is whole: a disk may be full."""
        path = os.path.join(self._dir.path, large.name)
        try:
            with open(path, "wb") as file:
                file.write(view)
            if large not in self._recent:
                with open(path, "rb") as file:
                    self._recent[large] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        large.path = path
        while len(self._recent) > RECENT:
            _, mapped = self._recent.popitem(last=False)
            mapped.close()

    def used(self, large: Large) -> None:
        """Says that one call less waits for these bytes; those that no call waits for go."""
        with self._lock:
            large.queued -= 1
            if large.queued > 0 or large.path is None:
                return
            with contextlib.suppress(OSError):
                os.unlink(large.path)
            large.path = None


def _equal(mapped: mmap.mmap, view: memoryview) -> bool:
    # Bytes are compared at the speed of memory; views one by one.
    steps = range(0, view.nbytes, _STEP)
    return all(mapped[at : at + _STEP] == view[at : at + _STEP].tobytes() for at in steps)


_STEP = 1 << 18


class _Apart:
    """A value that is large as a whole: pickled on its own, and kept apart."""

    def __init__(self, payload: bytes, views: list[memoryview]) -> None:
        self.payload = payload
        self.views = views

    def __reduce_ex__(self, protocol: Any) -> Any:
        every: tuple[Any, ...] = (self.payload, *self.views)
        parts = [pickle.PickleBuffer(part) for part in every]
        return _inside.unpack, tuple(parts)


class Shared:
    """A value that was packed once with :meth:`Grid.put`. Functions get the value itself."""

    def __init__(self, payload: bytes, views: list[memoryview]) -> None:
        self._payload = payload
        # Copies: a change of the value after `put` does not count.
        self._views = [memoryview(bytes(view)) for view in views]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _Apart(self._payload, self._views).__reduce_ex__(protocol)


def _code(code: types.CodeType) -> Any:
    """Reduces code as cloudpickle does, but with the name of its file: for tracebacks."""
    reduce: Any = cloudpickle.Pickler.dispatch_table[types.CodeType]
    make, args = reduce(code)
    return make, tuple(code.co_filename if arg == _NO_FILE else arg for arg in args)


_NO_FILE = "<dynamic-code>"


_TABLE: Any = cloudpickle.Pickler.dispatch_table


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table = ChainMap({types.CodeType: _code}, _TABLE)

    def reducer_override(self, obj: Any) -> Any:
        return with_qualname(obj, super().reducer_override(obj))


def dump(value: Any) -> tuple[bytes, list[memoryview]]:
    """Pickles a value; large buffers in it stay where they are.

    Raises:
        NotPicklable: That cannot be done.
    """
    views: list[memoryview] = []

    def in_band(buffer: pickle.PickleBuffer) -> bool:
        try:
            view = buffer.raw()
        except BufferError:
            return True
        if view.nbytes < LARGE:
            return True
        views.append(view)
        return False

    file = io.BytesIO()
    with _own_modules_by_value():
        try:
            _Pickler(file, protocol=5, buffer_callback=in_band).dump(value)
        except RecursionError as error:
            raise NotPicklable(
                "it refers to itself too deeply to be pickled", "send something flatter"
            ) from error
        except Exception as error:
            raise NotPicklable(f"it cannot be pickled: {error}") from error
    return file.getvalue(), views


def pack(value: Any, store: Store) -> Packed:
    """Packs a value."""
    payload, views = dump(value)
    return Packed(payload, store.keep_all(views))


def pack_function(function: Callable[..., Any], store: Store) -> Packed:
    """Packs a function.

    Raises:
        TypeError: It cannot be called.
        NotPicklable: It cannot be sent.
    """
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called")
    try:
        return pack(function, store)
    except NotPicklable as error:
        name = getattr(functools.partial(function).func, "__qualname__", repr(function))
        raise NotPicklable(
            f"the function {name} cannot be sent{_hindrance(function)}: {error.args[0]}",
            "make what it needs (files, locks, connections) inside the function, "
            "or pass data instead of objects",
        ) from error.__cause__


def pack_call(args: tuple[Any, ...], kwargs: dict[str, Any], store: Store) -> Packed:
    """Packs the arguments of a call.

    Raises:
        NotPicklable: One of them cannot be sent.
    """
    try:
        args = tuple(_immutable_apart(value, store) for value in args)
        payload, views = dump((args, kwargs))
        if len(payload) >= LARGE:
            apart = tuple(_apart(value) for value in args)
            payload, views = dump((apart, {name: _apart(v) for name, v in kwargs.items()}))
    except NotPicklable as error:
        which = _culprit(args, kwargs)
        raise NotPicklable(
            f"{which} cannot be sent: {error.args[0]}",
            "pass data instead of open files, locks or connections",
        ) from error.__cause__
    return Packed(payload, store.keep_all(views))


def pack_own(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], store: Store
) -> Packed:
    """Packs a call together with its function.

    Raises:
        NotPicklable: It cannot be sent.
    """
    return pack((function, args, kwargs), store)


def _immutable_apart(value: Any, store: Store) -> Any:
    if type(value) in (bytes, str) and len(value) >= LARGE:
        return store.of_object(value, lambda: _apart(value))
    return value


def _apart(value: Any) -> Any:
    payload, views = dump(value)
    return _Apart(payload, views) if len(payload) >= LARGE else value


def _hindrance(function: Callable[..., Any]) -> str:
    """Says what of all that a function brings along cannot be pickled, as far as that is found."""
    whole = functools.partial(function)
    if whole.args or whole.keywords:
        which = _culprit(whole.args, whole.keywords)
        if which != _A_CALL:
            return f" with its {which}"
    owner = getattr(whole.func, "__self__", None)
    if owner is not None and not _can_be_sent(owner):
        return f" with its object, a {type(owner).__name__}"
    plain = getattr(whole.func, "__func__", whole.func)
    if not isinstance(plain, types.FunctionType):
        return ""
    brought = dict(zip(plain.__code__.co_freevars, plain.__closure__ or ()))
    used: dict[str, Any] = {}
    for name, cell in brought.items():
        with contextlib.suppress(ValueError):
            used[name] = cell.cell_contents
    for code in codes_of(plain.__code__):
        used.update({name: plain.__globals__[name] for name in code.co_names if name in plain.__globals__})
    found = [name for name, value in used.items() if value is not plain and not _can_be_sent(value)]
    return f" with its `{found[0]}`" if found else ""


def _can_be_sent(value: Any) -> bool:
    try:
        dump(value)
    except NotPicklable:
        return False
    return True


_A_CALL = "a call"


def _culprit(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Names the argument that cannot be pickled."""
    named = [(f"argument {i + 1}", value) for i, value in enumerate(args)]
    for name, value in named + list(kwargs.items()):
        if not _can_be_sent(value):
            return f"{name} (a {type(value).__name__})"
    return _A_CALL


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Returns the directories of Python and of installed packages."""
    paths = {sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    here = os.path.dirname(os.path.abspath(__file__))
    paths |= {here, os.path.dirname(os.path.abspath(cloudpickle.__file__))}
    return tuple(os.path.realpath(path) + os.sep for path in paths if path)


@functools.cache
def is_own(file: str) -> bool:
    """Whether a module's file is the user's own: neither Python's nor installed."""
    path = os.path.realpath(file)
    parts = Path(path).parts
    installed = "site-packages" in parts or "dist-packages" in parts
    return not installed and not path.startswith(_libraries())


def own_modules() -> Iterator[types.ModuleType]:
    """Yields the loaded modules that are the user's own."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and isinstance(file, str) and is_own(file):
            yield module


_registering = threading.RLock()


@contextlib.contextmanager
def _own_modules_by_value() -> Iterator[None]:
    """Lets cloudpickle send the user's modules by value, here and not elsewhere."""
    with _registering:
        before = cloudpickle.list_registry_pickle_by_value()
        ours = [m for m in _own_now() if m.__name__ not in before]
        for module in ours:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in ours:
                cloudpickle.unregister_pickle_by_value(module)


_own_cache: tuple[int, list[types.ModuleType]] = (-1, [])


def _own_now() -> list[types.ModuleType]:
    """The user's modules; looked for again when modules were loaded."""
    global _own_cache
    if _own_cache[0] != len(sys.modules):
        count = len(sys.modules)
        _own_cache = (count, list(own_modules()))
    return [m for m in _own_cache[1] if sys.modules.get(m.__name__) is m]


def sources_of(function: Callable[..., Any]) -> dict[str, tuple[str, str]]:
    """Returns the sources of the user's modules that a function could import while it runs.

    Functions of these modules travel by value; their sources are for an ``import`` inside of one.
    """
    wanted = {module.__name__: getattr(module, "__file__", "") for module in _own_now()}
    for name in imports(function):
        if name not in sys.modules:
            with contextlib.suppress(ImportError, ValueError, AttributeError):
                spec = importlib.util.find_spec(name)
                if spec and spec.origin and spec.has_location and is_own(spec.origin):
                    wanted[name] = spec.origin
    found: dict[str, tuple[str, str]] = {}
    size = 0
    for name in sorted(wanted):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            file = wanted[name]
            if file.endswith(".py"):
                text = Path(file).read_text(encoding="utf-8")
                size += len(text)
                if size > MOST_SOURCES:
                    break
                found[name] = (file, text)
    return found


def imports(function: Callable[..., Any]) -> set[str]:
    """Returns the names of modules that a function's code imports."""
    names: set[str] = set()
    function = functools.partial(function).func
    code = getattr(function, "__code__", None)
    for inner in codes_of(code) if code else ():
        for step in dis.get_instructions(inner):
            if step.opname == "IMPORT_NAME":
                parts = str(step.argval).split(".")
                names |= {".".join(parts[: i + 1]) for i in range(len(parts))}
    return names


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yields some code and all code inside of it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes_of(const)
