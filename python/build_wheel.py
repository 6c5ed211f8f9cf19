"""Builds the wheel: the library, and the program `deskgrid` as its script. One for each platform, for
every Python, since nothing of it is compiled against Python.

    pip wheel --no-deps -w dist ./python                        # builds the program first: cargo build --release
    DESKGRID_BINARY=target/debug/deskgrid pip wheel --no-deps -w dist ./python

This is a build backend as PEP 517 and PEP 660 describe it. The tag of the platform is read from the
program: which glibc it needs, or none.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
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
    files = {file.relative_to(SOURCES).as_posix(): file.read_bytes() for file in sources()}
    return _write(Path(directory), files)


def build_editable(directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """Writes a wheel that finds the library where it is."""
    return _write(Path(directory), {"deskgrid-editable.pth": f"{SOURCES}\n".encode()})


def build_sdist(directory: str, config_settings: Any = None) -> str:
    """There is none: the program is built from the whole repository."""
    raise SystemExit("error: there is no source distribution\ntry: pip wheel ./python in the repository")


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return []


get_requires_for_build_editable = get_requires_for_build_wheel


def sources() -> list[Path]:
    """The files of the library."""
    return sorted(f for f in SOURCES.rglob("*") if f.suffix == ".py" or f.name == "py.typed")


def _write(directory: Path, files: dict[str, bytes]) -> str:
    program = binary()
    tag = f"py3-none-{platform_tag(program.read_bytes())}"
    tags = "".join(f"Tag: py3-none-{one}\n" for one in tag.split("-")[2].split("."))
    info = f"{NAME}-{version()}.dist-info"
    script = f"{NAME}-{version()}.data/scripts/{'deskgrid.exe' if program.suffix == '.exe' else 'deskgrid'}"
    files = {
        **files,
        script: program.read_bytes(),
        f"{info}/METADATA": metadata().encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: deskgrid\nRoot-Is-Purelib: false\n{tags}".encode(),
        **{f"{info}/licenses/{name}": (REPOSITORY / name).read_bytes() for name in licences()},
    }
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = directory / f"{NAME}-{version()}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name == script else 0o100644) << 16
            archive.writestr(entry, data)
    return wheel.name


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def binary() -> Path:
    """The program: a built one that is named, or else a release build."""
    named = os.environ.get("DESKGRID_BINARY")
    if named:
        return Path(named).resolve()
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "cli"], cwd=REPOSITORY, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    built = target / "release" / ("deskgrid.exe" if sys.platform == "win32" else "deskgrid")
    stripped = built.with_name("deskgrid-stripped")
    if shutil.which("strip") and sys.platform != "win32":
        subprocess.run(["strip", "-o", stripped, built], check=True)
        return stripped
    return built


def platform_tag(program: bytes) -> str:
    """The tag of the systems on which a program runs."""
    machine = platform.machine().lower().replace("amd64", "x86_64")
    if program[:2] == b"MZ":
        return "win_amd64"
    if program[:4] != b"\x7fELF":
        return f"macosx_11_0_{machine}"
    machine = {62: "x86_64", 183: "aarch64"}.get(int.from_bytes(program[18:20], "little"), machine)
    needed = [int(found) for found in re.findall(rb"GLIBC_2\.(\d+)", program)]
    if not needed:
        # It is linked statically, and runs with any C library.
        return f"manylinux_2_17_{machine}.musllinux_1_1_{machine}"
    return f"manylinux_2_{max(17, *needed)}_{machine}"


def version() -> str:
    """The version of the whole project."""
    found = re.search(r'(?m)^version = "([^"]+)"', (REPOSITORY / "Cargo.toml").read_text())
    assert found is not None
    return found[1]


def licences() -> list[str]:
    return sorted(file.name for file in REPOSITORY.glob("LICENSE*"))


def metadata() -> str:
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
        *(f"License-File: {name}" for name in licences()),
        f"Requires-Python: {project['requires-python']}",
        *(f"Classifier: {name}" for name in project["classifiers"]),
        *(f"Requires-Dist: {name}" for name in project["dependencies"]),
    ]
    for extra, names in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {name}; extra == "{extra}"' for name in names]
    readme = (HERE / "README.md").read_text()
    return "\n".join(lines) + f"\nDescription-Content-Type: text/markdown\n\n{readme}"
