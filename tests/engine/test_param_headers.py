"""Arguments that a tool wants mirrored in HTTP headers."""

from __future__ import annotations

import logging
import time

import pytest

from mcp_sync import CancelToken, Client
from mcp_sync.errors import CallCancelled, CallTimeout, HeaderMismatch, UsageError

from .background import PATIENCE, Background
from .scripted import DuplexTarget, PostTarget, legacy, modern, refusal, text


def tool(name="route", **properties):
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


REGION = {"type": "string", "x-mcp-header": "Region"}
ROUTE = tool(region=REGION, count={"type": "integer", "x-mcp-header": "Count"}, plain={"type": "string"})


def listing(*tools, cursor=None):
    return {"tools": list(tools), **({} if cursor is None else {"nextCursor": cursor})}


def headers_of(target, count=1):
    frames = [frame for frame in target.now.frames if frame.method == "tools/call"]
    return frames[count - 1].headers


def scripts(*tools, **more):
    return modern(
        tools_list=lambda request: listing(*tools), **{"tools_call": lambda request: text("done"), **more}
    )


def test_marked_arguments_of_a_listed_tool_are_mirrored():
    target = PostTarget(scripts(ROUTE))
    with Client(target) as client:
        client.list_tools()
        client.call_tool("route", {"region": "eu", "count": 3, "plain": "x"})
    assert headers_of(target) == {
        "Mcp-Method": "tools/call",
        "Mcp-Name": "route",
        "Mcp-Param-Region": "eu",
        "Mcp-Param-Count": "3",
    }


def test_the_callers_own_headers_go_along_and_cannot_replace_those_of_the_protocol():
    target = PostTarget(scripts(ROUTE))
    with Client(target) as client:
        client.list_tools()
        given = {"X-Trace": "1", "Mcp-Name": "lie", "Mcp-Param-Region": "lie"}
        client.call_tool("route", {"region": "eu"}, headers=given)
    sent = headers_of(target)
    assert (sent["X-Trace"], sent["Mcp-Name"], sent["Mcp-Param-Region"]) == ("1", "route", "eu")


def test_nothing_is_listed_just_to_know_the_headers():
    target = PostTarget(scripts(ROUTE))
    with Client(target) as client:
        client.call_tool("route", {"region": "eu"})
    assert target.now.received("tools/list") == []
    assert "Mcp-Param-Region" not in headers_of(target)


def test_an_argument_that_no_header_can_hold_is_refused_before_anything_is_sent():
    target = PostTarget(scripts(ROUTE))
    with Client(target) as client:
        client.list_tools()
        with pytest.raises(UsageError, match="count"):
            client.call_tool("route", {"count": 2**60})
    assert target.now.received("tools/call") == []


@pytest.mark.parametrize("target", [DuplexTarget(scripts(ROUTE)), PostTarget({**scripts(ROUTE), **legacy()})])
def test_elsewhere_nothing_is_mirrored(target):
    with Client(target) as client:
        client.list_tools()
        client.call_tool("route", {"region": "eu"})
    assert "Mcp-Param-Region" not in headers_of(target)


BAD = tool("bad", region={"type": "string", "x-mcp-header": "not a token"})


def test_a_tool_with_an_invalid_mark_is_left_out_with_a_warning(caplog):
    with Client(PostTarget(scripts(ROUTE, BAD))) as client, caplog.at_level(logging.WARNING):
        assert [each.name for each in client.list_tools().tools] == ["route"]
        assert [each.name for each in client.tools()] == ["route"]
    assert "bad" in caplog.text
    assert "not a token" in caplog.text


@pytest.mark.parametrize("target", [DuplexTarget(scripts(BAD)), PostTarget({**scripts(BAD), **legacy()})])
def test_where_marks_do_not_count_an_invalid_one_harms_nothing(target, caplog):
    with Client(target) as client:
        assert [each.name for each in client.list_tools().tools] == ["bad"]
        assert client.call_tool("bad", {"region": "eu"}).text == "done"
    assert not caplog.records


