"""The program of a task as one file: the runner, what functions can use inside a task, and
cloudpickle, compiled for the Python of this client.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import importlib.util
import marshal
import types
from pathlib import Path

import cloudpickle

_HERE = Path(__file__).parent
_CLOUDPICKLE = Path(cloudpickle.__file__).parent


def _modules() -> dict[str, Path]:
    """Returns the files of all modules that travel."""
    ours = {
        "deskgrid": _HERE / "_inside_init.py",
        "deskgrid._apart": _HERE / "_apart.py",
        "deskgrid._by_name": _HERE / "_by_name.py",
        "deskgrid._inside": _HERE / "_inside.py",
        "deskgrid.checkpoint": _HERE / "checkpoint.py",
        "deskgrid.errors": _HERE / "errors.py",
        "cloudpickle": _CLOUDPICKLE / "__init__.py",
    }
    others = {f"cloudpickle.{file.stem}": file for file in _CLOUDPICKLE.glob("[a-z]*.py")}
    return {**ours, **others}


#: The functions of cloudpickle that read most functions. All of it takes several times as long to
#: load as Python itself.
_LIGHT = frozenset(
    {"_make_function", "_function_setstate", "_builtin_type", "_make_empty_cell", "subimport"}
)


def light(source: str) -> str:
    """Returns these functions alone, out of the source of cloudpickle that is installed here; an
    empty text if they need more than there is then."""
    found = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name in _LIGHT
    ]
    text = "import sys, types\n" + "\n".join(ast.unparse(node) for node in found)
    names: set[str] = set()
    for const in compile(text, "light", "exec").co_consts:
        if isinstance(const, types.CodeType):
            names |= {str(i.argval) for i in dis.get_instructions(const) if i.opname == "LOAD_GLOBAL"}
    known = {"sys", "types", "__builtins__", *(node.name for node in found), *dir(builtins)}
    return text if {"_make_function", "_function_setstate"} <= known and names <= known else ""


def _compiled(text: str, name: str) -> bytes:
    return marshal.dumps(compile(text, name, "exec", dont_inherit=True, optimize=0))


@functools.cache
def runner() -> bytes:
    """Returns the program as the bytes of a ``.pyc`` file."""
    library = {
        name: _compiled(file.read_text(encoding="utf-8"), f"<{name}>")
        for name, file in sorted(_modules().items())
    }
    few = light(_modules()["cloudpickle.cloudpickle"].read_text(encoding="utf-8"))
    if few:
        library["light"] = _compiled(few, "<cloudpickle.cloudpickle>")
    text = (_HERE / "_runner.py").read_text(encoding="utf-8")
    empty = "LIBRARY: dict[str, bytes] = {}"
    assert empty in text
    code = _compiled(text.replace(empty, f"LIBRARY = {library!r}"), "<deskgrid>")
    # Neither time nor size of a source: nothing is compared with it.
    return importlib.util.MAGIC_NUMBER + bytes(12) + code
