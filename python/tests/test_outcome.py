"""What a host has written down of calls, read here: a host that writes nonsense harms nobody but its
own task."""

from __future__ import annotations

import binascii
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

import deskgrid
from deskgrid import _outcome, _runner
from deskgrid._outcome import Outcome, Place

PLACE = Place("7.3", "desk-1", "")


def line(kind: str, value: Any, seconds: str = "0.5") -> str:
    return f"{kind} {seconds} {binascii.b2a_base64(pickle.dumps(value), newline=False).decode()}\n"


def only(text: str) -> _outcome.Result:
    (outcome,) = _outcome.read("deskgrid 1\n" + text)
    with ThreadPoolExecutor() as elsewhere:
        return elsewhere.submit(_outcome.value_of, outcome, None, PLACE).result(60)


@pytest.mark.parametrize(
    "nonsense",
    [
        "R", "R 0.5", "", "R x gAVLAS4=", "R nan gAVLAS4=", "R -1 gAVLAS4=", "R 0.5 ????x", "r 0.5 -3 4",
        "r 0.5 3", "r 0.5 x y", "Q 0.5 gAVLAS4=", "R 0.5 gAVLAS4= more", "\0\0\0",
    ],
)  # fmt: skip
def test_reading_ends_before_a_line_that_has_no_meaning(nonsense: str) -> None:
    good = line("R", 1)
    outcomes = _outcome.read(f"deskgrid 1\n{good}{nonsense}\n{good}")
    assert [outcome.kind for outcome in outcomes] == ["R"]


class Leaves:
    """Ends the process that reads it, or would."""

    def __reduce__(self) -> Any:
        return sys.exit, (3,)


class Interrupts:
    def __reduce__(self) -> Any:
        return _raise, (KeyboardInterrupt,)


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit


class IsMute:
    def __reduce__(self) -> Any:
        return _raise, (Mute,)


def _raise(kind: type[BaseException]) -> None:
    raise kind


@pytest.mark.parametrize("value", [Leaves(), Interrupts(), IsMute()], ids=["exit", "interrupt", "mute"])
@pytest.mark.parametrize("kind", "RE")
def test_a_result_that_ends_whoever_reads_it_is_an_error_of_its_call(kind: str, value: Any) -> None:
    error = only(line(kind, value)).error
    assert isinstance(error, deskgrid.BadResult) and "cannot be read here" in str(error)


@pytest.mark.parametrize("kind", "EUN")
@pytest.mark.parametrize("told", [None, (1, 2), ("whole", b"", 1, 2, 3), ("whole", 5, "X", "y", "z")], ids=range(4))
def test_an_exception_that_is_none_is_an_error_of_its_call(kind: str, told: Any) -> None:
    error = only(line(kind, told)).error
    assert isinstance(error, deskgrid.DeskgridError)


def test_a_result_that_lies_beyond_the_end_is_an_error_of_its_call(tmp_path: Any) -> None:
    (tmp_path / "long").write_bytes(b"x")
    with open(tmp_path / "long", "rb") as long:
        result = _outcome.value_of(Outcome("R", 0.5, None, 1 << 40, 3), long, PLACE)
    assert isinstance(result.error, deskgrid.BadResult)


class Ends(Exception):
    def __reduce__(self) -> Any:
        return sys.exit, (3,)


def test_an_exception_that_ends_whoever_reads_it_does_not_end_the_task() -> None:
    how, data, name, _, _ = _runner.describe(Ends("odd"))
    assert (how, name) in (("parts", "Ends"), ("text", "Ends"))


@dataclass(frozen=True)
class Frozen(Exception):
    number: int


class Slotted(Exception):
    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)


@pytest.mark.parametrize("error", [Frozen(3), Slotted(3)], ids=["frozen", "slotted"])
def test_an_exception_that_cannot_be_changed_arrives_as_itself(error: Exception) -> None:
    try:
        raise error
    except Exception as raised:
        told = _runner.describe(raised)
    got = only(line("E", told)).error
    assert type(got) is type(error) and got.args == (3,), got
    assert vars(got) == vars(error)
    assert isinstance(got.__cause__, deskgrid.RemoteError)
    assert os.path.basename(__file__) in str(got.__cause__)
