"""What users get wrong is refused at once, by name, and nothing of it is sent."""

from __future__ import annotations

import copy
import functools
import logging
import pickle
import sys
import traceback
from pathlib import Path
from unittest.mock import Mock

import pytest

from mcp_sync import (
    CallCancelled,
    CancelToken,
    Client,
    ClientGroup,
    ClientSession,
    InMemory,
    Timeouts,
    UsageError,
    types,
)
from mcp_sync.registry import Registry
from mcp_sync.testing import FakeServer

from .background import Background
from .scripted import DuplexTarget, legacy, modern, text


async def coroutine(*arguments):
    """Nobody would run it."""


ARGUMENT = {"name": "a", "value": "b"}


@pytest.fixture
def target():
    return DuplexTarget(modern(tools_call=lambda request: text("done")))


@pytest.fixture
def client(target):
    with Client(target) as client:
        yield client


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda c: c.call_tool("x", [1, 2]), "arguments must be a mapping"),
        (lambda c: c.call_tool("x", '{"a": 1}'), "arguments must be a mapping"),
        (lambda c: c.call_tool(5), "the name of a tool must be a str"),
        (lambda c: c.call_tool("x", meta=["a"]), "meta must be a mapping"),
        (lambda c: c.call_tool("x", headers="a: b"), "headers must be a mapping"),
        (lambda c: c.call_tool("x", headers={"A": "b"}), "headers= needs HTTP"),
        (lambda c: c.read_resource(3), "a URI must be a string, not int"),
        (lambda c: c.read_resource(b"demo://x"), "a URI must be a string, not bytes"),
        (lambda c: c.subscribe_resource(None), "a URI must be a string, not NoneType"),
        (lambda c: c.request(types.ListToolsRequest()), "the method must be a str"),
        (lambda c: c.call_tool("x", cancel=True), "cancel must be a CancelToken"),
        (lambda c: c.call_tool("x", meta=[]), "meta must be a mapping"),
        (lambda c: c.call_tool("x", headers=""), "headers must be a mapping"),
        (lambda c: c.call_tool("x", cancel=False), "cancel must be a CancelToken"),
        (lambda c: c.call_tool("x", progress_callback=5), "progress_callback must be a function"),
        (lambda c: c.call_tool("x", progress_callback=coroutine), "not one of async def"),
        (lambda c: c.get_prompt("p", "x"), "arguments must be a mapping"),
        (lambda c: c.get_prompt(5), "the name of a prompt must be a str"),
        (lambda c: c.complete({"type": "ref/prompt", "name": "p"}, "x"), "argument must be a mapping"),
        (lambda c: c.complete({"type": "ref/prompt", "name": "p"}, {"name": "a"}), "both strings"),
        (lambda c: c.complete(types.PromptReference(name="p"), {**ARGUMENT, "value": 1}), "both strings"),
        (lambda c: c.complete("x", ARGUMENT), r"ref must be PromptReference\(.*, not str"),
        (lambda c: c.complete(None, ARGUMENT), "ref must be .*, not NoneType"),
        (lambda c: c.complete([1], ARGUMENT), "ref must be .*, not list"),
        (lambda c: c.complete({"name": "p"}, ARGUMENT), "ref must be "),
        (lambda c: c.complete(types.Root(uri="file:///x"), ARGUMENT), "ref must be .*, not Root"),
        (lambda c: c.list_tools(5), "cursor must be a str, not int"),
        (lambda c: c.list_resources([1]), "cursor must be a str, not list"),
        (lambda c: c.list_resource_templates(b"x"), "cursor must be a str, not bytes"),
        (lambda c: c.list_prompts(True), "cursor must be a str, not bool"),
        (lambda c: c.notify(5), "the method must be a str, not int"),
        (lambda c: c.send_progress_notification("t", "x"), "progress must be a finite number, not 'x'"),
        (lambda c: c.send_progress_notification("t", True), "progress must be a finite number"),
        (lambda c: c.send_progress_notification("t", float("nan")), "progress must be a finite number"),
        (lambda c: c.send_progress_notification("t", 1, "2"), "total must be a finite number"),
        (lambda c: c.send_progress_notification("t", 1, 2, 3), "message must be a str"),
        (lambda c: c.send_progress_notification(None, 1), "a progress token is a string or an integer"),
        (lambda c: c.send_progress_notification(True, 1), "a progress token is a string or an integer"),
        (
            lambda c: c.call_tool("x", progress_callback=lambda amount: None),
            "progress_callback is called with 3 arguments, which it does not take",
        ),
        (
            lambda c: c.call_tool("x", on_resumption_token_update=lambda: None),
            "on_resumption_token_update is called with 1 argument, which",
        ),
        (lambda c: c.listen(tools=True, on_event=lambda: None), "on_event is called with 1 argument, which"),
        (lambda c: c.request("x/y", [1]), "params must be a mapping"),
        (lambda c: c.request("x/y", {}, "str"), "result_type must be dict or a pydantic model"),
        (lambda c: c.notify("x/y", [1]), "params must be a mapping"),
        (lambda c: c.set_logging_level("warn"), "one of debug, info, notice, warning"),
        (lambda c: c.set_logging_level(logging.INFO), "one of debug, info, notice, warning"),
    ],
)
def test_a_wrong_argument_is_a_usage_error_and_the_client_stays_usable(client, target, use, words):
    sent = len(target.now.sent)
    with pytest.raises(UsageError, match=words):
        use(client)
    assert len(target.now.sent) == sent
    assert client.call_tool("x", cancel=CancelToken()).text == "done"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeouts": 5}, "timeouts must be a Timeouts"),
        ({"limits": 5}, "limits must be a Limits"),
        ({"retry": 5}, "retry must be a Retry"),
        ({"client_info": "me"}, "client_info must be a Implementation"),
        ({"log_level": "loud"}, "one of debug, info"),
        ({"logging_callback": coroutine}, "logging must be a plain function"),
        ({"message_handler": 5}, "message must be a function"),
        ({"elicitation_callback": coroutine}, "elicitation must be a plain function"),
        ({"sampling_callback": 5}, "sampling must be a function"),
        ({"list_roots_callback": coroutine}, "list roots must be a plain function"),
        ({"sampling_callback": lambda params: None}, "sampling is called with 2 arguments, which"),
        ({"elicitation_callback": lambda params: None}, "elicitation is called with 2 arguments, which"),
        ({"list_roots_callback": lambda: None}, "list roots is called with 1 argument, which"),
        ({"logging_callback": lambda level, data: None}, "logging is called with 1 argument, which"),
        ({"message_handler": lambda: None}, "message is called with 1 argument, which"),
        ({"name": 5}, "name must be a str, not int"),
    ],
)
def test_a_wrong_setting_is_refused_when_the_client_is_made(options, words):
    with pytest.raises(UsageError, match=words):
        Client(DuplexTarget(), **options)