def test_a_tool_that_became_invalid_is_forgotten_with_its_marks():
    tools = [ROUTE]
    target = PostTarget(
        modern(tools_list=lambda request: listing(*tools), tools_call=lambda request: text("done"))
    )
    with Client(target) as client:
        client.list_tools()
        tools[:] = [tool(region={"type": "string", "x-mcp-header": ""})]
        assert client.list_tools().tools == []
        client.call_tool("route", {"region": "eu"})
    assert "Mcp-Param-Region" not in headers_of(target)


# --- a mismatch ------------------------------------------------------------------------------------------

MISMATCH = refusal(-32020, "header mismatch")


def test_a_mismatch_is_mended_by_listing_again_and_calling_once_more():
    outcomes = iter([MISMATCH, text("done")])
    target = PostTarget(scripts(ROUTE, tools_call=lambda request: next(outcomes)))
    with Client(target) as client:
        assert client.call_tool("route", {"region": "eu"}, headers={"X-Trace": "1"}).text == "done"
    assert "Mcp-Param-Region" not in headers_of(target, 1)
    assert headers_of(target, 2)["Mcp-Param-Region"] == "eu"
    methods = [message["method"] for message in target.now.sent]
    assert methods[-3:] == ["tools/call", "tools/list", "tools/call"]
    assert all(frame.headers["X-Trace"] == "1" for frame in target.now.frames[-3:])


def test_listing_again_follows_all_pages():
    outcomes = iter([MISMATCH, text("done")])
    pages = {None: listing(tool("other"), cursor="2"), "2": listing(ROUTE)}
    target = PostTarget(
        modern(
            tools_list=lambda request: pages[request["params"].get("cursor")],
            tools_call=lambda request: next(outcomes),
        )
    )
    with Client(target) as client:
        client.call_tool("route", {"region": "eu"})
    assert headers_of(target, 2)["Mcp-Param-Region"] == "eu"


def test_a_second_mismatch_is_raised():
    target = PostTarget(scripts(ROUTE, tools_call=lambda request: MISMATCH))
    with Client(target) as client, pytest.raises(HeaderMismatch):
        client.call_tool("route")
    assert len(target.now.received("tools/call")) == 2
    assert len(target.now.received("tools/list")) == 1


def test_where_nothing_is_mirrored_a_mismatch_is_raised_at_once():
    target = DuplexTarget(scripts(ROUTE, tools_call=lambda request: MISMATCH))
    with Client(target) as client, pytest.raises(HeaderMismatch):
        client.call_tool("route")
    assert target.now.received("tools/list") == []


def test_listing_again_stays_within_the_timeout_of_the_call():
    pause = iter(range(1000))

    def page(request):
        time.sleep(0.04)  # the server needs that long for each page
        return listing(cursor=str(next(pause)))

    target = PostTarget(modern(tools_list=page, tools_call=lambda request: MISMATCH))
    with Client(target) as client:
        started = time.monotonic()
        with pytest.raises(CallTimeout):
            client.call_tool("route", timeout=0.2)
        assert time.monotonic() - started < PATIENCE  # The pages go on for four times as long.


def test_listing_again_ends_when_the_call_is_cancelled():
    token = CancelToken()
    target = PostTarget(modern(tools_call=lambda request: MISMATCH))
    with Client(target) as client:
        call = Background(client.call_tool, "route", cancel=token)
        target.now.expect("tools/list")
        token.cancel()
        assert isinstance(call.error(2), CallCancelled)


def test_a_list_is_returned_although_the_connection_is_lost_right_after_it():
    from mcp_sync.errors import ConnectionLost

    target = DuplexTarget(scripts(ROUTE))
    with Client(target) as client:
        connection = client._engine._connection
        exchange = connection.exchange

        def lossy(*args):
            result = exchange(*args)
            connection.lost(ConnectionLost("gone"))
            return result

        connection.exchange = lossy
        target.scripts = {}
        assert [each.name for each in client.list_tools(timeout=2).tools] == ["route"]
    assert len(target.channels) == 1
