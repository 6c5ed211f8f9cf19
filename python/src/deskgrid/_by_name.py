"""The classes and functions of the user's modules in what a task gives back: their names, so that
whoever reads it gets the ones that are there, and their values for those who have none. It travels
with the job.

Not here: how functions and arguments get to a task (:mod:`deskgrid._pack`).
"""

from __future__ import annotations

import sys
import threading
from io import BytesIO
from pickle import UnpicklingError, loads
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import cloudpickle


class ByName(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles classes and functions that cannot be imported here by their names, with their values."""

    def reducer_override(self, obj: Any) -> Any:
        reduced: Any = super().reducer_override(obj)
        if not _is_by_value(reduced):
            return reduced
        module, name = _name_of(obj)
        if not isinstance(obj, FunctionType):
            return class_of, (module, name, _mark_of(reduced[1]), _value_of(obj))
        if "<" in name or obj.__code__.co_freevars:
            # A lambda, or a function inside of another one, whatever it calls itself: nobody else
            # surely has it.
            return reduced
        return function_of, (module, name, obj.__code__.co_name, _value_of(obj))


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles all of these by value. A class that is there where it is read stays what it is."""

    def reducer_override(self, obj: Any) -> Any:
        reduced: Any = with_qualname(obj, super().reducer_override(obj))
        if isinstance(obj, FunctionType) or not _is_by_value(reduced):
            return reduced
        make, args, state, _, _, fill = reduced
        begun = (*_name_of(obj), _mark_of(args), make, args)
        return _begun, begun, (fill, state), None, None, _finished


def dumps(value: Any, protocol: int = 5) -> bytes:
    """Pickles a value."""
    file = BytesIO()
    ByName(file, protocol).dump(value)
    return file.getvalue()


def _is_by_value(reduced: Any) -> bool:
    # Of classes and functions by value alone cloudpickle says how their state is set.
    return isinstance(reduced, tuple) and len(reduced) == 6


def with_qualname(obj: Any, reduced: Any) -> Any:
    """Returns how cloudpickle reduces an object; a class within another class or a function keeps its
    whole name, of which cloudpickle sends the last part."""
    if isinstance(obj, FunctionType) or not _is_by_value(reduced) or obj.__qualname__ == obj.__name__:
        return reduced
    make, args, (state, slots), *rest = reduced
    return make, args, ({**state, "__qualname__": obj.__qualname__}, slots), *rest


def _name_of(obj: Any) -> tuple[str, str]:
    return str(obj.__module__), str(obj.__qualname__)


def _mark_of(args: tuple[Any, ...]) -> str | None:
    """Returns what cloudpickle knows a class by, here and in the process that it came from."""
    mark = args[-2]
    return mark if isinstance(mark, str) else None


#: The values of classes that were pickled here: they are for those who see the class for the first
#: time, so one of them will do.
_values: WeakKeyDictionary[Any, bytes | str] = WeakKeyDictionary()


def _value_of(obj: Any) -> bytes | str:
    """Returns a class or function as bytes; where what it uses cannot be sent, a text that says so."""
    value = _values.get(obj) if isinstance(obj, type) else None
    if value is None:
        file = BytesIO()
        try:
            _ByValue(file, 5).dump(obj)
            value = file.getvalue()
        except Exception as error:
            value = f"{type(error).__name__}: {error}"
        if isinstance(obj, type):
            _values[obj] = value
    return value


# -- where it is read ------------------------------------------------------------------------------

#: Held while classes are made of their values: nobody else gets one that is not finished.
_lock = threading.RLock()

#: Classes that were made and have no state yet, by their ids.
_unfinished: dict[int, Any] = {}


def class_of(module: str, name: str, mark: str | None, value: bytes | str) -> Any:
    """Returns the class that was sent from here, else the one that has this name here, else the one
    that its module has, else one that is made of its value."""
    found = _finished_with(mark)
    if found is None:
        found = _class_named(module, name)
    if found is None:
        _load(module)
        found = _class_named(module, name)
    return _made_of(value, module, name) if found is None else found


def function_of(module: str, name: str, code: str, value: bytes | str) -> Any:
    """Returns the function that has this name here, or in its module, else one that is made of its
    value. `code` is the name of its code: what decorates a function takes over the others."""
    found = _named(module, name)
    if found is None:
        _load(module)
        found = _named(module, name)
    if isinstance(found, FunctionType) and _is_plain(found, code):
        return found
    return _made_of(value, module, name)


def _is_plain(function: FunctionType, name: str) -> bool:
    """Whether a function has code of this name that uses nothing of a function around it."""
    return function.__code__.co_name == name and not function.__code__.co_freevars


def _named(module: str, name: str) -> Any:
    """Returns what has a name in a module that is loaded."""
    found: Any = sys.modules.get(module)
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except Exception:
        return None
    same = _name_of(found) if isinstance(found, (type, FunctionType)) else None
    return found if same == (module, name) else None


def _class_named(module: str, name: str) -> Any:
    found = _named(module, name)
    return found if isinstance(found, type) else None


def _load(module: str) -> None:
    """Loads a module, if there is one. One that is being loaded is not waited for: that may itself
    wait for what is read here."""
    if module not in sys.modules:
        try:
            __import__(module)
        except (Exception, SystemExit):
            # Then it is not a module that can be imported here.
            pass


def _known(mark: str | None) -> Any:
    """Returns the class that cloudpickle knows by a mark, finished or not."""
    marked: Any = getattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_ID", {})
    return marked.get(mark)


def _finished_with(mark: str | None) -> Any:
    with _lock:
        found = _known(mark)
        return None if id(found) in _unfinished else found


def _made_of(value: bytes | str, module: str, name: str) -> Any:
    if isinstance(value, str):
        raise UnpicklingError(f"{module}.{name} is not here, and it could not be sent: {value}")
    with _lock:
        return loads(value)


def _begun(module: str, name: str, mark: str | None, make: Any, args: tuple[Any, ...]) -> Any:
    """Returns a class that is here, or makes one without a state."""
    found = _known(mark)
    if found is None:
        found = _class_named(module, name)
    if found is None:
        found = make(*args)
        _unfinished[id(found)] = found
    return found


def _finished(made: Any, filled: tuple[Any, Any]) -> None:
    """Sets the state of a class, if that is a new one."""
    if id(made) in _unfinished:
        fill, state = filled
        fill(made, state)
        del _unfinished[id(made)]
