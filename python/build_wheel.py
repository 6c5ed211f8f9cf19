#!/usr/bin/env python3
"""Builds the wheel: the library, and the program `deskgrid` as its script. One for each platform, for
every Python, since nothing of it is compiled against Python.

    python/build_wheel.py --program PATH --platform TAG --out DIR   # of a program that is built already
    pip wheel --no-deps -w dist ./python                            # builds it: cargo build --release
    DESKGRID_BINARY=target/debug/deskgrid pip wheel --no-deps -w dist ./python
    python/build_wheel.py --sources --out DIR                       # the source distribution

Tags are those of PyPI: `musllinux_1_2_x86_64`, `manylinux_2_17_x86_64`, `win_amd64`; several are joined by
dots, and `manylinux` alone is the oldest one that the program allows. Without a tag it is read from
the program: which glibc it needs, or none. A program that does not run on the systems of a tag is
refused. The source distribution is the whole repository, as far as git has it: pip builds the
program from it, which needs Rust.

This is a build backend as PEP 517 and PEP 660 describe it, and a command. Not here: how the program
is built.
"""

from __future__ import annotations

import argparse
import base64
import calendar
import gzip
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
SOURCES = HERE / "src"
NAME = "deskgrid"

#: The time of all files in a wheel: the same sources give the same bytes.
TIME = (2020, 1, 1, 0, 0, 0)


def build_wheel(directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """Writes the wheel into a directory, and returns its name."""
    return _write(Path(directory), library())


def build_editable(directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """Writes a wheel that finds the library where it is."""
    return _write(Path(directory), {"deskgrid-editable.pth": f"{SOURCES}\n".encode()})


def build_sdist(directory: str, config_settings: Any = None) -> str:
    """Writes the source distribution into a directory, and returns its name."""
    ran = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True)
    names = [name for name in ran.stdout.split("\0") if name]
    if "Cargo.toml" not in names:
        raise refused("the source distribution is made of the files that git has, and this is no clone", "git clone")
    stem = f"{NAME}-{version()}"
    # The repository's root is no Python project: there this is a project of its own.
    project = (HERE / "pyproject.toml").read_text().replace('backend-path = ["."]', 'backend-path = ["python"]')
    files = {"PKG-INFO": (metadata(licence_files()).encode(), 0o644), "pyproject.toml": (project.encode(), 0o644)}
    for name in names:
        file = REPOSITORY / name
        if file.is_file():
            files[name] = (file.read_bytes(), 0o755 if os.access(file, os.X_OK) else 0o644)

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{stem}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), mode, calendar.timegm(TIME)
            archive.addfile(entry, io.BytesIO(content))
    Path(directory).mkdir(parents=True, exist_ok=True)
    Path(directory, f"{stem}.tar.gz").write_bytes(gzip.compress(out.getvalue(), mtime=0))
    return f"{stem}.tar.gz"


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return []


get_requires_for_build_editable = get_requires_for_build_wheel


def library() -> dict[str, bytes]:
    """The files of the library, by their names in the wheel."""
    files = sorted(f for f in SOURCES.rglob("*") if f.suffix == ".py" or f.name == "py.typed")
    return {file.relative_to(SOURCES).as_posix(): file.read_bytes() for file in files}


def _write(
    directory: Path, files: dict[str, bytes], program: Path | None = None, platform: str = "", more: Path | None = None
) -> str:
    """`more` are the licences of what the program is linked from."""
    licences = {name: (REPOSITORY / name).read_bytes() for name in licence_files()}
    if more is not None:
        licences[more.name] = more.read_bytes()
    content = (program or binary()).read_bytes()
    platforms = checked(platform, content) if platform else platform_tag(content)
    tag = f"py3-none-{platforms}"
    tags = "".join(f"Tag: py3-none-{one}\n" for one in platforms.split("."))
    info = f"{NAME}-{version()}.dist-info"
    script = f"{NAME}-{version()}.data/scripts/{'deskgrid.exe' if is_windows(content) else 'deskgrid'}"
    files = {
        **files,
        script: content,
        f"{info}/METADATA": metadata(sorted(licences)).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: deskgrid\nRoot-Is-Purelib: false\n{tags}".encode(),
        **{f"{info}/licenses/{name}": text for name, text in licences.items()},
    }
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()

    directory.mkdir(parents=True, exist_ok=True)
    wheel = directory / f"{NAME}-{version()}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if name == script else 0o100644) << 16
            archive.writestr(entry, data)
    return wheel.name


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def binary() -> Path:
    """The program: a built one that is named, or else a release build."""
    named = os.environ.get("DESKGRID_BINARY")
    if named:
        return named_program(named)
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "cli"], cwd=REPOSITORY, check=True)
    # cargo, too, starts from there.
    target = REPOSITORY / os.environ.get("CARGO_TARGET_DIR", "target")
    built = target / "release" / ("deskgrid.exe" if sys.platform == "win32" else "deskgrid")
    stripped = built.with_name("deskgrid-stripped")
    if shutil.which("strip") and sys.platform != "win32":
        subprocess.run(["strip", "-o", stripped, built], check=True)
        return stripped
    return built


