"""Programs on a terminal: the bar, and Ctrl-C."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from terminal import CTRL_C, Terminal
from world import World, eventually

from deskgrid import Grid

Start = Callable[..., Terminal]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Terminal] = []

    def start(text: str, columns: int = 80) -> Terminal:
        started.append(Terminal(text, columns))
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


#: Ten calls of which a bar is drawn, since together they take longer than half a second.
SLOW = (
    "def slow(x):\n"
    "    time.sleep(0.2)\n"
    "    return 1 // (x - 3)\n"
    "with Grid(dir={dir!r}) as g:\n"
    "    futures = list(g.map(slow, range(4, 12), chunksize=1))\n"
)


def test_a_bar_is_drawn_on_a_terminal(world: World, start: Start) -> None:
    terminal = start("sys.modules['tqdm'] = None\n" + SLOW.format(dir=world.user), columns=50)
    assert terminal.finish() == 0, terminal.text
    lines = re.split(r"\r\n|\r", terminal.text)
    drawn = [line.removesuffix("\x1b[K") for line in lines if "█" in line or "░" in line]
    assert len(drawn) >= 2
    assert all(line.startswith("slow ") and len(line) <= 50 for line in drawn)
    counts = [int(found[1]) for line in drawn if (found := re.search(r" (\d+)/8  ", line))]
    assert counts == sorted(counts) and counts[-1] == 8 and len(counts) == len(drawn)
    assert "left" in drawn[0] and "left" not in drawn[-1]
    assert terminal.text.endswith("\r\n")


def test_a_bar_of_tqdm_is_drawn_where_that_is_installed(world: World, start: Start) -> None:
    pytest.importorskip("tqdm")
    terminal = start(SLOW.format(dir=world.user))
    assert terminal.finish() == 0, terminal.text
    assert "slow: 100%" in terminal.text and "8/8" in terminal.text


def test_no_bar_is_drawn_of_short_or_unwanted_ones(world: World, start: Start) -> None:
    quiet = SLOW.replace("Grid(", "Grid(progress=False, ").format(dir=world.user)
    soon = "import deskgrid._bar\ndeskgrid._bar.SOON = 60\n" + SLOW.format(dir=world.user)
    for text in (quiet, soon):
        terminal = start(text)
        assert terminal.finish() == 0 and terminal.text == ""


#: A bag and a call that both take long.
LONG = (
    "with Grid(dir={dir!r}, progress=False) as g:\n"
    "    bag = g.bag(time.sleep, [600])\n"
    "    call = g.submit(time.sleep, 600)\n"
    "    while not (bag.futures[0].running() and call.running()): time.sleep(0.01)\n"
    "    print('jobs', bag.id, call.task.split('.')[0], 'run', flush=True)\n"
    "    call.result()\n"
)


def jobs(terminal: Terminal) -> tuple[int, int]:
    found = re.search(r"jobs (\d+) (\d+) run", terminal.until(" run"))
    assert found
    return int(found[1]), int(found[2])


def test_ctrl_c_on_a_terminal_cancels_calls_and_no_bags(world: World, grid: Grid, start: Start) -> None:
    terminal = start(LONG.format(dir=world.user))
    bag, call = jobs(terminal)
    terminal.press(CTRL_C)
    assert terminal.finish() != 0
    assert terminal.text.count("KeyboardInterrupt") == 1, terminal.text
    assert f"bags go on at the grid; Grid().job({bag}) gets them back" in terminal.text
    assert (grid.job(call).state, grid.job(bag).state) == ("cancelled", "running")
    grid.job(bag).cancel()


def test_a_second_ctrl_c_leaves_at_once_and_tells_how_to_get_the_jobs_back(
    own_world: World, start: Start
) -> None:
    own_world.worker("desk-1", slots=2)
    terminal = start(LONG.format(dir=own_world.user))
    bag, call = jobs(terminal)
    # A master that is away cannot say that it has cancelled anything.
    own_world.kill_master()
    terminal.press(CTRL_C)
    terminal.until("cancelling; Ctrl-C leaves at once")
    assert terminal.process.poll() is None
    terminal.press(CTRL_C)
    assert terminal.finish() != 0
    assert f"deskgrid: job {call} goes on; Grid().job({call}) gets it back" in terminal.text
    assert f"bags go on at the grid; Grid().job({bag}) gets them back" in terminal.text

    own_world.start_master()
    with Grid(dir=own_world.user, progress=False) as g:
        assert eventually("the job is there", lambda: g.job(call).state) in ("running", "waiting")
        g.job(call).cancel()
        g.job(bag).cancel()
