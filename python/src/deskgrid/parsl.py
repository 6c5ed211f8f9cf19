"""The Parsl executor of the grid::

    import parsl
    from deskgrid.parsl import DeskgridExecutor

    parsl.load(parsl.Config(executors=[DeskgridExecutor()]))

Not here: pilots and providers. Tasks have no network over which Parsl could reach workers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .future import TaskFuture
from .grid import Grid

if TYPE_CHECKING:
    from ._options import Options, Unpack

try:
    from parsl.executors.base import ParslExecutor
    from parsl.executors.errors import InvalidResourceSpecification
except ImportError as error:
    raise ImportError("deskgrid.parsl needs Parsl: pip install parsl") from error

#: Names of an app's `parsl_resource_specification` with the options that they stand for.
RESOURCES = {
    "cores": "cpus",
    "gpus": "gpus",
    "memory": "memory",
    "priority": "priority",
    "running_time_min": "estimate",
}


class DeskgridExecutor(ParslExecutor):  # type: ignore[misc]
    """Runs the apps of Parsl on the grid.

    Args:
        label: The name by which apps ask for this executor.
        grid: The grid to use; by default one of its own, which it shuts down in the end.
        dir: The directory with your identity, where it has a grid of its own.
        options: Options for all apps, such as ``env``. An app has further ones in its
            ``parsl_resource_specification``: ``cores``, ``gpus``, ``memory`` (MB, as Parsl has
            it), ``priority`` and ``running_time_min`` (seconds).
    """

    def __init__(
        self,
        label: str = "deskgrid",
        grid: Grid | None = None,
        dir: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        self.label = label
        self._dir = dir
        self._options = options
        self._given = grid
        self._grid: Grid | None = None
        self._with: dict[tuple[tuple[str, Any], ...], Grid] = {}

    def start(self) -> None:
        """Opens the grid."""
        if self._given is not None:
            self._grid = self._given.using(**self._options)
        else:
            self._grid = Grid(dir=self._dir, progress=False, **self._options)

    def submit(
        self,
        func: Callable[..., Any],
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> TaskFuture[Any]:
        """Submits a call of an app.

        Raises:
            InvalidResourceSpecification: It asks for something unknown.
        """
        return self._grid_with(resource_specification).submit(func, *args, **kwargs)

    def _grid_with(self, asked: Mapping[str, Any]) -> Grid:
        """Returns the grid with the options that an app asks for; the same one each time, so that
        its calls are gathered."""
        if self._grid is None:
            raise RuntimeError("the executor is not started: parsl.load() does that")
        key = tuple(sorted(asked.items()))
        if not key:
            return self._grid
        if key not in self._with:
            self._with[key] = self._grid.using(**_options_of(asked))
        return self._with[key]

    def shutdown(self) -> None:
        """Waits for what runs, and closes the grid if it is its own: one that was given goes on, with
        the calls of others."""
        if self._grid is not None:
            self._grid.__exit__(None, None, None)
        super().shutdown()

    def monitor_resources(self) -> bool:
        """Says that Parsl cannot watch tasks: they run elsewhere, and the grid watches them."""
        return False


def _options_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    unknown = set(asked) - set(RESOURCES)
    if unknown:
        words = f"there are {', '.join(sorted(RESOURCES))}"
        raise InvalidResourceSpecification(unknown, words)
    options = {RESOURCES[name]: value for name, value in asked.items()}
    if "memory" in options:
        options["memory"] = f"{options['memory']}M"
    return options
