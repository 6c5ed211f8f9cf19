"""The program that runs in a task: loads the function and the calls, makes them, and writes down
each outcome as soon as it is there. It is compiled at the client and travels with the job, so that
a host needs nothing but Python; only modules that are part of every Python are used, and few, since
each costs time in every task.

Its files lie in the directory ``.deskgrid`` of the task, so that functions may call theirs what they
like: ``job`` (the function, and the calls where they are short), ``calls`` (those of all tasks, where
these are very many), ``part`` (those of this task, where they are long), ``b-…`` (large values that many tasks share), ``sources`` (the user's modules); ``out.txt`` has
a line for each outcome, ``out.bin`` what is too long for a line.

Not here: the meaning of the outcomes (:mod:`deskgrid._outcome`).
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import ModuleSpec
from _pickle import PickleBuffer, Pickler, dumps, loads
from binascii import b2a_base64
from marshal import loads as unmarshal
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Any

#: Outcomes up to this length in bytes stand in ``out.txt``.
SHORT = 24 * 1024

#: The exit code if a function raised something, and if nothing could be called.
RAISED = 1
NOT_STARTED = 3

#: The directory of the task, and that of these files; its functions may go elsewhere.
TASK = os.getcwd()
HERE = os.path.join(TASK, ".deskgrid")

#: Modules that travel with this program, as marshalled code; set where it is compiled.
LIBRARY: dict[str, bytes] = {}


class Library:
    """Finds modules that travelled with the job: ours first, the user's own as a last resort."""

    def __init__(
        self, codes: dict[str, bytes], sources: dict[str, tuple[str, str]] | None
    ) -> None:
        self.codes = codes
        self.sources = sources

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if self.sources is None:
            self.sources = user_sources()
        if name in self.codes:
            package = any(other.startswith(name + ".") for other in self.codes)
        elif name in self.sources:
            package = self.sources[name][0].endswith("__init__.py")
        else:
            return None
        return ModuleSpec(name, self, is_package=package)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        name = module.__spec__.name
        if name.startswith("cloudpickle") and "light" in self.codes:
            self.load_light(name, module.__dict__)
            return
        if name in self.codes:
            code = unmarshal(self.codes[name])
        else:
            file, text = (self.sources or {})[name]
            module.__file__ = file
            code = compile(text, file, "exec", dont_inherit=True)
        exec(code, module.__dict__)


    def load_light(self, name: str, space: dict[str, Any]) -> None:
        """Loads as little of cloudpickle as most functions need; all of it when more is asked for."""
        if name == "cloudpickle.cloudpickle":
            exec(unmarshal(self.codes["light"]), space)

        def load_all(wanted: str) -> Any:
            if wanted[:2] != "__" and "light" in self.codes:
                del self.codes["light"]
                from importlib import import_module

                # The modules stay the same objects: who has a function of them keeps it.
                for whole in ("cloudpickle.cloudpickle", "cloudpickle"):
                    there = import_module(whole).__dict__
                    if there.pop("__getattr__", None) is not None:
                        exec(unmarshal(self.codes[whole]), there)
            if wanted not in space:
                raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
            return space[wanted]

        space["__getattr__"] = load_all


def place(name: str) -> str:
    """Returns where one of these files is."""
    return os.path.join(HERE, name)


def user_sources() -> dict[str, tuple[str, str]]:
    """Returns the sources of the user's modules that travelled with the job."""
    try:
        with open(place("sources"), "rb") as file:
            sources: dict[str, tuple[str, str]] = loads(file.read())
            return sources
    except FileNotFoundError:
        return {}


class Spill:
    """Collects what is written: in memory while it is short, else in ``out.bin``."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self.start = 0
        self.file: IO[bytes] | None = None

    def write(self, data: Any) -> int:
        if isinstance(data, PickleBuffer):
            # An array, whichever of its axes lies first.
            data = data.raw()
        count = data.nbytes if isinstance(data, memoryview) else len(data)
        self.size += count
        if self.file is None and self.size > SHORT:
            file = self.file = open(place("out.bin"), "ab")
            self.start = file.tell()
            for piece in self.pieces:
                file.write(piece)
            self.pieces.clear()
        if self.file is None:
            self.pieces.append(bytes(data))
        else:
            self.file.write(data)
        return count

    def drop(self) -> None:
        """Forgets what was written."""
        if self.file is not None:
            self.file.truncate(self.start)
            self.file.close()


def write_down(out: IO[bytes], kind: str, seconds: float, value: Any) -> None:
    """Writes an outcome. `kind` is ``R`` for a result and ``E`` for an exception."""
    spill = Spill()
    try:
        Pickler(spill, 5).dump(value)
    except Exception:
        # A class or function of the user's that is nowhere to be imported from.
        spill.drop()
        spill = Spill()
        from deskgrid._by_name import ByName

        try:
            ByName(spill, 5).dump(value)
        except BaseException:
            spill.drop()
            raise
    if spill.file is None:
        line = b2a_base64(b"".join(spill.pieces), newline=False)
        out.write(b"%s %.6f %s\n" % (kind.encode(), seconds, line))
    else:
        spill.file.close()
        long = (kind.lower().encode(), seconds, spill.start, spill.size)
        out.write(b"%s %.6f %d %d\n" % long)


def clean_traceback(error: BaseException) -> str:
    """Returns the traceback as text, without the frames of this program."""
    import traceback

    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename == main.__code__.co_filename:
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(error), error, tb))


def portable(error: BaseException) -> tuple[str, bytes]:
    """Returns an exception as bytes that can surely be read, with how; or as nothing."""
    dumpers: list[Callable[..., bytes]] = [dumps]
    try:
        from deskgrid._by_name import dumps as by_name

        dumpers.append(by_name)
    except Exception:
        pass
    for how in ("whole", "parts"):
        for dump in dumpers:
            try:
                if how == "whole":
                    data = dump(error, 5)
                    same = loads(data)
                else:
                    # Its class cannot be called with its `args`: it is made without a call.
                    data = dump((type(error), error.args, vars(error)), 5)
                    kind, args, _ = loads(data)
                    same = kind.__new__(kind, *args)
                if type(same).__name__ == type(error).__name__:
                    return how, data
            except BaseException:
                continue
    return "text", b""


def describe(error: BaseException) -> tuple[str, bytes, str, str, str]:
    """Returns all that is told of an exception."""
    try:
        message = str(error)
    except Exception:
        message = "(its text cannot be had)"
    text = clean_traceback(error)
    print(text, end="", file=sys.stderr, flush=True)
    how, data = portable(error)
    return how, data, type(error).__qualname__, message, text


def mapped(name: str) -> memoryview:
    """Returns a file's bytes. Changes to them stay in this process."""
    from mmap import ACCESS_COPY, mmap

    with open(place(name), "rb") as file:
        return memoryview(mmap(file.fileno(), 0, access=ACCESS_COPY))


