"""Fixtures: a grid that all tests share, and grids of their own for those that break things."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from world import World, binary, python_with_packages

from deskgrid import Grid

os.environ.setdefault("DESKGRID_BINARY", binary())


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """A grid with two workers of one slot each; tests leave it as they found it."""
    made = World()
    try:
        made.worker("desk-1")
        made.worker("desk-2")
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def packaged() -> Iterator[World]:
    """A grid with two workers of one slot each, whose Python has the packages of this one."""
    with tempfile.TemporaryDirectory(prefix="deskgrid-hosts-") as python:
        made = World()
        try:
            config = python_with_packages(Path(python))
            made.worker("lab-1", config=config)
            made.worker("lab-2", config=config)
            yield made
        finally:
            made.close()


@pytest.fixture
def own_world() -> Iterator[World]:
    """A grid without workers that one test may break."""
    made = World()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def grid(world: World) -> Iterator[Grid]:
    """A Grid of the shared world."""
    with Grid(dir=world.user, progress=False, patience=60) as g:
        yield g
        # What a test has left running must not hold up the others.
        g.shutdown(wait=False, cancel_futures=True)
        g._session.cancel_all()