def test_a_server_object_without_its_target_is_named():
    with pytest.raises(UsageError, match=r"InMemory\(FakeServer\(\.\.\.\)\)"):
        Client(FakeServer())


@pytest.mark.parametrize(
    "target",
    [
        " https://u:S3CRET@host/mcp",
        "htps://host/mcp?api_key=S3CRET",
        "server --api-key S3CRET",
        ["server", "--api-key", "S3CRET", 5],
        {"command": "npx", "env": {"API_KEY": "S3CRET"}},
        "https://u:S3CRET/x@host/mcp",
        "https://u:S3CRET#x@host/mcp",
        "https://u:S3CRET?x@host/mcp",
        "ws://u:S3CRET/x@host/mcp",
        "https://u:S3CRET@h\u2100st/mcp",
    ],
)
def test_what_is_no_target_is_refused_without_a_word_of_it(target):
    with pytest.raises(UsageError) as caught:
        Client(target)
    shown = "".join(traceback.format_exception(None, caught.value, None))
    assert "S3CRET" not in shown + repr(caught.value.args)


@pytest.mark.parametrize("seconds", [1e10, 10**400, float("inf")])
def test_a_time_that_no_clock_can_wait_is_refused(client, seconds):
    for use in (lambda: client.call_tool("x", timeout=seconds), lambda: Timeouts(close=seconds)):
        with pytest.raises(UsageError, match="None means no bound"):
            use()
    with pytest.raises(UsageError):
        client.close(seconds)
    with pytest.raises(UsageError):
        client.close("5")
    assert client.call_tool("x").text == "done"


