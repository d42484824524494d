"""Names that a group gives: stable, each for one thing, and found again."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sync import UsageError
from mcp_sync.group._names import Names, Origin

DIGEST = r"_[0-9a-f]{8}"
WORDS = st.text(alphabet="ab_", min_size=1, max_size=5)


def test_a_name_is_server_and_tool_and_leads_back_to_them() -> None:
    names = Names("tool", "prefix", "_", False)

    assert names.name(Origin("a", "search"), ["a", "b"]) == "a_search"
    assert names.find("a_search") == Origin("a", "search")
    assert Names("tool", "prefix", "_", False).parse("a_search", ["a", "b"]) == Origin("a", "search")


def test_where_two_servers_could_be_meant_the_one_with_the_longer_name_is() -> None:
    for order in (("a", "b_c"), ("a_b", "c")), (("a_b", "c"), ("a", "b_c")):
        names = Names("tool", "prefix", "_", False)
        found = {origin: names.name(Origin(*origin), ["a", "a_b"]) for origin in order}

        assert found["a_b", "c"] == "a_b_c"
        assert re.fullmatch(f"a_b_c{DIGEST}", str(found["a", "b_c"]))
    assert names.parse("a_b_c", ["a", "a_b"]) == Origin("a_b", "c")
    # By itself it could as well be another tool of the second server.
    assert names.parse(str(found["a", "b_c"]), ["a", "a_b"]) is None
    assert names.find(str(found["a", "b_c"])) == Origin("a", "b_c")


def test_a_name_stays_when_a_server_comes_that_it_could_mean_too() -> None:
    names = Names("tool", "prefix", "_", False)
    assert names.name(Origin("a", "b_c"), ["a"]) == "a_b_c"

    assert names.name(Origin("a", "b_c"), ["a", "a_b"]) == "a_b_c"
    assert re.fullmatch(f"a_b_c{DIGEST}", str(names.name(Origin("a_b", "c"), ["a", "a_b"])))
    names.forget("a")
    assert names.find("a_b_c") is None


def test_without_a_prefix_the_second_of_one_name_is_an_error_or_hidden() -> None:
    for policy in ("error", "first"):
        names = Names("tool", policy, "_", False)
        assert names.name(Origin("a", "x"), ["a", "b"]) == "x"
        if policy == "first":
            assert names.name(Origin("b", "x"), ["a", "b"]) is None
        else:
            with pytest.raises(UsageError, match="both 'a' and 'b' have a tool 'x'"):
                names.name(Origin("b", "x"), ["a", "b"])
        assert names.find("x") == Origin("a", "x")


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("a", "b", "a_b"),
        ("a b", "c/d.e", f"a_b_c_d_e{DIGEST}"),
        ("4", "x", f"_4_x{DIGEST}"),
        ("a", "t" * 80, f"a_{'t' * 53}{DIGEST}"),
        ("a", "😀", f"a__{DIGEST}"),
        ("a", "\ud800", f"a__{DIGEST}"),
    ],
)
def test_names_for_models_are_accepted_by_all_of_them(server: str, tool: str, name: str) -> None:
    found = Names("tool", "prefix", "_", True).name(Origin(server, tool), [server])

    assert re.fullmatch(name, str(found))


@given(
    tools=st.sets(st.tuples(WORDS, WORDS), max_size=12),
    for_models=st.booleans(),
    separator=st.sampled_from(["_", "__", "/"]),
)
def test_no_two_things_have_one_name_and_each_leads_back(
    tools: set[tuple[str, str]], for_models: bool, separator: str
) -> None:
    servers = sorted({server for server, _ in tools})
    names = Names("tool", "prefix", separator, for_models)
    found = {Origin(*each): names.name(Origin(*each), servers) for each in sorted(tools)}

    assert len(set(found.values())) == len(tools)
    for origin, name in found.items():
        assert name is not None
        assert names.find(name) == origin
        # What is told by the name alone is never wrong, whatever was listed before.
        assert Names("tool", "prefix", separator, for_models).parse(name, servers) in (origin, None)
        if for_models:
            assert set(name) <= set(string.ascii_letters + string.digits + "_-")
            assert len(name) <= 64
