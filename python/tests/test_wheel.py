"""Wheels: the one of the program under test in an environment that has nothing else, and what is in
those of other platforms."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import build_wheel
import pytest
from world import World, binary

HERE = Path(__file__).resolve().parent.parent

#: pip, which asks nobody and nothing but what it is given here.
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def elf(machine: int, *needs: str) -> bytes:
    """The beginning of a Linux program for a processor, and what it needs of its C library."""
    words = "\0".join(needs).encode()
    return b"\x7fELF".ljust(18, b"\0") + machine.to_bytes(2, "little") + words


def exe(machine: int) -> bytes:
    """The beginning of a Windows program for a processor."""
    head = b"MZ".ljust(60, b"\0") + (64).to_bytes(4, "little")
    return head + b"PE\0\0" + machine.to_bytes(2, "little")


STATIC, DYNAMIC, WINDOWS = elf(62), elf(62, "GLIBC_2.17", "GLIBC_2.34"), exe(0x8664)


def run(*words: Any, **more: Any) -> str:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
    return ran.stdout


def outside() -> dict[str, str]:
    """The environment of somebody who does not have this repository."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "DESKGRID_BINARY")}


def built(program: bytes, tag: str, into: Path) -> Path:
    """Builds a wheel with the command."""
    into.mkdir(exist_ok=True)
    (into / "program").write_bytes(program)
    words = [sys.executable, HERE / "build_wheel.py", "--program", into / "program", "--out", into / "dist"]
    return Path(run(*words, "--platform", tag).strip())


@pytest.fixture(scope="session")
def small(tmp_path_factory: Any) -> Path:
    """The program under test without its symbols."""
    into = Path(tmp_path_factory.mktemp("program")) / "deskgrid"
    strip = shutil.which("strip")
    if strip:
        run(strip, "-o", into, binary())
    else:
        shutil.copy(binary(), into)
    return into


def test_one_wheel_brings_the_library_and_the_program(world: World, tmp_path: Path, small: Path) -> None:
    wheel = built(small.read_bytes(), "manylinux", tmp_path)
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, *PIP[1:], "install", wheel, env=outside())
    assert "deskgrid" in run(tmp_path / "venv" / "bin" / "deskgrid", "--version", env=outside())

    (tmp_path / "local_helpers.py").write_text("def f(x):\n    return x * x\n")
    script = tmp_path / "script.py"
    script.write_text(
        "from deskgrid import Grid\n"
        "from local_helpers import f\n"
        f"with Grid(dir={world.user!r}) as g:\n"
        "    assert list(g.map(f, range(1000))) == [f(i) for i in range(1000)]\n"
        "import deskgrid; print(deskgrid.__version__)\n"
    )
    said = run(python, script, env={**outside(), "PATH": "/usr/bin"}, cwd="/")
    assert said.strip() == build_wheel.version()


def test_pip_builds_the_wheel_that_the_command_builds(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(STATIC)
    build = {**outside(), "DESKGRID_BINARY": str(tmp_path / "program")}
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path / "pip", HERE, env=build)
    (by_pip,) = (tmp_path / "pip").glob("*.whl")
    by_command = built(STATIC, "", tmp_path)
    assert by_pip.name == by_command.name and by_pip.read_bytes() == by_command.read_bytes()


def test_relative_paths_start_from_where_the_command_was_called(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(STATIC)
    words = [sys.executable, HERE / "build_wheel.py", "--program", "program", "--out", "dist"]
    wheel = run(*words, cwd=tmp_path).strip()
    assert (tmp_path / wheel).is_file()
    shell = {**outside(), "DESKGRID_BINARY": "program", "PWD": str(tmp_path)}
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", "pip", HERE, env=shell, cwd=tmp_path)
    (by_pip,) = (tmp_path / "pip").glob("*.whl")
    assert by_pip.read_bytes() == (tmp_path / wheel).read_bytes()


def test_files_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program").write_bytes(STATIC)
    for words, named in [(["--program", "none"], "none"), (["--program", "program", "--licences", "no"], "no")]:
        with pytest.raises(SystemExit, match=f"^error: .*{tmp_path / named}\ntry: "):
            build_wheel.main([*words, "--out", "dist"])
    monkeypatch.setenv("DESKGRID_BINARY", "none")
    with pytest.raises(SystemExit, match="^error: DESKGRID_BINARY names no file: none\ntry: "):
        build_wheel.build_wheel("dist")
    assert not (tmp_path / "dist").exists()


@pytest.mark.parametrize(
    "program, tag, script",
    [
        (STATIC, "musllinux_1_2_x86_64", "deskgrid"),
        (STATIC, "manylinux_2_17_x86_64", "deskgrid"),
        (DYNAMIC, "manylinux_2_34_x86_64", "deskgrid"),
        (WINDOWS, "win_amd64", "deskgrid.exe"),
    ],
    ids=["musl", "static", "glibc", "windows"],
)
def test_a_wheel_has_the_library_and_the_program_of_its_platform(
    program: bytes, tag: str, script: str, tmp_path: Path
) -> None:
    wheel = built(program, tag, tmp_path)
    version = build_wheel.version()
    assert wheel.name == f"deskgrid-{version}-py3-none-{tag}.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        files = {entry.filename: archive.read(entry) for entry in archive.infolist()}
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}

    info = f"deskgrid-{version}.dist-info"
    scripts = f"deskgrid-{version}.data/scripts/{script}"
    assert files[scripts] == program
    assert {name for name, mode in modes.items() if mode & 0o111} == {scripts}
    assert f"\nTag: py3-none-{tag}\n" in files[f"{info}/WHEEL"].decode()
    packages = {file.relative_to(HERE / "src").as_posix() for file in (HERE / "src").rglob("*.py")}
    licences = {f"{info}/licenses/{name}" for name in build_wheel.licence_files()}
    described = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD")}
    assert set(files) == packages | licences | described | {scripts, "deskgrid/py.typed"}
    assert len(licences) >= 2

    record = list(csv.reader(io.StringIO(files[f"{info}/RECORD"].decode())))
    assert [row[0] for row in record] == list(files)
    for name, digest, size in record[:-1]:
        assert (digest, size) == (f"sha256={build_wheel.digest(files[name])}", str(len(files[name])))
    assert record[-1] == [f"{info}/RECORD", "", ""]