def calls_of(job: dict[str, Any], task: int) -> list[tuple[bytes, list[Any]]]:
    """Returns the calls of a task: what is pickled, and where its large values are."""
    calls: list[tuple[bytes, list[Any]]]
    if job["calls"] == "calls":
        table = mapped("calls")
        start, end = (int.from_bytes(table[8 * at : 8 * at + 8], "little") for at in (task - 1, task))
        calls = loads(table[start:end])
    elif job["calls"] == "part":
        part = mapped("part")
        length = int.from_bytes(part[:8], "little")
        calls = loads(part[8 : 8 + length])
    else:
        calls = job["calls"][task - 1]
    return calls


def values_at(places: list[Any]) -> list[memoryview]:
    """Returns large values: of files of their own, or of places in ``part``."""
    # Each call may change what it gets: so each has a mapping of its own.
    part = memoryview(b"") if all(isinstance(place, str) for place in places) else mapped("part")
    return [
        mapped(place) if isinstance(place, str) else part[place[0] : place[0] + place[1]]
        for place in places
    ]


def main() -> int:
    paths = [os.path.join(TASK, part) for part in os.environ.get("DESKGRID_PATHS", "").split(":") if part]
    if paths:
        import site

        for path in paths:
            site.addsitedir(path)
        sys.path.sort(key=lambda path: path not in paths)
    with open(place("job"), "rb") as file:
        job = loads(file.read())
    sys.meta_path.insert(0, Library(LIBRARY, {}))
    sys.meta_path.append(Library({}, None))
    # Which call this process makes, where each has one of its own that could not be forked.
    only = os.environ.pop("DESKGRID_CALL", "")
    with open(place("out.txt"), "a+b" if only else "w+b", buffering=0) as out:
        if not only:
            out.write(b"deskgrid 1\n")
        started = perf_counter()
        try:
            function = loads(job["function"], buffers=[mapped(name) for name in job["buffers"]])
        except BaseException as error:
            write_down(out, "N", perf_counter() - started, describe(error))
            return NOT_STARTED
        return make(out, function, job, only)


def make(out: IO[bytes], function: Callable[..., Any], job: dict[str, Any], only: str) -> int:
    """Makes the calls of this task, or a single one of them. Returns the exit code."""
    calls = calls_of(job, int(os.environ["DESKGRID_TASK_ID"]))

    def one(at: int) -> bool:
        return one_call(out, function, *calls[at], job["timed"])

    if only:
        well = one(int(only))
    elif job["apart"] is None:
        well = all([one(at) for at in range(len(calls))])
    else:
        from deskgrid._apart import Apart

        apart = Apart(out, write_down, TASK, **job["apart"])
        well = apart.make(one, len(calls), lambda: load_modules_of(*calls[0]))
    return 0 if well else RAISED


def load_modules_of(payload: bytes, places: list[Any]) -> None:
    """Reads the arguments of a call, and with them the modules that they need: so that not every
    copy of this process has to load them."""
    try:
        loads(payload, buffers=values_at(places))
    except BaseException:
        # Its call will say so.
        pass


def one_call(
    out: IO[bytes], function: Callable[..., Any], payload: bytes, places: list[Any], timed: bool
) -> bool:
    """Makes a call and writes its outcome down, with its run time if that is wanted. Returns whether
    it raised nothing."""
    started = perf_counter()
    try:
        *own, args, kwargs = loads(payload, buffers=values_at(places))
        value = (own[0] if own else function)(*args, **kwargs)
    except BaseException as error:
        write_down(out, "E", (perf_counter() - started) * timed, describe(error))
        return False
    seconds = (perf_counter() - started) * timed
    try:
        write_down(out, "R", seconds, value)
    except BaseException as error:
        write_down(out, "U", seconds, describe(error))
        return False
    return True


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
