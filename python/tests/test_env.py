"""Environments, on hosts that have no Python."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
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
from closed import MASTER, ClosedNetwork
from world import World

import deskgrid
from deskgrid import Env, Grid
from deskgrid import _auto
from deskgrid.env import HERE, this_platform

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


@pytest.fixture
def warm(monkeypatch: Any, tmp_path_factory: Any) -> Path:
    """The cache of those tests that ask only for what comes of environments: made once for all of them."""
    path = tmp_path_factory.getbasetemp() / "warm"
    path.mkdir(exist_ok=True)
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
def test_an_environment_is_made_here_and_sent_once(bare: World, warm: Path) -> None:
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


def reach(address: str) -> int:
    import socket

    with socket.socket() as some:
        some.settimeout(5)
        return some.connect_ex((address, 80))


@uv
def test_hosts_without_python_and_network_get_all_of_it_once(warm: Path) -> None:
    try:
        network = ClosedNetwork()
    except OSError as why:
        pytest.skip(f"no network of its own: {why}")
    with contextlib.ExitStack() as stack:
        stack.callback(network.close)
        made = World(address=MASTER)
        stack.callback(made.close)
        made.worker("closed-1", config='path = "/nowhere"', within=network.words)

        def run() -> Any:
            with Grid(dir=made.user, progress=False, env=Env.auto(python=sys.executable)) as g:
                return g.bag(own_needs.sections, ["[a]\n[b]\n", "[c]\n"]).result(120)

        assert run() == [["a", "b"], ["c"]]
        at_master, at_hosts = stored(made), given_to_hosts(made)
        assert at_master > 10_000_000 and at_hosts > 10_000_000
        assert run() == [["a", "b"], ["c"]]
        assert given_to_hosts(made) == at_hosts
        # The master got the results of the two calls, and nothing from here.
        assert stored(made) - at_master < 200

        with Grid(dir=made.user, progress=False, env=Env.auto(python=sys.executable)) as g:
            # Even a task that may use the network finds none: the address is one for examples.
            found = g.using(network=True).submit(reach, "192.0.2.1").result(120)
            assert found == errno.ENETUNREACH


@uv
def test_packages_that_are_nowhere_are_named_with_their_platform(bare: World, cache: Path) -> None:
    env = Env.auto(["deskgrid-no-such-package-at-all"], platforms=["linux-x86_64"])
    with Grid(dir=bare.user, progress=False, env=env) as g:
        with pytest.raises(deskgrid.EnvError, match="linux-x86_64.*deskgrid-no-such-package"):
            g.submit(abs, -1).result(120)
    assert list((cache / "deskgrid" / "env").iterdir()) == []


@uv
def test_a_package_without_a_wheel_is_refused_unless_it_is_named(bare: World, warm: Path) -> None:
    """`connection-pool` 0.0.3 is on PyPI as sources alone."""
    packages = ["connection-pool==0.0.3"]
    before = stored(bare)
    with Grid(dir=bare.user, progress=False, env=Env.auto(packages, python=sys.executable)) as g:
        with pytest.raises(deskgrid.EnvError, match="connection-pool==0.0.3 has no usable wheels") as raised:
            g.submit(abs, -1).result(120)
    assert "sdists=['connection-pool']" in raised.value.hint
    assert stored(bare) == before

    env = Env.auto(packages, sdists=["connection-pool"], python=sys.executable)
    with Grid(dir=bare.user, progress=False, env=env) as g:
        assert g.submit(lambda: __import__("connection_pool").__name__).result(120) == "connection_pool"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a lock file, which has a package without a wheel and a group for development."""
    path = tmp_path / "project"
    path.mkdir()
    (path / "pyproject.toml").write_text(
        '[project]\nname = "somebodys"\nversion = "1"\nrequires-python = ">=3.10"\n'
        'dependencies = ["iniconfig", "connection-pool==0.0.3"]\n'
        '[dependency-groups]\ndev = ["pluggy"]\n'
    )
    words = [_auto.find_uv(), "--no-config", "lock", "--quiet", "--project", path, "--python", sys.executable]
    subprocess.run(words, check=True)
    return path


