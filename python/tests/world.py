"""A grid of real processes for tests: a master and workers on loopback, from built binaries."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deskgrid

REPOSITORY = Path(__file__).resolve().parents[2]
DEDICATED = REPOSITORY / "configs" / "worker-dedicated.toml"

#: Times short enough that a test sees a lease run out.
FAST = 'heartbeat = "500ms"\nsuspect_after = "2s"\nlease = "4s"\n'


def binary() -> str:
    """The program under test."""
    named = os.environ.get("DESKGRID_BINARY")
    return named or str(REPOSITORY / "target" / "debug" / "deskgrid")


def free_port(kind: int) -> int:
    with socket.socket(socket.AF_INET, kind) as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])


def eventually(what: str, look: Any, seconds: float = 60.0) -> Any:
    """Waits until `look` finds something."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < until, f"not in {seconds} s: {what}"
        time.sleep(0.02)


def python_with_packages(into: Path) -> str:
    """Makes a Python for hosts, with the packages of this one; returns how a worker finds it.

    Workers of root run tasks as `nobody`: it is not made of this Python, which may be root's own.
    """
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    program = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") or sys.executable
    subprocess.run([program, "-m", "venv", "--without-pip", str(into)], check=True)
    into.chmod(0o755)
    packages = sysconfig.get_path("purelib")
    (into / "lib" / name / "site-packages" / "tests.pth").write_text(packages + "\n")
    readable = json.dumps([str(into), packages])
    return f'path = "{into}/bin:/usr/bin:/bin"\nreadable_paths = {readable}\n'


def script(world: World, text: str) -> Any:
    """Starts a program that uses the library; ``TESTS`` is this directory, from which it can import."""
    tests = os.path.dirname(os.path.abspath(__file__))
    head = f"from deskgrid import Grid\nimport os, sys, time\nDIR, TESTS = {world.user!r}, {tests!r}\n"
    source = os.path.dirname(os.path.dirname(deskgrid.__file__))
    env = {**os.environ, "PYTHONPATH": f"{source}:{tests}"}
    return subprocess.Popen(
        [sys.executable, "-c", head + text], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


class World:
    """A master, its workers, and a user. Everything ends with :meth:`close`."""

    def __init__(self, master: str = "", address: str = "127.0.0.1") -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="deskgrid-python-"))
        self.listen = f"{address}:{free_port(socket.SOCK_DGRAM)}"
        self.http = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        (self.dir / "master.toml").write_text(FAST + master)
        self.start_master()
        self.login("user")

    @property
    def user(self) -> str:
        """The directory with the user's identity."""
        return str(self.dir / "user")

    def _popen(self, who: str, *args: str, within: Sequence[str] = ()) -> Any:
        log = open(self.dir / f"{who}.log", "ab")
        command = [*within, binary(), "--dir", str(self.dir / who), *args]
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=self.dir,
            start_new_session=True,
        )

    def command(self, who: str, *args: str) -> str:
        """Runs a command and returns what it prints."""
        words = [binary(), "--dir", str(self.dir / who), *args]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def json(self, *args: str) -> Any:
        return json.loads(self.command("user", "--output", "json", *args))

    def start_master(self) -> None:
        self.master = self._popen(
            "admin", "master", "start", "--tied", "--listen", self.listen, "--http", self.http,
            "--config", str(self.dir / "master.toml"),
        )
        self.command("admin", "master", "wait", "--timeout", "30s")

    def stop_master(self) -> None:
        """Ends the master in order: whoever is connected notices at once."""
        self.master.send_signal(signal.SIGTERM)
        self.master.wait()

    def kill_master(self) -> None:
        self.master.kill()
        self.master.wait()

    def token(self, role: str) -> str:
        return self.command("admin", "--output", "quiet", "token", "create", "--role", role).strip()

    def login(self, who: str) -> None:
        token = self.token("client")
        self.command(who, "login", "--master", self.listen, "--join", token, "--name", who)

    def worker(
        self, name: str, slots: int = 1, config: str = "", within: Sequence[str] = ()
    ) -> None:
        """Starts a worker, behind the words of a command if there are any, and waits until it is
        there."""
        file = self.dir / f"{name}.toml"
        file.write_text(config + "\n" + DEDICATED.read_text())
        args = ["worker", "start", "--tied", "--name", name, "--slots", str(slots)]
        args += ["--config", str(file)]
        if not (self.dir / name).exists():
            args += ["--master", self.listen, "--join", self.token("worker")]
        self.workers[name] = self._popen(name, *args, within=within)
        eventually(f"worker {name} joins", lambda: self._ready(name))

    def _ready(self, name: str) -> bool:
        hosts = self.json("host", "list")["hosts"]
        return any(h["host"] == name and h["state"] in ("ready", "busy") for h in hosts)

    def kill_worker(self, name: str) -> None:
        worker = self.workers.pop(name)
        worker.kill()
        worker.wait()

    def close(self) -> None:
        for process in [*self.workers.values(), self.master]:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in [*self.workers.values(), self.master]:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def logs(self) -> str:
        return "".join(f"---- {f.name}\n{f.read_text(errors='replace')}" for f in self.dir.glob("*.log"))