def named_program(name: str) -> Path:
    """A program that is built already. pip calls this in a directory of its own: a relative path starts
    from the one in which pip was called, which the shell has noted, or from the repository."""
    for place in (Path.cwd(), Path(os.environ.get("PWD", ".")), REPOSITORY):
        if (place / name).is_file():
            return (place / name).resolve()
    raise refused(f"DESKGRID_BINARY names no file: {name}", "give its whole path")


def is_windows(program: bytes) -> bool:
    return program[:2] == b"MZ"


#: The machines of programs in the ELF format, and in Windows' format, by the numbers there.
_ELF = {62: "x86_64", 183: "aarch64"}
_PE = {0x8664: "amd64", 0xAA64: "arm64"}


def platform_tag(program: bytes) -> str:
    """The tag of the systems on which a program runs."""
    if is_windows(program):
        return f"win_{machine_of(program)}"
    if program[:4] != b"\x7fELF":
        return f"macosx_11_0_{platform.machine().lower()}"
    machine, needed = machine_of(program), glibc(program)
    if needed is None:
        # It is linked statically, and runs with any C library.
        return f"manylinux_2_17_{machine}.musllinux_1_1_{machine}"
    return f"manylinux_2_{max(17, needed)}_{machine}"


def machine_of(program: bytes) -> str:
    """The processor for which a program was compiled, as tags name it."""
    if is_windows(program):
        header = int.from_bytes(program[60:64], "little")
        number, known = int.from_bytes(program[header + 4 : header + 6], "little"), _PE
    else:
        number, known = int.from_bytes(program[18:20], "little"), _ELF
    if number not in known:
        raise refused("the program is for a processor that is not known here", f"one of {', '.join(known.values())}")
    return known[number]


def glibc(program: bytes) -> int | None:
    """The minor version of glibc 2 that a program needs; None if it is linked statically."""
    needed = [int(found) for found in re.findall(rb"GLIBC_2\.(\d+)", program)]
    return max(needed, default=None)


def checked(platforms: str, program: bytes) -> str:
    """Returns the tags that were asked for, if the program runs on those systems."""
    fits = platform_tag(program)
    if platforms == "manylinux" and fits.startswith("manylinux"):
        return fits.split(".")[0]
    for tag in platforms.split("."):
        if tag not in fits.split(".") and not _runs_on(tag, program):
            raise refused(f"the program does not run on {tag!r}: it is one for {fits}", f"--platform {fits}")
    return platforms


def _runs_on(tag: str, program: bytes) -> bool:
    """Whether a program runs on the Linux systems of a tag."""
    found = re.fullmatch(r"(manylinux_2|musllinux_1)_(\d+)_(\w+)", tag)
    if not found or program[:4] != b"\x7fELF" or found[3] != machine_of(program):
        return False
    needed = glibc(program)
    return needed is None or (found[1] == "manylinux_2" and needed <= int(found[2]))


def refused(why: str, hint: str) -> SystemExit:
    return SystemExit(f"error: {why}\ntry: {hint}")


def version() -> str:
    """The version of the whole project."""
    found = re.search(r'(?m)^version = "([^"]+)"', (REPOSITORY / "Cargo.toml").read_text())
    assert found is not None
    return found[1]


def licence_files() -> list[str]:
    return sorted(file.name for file in REPOSITORY.glob("LICENSE*"))


def metadata(licences: list[str]) -> str:
    """The core metadata, from pyproject.toml."""
    text = (HERE / "pyproject.toml").read_text()
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    project = tomllib.loads(text)["project"]
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {NAME}",
        f"Version: {version()}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        *(f"License-File: {name}" for name in licences),
        f"Requires-Python: {project['requires-python']}",
        *(f"Classifier: {name}" for name in project["classifiers"]),
        *(f"Requires-Dist: {name}" for name in project["dependencies"]),
    ]
    for extra, names in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {name}; extra == "{extra}"' for name in names]
    readme = (HERE / "README.md").read_text()
    return "\n".join(lines) + f"\nDescription-Content-Type: text/markdown\n\n{readme}"


def main(words: list[str] | None = None) -> None:
    """The command: prints the path of the wheel that it has written."""
    parser = argparse.ArgumentParser(prog="build_wheel.py", description="Builds a wheel of a built program.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--program", type=Path, help="the program `deskgrid`, stripped")
    what.add_argument("--sources", action="store_true", help="write the source distribution instead of a wheel")
    parser.add_argument("--platform", default="", metavar="TAG", help="such as musllinux_1_2_x86_64; else it is read")
    parser.add_argument("--licences", type=Path, metavar="FILE", help="those of what the program is linked from")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="is made if it is not there")
    given = parser.parse_args(words)
    if given.sources:
        print(given.out / build_sdist(str(given.out)))
        return
    if not given.program.is_file():
        raise refused(f"there is no program {given.program.absolute()}", "cargo build --release -p cli")
    if given.licences is not None and not given.licences.is_file():
        raise refused(f"there is no file {given.licences.absolute()}", "leave --licences out, or name the file")
    print(given.out / _write(given.out, library(), given.program, given.platform, given.licences))


if __name__ == "__main__":
    main()
