"""Environments that are made at the client by uv, one for each platform of the grid, and kept in
the user's cache.

Not here: where they are used (:mod:`deskgrid.env`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._options import several
from ._pack import imports, own_modules
from .env import FLAGS, HERE, PACKAGES, PYTHON, Env, Prepared, check_version, this_platform, tree
from .errors import EnvError

if TYPE_CHECKING:
    from ._api import Api

#: What uv calls a platform, for packages and for Pythons.
_NAMES = {
    "linux-x86_64": ("x86_64-unknown-linux-gnu", "linux-x86_64-gnu"),
    "linux-aarch64": ("aarch64-unknown-linux-gnu", "linux-aarch64-gnu"),
    "windows-x86_64": ("x86_64-pc-windows-msvc", "windows-x86_64-none"),
    "macos-x86_64": ("x86_64-apple-darwin", "macos-x86_64-none"),
    "macos-aarch64": ("aarch64-apple-darwin", "macos-aarch64-none"),
}

#: Parts of Python that no task needs.
_LEFT_OUT = shutil.ignore_patterns(
    "site-packages", "dist-packages", "test", "tests", "idlelib", "ensurepip", "tkinter",
    "turtledemo", "lib2to3", "config-*", "*.a", "*.opt-*.pyc", "__phello__",
)  # fmt: skip


class Auto(Env):
    """See :meth:`Env.auto`."""

    def __init__(
        self,
        packages: Sequence[str] | None,
        lock: Path | None,
        sdists: Sequence[str],
        python: Path | None,
        platforms: Sequence[str] | None,
    ) -> None:
        if packages is not None and lock is not None:
            raise EnvError("packages are named here and by a lock file", "give one of them")
        self.packages = None if packages is None else sorted(several(packages))
        self.lock = None if lock is None else checked_lock(lock)
        self.sdists = sorted(several(sdists))
        self.python = python
        self.platforms = None if platforms is None else several(platforms)
        self.by_function = packages is None and lock is None
        self.uv = find_uv()
        unknown = [name for name in self.platforms or () if name not in _NAMES]
        if unknown:
            raise EnvError(
                f"there is no platform {unknown[0]!r}", f"say one of {', '.join(_NAMES)}"
            )
        if python is not None:
            self.python = _program(python)
            check_version(_ask(self.python, "platform.python_version()"), str(python))

    def __repr__(self) -> str:
        return f"Env.auto({self.packages!r})" if self.lock is None else f"Env.auto(lock={str(self.lock)!r})"

    def prepare(self, api: Api, function: Callable[..., Any]) -> Prepared:
        wanted = self._wanted(function)
        pythons: dict[str, Path] = {}
        sites: dict[str, Path] = {}
        without: dict[str, EnvError] = {}
        # All is made before anything is sent.
        for platform in self._platforms(api):
            try:
                if wanted:
                    sites[platform] = self._site(platform, wanted)
                pythons[platform] = self._python(platform)
            except EnvError as error:
                sites.pop(platform, None)
                without[platform] = error
        if not pythons:
            raise next(iter(without.values()))

        for platform, why in without.items():
            print(f"deskgrid: not for {platform} hosts: {why.args[0]}", file=sys.stderr)
        inputs = [tree(PYTHON, {name: api.send_tree(str(path)) for name, path in pythons.items()})]
        if sites:
            inputs.append(tree(PACKAGES, {name: api.send_tree(str(path)) for name, path in sites.items()}))
        return Prepared([f"{PYTHON}/bin/python3", *FLAGS], inputs, [PACKAGES] if sites else [])

    def _wanted(self, function: Callable[..., Any]) -> list[str]:
        """The words for uv that name what to install."""
        if self.lock is not None:
            return ["--requirements", str(self._requirements(self.lock))]
        packages = self.packages
        if packages is None:
            packages = script_packages()
        return imported_packages(function) if packages is None else packages

    def _requirements(self, lock: Path) -> Path:
        """Returns a file that uv installs from: a lock file of a project is turned into one."""
        if lock.name != "uv.lock":
            return lock
        with _made("lock", _text(lock)) as (path, new):
            if new is not None:
                self._run(
                    "export", "--frozen", "--no-dev", "--no-emit-project", "--no-emit-local",
                    "--python", sys.executable, "--project", str(lock.parent),
                    "--format", "pylock.toml", "--output-file", str(new / "pylock.toml"),
                    what=f"{lock} cannot be read",
                    hint="make it again with `uv lock`, or name the packages",
                )  # fmt: skip
        return path / "pylock.toml"

    def _platforms(self, api: Api) -> list[str]:
        if self.platforms is not None:
            return self.platforms
        if self.python is not None:
            return [this_platform()]
        hosts = api.pages("/hosts", "hosts")
        there = {host["platform"] for host in hosts if not host["gone"]}
        return sorted(there & set(_NAMES)) or [this_platform()]

    def _site(self, platform: str, wanted: list[str]) -> Path:
        """Installs the packages for a platform, unless that was done before."""
        known = wanted if self.lock is None else ["lock", _text(Path(wanted[-1]))]
        word = json.dumps([HERE, platform, known, *([self.sdists] if self.sdists else [])])
        with _made("packages", word) as (path, new):
            if new is not None:
                self._run(
                    "pip", "install", "--target", str(new), "--python", sys.executable,
                    "--python-version", HERE,
                    "--python-platform", _NAMES[platform][0], "--only-binary", ":all:",
                    *(f"--no-binary={name}" for name in self.sdists),
                    "--link-mode", "copy", *wanted,
                    what=f"the packages cannot be had for {platform}",
                    cwd=None if self.lock is None else self.lock.parent,
                )  # fmt: skip
                (new / ".lock").unlink(missing_ok=True)
                _compile(new)
        return path

    def _python(self, platform: str) -> Path:
        """Gets a Python for a platform, unless there is one already."""
        if self.python is not None:
            return pack_python(self.python)
        with _made("python", json.dumps([HERE, platform])) as (path, new):
            if new is not None:
                key = f"cpython-{HERE}-{_NAMES[platform][1]}"
                into = new / "uv"
                self._run(
                    "python", "install", key, "--install-dir", str(into), "--no-bin",
                    what=f"a Python for {platform} cannot be downloaded",
                    hint=_other_pythons(platform),
                )  # fmt: skip
                (home,) = [d for d in into.iterdir() if d.is_dir() and not d.is_symlink() and d.name[0] != "."]
                _arrange(home, new, platform)
                shutil.rmtree(into)
        return path

    def _run(self, *args: str, what: str, hint: str = "", cwd: Path | None = None) -> None:
        ran = subprocess.run(
            [self.uv, "--no-config", *args],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=cwd,
        )  # fmt: skip
        if ran.returncode != 0:
            said = _said(ran.stderr)
            raise EnvError(f"{what}: {said}", hint or _way_out(said))


def _said(stderr: str) -> str:
    """Returns what uv says of a failure: all of it, or of something that it cannot reach both ends
    of the chain of causes."""
    causes = re.findall(r"(?m)^\s*(?:cause|Caused by): ?(.+)$", stderr)
    if not causes or not re.search("Failed to (download|fetch)", stderr):
        told = re.sub(r"[×╰─▶│├]", " ", stderr)
        return " ".join(told[max(told.find("error:"), 0) :].split())
    error = re.search(r"(?m)^error: (.+)$", stderr)
    where = re.search(r"`(\w+://[^`]+)`", stderr)
    ends = [error[1] if error else causes[0], causes[-1], *([where[1]] if where else [])]
    return ": ".join(dict.fromkeys(ends))


def _other_pythons(platform: str) -> str:
    """What to do where a Python cannot be downloaded."""
    mirror = "let uv find a mirror: UV_PYTHON_INSTALL_MIRROR"
    if platform != this_platform():
        return f"{mirror}; or leave these hosts out, with platforms=…"
    return f"send this machine's with Env.auto(…, python=sys.executable), for hosts with the same system libraries; or {mirror}"


#: What uv says of a package that has no wheel, but sources.
_ONLY_SOURCES = re.compile(
    r"source distributions is disabled(?:, but attempted to build `([^` @]+))?"
    r"|(?:Wheels are required for|Package) `([^`]+)`.*no-build"
)


def _way_out(said: str) -> str:
    """What to do about packages that cannot be had."""
    found = _ONLY_SOURCES.search(said)
    if found is None:
        return "leave the package out, or the platform, with platforms=…"
    name = found[1] or found[2] or "NAME"
    return (
        f"build it here with Env.auto(…, sdists=[{name!r}]), which fits packages without compiled "
        "parts; else leave it out, or the platform, with platforms=…"
    )


def checked_lock(lock: Path) -> Path:
    """Returns the path of a lock file.

    Raises:
        EnvError: It is not there, or of a kind that cannot be read.
    """
    lock = lock.absolute()
    name = lock.name
    if name != "uv.lock" and lock.suffix != ".txt" and not re.fullmatch(r"pylock\.(.+\.)?toml", name):
        raise EnvError(
            f"{lock} is no lock file that can be read here",
            "give a uv.lock, a pylock.toml, or requirements in a .txt; others can be exported to one of these",
        )
    _text(lock)
    return lock


def _text(lock: Path) -> str:
    try:
        return lock.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EnvError(f"{lock} cannot be read: {error}", "give the path of a lock file") from error


def find_uv() -> str:
    """Returns the path of uv.

    Raises:
        EnvError: It is not here.
    """
    name = "uv.exe" if sys.platform == "win32" else "uv"
    for place in (Path(sysconfig.get_path("scripts")), Path(sys.executable).parent):
        if os.access(place / name, os.X_OK):
            return str(place / name)
    found = shutil.which("uv")
    if found is None:
        raise EnvError("Env.auto() needs uv, which is not here", "pip install 'uv>=0.9'")
    return found


def cache_dir() -> Path:
    """Returns the directory in which environments are kept."""
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "deskgrid" / "env"


@contextlib.contextmanager
def _made(kind: str, word: str) -> Iterator[tuple[Path, Path | None]]:
    """Yields where something is kept, and where to make it if it is not there. It is there whole
    or not at all."""
    path = cache_dir() / f"{kind}-{hashlib.sha256(word.encode()).hexdigest()[:20]}"
    if path.is_dir():
        yield path, None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f"{path.name}.", dir=path.parent))
    try:
        yield path, new
        new.chmod(0o755)
        with contextlib.suppress(OSError):
            # Somebody else may have been faster.
            new.rename(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _compile(site: Path) -> None:
    """Compiles all modules: no task could keep what it compiles, since a tree cannot be written.

    A program of its own does it: here its processes would run the script of the user once more."""
    subprocess.run(
        [
            sys.executable, "-I", "-m", "compileall", "-qq", "-j", "0", "--invalidation-mode", "unchecked-hash",
            "-s", str(site), "-p", PACKAGES, str(site),
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def _program(python: Path) -> Path:
    """Returns the program of an installation that is named by it or by its directory."""
    if python.is_dir():
        python = python / "bin" / "python3"
    if not os.access(python, os.X_OK):
        raise EnvError(f"{python} is no Python", "name an interpreter, or where it is installed")
    return python


def _ask(program: Path, expression: str) -> str:
    code = f"import platform, sys, sysconfig; print({expression})"
    ran = subprocess.run([program, "-I", "-c", code], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise EnvError(f"{program} does not run: {ran.stderr.strip()}", "name another one")
    return ran.stdout.strip()


def pack_python(program: Path) -> Path:
    """Makes a tree of an installed Python, unless there is one already."""
    real = Path(_ask(program, "sys._base_executable or sys.executable")).resolve()
    version = _ask(real, "platform.python_version()")
    with _made("python", json.dumps([str(real), version, real.stat().st_mtime_ns])) as (path, new):
        if new is not None:
            stdlib = Path(_ask(real, "sysconfig.get_path('stdlib')"))
            (new / "bin").mkdir()
            shutil.copy2(real, new / "bin" / "python3")
            _relocate(new / "bin" / "python3", _ask(real, "sysconfig.get_config_var('LIBDIR')"))
            copied = new / "lib" / f"python{HERE}"
            shutil.copytree(stdlib, copied, ignore=_LEFT_OUT, symlinks=False, ignore_dangling_symlinks=True)
            for library in real.parent.parent.glob(f"lib/libpython{HERE}*.so*"):
                shutil.copy2(library, new / "lib" / library.name)
            _compile(copied)
    return path


def _relocate(program: Path, library: str) -> None:
    """Lets a program find its shared library beside itself instead of where it was installed."""
    data = program.read_bytes()
    before, after = library.encode() + b"\0", b"$ORIGIN/../lib"
    if data.count(before) == 1 and len(after) < len(before):
        program.write_bytes(data.replace(before, after.ljust(len(before), b"\0")))


def _arrange(home: Path, into: Path, platform: str) -> None:
    """Puts a downloaded Python where tasks look for it: `bin/python3`, on every platform."""
    if platform.startswith("windows"):
        shutil.move(home, into / "bin")
        shutil.copy2(into / "bin" / "python.exe", into / "bin" / "python3.exe")
        return
    (into / "bin").mkdir()
    shutil.copy2(home / "bin" / f"python{HERE}", into / "bin" / "python3")
    library = home / "lib" / f"python{HERE}"
    shutil.copytree(library, into / "lib" / f"python{HERE}", ignore=_LEFT_OUT, symlinks=True)
    for shared in home.glob(f"lib/libpython{HERE}*"):
        shutil.copy2(shared, into / "lib" / shared.name)


def script_packages() -> list[str] | None:
    """Returns what the running script asks for in its header (PEP 723), if it has one."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if not file:
        return None
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return header_packages(Path(file).read_text(encoding="utf-8"))
    return None


