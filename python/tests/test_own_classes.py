"""Classes and functions of the user's own modules in results: they are those that their reader has."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import own_classes
import pytest
from test_runtime import outcomes
from world import World, script

from deskgrid import Grid


def test_classes_of_own_modules_come_back_as_themselves(grid: Grid, monkeypatch: Any) -> None:
    monkeypatch.setattr(own_classes, "kept", {})
    item, colour = grid.submit(own_classes.make, 3).result(60)
    assert type(item) is own_classes.Item and colour is own_classes.Colour.RED
    # Neither does what the class here does become what it did there.
    own_classes.Item(9).keep()
    assert list(own_classes.kept) == [9]
    with pytest.raises(own_classes.Unlucky):
        grid.submit(own_classes.make, 13).result(60)


def test_functions_of_own_modules_come_back_as_themselves(grid: Grid) -> None:
    got = grid.submit(lambda: [own_classes.make, own_classes.Item(3).keep, own_classes.Colour]).result(60)
    assert got[0] is own_classes.make and got[2] is own_classes.Colour
    assert got[1].__func__ is own_classes.Item.keep


#: Reads the results of two bags, each in a process that has its own classes.
READ = (
    "with Grid(dir=DIR, progress=False) as g:\n"
    "    first, second = (g.job(number) for number in {jobs})\n"
    "    item, colour = first.futures[0].result(60)\n"
    "    kind = type(item)\n"
    "    kind.label = 'changed'\n"
    "    other, _ = second.futures[0].result(60)\n"
    "    print(type(other) is kind, other.label, item.n, other.n, colour.name)\n"
    "    error = second.futures[1].exception(60)\n"
)


def test_another_process_gets_instances_of_its_own_classes(grid: Grid, world: World) -> None:
    bags = [grid.bag(own_classes.make, [1, 13]), grid.bag(own_classes.make, [2, 13])]
    assert all(bag.wait(60) for bag in bags)
    program = script(
        world,
        "import own_classes\n"
        + READ.format(jobs=[bag.id for bag in bags])
        + "    print(kind is own_classes.Item, colour is own_classes.Colour.RED)\n"
        "    print(type(error) is own_classes.Unlucky)\n",
    )
    out, said = program.communicate(timeout=60)
    assert (out, said) == ("True changed 1 2 RED\nTrue True\nTrue\n", "")


def test_a_process_without_their_module_gets_classes_by_value(grid: Grid, world: World) -> None:
    bags = [grid.bag(own_classes.make, [1, 13]), grid.bag(own_classes.make, [2, 13])]
    assert all(bag.wait(60) for bag in bags)
    program = script(
        world,
        "sys.path.remove(TESTS)\n"
        + READ.format(jobs=[bag.id for bag in bags])
        + "    item.keep()\n"
        "    print(type(error).__name__, 'own_classes' in sys.modules)\n",
    )
    out, said = program.communicate(timeout=60)
    assert (out, said) == ("True changed 1 2 RED\nUnlucky False\n", "")


def test_classes_of_main_come_back_as_themselves(world: World) -> None:
    program = script(
        world,
        "from enum import Enum\n"
        "kept = {}\n"
        "class Colour(Enum): RED = 1\n"
        "class Item:\n"
        "    def keep(self): kept[1] = self\n"
        "def make(): return [Item(), Colour.RED]\n"
        "with Grid(dir=DIR, progress=False) as g:\n"
        "    item, colour = g.submit(make).result()\n"
        "print(type(item) is Item, colour is Colour.RED)\n"
        "Item().keep()\n"
        "print(list(kept))\n",
    )
    out, said = program.communicate(timeout=60)
    assert (out, said) == ("True True\n[1]\n", "")


def test_a_class_within_a_function_stays_as_it_is(grid: Grid) -> None:
    noted: list[int] = []

    class Local(own_classes.Item):
        def note(self) -> None:
            noted.append(self.n)

    back = grid.submit(Local, 7).result(60)
    assert type(back) is Local
    back.note()
    assert noted == [7]


def test_a_class_that_was_made_there_is_one_of_the_classes_here(tmp_path: Path) -> None:
    def make(n: int) -> Any:
        kind: Any = type("Made", (own_classes.Item,), {"double": lambda self: 2 * self.n})
        return kind(n)

    own_classes.Item.label = "changed"
    try:
        (outcome,) = outcomes(tmp_path, make, [(4,)])
        own_classes.Item.label = "new"
        assert outcome.data is not None
        made = pickle.loads(outcome.data)
        assert isinstance(made, own_classes.Item) and (made.double(), made.label) == (8, "new")
    finally:
        own_classes.Item.label = "new"


def test_a_class_whose_value_cannot_be_sent_is_known_by_its_name(tmp_path: Path) -> None:
    (outcome,) = outcomes(tmp_path, own_classes.make_guarded, [(5,)])
    assert outcome.kind == "R" and outcome.data is not None
    item = pickle.loads(outcome.data)
    assert type(item) is own_classes.Item and item.n == 5


def test_a_class_that_is_nowhere_and_cannot_be_sent_says_so(tmp_path: Path, monkeypatch: Any) -> None:
    (outcome,) = outcomes(tmp_path, own_classes.make_guarded, [(5,)])
    assert outcome.data is not None
    data = outcome.data.replace(b"own_classes", b"no_such_mod").replace(b"Item", b"Xtem")
    monkeypatch.setattr("deskgrid._by_name._finished_with", lambda mark: None)
    with pytest.raises(pickle.UnpicklingError, match="no_such_mod.Xtem is not here.*lock"):
        pickle.loads(data)


def test_a_decorated_function_is_not_taken_for_what_it_decorates(tmp_path: Path) -> None:
    (outcome,) = outcomes(tmp_path, lambda: own_classes.twice.__wrapped__, [()])
    assert outcome.data is not None
    plain = pickle.loads(outcome.data)
    assert plain is not own_classes.twice and (plain(2), own_classes.twice(2)) == (2, 4)


def test_what_a_parametrised_decorator_makes_keeps_its_parameter(tmp_path: Path) -> None:
    def make() -> Any:
        return own_classes.scaled(10)(own_classes.same), own_classes.same

    (outcome,) = outcomes(tmp_path, make, [()])
    assert outcome.data is not None
    tenfold, same = pickle.loads(outcome.data)
    assert (tenfold(3), same(3)) == (30, 3)


def test_classes_of_one_name_at_several_places_are_told_apart(tmp_path: Path) -> None:
    local = own_classes.local_node()
    kinds = [own_classes.Node, own_classes.Tree.Node, local]
    (outcome,) = outcomes(tmp_path, lambda: [kind() for kind in kinds], [()])
    assert outcome.data is not None
    got = [type(made) for made in pickle.loads(outcome.data)]
    assert got == kinds


def test_another_process_gets_classes_within_others_as_its_own(grid: Grid, world: World) -> None:
    local = own_classes.local_node()

    def grow(x: int) -> list[Any]:
        return [own_classes.Node(), own_classes.Tree.Node(), own_classes.Tree.Leaf(), local()]

    bag = grid.bag(grow, [0])
    assert bag.wait(60)
    program = script(
        world,
        "import own_classes as own\n"
        "with Grid(dir=DIR, progress=False) as g:\n"
        f"    ((*got, local),) = g.job({bag.id}).result(60)\n"
        "print([type(one) for one in got] == [own.Node, own.Tree.Node, own.Tree.Leaf])\n"
        "print(type(local).__qualname__, type(local) in [own.Node, own.Tree.Node])\n",
    )
    out, said = program.communicate(timeout=60)
    assert (out, said) == ("True\nlocal_node.<locals>.Node False\n", "")
