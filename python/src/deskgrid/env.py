"""The Python in which functions run on the hosts."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import EnvError

if TYPE_CHECKING:
    from ._api import Api

#: The version of the Python that runs here, as hosts must have it.
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass
class Prepared:
    """An environment that is ready to be named in a submission."""

    python: list[str]
    """The words that start Python."""
    inputs: list[dict[str, Any]] = field(default_factory=list)
    """What has to be in a task's directory."""
    paths: list[str] = field(default_factory=list)
    """Directories, below a task's directory, in which modules are found."""
    needs: list[str] = field(default_factory=list)


class Env:
    """An environment: made by one of :meth:`host`, :meth:`packed` and :meth:`auto`."""

    def prepare(self, api: Api) -> Prepared:
        """Sends what has to be sent, once."""
        raise NotImplementedError

    @staticmethod
    def host(version: str | None = None) -> Env:
        """The hosts' own Python, with the packages that are installed there.

        A host without it fails the task, which then goes to another host.

        Args:
            version: Its version, such as ``"3.12"``; by default that of this program. Functions
                can be sent to the same version only.

        Raises:
            EnvError: The version is another one than here.
        """
        return _Host(version or HERE)


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


class _Host(Env):
    def __init__(self, version: str) -> None:
        check_version(version, "the environment")
        self.version = ".".join(version.split(".")[:2])

    def __repr__(self) -> str:
        return f"Env.host({self.version!r})"

    def prepare(self, api: Api) -> Prepared:
        return Prepared([f"python{self.version}", "-I", "-X", "utf8"])
