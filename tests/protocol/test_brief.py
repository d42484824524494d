"""Values that show no more than their start."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_sync._protocol import brief as module
from mcp_sync._protocol.brief import LONGEST


def brief(value: Any) -> Any:
    return module.brief(value, lambda steps: None)


SMALL: list[Any] = [
    None,
    True,
    1.5,
    "it's",
    [],
    {},
    [1, [2, {"a": None}], "x"],
    {"a": {"b": [1, 2]}, "c": 'say "x"'},
]


@pytest.mark.parametrize("value", SMALL, ids=repr)
def test_a_small_value_shows_all_of_itself(value: Any) -> None:
    assert repr(brief(value)) == repr(value)


@pytest.mark.parametrize("value", [*SMALL, ["x" * 10_000], {"x" * 10_000: 1}, "x" * 10_000], ids=type)
def test_a_value_stays_equal_and_of_its_type(value: Any) -> None:
    short = brief(value)
    assert short == value
    assert isinstance(short, type(value))
    assert json.dumps(short) == json.dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        [1] * 10_000,
        {str(n): n for n in range(10_000)},
        "x" * 10_000,
        ["x" * 10_000],
        {"x" * 10_000: 1},
        [[[[[1] * 10_000]]]],
        {"a": {"b": {"c": ["x"] * 10_000}}},
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_large_value_shows_its_start(value: Any) -> None:
    shown = repr(brief(value))
    assert len(shown) <= LONGEST
    assert shown.endswith("...")
    assert repr(value).startswith(shown[:-3])


def test_what_is_taken_out_is_brief_too() -> None:
    many = [1] * 10_000
    pairs = brief({"a": many})
    rows = brief([many, many])
    taken = [pairs["a"], pairs.get("a"), *pairs.values(), *(value for _, value in pairs.items())]
    for each in [*taken, rows[0], rows[-1], *rows]:
        assert each == many
        assert len(repr(each)) <= LONGEST
    assert len(repr(rows[1:])) <= LONGEST
    assert pairs.get("b") is None
    assert pairs.get("b", 7) == 7


def test_what_takes_time_is_counted() -> None:
    spent: list[int] = []
    rows = module.brief([[1] * 640, "x"], spent.append)
    assert spent == [1]
    assert rows[1] == "x"
    assert spent == [1]
    repr(rows[0])
    assert spent[1] == 21
    assert len(spent) == 3