@uv
def test_a_lock_file_names_the_packages(cache: Path, project: Path) -> None:
    words = [_auto.find_uv(), "--no-config", "export", "--quiet", "--no-dev", "--no-emit-project"]
    for file in ("pylock.toml", "requirements.txt"):
        subprocess.run([*words, "--project", project, "-o", project / file], check=True)
    sites = []
    for file in ("uv.lock", "pylock.toml", "requirements.txt"):
        env = Env.auto(lock=project / file, sdists=["connection-pool"])
        assert isinstance(env, _auto.Auto)
        for platform in ("linux-x86_64", "windows-x86_64"):
            sites.append(env._site(platform, env._wanted(abs)))
    for site in sites:
        found = {path.name.partition("-")[0] for path in site.glob("*.dist-info")}
        assert found == {"iniconfig", "connection_pool"}, site
    # The same lock file again gives what is there already.
    again = Env.auto(lock=project / "uv.lock", sdists=["connection-pool"])
    assert isinstance(again, _auto.Auto)
    assert again._site("linux-x86_64", again._wanted(abs)) == sites[0]


@uv
def test_a_lock_file_with_a_package_without_a_wheel_is_refused_unless_it_is_named(
    bare: World, warm: Path, project: Path
) -> None:
    before = stored(bare)
    env = Env.auto(lock=project / "uv.lock", python=sys.executable)
    with Grid(dir=bare.user, progress=False, env=env) as g:
        with pytest.raises(deskgrid.EnvError, match="`connection-pool` can't be installed") as raised:
            g.submit(abs, -1).result(120)
    assert "sdists=['connection-pool']" in raised.value.hint
    assert stored(bare) == before


@uv
def test_compiled_sources_are_for_hosts_like_this_machine(warm: Path, tmp_path: Path) -> None:
    source = tmp_path / "native"
    source.mkdir()
    (source / "pyproject.toml").write_text(
        '[project]\nname = "native"\nversion = "1"\n'
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    )
    (source / "setup.py").write_text(
        "from setuptools import setup, Extension\nsetup(ext_modules=[Extension('native', ['x.c'])])\n"
    )
    (source / "x.c").write_text(
        "#include <Python.h>\nstatic struct PyModuleDef m = {PyModuleDef_HEAD_INIT, \"native\", 0, -1, 0};\n"
        "PyMODINIT_FUNC PyInit_native(void) { return PyModule_Create(&m); }\n"
    )
    (tmp_path / "requirements.txt").write_text("./native\n")
    refused = Env.auto(lock=tmp_path / "requirements.txt")
    env = Env.auto(lock=tmp_path / "requirements.txt", sdists=["native"])
    assert isinstance(env, _auto.Auto) and isinstance(refused, _auto.Auto)
    with pytest.raises(deskgrid.EnvError, match="source distributions is disabled") as raised:
        refused._site("linux-x86_64", refused._wanted(abs))
    assert "sdists=['native']" in raised.value.hint
    with pytest.raises(deskgrid.EnvError, match="windows-x86_64: .*not compatible with the target"):
        env._site("windows-x86_64", env._wanted(abs))


@uv
def test_a_lock_file_that_cannot_be_read_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(deskgrid.EnvError, match="cannot be read: .*No such file") as raised:
        Env.auto(lock=tmp_path / "uv.lock")
    (tmp_path / "poetry.lock").touch()
    with pytest.raises(deskgrid.EnvError, match="no lock file that can be read here") as raised:
        Env.auto(lock=tmp_path / "poetry.lock")
    assert "pylock.toml" in raised.value.hint
    with pytest.raises(deskgrid.EnvError, match="named here and by a lock file"):
        Env.auto(["numpy"], lock=tmp_path / "poetry.lock")
    (tmp_path / "uv.lock").write_text("nonsense")
    broken = Env.auto(lock=tmp_path / "uv.lock")
    assert isinstance(broken, _auto.Auto)
    with pytest.raises(deskgrid.EnvError, match="uv.lock cannot be read"):
        broken._wanted(abs)


def test_a_packed_environment_is_used_where_it_fits(bare: World, warm: Path, tmp_path: Path) -> None:
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