@pytest.mark.parametrize("reason", [5, b"x", ["too late"]])
def test_a_reason_that_is_no_string_is_refused(client, reason):
    token = CancelToken()
    with pytest.raises(UsageError, match="the reason must be a str"):
        token.cancel(reason)
    assert client.call_tool("x", cancel=token).text == "done"


def test_a_reason_that_utf8_cannot_hold_is_sent_as_it_can():
    target = DuplexTarget()
    token = CancelToken()
    with Client(target) as client:
        call = Background(client.call_tool, "x", cancel=token)
        target.now.expect("tools/call")
        token.cancel("lone \ud800")
        assert isinstance(call.error(), CallCancelled)
        assert target.now.expect("notifications/cancelled")["params"]["reason"] == "lone ?"


def test_a_session_on_what_was_not_entered_says_what_to_do():
    with pytest.raises(UsageError, match="with statement"):
        ClientSession("https://example.com/mcp")


@pytest.mark.parametrize(
    "callback",
    [
        *(print, [].append, functools.partial(print, "x"), Mock(), dict),
        lambda *values: None,
        lambda value, more=None: None,
    ],
    ids=["builtin", "method", "partial", "mock", "class", "any number", "default"],
)
def test_whatever_takes_the_arguments_of_a_callback_is_one(callback):
    Client(DuplexTarget(), message_handler=callback)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated with their function")
def test_what_the_annotations_of_a_callback_name_need_not_be_there():
    names = {}
    source = "def show(amount: absent.Amount, total: list[Absent], message): pass"
    exec(compile(source, "<test>", "exec", dont_inherit=True), names)
    with Client(DuplexTarget(modern(tools_call=lambda request: text("done")))) as client:
        assert client.call_tool("x", progress_callback=names["show"]).text == "done"
        with pytest.raises(UsageError, match="called with 1 argument, which it does not take"):
            client.call_tool("x", on_resumption_token_update=names["show"])


def test_a_client_that_would_be_sent_to_another_process_says_what_to_do(client):
    others = ClientGroup({"one": {"command": "x"}}), Registry({"one": {"command": "x"}})
    for each in (client, client.for_principal("ada"), *others):
        for hand_over in (pickle.dumps, copy.copy, copy.deepcopy):
            words = f"{type(each).__name__} cannot be copied or pickled: let each process make one of its own"
            with pytest.raises(UsageError, match=words):
                hand_over(each)


def test_a_command_may_hold_paths():
    client = Client([Path("/bin/cat"), Path("a.py"), "-v"])
    assert "cat" in repr(client)


def test_a_completion_reference_may_be_a_dict():
    server = FakeServer(prompts={"p": lambda code="": "x"}, complete=lambda ref, argument, context: ["a"])
    with Client(InMemory(server)) as client:
        result = client.complete({"type": "ref/prompt", "name": "p"}, {"name": "code", "value": ""})
        same = client.complete(types.PromptReference(name="p"), {"name": "code", "value": ""})
    assert result.completion.values == same.completion.values == ["a"]


def test_a_wrong_level_does_not_stay(target):
    legacy_target = DuplexTarget(legacy(logging_setLevel=lambda request: {}))
    with Client(legacy_target) as client:
        with pytest.raises(UsageError):
            client.set_logging_level("loud")
        client.set_logging_level("error")
        levels = [message["params"]["level"] for message in legacy_target.now.received("logging/setLevel")]
    assert levels == ["error"]


@pytest.mark.parametrize("headers", [{"X Y": "v"}, {"X": 5}, {"X": "a\r\nB: c"}, {"X": "\u4e16"}])
def test_a_header_that_cannot_be_sent_is_refused(client, target, headers):
    sent = len(target.now.sent)
    with pytest.raises(UsageError):
        client.call_tool("x", headers=headers)
    assert len(target.now.sent) == sent
