"""The program of a task as one file: the runner, what functions can use inside a task, and
cloudpickle, compiled for the Python of this client.
"""

from __future__ import annotations

import functools
import importlib.util
import marshal
from pathlib import Path

import cloudpickle

_HERE = Path(__file__).parent
_CLOUDPICKLE = Path(cloudpickle.__file__).parent


def _modules() -> dict[str, Path]:
    """Returns the files of all modules that travel."""
    ours = {
        "deskgrid": _HERE / "_inside_init.py",
        "deskgrid._inside": _HERE / "_inside.py",
        "deskgrid.checkpoint": _HERE / "checkpoint.py",
        "deskgrid.errors": _HERE / "errors.py",
        "cloudpickle": _CLOUDPICKLE / "__init__.py",
    }
    others = {f"cloudpickle.{file.stem}": file for file in _CLOUDPICKLE.glob("[a-z]*.py")}
    return {**ours, **others}


def _compiled(text: str, name: str) -> bytes:
    return marshal.dumps(compile(text, name, "exec", dont_inherit=True, optimize=0))


@functools.cache
def runner() -> bytes:
    """Returns the program as the bytes of a ``.pyc`` file."""
    library = {
        name: _compiled(file.read_text(encoding="utf-8"), f"<{name}>")
        for name, file in sorted(_modules().items())
    }
    text = (_HERE / "_runner.py").read_text(encoding="utf-8")
    empty = "LIBRARY: dict[str, bytes] = {}"
    assert empty in text
    code = _compiled(text.replace(empty, f"LIBRARY = {library!r}"), "<deskgrid>")
    # Neither time nor size of a source: nothing is compared with it.
    return importlib.util.MAGIC_NUMBER + bytes(12) + code
