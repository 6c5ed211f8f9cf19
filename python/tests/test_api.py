"""Transfers that break off, and a master that is away while content is sent."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from world import World, eventually

from deskgrid import Grid, GridUnreachable, Refused, _api
from deskgrid._api import Api
from deskgrid._events import Events
from deskgrid._gateway import _UnixConnection
from deskgrid._run import TaskOutput
from deskgrid.job import Job

CONTENT = bytes(range(251)) * 10_000


class Broken(http.server.BaseHTTPRequestHandler):
    """Serves content, whose transfers break off."""

    #: The most bytes of one answer, how many answers have no bytes at all, and how many refuse.
    most = 1_000_000
    empty = 0
    busy = 0
    ranges = True
    asked: list[str | None]
    #: What was asked for, and what there is no more of.
    targets: list[str]
    gone = ""

    def do_GET(self) -> None:
        type(self).targets.append(self.path)
        if self.busy:
            type(self).busy -= 1
            # As a gateway that has as many requests as it takes.
            self.refuse(503, "unavailable", "384 requests are under way")
            return
        if self.path == self.gone:
            self.refuse(404, "not-found", "there is no such job")
            return
        where = self.headers["Range"]
        type(self).asked.append(where)
        start = int(where[len("bytes=") : -1]) if where and self.ranges else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        if self.empty:
            type(self).empty -= 1
        else:
            self.wfile.write(CONTENT[start : start + self.most])
        self.close_connection = True

    def refuse(self, status: int, code: str, title: str) -> None:
        """Answers with an error."""
        body = json.dumps({"title": title, "status": status, "code": code}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Gateway:
    """A way to a server that needs no child process."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.failures: list[Exception] = []

    @contextlib.contextmanager
    def request(
        self, method: str, path: str, body: Any, headers: dict[str, str], silence: float
    ) -> Iterator[Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=silence)
        try:
            connection.request(method, path, body, headers)
            yield connection.getresponse()
        finally:
            connection.close()

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def headers(self) -> dict[str, str]:
        return {}

    def command(self, *args: str, limit: float) -> Any:
        if self.failures:
            raise self.failures.pop()
        return {"content": [{"blake3": "00", "bytes": 1}]}


@contextlib.contextmanager
def served(handler: type[http.server.BaseHTTPRequestHandler], monkeypatch: Any) -> Iterator[Api]:
    """An API that asks this handler."""
    monkeypatch.setattr(_api, "FIRST_PAUSE", 0.001)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        monkeypatch.setattr(_api, "Gateway", lambda dir: Gateway(server.server_port))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Api(None, 60)
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def broken(monkeypatch: Any) -> Iterator[tuple[Api, type[Broken]]]:
    """An API, and how what it asks breaks off."""
    handler = type("ThisBroken", (Broken,), {"asked": [], "targets": []})
    with served(handler, monkeypatch) as api:
        yield api, handler