def test_a_virtual_environment_is_refused_as_one(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    subprocess.run(["tar", "-cf", tmp_path / "venv.tar", "-C", tmp_path / "venv", "."], check=True)
    for path in (tmp_path / "venv", tmp_path / "venv.tar"):
        with pytest.raises(deskgrid.EnvError, match="is a virtual environment") as raised:
            Env.packed(path)
        assert "Env.auto" in raised.value.hint


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


def test_a_script_without_a_guard_is_not_run_again_to_compile(tmp_path: Path) -> None:
    """The pool of `compileall` starts processes that run the script again, from Python 3.12 on."""
    (tmp_path / "site").mkdir()
    for name in "abc":
        (tmp_path / "site" / f"{name}.py").write_text("x = 1\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, pathlib, sys\n"
        "print('once')\n"
        "multiprocessing.set_start_method('spawn', force=True)\n"
        "from deskgrid import _auto\n"
        "_auto._compile(pathlib.Path(sys.argv[1]))\n"
    )
    words = [sys.executable, script, tmp_path / "site"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "once\n", "")
    (code,) = (tmp_path / "site" / "__pycache__").glob("a.*.pyc")
    assert b".deskgrid/packages/a.py" in code.read_bytes()


def test_an_unknown_platform_is_refused() -> None:
    if NO_UV:
        pytest.skip("there is no uv")
    with pytest.raises(deskgrid.EnvError, match="plan9"):
        Env.auto(platforms=["plan9-vax"])


def offered(monkeypatch: Any, where: Path, url: str, content: bytes = b"") -> None:
    """Lets uv find a Python for download, and no other."""
    named = f"cpython-{HERE}.{sys.version_info.micro}-linux-x86_64-gnu"
    major, minor, patch = sys.version_info[:3]
    entry = {
        "name": "cpython", "arch": {"family": "x86_64", "variant": None}, "os": "linux", "libc": "gnu",
        "major": major, "minor": minor, "patch": patch, "prerelease": "", "url": url,
        "sha256": hashlib.sha256(content).hexdigest(), "variant": None, "build": "20260101",
    }  # fmt: skip
    (where / "downloads.json").write_text(json.dumps({named: entry}))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", str(where / "downloads.json"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")


@uv
@pytest.mark.skipif(this_platform() != "linux-x86_64", reason="the download is one for linux-x86_64")
def test_a_python_that_uv_downloads_goes_to_hosts_without_one(
    bare: World, warm: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "all").mkdir()
    home = tmp_path / "all" / "python"
    shutil.copytree(_auto.pack_python(Path(sys.executable)), home, symlinks=True)
    (home / "bin" / f"python{HERE}").symlink_to("python3")
    subprocess.run(["tar", "-C", home.parent, "-I", "gzip -1", "-cf", tmp_path / "python.tar.gz", "python"], check=True)
    archive = tmp_path / "python.tar.gz"
    offered(monkeypatch, tmp_path, archive.as_uri(), archive.read_bytes())
    with Grid(dir=bare.user, progress=False, env=Env.auto(["iniconfig"])) as g:
        prefix, where = g.submit(lambda: (sys.prefix, __import__("iniconfig").__file__)).result(120)
    assert prefix.endswith("/.deskgrid/python") and "/.deskgrid/packages/" in where


@uv
def test_a_python_that_cannot_be_downloaded_is_an_error_with_a_way_out(
    cache: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    offered(monkeypatch, tmp_path, "http://127.0.0.1:9/python.tar.gz")
    env = Env.auto([], platforms=["linux-x86_64"])
    assert isinstance(env, _auto.Auto)
    with pytest.raises(deskgrid.EnvError, match="a Python for linux-x86_64 cannot be downloaded: ") as raised:
        env._python("linux-x86_64")
    said = str(raised.value.args[0])
    assert "http://127.0.0.1:9/python.tar.gz" in said and "refused" in said and len(said) < 300, said
    assert "UV_PYTHON_INSTALL_MIRROR" in raised.value.hint
    if this_platform() == "linux-x86_64":
        assert "python=sys.executable" in raised.value.hint
    assert list((cache / "deskgrid" / "env").iterdir()) == []


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
