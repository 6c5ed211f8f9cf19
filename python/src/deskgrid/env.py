"""The Python in which functions run on the hosts: the one that is there, one that was packed
somewhere, or one that is made here for every platform of the grid.

Not here: how it is made (:mod:`deskgrid._auto`).
"""

from __future__ import annotations

import io
import os
import platform
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import EnvError

if TYPE_CHECKING:
    from ._api import Api, Json

#: The version of the Python that runs here, as hosts must have it.
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"

#: The directory of the library's own files below a task's, and those of environments.
OWN = ".deskgrid"
PYTHON, PACKAGES = f"{OWN}/python", f"{OWN}/packages"

#: Words behind the program: apart from the host's own settings, and with UTF-8 everywhere.
FLAGS = ("-I", "-X", "utf8")


@dataclass
class Prepared:
    """An environment that is ready to be named in a submission."""

    python: list[str]
    """The words that start Python."""
    inputs: list[Json] = field(default_factory=lambda: [])
    """What has to be in a task's directory."""
    paths: list[str] = field(default_factory=lambda: [])
    """Directories, below a task's directory, in which modules are found."""

    def same_each_time(self) -> list[str]:
        """The words that start a Python that obeys `PYTHONHASHSEED`."""
        return ["-s" if word == "-I" else word for word in self.python]


class Env:
    """An environment: made by one of :meth:`host`, :meth:`packed` and :meth:`auto`."""

    by_function = False
    """(Of the library.) Whether it depends on the function that is called."""

    def prepare(self, api: Api, function: Callable[..., Any]) -> Prepared:
        """(Of the library.) Sends what has to be sent, for jobs that call this function."""
        raise NotImplementedError

    @staticmethod
    def host(version: str | None = None) -> Env:
        """The hosts' own Python, with the packages that are installed there.

        It is what a Grid uses where nothing else is said. A host without it fails the task, which
        goes to another host then.

        Args:
            version: Its version, such as ``"3.12"``; by default that of this program. Functions
                can be sent to the same version only.

        Raises:
            EnvError: The version is another one than here.
        """
        return _Host(version or HERE)

    @staticmethod
    def packed(path: str | PathLike[str], platform: str | None = None) -> Env:
        """An environment that was packed before: a directory or an archive (``.tar``, ``.tar.gz``,
        ``.zip``) with a Python in it that works wherever it lies, such as ``conda-pack`` makes.
        It goes to each host once.

        Args:
            platform: The hosts that it is for, such as ``linux-x86_64``; by default those like
                this machine.

        Raises:
            EnvError: There is no Python in it, or one of another version.
        """
        return _Packed(Path(path), platform or this_platform())

    @staticmethod
    def auto(
        packages: Sequence[str] | None = None,
        *,
        lock: str | PathLike[str] | None = None,
        sdists: Sequence[str] = (),
        python: str | PathLike[str] | None = None,
        platforms: Sequence[str] | None = None,
    ) -> Env:
        """An environment that is made here, with its Python, for every platform of the grid: hosts
        need neither a Python nor a network. It goes to each host once, and is made anew only when
        the packages change. It needs ``uv`` (``pip install deskgrid[env]``).

        Args:
            packages: What to install, as for pip: ``["numpy", "scipy>=1.14"]``. By default what
                the script asks for in its header (PEP 723), or else what the function and your
                modules import, in the versions that are installed here.
            lock: A file that names them instead: the ``uv.lock`` of a project (without its groups
                for development), a ``pylock.toml``, or requirements in a ``.txt``.
            sdists: The names of packages that are built here from their sources, since they have no
                wheel. One with compiled parts is for hosts like this machine only.
            python: An installation of Python to send instead of one that uv downloads; for hosts
                like this machine, with the same system libraries.
            platforms: The platforms to make it for; by default those of the hosts.

        Raises:
            EnvError: uv is missing or the lock file cannot be read (now), or a package is not there
                for any platform (later, before anything is sent).
        """
        from ._auto import Auto

        locked = None if lock is None else Path(lock)
        return Auto(packages, locked, sdists, None if python is None else Path(python), platforms)