@pytest.mark.parametrize(
    "program, tag, ours",
    [
        (STATIC, "musllinux_1_2_x86_64", "musllinux_1_2_x86_64"),
        (STATIC, "manylinux_2_17_x86_64.musllinux_1_1_x86_64", "musllinux_1_1_x86_64"),
        (DYNAMIC, "manylinux", "manylinux_2_34_x86_64"),
        (WINDOWS, "", "win_amd64"),
    ],
    ids=["musl", "static", "glibc", "windows"],
)
def test_pip_installs_a_wheel_for_its_platform_and_for_no_other(
    program: bytes, tag: str, ours: str, tmp_path: Path
) -> None:
    wheel = built(program, tag, tmp_path)
    words = [*PIP, "install", "--no-deps", "--no-index", "--only-binary", ":all:"]
    words += ["--find-links", wheel.parent, "--target", tmp_path / "into", "deskgrid"]
    run(*words, "--platform", ours, env=outside())
    assert (tmp_path / "into" / "deskgrid" / "grid.py").exists()
    (script,) = (tmp_path / "into" / "bin").iterdir()
    assert script.read_bytes() == program and os.access(script, os.X_OK)
    assert script.name == ("deskgrid.exe" if "win" in ours else "deskgrid")

    other = "macosx_11_0_arm64"
    refused = subprocess.run([*map(str, words), "--platform", other], capture_output=True, text=True, env=outside())
    assert refused.returncode != 0 and "No matching distribution" in refused.stderr


def test_a_wheel_has_the_licences_of_what_its_program_is_linked_from(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(STATIC)
    (tmp_path / "THIRD-PARTY.txt").write_text("theirs")
    words = [sys.executable, HERE / "build_wheel.py", "--program", tmp_path / "program", "--out", tmp_path / "dist"]
    with zipfile.ZipFile(run(*words, "--licences", tmp_path / "THIRD-PARTY.txt").strip()) as archive:
        (theirs,) = [name for name in archive.namelist() if name.endswith("licenses/THIRD-PARTY.txt")]
        (described,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        assert archive.read(theirs) == b"theirs"
        assert b"\nLicense-File: THIRD-PARTY.txt\n" in archive.read(described)


def test_the_source_distribution_is_all_that_the_program_is_built_from(tmp_path: Path) -> None:
    archive = Path(run(sys.executable, HERE / "build_wheel.py", "--sources", "--out", tmp_path).strip())
    assert archive.name == f"deskgrid-{build_wheel.version()}.tar.gz"
    again = build_wheel.build_sdist(str(tmp_path / "again"))
    assert (tmp_path / "again" / again).read_bytes() == archive.read_bytes()
    run("tar", "-xf", archive, "-C", tmp_path)
    there = tmp_path / archive.name.removesuffix(".tar.gz")
    assert (there / "release").stat().st_mode & 0o100 and (there / "PKG-INFO").exists()
    if shutil.which("cargo"):
        run("cargo", "metadata", "--offline", "--locked", "--no-deps", "--format-version=1", cwd=there, env=outside())
    (tmp_path / "program").write_bytes(STATIC)
    build = {**outside(), "DESKGRID_BINARY": str(tmp_path / "program")}
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path / "pip", archive, env=build)
    (wheel,) = (tmp_path / "pip").glob("*.whl")
    assert wheel.read_bytes() == built(STATIC, "", tmp_path / "here").read_bytes()


def test_the_platform_of_a_wheel_is_that_of_its_program() -> None:
    tag = build_wheel.platform_tag
    assert tag(DYNAMIC) == "manylinux_2_34_x86_64"
    assert tag(STATIC) == "manylinux_2_17_x86_64.musllinux_1_1_x86_64"
    assert tag(elf(183, "GLIBC_2.28")) == "manylinux_2_28_aarch64"
    assert (tag(WINDOWS), tag(exe(0xAA64))) == ("win_amd64", "win_arm64")


@pytest.mark.parametrize(
    "program, tag, why",
    [
        (DYNAMIC, "musllinux_1_2_x86_64", "does not run on 'musllinux_1_2_x86_64'"),
        (DYNAMIC, "manylinux_2_17_x86_64", "is one for manylinux_2_34_x86_64"),
        (STATIC, "manylinux_2_17_aarch64", "does not run on"),
        (STATIC, "win_amd64", "does not run on 'win_amd64'"),
        (WINDOWS, "manylinux", "is one for win_amd64"),
        (WINDOWS, "musllinux_1_2_x86_64", "is one for win_amd64"),
        (STATIC, "linux", "does not run on 'linux'"),
        (elf(40), "manylinux", "a processor that is not known"),
    ],
    ids=range(8),
)
def test_a_tag_that_does_not_fit_the_program_is_refused(
    program: bytes, tag: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "program").write_bytes(program)
    words = ["--program", str(tmp_path / "program"), "--platform", tag, "--out", str(tmp_path / "dist")]
    with pytest.raises(SystemExit, match=f"^error: .*{why}.*\ntry: "):
        build_wheel.main(words)
    assert not (tmp_path / "dist").exists()
