"""What is sent for a job, and what is refused before."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskgrid import Env, Grid, Refused, _pack, _sending
from deskgrid._api import Ref
from deskgrid._pack import LARGE, Large, Packed, Store
from deskgrid._sending import Sender
from deskgrid._stream import Call, Task
from deskgrid._work import Work

#: The longest body that the API takes, in bytes.
LIMIT = 8 << 20


class Sent:
    """An API that counts what it is sent."""

    def __init__(self) -> None:
        self.files = 0

    def send(self, content: bytes) -> Ref:
        return Ref("0" * 64, len(content))

    def send_files(self, paths: Sequence[str]) -> list[Ref]:
        self.files += len(paths)
        return [Ref("0" * 64, 1_000_000)] * len(paths)


def body_of(api: Any, packed: Packed, tasks: int, calls: int = 1) -> str:
    """Returns the submission of a job whose calls are all alike."""
    return json.dumps(described(api, packed, [calls] * tasks))


def described(api: Any, packed: Packed, sizes: Sequence[int]) -> dict[str, Any]:
    """Describes a job of tasks with so many calls."""
    future: Any = None
    tasks = [Task(at + 1, [Call(future, packed=packed) for _ in range(n)]) for at, n in enumerate(sizes)]
    work = Work(Packed(b"", ()), abs, {}, {}, Env.host(), "abs")
    return Sender(api).body_of_calls(work, tasks)


def test_tasks_tell_how_many_calls_they_make() -> None:
    job = described(Sent(), Packed(b"x", ()), [1, 3, 1, 2])
    assert job["items"] == ["0", "1-3", "4", "5-6"] and "array" not in job
    job = described(Sent(), Packed(b"x", ()), [1, 1])
    assert job["array"] == "1-2" and "items" not in job


def test_work_whose_files_could_not_be_sent_is_prepared_anew(tmp_path: Path, monkeypatch: Any) -> None:
    # A machine that was started just now.
    monkeypatch.setattr(_sending, "time", SimpleNamespace(monotonic=lambda: 5.0))
    api: Any = Sent()
    data = tmp_path / "data.txt"
    work = Work(Packed(b"", ()), abs, {}, {"files": [data]}, Env.host(), "abs")
    future: Any = None
    tasks = [Task(1, [Call(future, packed=Packed(b"x", ()))])]
    sender = Sender(api)
    with pytest.raises(FileNotFoundError):
        sender.body_of_calls(work, tasks)
    data.write_text("it is there now")
    names = [one["name"] for one in sender.body_of_calls(work, tasks)["input"]]
    assert "data.txt" in names


@pytest.mark.parametrize("calls", [1, 2])
def test_a_job_of_very_many_short_calls_fits_into_a_request(calls: int) -> None:
    api = Sent()
    body = body_of(api, Packed(b"x" * 30, ()), 200_000, calls)
    assert len(body) < LIMIT and api.files == 1


def test_tasks_that_are_too_many_are_refused_before_anything_is_sent() -> None:
    api = Sent()
    large = Large("b-0-0123456789abcdef", 1_000_000, None)
    with pytest.raises(Refused, match="60000, of 50000") as raised:
        body_of(api, Packed(b"x" * 6_000, ()), 60_000)
    assert "chunksize" in raised.value.hint
    with pytest.raises(Refused, match="a list of"):
        body_of(api, Packed(b"x" * 30, (large,)), 600_000, 2)
    assert api.files == 0


def test_items_that_are_too_long_are_refused_before_anything_is_sent(grid: Grid, monkeypatch: Any) -> None:
    monkeypatch.setattr(grid._session.api, "send_files", lambda paths: pytest.fail("it was sent"))
    with pytest.raises(Refused, match="too many tasks") as raised:
        grid.run(["echo", "%{ITEM}"], items=["x" * 100] * 90_000, inputs=["/proc/self/exe"])
    assert "several jobs" in raised.value.hint


class FullDisk:
    """A disk on which one file is cut off, and then there is room again."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, path: str, mode: str) -> Any:
        file = open(path, mode)
        if "w" in mode and self.name in os.path.basename(path):
            self.name = "no other one"
            file.write(b"cut off")
            file.close()
            raise OSError(errno.ENOSPC, "No space left on device")
        return file


def test_a_large_value_that_could_not_be_written_is_written_when_it_comes_again(monkeypatch: Any) -> None:
    store = Store()
    monkeypatch.setattr(_pack, "open", FullDisk("b-").open, raising=False)
    value = bytearray(os.urandom(LARGE))
    with pytest.raises(OSError, match="No space left"):
        store.keep(memoryview(value))
    assert not os.listdir(store._dir.path)
    large = store.keep(memoryview(value))
    assert large.path is not None and Path(large.path).read_bytes() == value
    store.close()


def test_a_value_that_cannot_be_kept_leaves_none_of_its_parts_on_the_disk(monkeypatch: Any) -> None:
    store = Store()
    monkeypatch.setattr(_pack, "open", FullDisk("b-1-").open, raising=False)
    parts = [memoryview(os.urandom(LARGE)) for _ in range(2)]
    with pytest.raises(OSError, match="No space left"):
        store.keep_all(parts)
    assert not os.listdir(store._dir.path)
    assert [large.queued for large in store.keep_all(parts)] == [1, 1]
    store.close()