def this_platform() -> str:
    """Returns the platform of this machine, as hosts name theirs."""
    system = {"win32": "windows", "darwin": "macos"}.get(sys.platform, "linux")
    machine = platform.machine().lower()
    return f"{system}-{ {'amd64': 'x86_64', 'arm64': 'aarch64'}.get(machine, machine) }"


def check_version(version: str, what: str) -> None:
    """Refuses a version that functions of this Python cannot run in.

    Raises:
        EnvError: It is another one.
    """
    if version.split(".")[:2] != HERE.split("."):
        raise EnvError(
            f"{what} is Python {version}, but this program runs in Python {HERE}: "
            "functions cannot be sent from one to the other",
            f"run this program in Python {version}, or use an environment of Python {HERE}",
        )


def tree(name: str, builds: dict[str, Json]) -> Json:
    """Returns the input that is a tree for each of some platforms."""
    parts = {part["blake3"]: part for build in builds.values() for part in build["parts"]}
    contents = {
        platform: {"blake3": build["blake3"], "bytes": build["bytes"]}
        for platform, build in builds.items()
    }
    return {"name": name, "per-platform": contents, "parts": list(parts.values())}


class _Host(Env):
    def __init__(self, version: str) -> None:
        check_version(version, "the environment")
        self.version = ".".join(version.split(".")[:2])

    def __repr__(self) -> str:
        return f"Env.host({self.version!r})"

    def prepare(self, api: Api, function: Callable[..., Any]) -> Prepared:
        return Prepared([f"python{self.version}", *FLAGS])


#: Where the program is in an environment, the first that is there.
_PROGRAMS = ("bin/python3", "bin/python", "python.exe", "python3")

_VERSION_OF = re.compile(r"(?:.*/)?(?:lib/python(\d+\.\d+)/os\.py|python(3)(\d+)\.dll)$")


class _Packed(Env):
    def __init__(self, path: Path, platform: str) -> None:
        self.path = path.absolute()
        self.platform = platform
        names = _names(self.path)
        if any(name.removeprefix("./").endswith("pyvenv.cfg") and name.count("/") < 2 for name in names):
            raise EnvError(
                f"{path} is a virtual environment, which works only where it was made",
                "make one that can travel: Env.auto([…]) with its packages, or conda-pack",
            )
        found = [program for program in _PROGRAMS if program in names]
        if not found:
            raise EnvError(
                f"there is no Python in {path}: neither {', '.join(_PROGRAMS[:3])}",
                "give the directory that has `bin`, or an archive of what is in it",
            )
        self.program = found[0]
        versions = {_version(name) for name in names} - {None}
        if len(versions) != 1:
            raise EnvError(
                f"nobody can see which version of Python is in {path}",
                "pack all of it, with lib/pythonX.Y",
            )
        check_version(str(versions.pop()), f"the environment in {path}")

    def __repr__(self) -> str:
        return f"Env.packed({str(self.path)!r}, {self.platform!r})"

    def prepare(self, api: Api, function: Callable[..., Any]) -> Prepared:
        sent = api.send_tree(str(self.path))
        program = f"{PYTHON}/{self.program}"
        return Prepared([program, *FLAGS], [tree(PYTHON, {self.platform: sent})])


def _version(name: str) -> str | None:
    found = _VERSION_OF.match(name)
    if not found:
        return None
    return found[1] or f"{found[2]}.{found[3]}"


def _names(path: Path) -> set[str]:
    """Returns the names of what lies in a directory or archive, as far as they tell something."""
    if path.is_dir():
        names = {name for name in (*_PROGRAMS, "pyvenv.cfg") if os.path.lexists(path / name)}
        names |= {f"lib/{found.parent.name}/os.py" for found in path.glob("lib/python3*/os.py")}
        return names | {found.name for found in path.glob("python3*.dll")}
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return set(archive.namelist())
        with tarfile.open(path) as archive:
            return {name.removeprefix("./") for name in archive.getnames()}
    except (OSError, tarfile.TarError, io.UnsupportedOperation) as error:
        raise EnvError(
            f"{path} cannot be read as an environment: {error}",
            "give a directory, or a .tar, .tar.gz or .zip of one",
        ) from error