class Lossy(http.server.BaseHTTPRequestHandler):
    """Does what it is asked, and sends less of each of so many answers than it says. It has one job,
    which it forgets."""

    lost = 0
    there = True
    #: How many bodies come too slowly.
    late = 0
    targets: list[str]

    def do_GET(self) -> None:
        self.answer(200 if self.there else 404)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.late:
            type(self).late -= 1
            self.answer(408)
            return
        status = 200 if self.there else 404
        if self.path.endswith("/forget"):
            type(self).there = False
        self.answer(status)

    def answer(self, status: int) -> None:
        type(self).targets.append(self.path)
        body = json.dumps({"title": f"status {status}", "blake3": "00", "bytes": 3}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.lost and not self.path.endswith("/jobs/7"):
            type(self).lost -= 1
            body = body[:-1]
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def lossy(monkeypatch: Any) -> Iterator[tuple[Api, type[Lossy]]]:
    """An API, and which of its answers are lost."""
    handler = type("ThisLossy", (Lossy,), {"targets": []})
    with served(handler, monkeypatch) as api:
        yield api, handler


def output(api: Api) -> TaskOutput:
    return TaskOutput(api, "7.1", {"files": [{"path": "out.bin", "bytes": len(CONTENT)}]})


def test_an_output_whose_transfer_breaks_off_comes_whole(
    broken: tuple[Api, type[Broken]], tmp_path: Path
) -> None:
    api, server = broken
    (path,) = output(api).save(tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-", "bytes=2000000-"]
    server.empty = 3
    assert output(api).read("out.bin") == CONTENT


def test_a_transfer_that_does_not_get_on_is_an_error_and_leaves_no_file(
    broken: tuple[Api, type[Broken]], tmp_path: Path
) -> None:
    api, server = broken
    server.empty = 1_000
    with pytest.raises(GridUnreachable, match="breaks off after 0 bytes"):
        output(api).save(tmp_path)
    server.empty = 0
    # What it has of it comes again and again, and nothing behind it.
    server.ranges = False
    with pytest.raises(GridUnreachable, match="breaks off after 1000000 bytes"):
        output(api).save(tmp_path)
    assert not (tmp_path / "out.bin").exists()


def test_a_gateway_that_is_busy_is_not_taken_for_a_master_that_is_away(
    broken: tuple[Api, type[Broken]], capsys: Any
) -> None:
    api, server = broken
    server.busy = 2
    assert output(api).read("out.bin") == CONTENT
    server.busy = 1_000
    api.patience = 0.0
    with pytest.raises(GridUnreachable, match="too much is asked .* 384 requests are under way") as raised:
        output(api).read("out.bin")
    assert "await fewer jobs" in raised.value.hint
    failures: list[BaseException] = []
    events = Events(api, {"job": 7}, lambda event: None, failures.append, lambda: True)
    eventually("it gives up", lambda: failures)
    events.close()
    assert "384 requests are under way" in str(failures[0])
    said = capsys.readouterr().err
    assert "waiting for room" in said and "does not answer" not in said


def test_a_sign_of_life_asks_the_master_for_no_list(broken: tuple[Api, type[Broken]]) -> None:
    api, server = broken
    server.gone = "/api/v1/jobs/0"
    assert api.hindrance() is None
    server.busy = 1
    assert isinstance(api.hindrance(), GridUnreachable)
    assert server.targets == [server.gone] * 2


def test_a_job_is_forgotten_though_the_answer_that_says_so_is_lost(lossy: tuple[Api, type[Lossy]]) -> None:
    api, server = lossy
    grid: Any = SimpleNamespace(_session=SimpleNamespace(api=api))
    job: Job[Any] = Job(grid, 7)
    server.lost = 1
    job.forget()
    path = "/api/v1/jobs/7"
    assert server.targets == [path, f"{path}/forget", f"{path}/forget"] and not server.there
    with pytest.raises(Refused, match="status 404"):
        job.forget()


def test_an_answer_that_breaks_off_is_asked_for_again_and_then_an_error(lossy: tuple[Api, type[Lossy]]) -> None:
    api, server = lossy
    server.lost = 2
    assert api.send(b"abc") == ("00", 3)
    server.lost = 1_000
    for ask in (lambda: api.send(b"abc"), lambda: api.call("GET", "/whoami")):
        with pytest.raises(GridUnreachable, match="breaks off"):
            ask()


def test_a_body_that_came_too_slowly_is_sent_again(lossy: tuple[Api, type[Lossy]]) -> None:
    api, server = lossy
    server.late = 1
    assert api.send(b"abc") == ("00", 3)
    assert len(server.targets) == 2
    server.late = 1_000
    api.patience = 0.0
    with pytest.raises(GridUnreachable, match="status 408"):
        api.send(b"abc")


def test_a_socket_that_is_gone_is_a_gateway_that_can_be_asked_again(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="has left"):
        _UnixConnection(str(tmp_path / "gone.sock")).connect()


def passing() -> GridUnreachable:
    failure = GridUnreachable("the master is away")
    failure.passing = True
    return failure


def test_content_is_sent_again_until_the_master_has_it(broken: tuple[Api, type[Broken]]) -> None:
    api, _ = broken
    gateway: Any = api.gateway
    gateway.failures = [passing(), passing()]
    assert [ref.blake3 for ref in api.send_files(["some"])] == ["00"]
    gateway.failures = [Refused("there is no such file")]
    with pytest.raises(Refused):
        api.send_files(["some"])
    api.patience = 0.0
    gateway.failures = [passing()]
    with pytest.raises(GridUnreachable):
        api.send_files(["some"])


def test_a_master_that_is_away_while_content_is_sent_is_waited_for(
    own_world: World, tmp_path: Path
) -> None:
    own_world.worker("desk-1")
    large = tmp_path / "large.bin"
    large.write_bytes(b"x" * ((8 << 20) + 1))
    with Grid(dir=own_world.user, progress=False) as g:
        command = g._session.api.gateway.command
        failed = threading.Event()

        def noticed(*args: str, limit: float) -> Any:
            try:
                return command(*args, limit=limit)
            except Exception:
                failed.set()
                raise

        g._session.api.gateway.command = noticed  # type: ignore[method-assign]
        own_world.kill_master()
        sizes: list[bytes] = []

        def run() -> None:
            job = g.run(["sh", "-c", "wc -c < large.bin > size"], inputs=[large], outputs=["size"])
            sizes.extend(output.read("size") for output in job.results(timeout=60))

        thread = threading.Thread(target=run)
        thread.start()
        eventually("it was tried in vain", failed.is_set)
        own_world.start_master()
        thread.join(120)
        assert sizes == [b"%d\n" % ((8 << 20) + 1)]
