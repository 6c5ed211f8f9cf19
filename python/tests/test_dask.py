"""Dask's collections, computed by a Grid as it is."""

from __future__ import annotations

import pytest
from world import World

from deskgrid import Grid

dask = pytest.importorskip("dask", reason="Dask is not installed")


def add(left: int, right: int) -> int:
    return left + right


def test_arrays_are_computed_on_the_grid(packaged: World) -> None:
    array = pytest.importorskip("dask.array", reason="dask.array needs numpy")
    x = array.random.default_rng(1).random((800, 800), chunks=(400, 400))
    mean = (x + x.T).mean()
    with Grid(dir=packaged.user, progress=False) as g:
        assert mean.compute(scheduler=g) == pytest.approx(mean.compute(scheduler="sync"), abs=1e-12)


def test_bags_and_delayed_calls_are_computed_on_the_grid(packaged: World) -> None:
    bag = pytest.importorskip("dask.bag", reason="dask.bag needs toolz")
    words = bag.from_sequence(["a", "bb", "bb", "ccc"], npartitions=2)
    added = dask.delayed(add)
    tree = added(added(1, 2), added(3, 4))
    with Grid(dir=packaged.user, progress=False) as g:
        counts, lengths, ten = dask.compute(words.frequencies(), words.map(len).sum(), tree, scheduler=g)
    assert dict(counts) == {"a": 1, "bb": 2, "ccc": 1}
    assert (lengths, ten) == (8, 10)


def test_a_delayed_call_that_raises_does_so_here(packaged: World) -> None:
    with Grid(dir=packaged.user, progress=False) as g:
        with pytest.raises(TypeError, match="unsupported operand"):
            dask.delayed(add)(1, "one").compute(scheduler=g)
