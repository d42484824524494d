"""Lists that come in pages."""

from __future__ import annotations

import pytest

from mcp_sync import CacheOptions, Client, InMemory, Limits
from mcp_sync.errors import CallTimeout, InternalError, InvalidParams, InvalidResult
from mcp_sync.testing import FakeServer

from .scripted import DuplexTarget, modern, refusal


def tool(name):
    return {"name": name, "inputSchema": {"type": "object"}}


def client_of(page, **options):
    return Client(DuplexTarget(modern(tools_list=page)), **options)


def names(iterator):
    return [item.name for item in iterator]


def test_an_honest_list_of_many_pages_is_read_to_its_end():
    def page(request):
        number = int(request["params"].get("cursor", "0"))
        more = {"nextCursor": str(number + 1)} if number < 249 else {}
        return {"tools": [tool(str(number))], **more}

    with client_of(page) as client:
        assert names(client.tools()) == [str(number) for number in range(250)]


def test_a_page_is_fetched_when_it_is_needed():
    asked = []

    def page(request):
        asked.append(request["params"].get("cursor"))
        return {"tools": [tool("a"), tool("b")], "nextCursor": str(len(asked))}

    with client_of(page) as client:
        tools = client.tools()
        assert asked == []
        assert [next(tools).name, next(tools).name] == ["a", "b"]
        assert asked == [None]


def test_one_page_can_be_had_by_itself():
    with client_of(lambda request: {"tools": [tool("a")], "nextCursor": "8"}) as client:
        page = client.list_tools()
        assert (names(page.tools), page.next_cursor) == (["a"], "8")
        client.list_tools("8")
        assert client._engine.plan.target.now.received("tools/list")[1]["params"]["cursor"] == "8"


def test_a_cursor_that_never_moves_is_an_error_after_its_page_came_once():
    seen = []
    client = client_of(lambda request: {"tools": [tool("a")], "nextCursor": "8"})
    with client, pytest.raises(InvalidResult, match="'8' twice"):
        seen.extend(client.tools())
    assert names(seen) == ["a"]


def test_a_long_cursor_makes_no_long_error():
    page = {"tools": [], "nextCursor": "y" * 100_000}
    with client_of(lambda request: page) as client, pytest.raises(InvalidResult, match="yyy") as caught:
        list(client.tools())
    assert len(str(caught.value)) < 1000


def test_a_circle_of_cursors_is_an_error_without_duplicates():
    following = {None: "A", "A": "B", "B": "A"}

    def page(request):
        cursor = request["params"].get("cursor")
        return {"tools": [tool(str(cursor))], "nextCursor": following[cursor]}

    seen = []
    with client_of(page) as client, pytest.raises(InvalidResult, match="'A' twice"):
        seen.extend(client.tools())
    assert names(seen) == ["None", "A"]


def test_an_endless_list_ends_at_the_limit_with_an_error():
    counter = iter(range(10**6))
    seen = []
    with (
        client_of(
            lambda request: {"tools": [tool("a")], "nextCursor": str(next(counter))}, limits=Limits(pages=5)
        ) as client,
        pytest.raises(InvalidResult, match="5 pages"),
    ):
        seen.extend(client.tools())
    assert len(seen) == 5


def test_exactly_as_many_pages_as_the_limit_are_fine():
    def page(request):
        number = int(request["params"].get("cursor", "0"))
        return {"tools": [tool(str(number))], **({"nextCursor": str(number + 1)} if number < 4 else {})}

    with client_of(page, limits=Limits(pages=5)) as client:
        assert len(list(client.tools())) == 5


def test_an_error_on_a_later_page_is_raised_and_the_list_not_cut_silently():
    def page(request):
        number = int(request["params"].get("cursor", "0"))
        return refusal(-32603) if number == 2 else {"tools": [tool("a")], "nextCursor": str(number + 1)}

    with client_of(page) as client, pytest.raises(InternalError):
        list(client.tools())


@pytest.mark.parametrize("cursor", ["", None])
def test_an_empty_cursor_is_the_end(cursor):
    with client_of(lambda request: {"tools": [tool("a")], "nextCursor": cursor}) as client:
        assert names(client.tools()) == ["a"]


def test_an_empty_page_in_the_middle_is_not_the_end():
    pages = {None: ([], "1"), "1": ([tool("a")], None)}

    def page(request):
        tools, cursor = pages[request["params"].get("cursor")]
        return {"tools": tools, **({"nextCursor": cursor} if cursor else {})}

    with client_of(page) as client:
        assert names(client.tools()) == ["a"]


def test_the_timeout_bounds_each_page():
    with client_of(lambda request: None) as client, pytest.raises(CallTimeout):
        list(client.tools(timeout=0.05))


def test_all_kinds_of_lists_follow_their_pages():
    def one():
        """One."""

    def two():
        """Two."""

    server = FakeServer(
        {"one": one, "two": two},
        {"demo://1": "1", "demo://2": "2", "demo://a/{x}": one, "demo://b/{x}": two},
        {"one": one, "two": two},
        page_size=1,
    )
    with Client(InMemory(server)) as client:
        assert names(client.tools()) == ["one", "two"]
        assert names(client.prompts()) == ["one", "two"]
        assert [item.uri for item in client.resources()] == ["demo://1", "demo://2"]
        assert [item.uri_template for item in client.resource_templates()] == ["demo://a/{x}", "demo://b/{x}"]


def paged(names_now):
    """Return a server whose second page has a cursor that changes with its names."""

    def page(request):
        first, second, valid = names_now[0]
        cursor = request["params"].get("cursor")
        if cursor is None:
            return {"tools": [tool(name) for name in first], "nextCursor": valid, "ttlMs": 60_000}
        if cursor != valid:
            return refusal(-32602, "no such cursor")
        return {"tools": [tool(name) for name in second], "ttlMs": 60_000}

    return page


def test_a_kept_page_whose_cursor_has_died_is_fetched_anew_and_nothing_comes_twice():
    now = [("ab", "cd", "one")]
    with client_of(paged(now), cache=CacheOptions()) as client:
        client.list_tools()
        now[0] = ("abe", "fd", "two")
        assert names(client.tools()) == list("abefd")
        assert names(client.tools()) == list("abefd")


def test_a_cursor_that_is_dead_at_once_is_an_error_with_a_cache_and_without():
    def page(request):
        if "cursor" in request["params"]:
            return refusal(-32602, "no such cursor")
        return {"tools": [tool("a")], "nextCursor": "dead", "ttlMs": 60_000}

    for options in ({}, {"cache": CacheOptions()}):
        with client_of(page, **options) as client, pytest.raises(InvalidParams):
            names(client.tools())
