"""How many calls make a task, and when they are submitted."""

from __future__ import annotations

from typing import Any

from deskgrid._stream import Call, Stream, Task


class Wanted:
    """A future that nobody cancels."""

    def cancelled(self) -> bool:
        return False


def stream(calls: int) -> Stream:
    work: Any = None
    future: Any = Wanted()
    made = Stream(work, None, target=30.0)
    made.add([Call(future, (i,)) for i in range(calls)])
    return made


def test_the_first_calls_are_not_long_ones_because_the_grid_is_busy() -> None:
    waiting = stream(5_000)
    assert waiting.due(0.0, 2)
    assert [len(chunk) for chunk in waiting.take(0.1, 2)] == [1] * 4
    # For an hour every slot is taken by others.
    assert not waiting.due(3_600.0, 2) and waiting.next_due(3_601.0) is None
    waiting.began(3_600.0)
    assert not waiting.due(3_605.0, 2) and waiting.next_due(3_605.0) == 5.0


def test_calls_that_run_for_long_are_submitted_one_by_one() -> None:
    waiting = stream(5_000)
    waiting.due(0.0, 2)
    waiting.take(0.1, 2)
    waiting.began(1.0)
    waiting.began(9.0)
    assert waiting.due(11.0, 2)
    assert [len(chunk) for chunk in waiting.take(11.0, 2)] == [1] * 4_996


def test_first_calls_that_tell_nothing_hold_up_no_others() -> None:
    """They could not be packed, or ended their process."""
    waiting = stream(5_000)
    waiting.due(0.0, 2)
    first, *others = waiting.take(0.1, 2)
    waiting.withdraw(len(others))
    assert not waiting.due(1.0, 2)
    waiting.done(Task(1, first), [])
    assert waiting.due(2.0, 2)
    assert [len(chunk) for chunk in waiting.take(2.0, 2)] == [1] * 4


def test_short_calls_are_put_together_once_their_time_is_known() -> None:
    waiting = stream(5_000)
    waiting.due(0.0, 2)
    chunks = waiting.take(0.1, 2)
    waiting.began(0.2)
    for chunk in chunks:
        waiting.done(Task(1, chunk), [0.001])
    assert waiting.due(0.3, 2)
    assert [len(chunk) for chunk in waiting.take(0.4, 2)] == [16] * 6
