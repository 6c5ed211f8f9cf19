"""The wheel, in an environment that has nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import build_wheel
from world import World, binary

HERE = Path(__file__).resolve().parent.parent


def run(*words: Any, **more: Any) -> str:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
    return ran.stdout


def test_one_wheel_brings_the_library_and_the_program(world: World, tmp_path: Path) -> None:
    small = tmp_path / "deskgrid"
    strip = shutil.which("strip")
    if strip:
        run(strip, "-o", small, binary())
    else:
        shutil.copy(binary(), small)
    outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "DESKGRID_BINARY")}
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = {**outside, "DESKGRID_BINARY": str(small)}
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, HERE, env=build)
    (wheel,) = tmp_path.glob("*.whl")
    assert re.fullmatch(r"deskgrid-[\d.]+-py3-none-(manylinux|macosx|win).*\.whl", wheel.name)

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, *pip[1:], "install", wheel, env=outside)
    assert "deskgrid" in run(tmp_path / "venv" / "bin" / "deskgrid", "--version", env=outside)
    (tmp_path / "local_helpers.py").write_text("def f(x):\n    return x * x\n")
    script = tmp_path / "script.py"
    script.write_text(
        "from deskgrid import Grid\n"
        "from local_helpers import f\n"
        f"with Grid(dir={world.user!r}) as g:\n"
        "    assert list(g.map(f, range(1000))) == [f(i) for i in range(1000)]\n"
        "import deskgrid; print(deskgrid.__version__)\n"
    )
    said = run(python, script, env={**outside, "PATH": "/usr/bin"}, cwd="/")
    assert said.strip() == build_wheel.version()


def test_the_platform_of_a_wheel_is_that_of_its_program() -> None:
    tag = build_wheel.platform_tag
    elf = b"\x7fELF".ljust(18, b"\0") + (62).to_bytes(2, "little")
    assert tag(elf + b"..GLIBC_2.17\0GLIBC_2.34\0") == "manylinux_2_34_x86_64"
    assert tag(elf) == "manylinux_2_17_x86_64.musllinux_1_1_x86_64"
    arm = b"\x7fELF".ljust(18, b"\0") + (183).to_bytes(2, "little")
    assert tag(arm + b"GLIBC_2.28") == "manylinux_2_28_aarch64"
    assert tag(b"MZ") == "win_amd64"
