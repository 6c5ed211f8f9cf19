"""The joblib backend ``"deskgrid"``. Importing this module registers it::

    import deskgrid.joblib
    import joblib

    with joblib.parallel_config(backend="deskgrid"):
        search.fit(X, y)

Not here: anything of scikit-learn, which uses joblib for all it does in parallel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _inside
from ._options import Options
from .grid import Grid

if TYPE_CHECKING:
    from ._options import Unpack
    from .future import TaskFuture

try:
    import joblib
    from joblib import _parallel_backends as backends
except ImportError as error:
    raise ImportError("deskgrid.joblib needs joblib: pip install joblib") from error
if not hasattr(backends.ParallelBackendBase, "submit"):
    raise ImportError(f"joblib {joblib.__version__} is too old: pip install 'joblib>=1.5'")


class DeskgridBackend(
    backends.AutoBatchingMixin, backends.ParallelBackendBase  # type: ignore[misc]
):
    """Runs the calls of ``joblib.Parallel`` on the grid.

    Args:
        grid: The grid to use; by default one of its own, which it shuts down in the end.
        options: Options for the tasks, such as ``env`` and ``memory``. Where it has a grid of its
            own, also ``dir``, ``label`` and ``patience`` of :class:`Grid`.

    All of them can be given to ``joblib.parallel_config(backend="deskgrid", …)``. ``n_jobs`` is
    the number of batches at the grid at a time: by default, and if it is negative, by the number
    of slots when the calls begin.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    uses_threads = False
    supports_sharedmem = False
    default_n_jobs = -1

    #: Seconds. A batch should be worth the way to the grid, and not keep the others waiting.
    MIN_IDEAL_BATCH_DURATION = 20
    MAX_IDEAL_BATCH_DURATION = 60

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        grid: Grid | None = None,
        dir: str | None = None,
        label: str | None = None,
        patience: float = 600.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        if inner_max_num_threads is not None:
            limits = dict.fromkeys(self.MAX_NUM_THREADS_VARS, str(inner_max_num_threads))
            options["variables"] = {**limits, **(options.get("variables") or {})}
        if grid is None:
            self._grid = Grid(dir=dir, label=label, patience=patience, progress=False, **options)
        elif dir is not None or label is not None:
            raise TypeError("give a grid, or its `dir` and `label`, and not both")
        else:
            self._grid = grid.using(**options)
        self._futures: set[TaskFuture[Any]] = set()
        self._lock = threading.Lock()
        self._last = threading.local()

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Returns the number of batches that are at the grid at a time."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None or n_jobs < 0:
            # With 1 joblib would call the functions here.
            return max(self._grid._max_workers + 1 + (n_jobs or -1), 2)
        return n_jobs

    def configure(
        self, n_jobs: int = 1, parallel: Any = None, prefer: Any = None, require: Any = None, **_: Any
    ) -> int:
        """Gets ready for the calls of one ``Parallel``; returns the number of batches."""
        if require == "sharedmem":
            raise ValueError("the backend deskgrid has no memory that all calls share")
        self.parallel = parallel
        return self.effective_n_jobs(n_jobs)

    def submit(
        self, func: Callable[[], list[Any]], callback: Callable[[Any], None] | None = None
    ) -> TaskFuture[list[Any]]:
        """Submits a batch of calls."""
        items = getattr(func, "items", ())
        original = items[0][0] if items else func
        future = self._grid._submit(_inside.call, (func,), {}, original)
        with self._lock:
            self._futures.add(future)

        def ended(done: Any) -> None:
            with self._lock:
                self._futures.discard(done)
            self._last.seconds = done.seconds
            if callback is not None:
                callback(done)

        future.add_done_callback(ended)
        return future

    def retrieve_result_callback(self, out: TaskFuture[list[Any]]) -> list[Any]:
        """Returns the results of a batch that has ended."""
        return out.result()

    def batch_completed(self, batch_size: int, duration: float) -> None:
        """Notes how long a batch took: on its host, without the time for which it waited."""
        seconds: float | None = getattr(self._last, "seconds", None)
        super().batch_completed(batch_size, duration if seconds is None else seconds)

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancels all calls, also those that run."""
        with self._lock:
            futures, self._futures = self._futures, set()
        self._grid._session.stop(futures)

    def terminate(self) -> None:
        """Forgets how long the calls took: the next ones may be others."""
        self.reset_batch_stats()

    def get_nested_backend(self) -> tuple[Any, int | None]:
        """Returns the backend for calls inside of calls: one after the other on their host, whose
        other processors belong to other tasks."""
        level = (self.nesting_level or 0) + 1
        return backends.SequentialBackend(nesting_level=level), None


joblib.register_parallel_backend("deskgrid", DeskgridBackend)
