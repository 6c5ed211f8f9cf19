"""A module that lies beside the tests and is installed nowhere: functions of it travel by value."""

from __future__ import annotations

FACTOR = 3


class Point:
    """A class that no host knows."""

    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)


class Odd(Exception):
    """An exception whose class needs arguments that are not its `args`."""

    def __init__(self, number: int, *, because: str) -> None:
        super().__init__(f"{number} is odd: {because}")
        self.number = number
        self.because = because


def times(x: int) -> int:
    return FACTOR * x


def mirrored(point: Point) -> Point:
    return Point(point.y, point.x)


def only_even(x: int) -> int:
    if x % 2:
        raise Odd(x, because="it is")
    return x


def late(x: int) -> int:
    import own_late_module  # loaded in the task only

    return own_late_module.twice(x)
