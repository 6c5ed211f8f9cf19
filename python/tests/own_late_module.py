"""Imported by a function while it runs, and never before."""


def twice(x: int) -> int:
    return 2 * x
