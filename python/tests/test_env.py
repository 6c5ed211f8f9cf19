"""Environments, on hosts that have no Python."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import own_needs
import pytest
from world import World

import deskgrid
from deskgrid import Env, Grid
from deskgrid import _auto
from deskgrid.env import HERE

try:
    _auto.find_uv()
    NO_UV = False
except deskgrid.EnvError:
    NO_UV = True

uv = pytest.mark.skipif(NO_UV, reason="there is no uv")


@pytest.fixture(scope="module")
def bare() -> Iterator[World]:
    """A grid whose hosts have nothing on their PATH."""
    made = World()
    try:
        made.worker("bare-1", config='path = "/nowhere"')
        yield made
    finally:
        made.close()


@pytest.fixture
def cache(monkeypatch: Any, tmp_path_factory: Any) -> Path:
    """An empty cache of environments."""
    path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    return Path(path)


def given_to_hosts(world: World) -> int:
    """The bytes of content that the master has sent to hosts."""
    with urllib.request.urlopen(f"http://{world.http}/metrics") as answer:
        text = answer.read().decode()
    found = re.search(r'content_sent_bytes_total\{by="master"\} (\d+)', text)
    return int(found[1]) if found else 0


def stored(world: World) -> int:
    """The bytes of content that the master has."""
    files = [f for f in (world.dir / "admin").rglob("*") if re.fullmatch(r"[0-9a-f]{60,64}", f.name)]
    return sum(file.stat().st_size for file in files)


def test_a_host_without_a_python_says_so_with_a_way_out(bare: World) -> None:
    with Grid(dir=bare.user, progress=False) as g:
        with pytest.raises(deskgrid.EnvError, match=f"python{HERE}") as raised:
            g.submit(abs, -1).result(60)
    assert "Env.auto()" in raised.value.hint


@uv
def test_an_environment_is_made_here_and_sent_once(bare: World, cache: Path) -> None:
    env = Env.auto(python=sys.executable)
    with Grid(dir=bare.user, progress=False, env=env) as g:
        assert g.submit(own_needs.sections, "[a]\n[b]\n").result(120) == ["a", "b"]
        where = g.submit(lambda: __import__("iniconfig").__file__).result(60)
        assert "/packages/" in where
    at_master, at_hosts = stored(bare), given_to_hosts(bare)
    assert at_master > 10_000_000 and at_hosts > 10_000_000
    with Grid(dir=bare.user, progress=False, env=Env.auto(python=sys.executable)) as g:
        assert g.submit(own_needs.sections, "[c]\n").result(60) == ["c"]
    assert stored(bare) - at_master < 500_000
    assert given_to_hosts(bare) - at_hosts < 500_000


@uv
def test_packages_that_are_nowhere_are_named_with_their_platform(bare: World, cache: Path) -> None:
    env = Env.auto(["deskgrid-no-such-package-at-all"], platforms=["linux-x86_64"])
    with Grid(dir=bare.user, progress=False, env=env) as g:
        with pytest.raises(deskgrid.EnvError, match="linux-x86_64.*deskgrid-no-such-package"):
            g.submit(abs, -1).result(120)
    assert list((cache / "deskgrid" / "env").iterdir()) == []


def test_a_packed_environment_is_used_where_it_fits(bare: World, cache: Path, tmp_path: Path) -> None:
    tree = _auto.pack_python(Path(sys.executable))
    site = tmp_path / "env" / "lib" / f"python{HERE}" / "site-packages"
    shutil.copytree(tree, tmp_path / "env", symlinks=True)
    site.mkdir()
    (site / "packed_helper.py").write_text("def answer():\n    return 42\n")
    for path in (tmp_path / "env", archived(tmp_path)):
        with Grid(dir=bare.user, progress=False, env=Env.packed(path)) as g:
            assert g.submit(lambda: __import__("packed_helper").answer()).result(120) == 42
    with Grid(dir=bare.user, progress=False, env=Env.packed(path, "windows-x86_64")) as g:
        with pytest.raises(deskgrid.NotRunnable, match="no linux-x86_64 build"):
            g.submit(abs, -1).result(120)


def archived(tmp_path: Path) -> Path:
    archive = tmp_path / "env.tar"
    subprocess.run(["tar", "-cf", archive, "-C", tmp_path / "env", "."], check=True)
    return archive


def test_an_environment_of_another_version_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").touch()
    (tmp_path / "lib" / "python3.6").mkdir(parents=True)
    with pytest.raises(deskgrid.EnvError, match="nobody can see"):
        Env.packed(tmp_path)
    (tmp_path / "lib" / "python3.6" / "os.py").touch()
    with pytest.raises(deskgrid.EnvError, match="is Python 3.6, but this program runs in"):
        Env.packed(tmp_path)
    with pytest.raises(deskgrid.EnvError, match="no Python in"):
        Env.packed(tmp_path / "lib")
    with pytest.raises(deskgrid.EnvError, match="cannot be read"):
        Env.packed(tmp_path / "lib" / "python3.6" / "os.py")
    (tmp_path / "windows").mkdir()
    for name in ("python.exe", "python36.dll"):
        (tmp_path / "windows" / name).touch()
    with pytest.raises(deskgrid.EnvError, match="is Python 3.6"):
        Env.packed(tmp_path / "windows", "windows-x86_64")


def test_the_header_of_a_script_names_its_packages() -> None:
    text = '# /// script\n# requires-python = ">=3.10"\n# dependencies = [\n#   "numpy>=1",\n#   "attrs",\n# ]\n# ///\nimport x\n'
    assert _auto.header_packages(text) == ["attrs", "numpy>=1"]
    assert _auto.header_packages("import x\n") is None


def test_the_imports_of_a_function_are_found_in_their_installed_versions() -> None:
    import iniconfig

    (found,) = [p for p in _auto.imported_packages(own_needs.sections) if p.startswith("iniconfig")]
    assert re.fullmatch(r"iniconfig==\d+\.\d+.*", found)

    def inside() -> Any:
        import pluggy.hooks

        return pluggy.hooks

    assert any(p.startswith("pluggy==") for p in _auto.imported_packages(inside))
    assert iniconfig


def test_an_unknown_platform_is_refused() -> None:
    if NO_UV:
        pytest.skip("there is no uv")
    with pytest.raises(deskgrid.EnvError, match="plan9"):
        Env.auto(platforms=["plan9-vax"])


def test_a_downloaded_python_lies_alike_on_every_platform(tmp_path: Path) -> None:
    linux, windows = tmp_path / "linux", tmp_path / "windows"
    linux.mkdir()
    _auto._arrange(Path(sys.base_prefix), linux, "linux-x86_64")
    code = "import sys, json, hashlib; print(sys.prefix)"
    ran = subprocess.run([linux / "bin" / "python3", "-I", "-c", code], capture_output=True, text=True)
    assert ran.stdout.strip() == str(linux)
    assert not list(linux.rglob("site-packages"))

    home = tmp_path / "downloaded"
    (home / "Lib").mkdir(parents=True)
    for name in ("python.exe", "python311.dll", "Lib/os.py"):
        (home / name).touch()
    windows.mkdir()
    _auto._arrange(home, windows, "windows-x86_64")
    assert {p.name for p in (windows / "bin").iterdir()} == {
        "python.exe", "python3.exe", "python311.dll", "Lib",
    }
