"""The joblib backend."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from test_env import given_to_hosts
from world import World, eventually

from deskgrid import Grid, RemoteError, _api

joblib = pytest.importorskip("joblib", reason="joblib is not installed")
numpy = pytest.importorskip("numpy", reason="numpy is not installed")

import deskgrid.joblib  # noqa: E402


def total(array: Any, n: int) -> float:
    return float(array.sum()) + n


def one_of_them_fails(n: int) -> int:
    if n == 1:
        raise ZeroDivisionError(f"call {n}")
    time.sleep(600)
    return n


@pytest.fixture
def sent(monkeypatch: Any) -> list[int]:
    """The sizes of the large contents that leave this process."""
    sizes: list[int] = []
    send_files, send = _api.Api.send_files, _api.Api.send

    def files(self: Any, paths: Any) -> Any:
        sizes.extend(os.path.getsize(path) for path in paths)
        return send_files(self, paths)

    def bytes_(self: Any, content: bytes) -> Any:
        sizes.append(len(content))
        return send(self, content)

    monkeypatch.setattr(_api.Api, "send_files", files)
    monkeypatch.setattr(_api.Api, "send", bytes_)
    return sizes


def test_calls_give_their_results_in_order(packaged: World) -> None:
    with joblib.parallel_config(backend="deskgrid", dir=packaged.user):
        results = joblib.Parallel()(joblib.delayed(pow)(n, 2) for n in range(30))
    assert results == [n * n for n in range(30)]


def test_a_large_array_is_sent_once(packaged: World, sent: list[int]) -> None:
    array = numpy.arange(500_000, dtype="float64")
    before = given_to_hosts(packaged)
    with Grid(dir=packaged.user, progress=False) as g:
        with joblib.parallel_config(backend="deskgrid", grid=g):
            calls = (joblib.delayed(total)(array, n) for n in range(12))
            results = joblib.Parallel(batch_size=1)(calls)
    assert results == [float(array.sum()) + n for n in range(12)]
    assert [size for size in sent if size > 1_000_000] == [array.nbytes]
    assert sum(sent) < 1.1 * array.nbytes
    # At most once for each of the two hosts.
    assert given_to_hosts(packaged) - before < 2.2 * array.nbytes


def test_large_arrays_come_back(packaged: World) -> None:
    with joblib.parallel_config(backend="deskgrid", dir=packaged.user):
        rows, columns = joblib.Parallel()(
            joblib.delayed(numpy.ones)((300, 200), order=order) for order in "CF"
        )
    assert rows.flags.c_contiguous and columns.flags.f_contiguous
    assert rows.sum() == columns.sum() == 60_000


def test_results_come_as_they_are_there(packaged: World) -> None:
    with joblib.parallel_config(backend="deskgrid", dir=packaged.user):
        parallel = joblib.Parallel(return_as="generator_unordered")
        assert sorted(parallel(joblib.delayed(abs)(-n) for n in range(20))) == list(range(20))


def test_a_call_that_raises_ends_the_others(packaged: World) -> None:
    with joblib.parallel_config(backend="deskgrid", dir=packaged.user):
        with pytest.raises(ZeroDivisionError, match="call 1") as raised:
            joblib.Parallel(n_jobs=4)(joblib.delayed(one_of_them_fails)(n) for n in range(8))
        assert isinstance(raised.value.__cause__, RemoteError)
        eventually("all is cancelled", lambda: not packaged.json("job", "list")["jobs"])


def test_batches_take_twenty_to_sixty_seconds(packaged: World) -> None:
    with Grid(dir=packaged.user, progress=False) as g:
        backend = deskgrid.joblib.DeskgridBackend(grid=g)
        backend.parallel = SimpleNamespace(verbose=0)
        for seconds in (0.5, 3.0):
            for _ in range(30):
                size = backend.compute_batch_size()
                backend._last.seconds = size * seconds
                # The time for which a batch waited does not count.
                backend.batch_completed(size, 1_000.0)
            assert 20 <= size * seconds <= 60


def test_n_jobs_counts_the_slots_of_the_grid(packaged: World) -> None:
    with Grid(dir=packaged.user, progress=False) as g:
        backend = deskgrid.joblib.DeskgridBackend(grid=g)
        assert [backend.effective_n_jobs(n) for n in (None, -1, 7)] == [2, 2, 7]
        with pytest.raises(ValueError, match="n_jobs == 0"):
            backend.effective_n_jobs(0)


def test_a_search_over_a_grid_gives_the_scores_of_a_serial_one(
    packaged: World, sent: list[int]
) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.datasets import make_classification
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    X, y = make_classification(400, 400, random_state=0)
    candidates = {"C": [0.1, 1, 10], "gamma": [0.001, 0.01]}
    serial = GridSearchCV(SVC(), candidates, cv=5).fit(X, y)
    with joblib.parallel_config(backend="deskgrid", dir=packaged.user):
        searched = GridSearchCV(SVC(), candidates, cv=5).fit(X, y)
    assert searched.best_params_ == serial.best_params_
    scores = [name for name in serial.cv_results_ if name.endswith("test_score") and name[:3] != "ran"]
    assert len(scores) == 7
    for name in scores:
        assert numpy.array_equal(searched.cv_results_[name], serial.cv_results_[name]), name
    assert [size for size in sent if size >= X.nbytes] == [X.nbytes]


@pytest.mark.parametrize("module, package", [("joblib", "joblib"), ("parsl", "parsl")])
def test_a_missing_tool_is_named_with_a_way_to_get_it(module: str, package: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; import deskgrid.{module}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 1 and f"pip install {package}" in ran.stderr


def test_the_library_loads_none_of_the_tools() -> None:
    code = "import deskgrid, sys; print([n for n in ('joblib', 'dask', 'parsl', 'snakemake', 'optuna') if n in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