_HEADER = re.compile(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")


def header_packages(text: str) -> list[str] | None:
    """Returns the `dependencies` of a script's header."""
    found = _HEADER.search(text)
    if found is None:
        return None
    lines = found["content"].splitlines()
    toml = "\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)
    if sys.version_info >= (3, 11):
        import tomllib

        try:
            asked = tomllib.loads(toml).get("dependencies", [])
        except tomllib.TOMLDecodeError as error:
            raise EnvError(f"the header of the script cannot be read: {error}") from error
    else:
        listed = re.search(r"(?ms)^dependencies\s*=\s*\[(.*?)\]", toml)
        asked = re.findall(r"[\"']([^\"']+)[\"']", listed[1]) if listed else []
    return sorted(str(package) for package in asked)


def imported_packages(function: Callable[..., Any]) -> list[str]:
    """Returns the installed packages that a function and the user's modules import, pinned."""
    names = set(imports(function))
    spaces = [vars(module) for module in own_modules()]
    inner = functools.partial(function).func
    spaces.append(getattr(inner, "__globals__", {}))
    names.add(str(getattr(inner, "__module__", "")))
    for space in spaces:
        names |= {_module_of(value) for value in list(space.values())}
    tops = {name.partition(".")[0] for name in names if name}
    return pinned(tops)


def _module_of(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return value.__name__
    named = getattr(value, "__module__", None)
    return named if isinstance(named, str) else ""


def pinned(modules: Iterable[str]) -> list[str]:
    """Returns the distributions that have these modules, each in the version that is here."""
    having = importlib.metadata.packages_distributions()
    found = {dist for module in modules for dist in having.get(module, ())}
    ours = {"deskgrid", "cloudpickle"}
    return sorted(
        f"{name}=={importlib.metadata.version(name)}" for name in found if name.lower() not in ours
    )
