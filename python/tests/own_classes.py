"""Classes that no host knows, and what their module keeps of them: installed nowhere, as own_module."""

from __future__ import annotations

import functools
import threading
from enum import Enum
from typing import Any

kept: dict[int, Item] = {}
guard: Any = None


class Colour(Enum):
    RED = 1
    BLUE = 2


class Item:
    label = "new"

    def __init__(self, n: int) -> None:
        self.n = n

    def keep(self) -> None:
        kept[self.n] = self

    def guarded(self) -> int:
        with guard:
            return self.n


class Unlucky(Exception):
    pass


class Node:
    """What others are called, too, within a class and within a function."""


class Tree:
    class Node:
        pass

    class Leaf:
        pass


def local_node() -> type:
    class Node:
        pass

    return Node


def make(n: int) -> list[Any]:
    if n == 13:
        raise Unlucky(n)
    item = Item(n)
    item.keep()
    return [item, Colour.RED]


def make_guarded(n: int) -> Item:
    """From here on nothing of these classes can be pickled by value."""
    global guard
    guard = threading.Lock()
    return Item(n)


def doubled(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(n: int) -> int:
        return int(2 * function(n))

    return wrapper


@doubled
def twice(n: int) -> int:
    return n


def scaled(factor: int) -> Any:
    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(n: int) -> int:
            return int(factor * function(n))

        return wrapper

    return decorate


@scaled(1)
def same(n: int) -> int:
    return n
