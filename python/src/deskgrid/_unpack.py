"""Unpacks what a task left that could not be files by themselves everywhere: symbolic links, empty
directories, odd names, and what was too much for a list. The archive comes from another machine:
nothing is made outside its directory, and no link leads out of it.

Not here: how it gets here (:mod:`deskgrid._run`).
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import uuid
from collections.abc import Container
from pathlib import Path, PurePosixPath
from typing import IO

#: The name of the archive, behind `_` where an output has this name already.
ARCHIVE = "deskgrid-apart.tar"

_OUTSIDE = "it would lie outside its directory"
_LEADS_OUT = "it is a link that leads out of its directory, or in a circle"
_IN_ITS_PLACE = "there is something else already"
_OTHER_CASE = "this disk takes its name for that of another file"
_OTHER_KIND = "it is neither a file, nor a directory, nor a link"
_OTHER_SYSTEM = "this system does not have all of the names in it"


class _Left(Exception):
    """The reason why an entry is not made."""


def unpack(archive: Path, only: Container[str] | None = None) -> tuple[list[Path], list[str]]:
    """Unpacks an archive into its directory, over files and links that are there.

    Args:
        only: The names of the entries that are wanted; by default all.

    Returns:
        The paths that were made, and of the other entries the reasons why they were not.
    """
    if sys.platform == "win32":
        return [], [_OTHER_SYSTEM]
    made: list[Path] = []
    left: list[str] = []
    with tarfile.open(archive, "r:") as tar:
        wanted = [entry for entry in tar if only is None or entry.name in only]
        # Links come after all files: so no file is written through one of them.
        for entry in sorted(wanted, key=lambda entry: entry.issym()):
            try:
                made.append(_make(archive.parent, tar, entry))
            except (_Left, ValueError, OSError) as why:
                # A name that is no UTF-8 could not be printed.
                name = entry.name.encode(errors="surrogateescape").decode(errors="replace")
                left.append(f"`{name}`: {why}")
    return made, left


def _make(base: Path, tar: tarfile.TarFile, entry: tarfile.TarInfo) -> Path:
    path = _path_of(base, entry.name)
    if entry.isdir():
        _make_dir(path)
        return path
    if path.is_dir() and not path.is_symlink():
        raise _Left(_IN_ITS_PLACE)
    if os.path.lexists(path) and path.name not in os.listdir(path.parent):
        raise _Left(_OTHER_CASE)
    if entry.issym():
        _link(base, path, entry.linkname)
    elif entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not entry.issparse():
        content = tar.extractfile(entry)
        assert content is not None
        _write(path, content, 0o777 if entry.mode & 0o100 else 0o666)
    else:
        raise _Left(_OTHER_KIND)
    return path


def _path_of(base: Path, name: str) -> Path:
    """Returns the path of an entry, whose directories are made."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or parts[0] == "/":
        raise _Left(_OUTSIDE)
    path = base
    for part in parts[:-1]:
        path = path / part
        _make_dir(path)
    return path / parts[-1]


def _make_dir(path: Path) -> None:
    if path.is_dir():
        return
    if os.path.lexists(path):
        raise _Left(_IN_ITS_PLACE)
    path.mkdir()


def _write(path: Path, content: IO[bytes], mode: int) -> None:
    """Writes a file, in the place of what is there, once it is whole."""
    new = path.with_name(f".deskgrid-{uuid.uuid4().hex}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _link(base: Path, path: Path, target: str) -> None:
    """Makes a link, unless it leads out."""
    if not _holds(path.relative_to(base), PurePosixPath(target)):
        raise _Left(_LEADS_OUT)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    if _leads_out(base, path):
        path.unlink()
        raise _Left(_LEADS_OUT)


def _holds(path: Path, target: PurePosixPath) -> bool:
    """Whether a link's target is inside by its names alone. Below other names none goes up again: where
    that leads is not in its names."""
    if target.is_absolute():
        return False
    ups = [part == ".." for part in target.parts]
    return sum(ups) < len(path.parts) and ups == sorted(ups, reverse=True)


def _leads_out(base: Path, path: Path) -> bool:
    try:
        real = os.path.realpath(path, strict=True)
    except FileNotFoundError:
        real = os.path.realpath(path)
    except OSError:
        return True
    return not Path(real).is_relative_to(os.path.realpath(base))
