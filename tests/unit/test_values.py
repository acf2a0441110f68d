"""`hipcache.base.values` means what `dataclasses` means, wherever hipcache uses it."""

from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hipcache.base import values


def make(library: Any) -> ModuleType:
    """The same classes with one library or the other."""
    made: Any = ModuleType("made")

    @library.dataclass(frozen=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        names: tuple[str, ...] = ()

        @property
        def sum(self) -> int:
            return self.x + self.y

    @library.dataclass(frozen=True)
    class Named(Point):
        name: str = ""
        marks: dict[str, Any] = library.field(default_factory=dict)

    @library.dataclass
    class Open:
        point: Any
        late: int = library.field(init=False)
        found: list[int] = library.field(default_factory=list)

        def __post_init__(self) -> None:
            self.late = self.point.x + 1

    made.Point, made.Named, made.Open, made.replace, made.asdict = Point, Named, Open, library.replace, library.asdict
    return made


class Pair(NamedTuple):
    a: Any
    b: int


BOTH = pytest.mark.parametrize("made", [make(dataclasses), make(values)], ids=["dataclasses", "values"])


@BOTH
def test_values_are_made_compared_and_hashed(made: Any) -> None:
    point = made.Point(1, names=("a",))
    assert (point.x, point.y, point.names, point.sum) == (1, 2, ("a",), 3)
    assert point == made.Point(1, 2, ("a",))
    assert point != made.Point(1, 3, ("a",))
    assert point != (1, 2, ("a",))
    assert made.Point(1) != made.Named(1)
    assert len({point, made.Point(1, 2, ("a",)), made.Point(1)}) == 2
    assert repr(point).endswith("Point(x=1, y=2, names=('a',))")
    assert made.Point.__doc__ == "A point."


@BOTH
@pytest.mark.parametrize(
    "wrong", [lambda p: p(), lambda p: p(1, 2, (), 4), lambda p: p(1, z=2), lambda p: p(1, x=2), lambda p: p(y=1)]
)
def test_a_value_that_is_missing_or_one_too_many_is_an_error(made: Any, wrong: Any) -> None:
    with pytest.raises(TypeError):
        wrong(made.Point)


@BOTH
def test_frozen_values_do_not_change(made: Any) -> None:
    point = made.Point(1)
    with pytest.raises(AttributeError):
        point.x = 3
    with pytest.raises(AttributeError):
        del point.x
    assert made.replace(point, y=5) == made.Point(1, 5)
    assert point == made.Point(1)


@BOTH
def test_defaults_are_made_anew_and_inherited(made: Any) -> None:
    one, other = made.Named(1, name="n"), made.Named(1)
    assert (one.y, one.name, one.marks) == (2, "n", {})
    assert one.marks is not other.marks
    opened = made.Open(made.Point(4))
    opened.found.append(1)
    assert (opened.late, opened.found, made.Open(made.Point(4)).found) == (5, [1], [])
    opened.late = 7
    assert opened.late == 7
    with pytest.raises(TypeError):
        hash(opened)


@BOTH
def test_values_become_dictionaries_all_the_way_down(made: Any) -> None:
    named = made.Named(1, name="n", marks={"p": made.Point(2), "l": [made.Point(3)], "t": Pair(made.Point(2), 1)})
    inner = {"x": 2, "y": 2, "names": ()}
    assert made.asdict(named) == {
        "x": 1,
        "y": 2,
        "names": (),
        "name": "n",
        "marks": {"p": inner, "l": [{**inner, "x": 3}], "t": Pair(inner, 1)},
    }
