"""From a message to the model of its method."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from mcp_sync import types
from mcp_sync.types import (
    CreateMessageRequest,
    ElicitationCompleteNotification,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequiredResult,
    ListRootsRequest,
    LoggingMessageNotification,
    PingRequest,
    ProgressNotification,
    ServerNotification,
    ServerRequest,
    UnknownNotification,
    UnknownRequest,
    parse_notification,
    parse_server_request,
)
from mcp_sync.types.parsing import _NOTIFICATIONS, _REQUESTS

TASK = {"taskId": "1", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": None}

PARAMS: dict[str, Any] = {
    "notifications/cancelled": {"requestId": 1, "reason": "r"},
    "notifications/progress": {"progressToken": "p", "progress": 0.5, "total": 1, "message": "m"},
    "notifications/message": {"level": "info", "logger": "l", "data": {"a": None}},
    "notifications/resources/updated": {"uri": "x:y"},
    "notifications/elicitation/complete": {"elicitationId": "e"},
    "notifications/tasks/status": TASK,
    "notifications/subscriptions/acknowledged": {"notifications": {"toolsListChanged": True}},
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "elicitation/create": {"message": "m", "requestedSchema": {"type": "object", "properties": {}}},
    "tasks/get": {"taskId": "1"},
    "tasks/result": {"taskId": "1"},
    "tasks/cancel": {"taskId": "1"},
}


@pytest.mark.parametrize("method", _NOTIFICATIONS)
def test_a_notification_becomes_the_class_of_its_method(method: str) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": {**PARAMS.get(method, {}), "_meta": {"k": 1}}}
    notification = parse_notification(message)
    assert type(notification).__name__ == _NOTIFICATIONS[method][1]
    assert notification.method == method
    assert notification.params.meta == {"k": 1}
    assert notification.to_wire() == message


@pytest.mark.parametrize("method", _REQUESTS)
def test_a_request_of_the_server_becomes_the_class_of_its_method(method: str) -> None:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": PARAMS.get(method, {})}
    request = parse_server_request(message)
    assert type(request).__name__ == _REQUESTS[method][1]
    assert request.id == 7
    assert request.to_wire() == message


def test_the_tables_and_the_unions_agree() -> None:
    from_server = {model.__name__ for model in get_args(ServerNotification)} - {"UnknownNotification"}
    assert from_server <= {name for _, name in _NOTIFICATIONS.values()}
    requests = {model.__name__ for model in get_args(ServerRequest)} - {"UnknownRequest"}
    assert requests == {name for _, name in _REQUESTS.values()}


def test_parameters_may_be_missing_where_the_method_needs_none() -> None:
    for method in ("notifications/tools/list_changed", "notifications/initialized"):
        message = {"jsonrpc": "2.0", "method": method}
        notification = parse_notification(message)
        assert notification.params is None
        assert notification.to_wire() == message
    assert isinstance(parse_server_request({"jsonrpc": "2.0", "id": 1, "method": "ping"}), PingRequest)
    assert isinstance(
        parse_server_request({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}), ListRootsRequest
    )


@pytest.mark.parametrize("params", [{"a": None}, [1], None])
def test_unknown_methods_are_kept_with_their_parameters(params: Any) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/novel", "params": params, "extra": 1}
    notification = parse_notification(message)
    assert isinstance(notification, UnknownNotification)
    assert (notification.method, notification.params, notification.problem) == (
        "notifications/novel",
        params,
        None,
    )
    assert notification.to_wire() == message
    request = parse_server_request({**message, "id": "x"})
    assert isinstance(request, UnknownRequest)
    assert (request.id, request.problem) == ("x", None)
    assert request.to_wire() == {**message, "id": "x"}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/progress", {"progress": 1}),
        ("notifications/progress", {"progressToken": 1, "progress": "far"}),
        ("notifications/progress", None),
        ("notifications/progress", [1]),
        ("notifications/resources/updated", {}),
        ("notifications/message", {"data": "no level"}),
    ],
)
def test_parameters_that_do_not_fit_make_an_unknown_notification(method: str, params: Any) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    notification = parse_notification(message)
    assert isinstance(notification, UnknownNotification)
    assert (notification.method, notification.params) == (method, params)
    assert notification.problem
    assert notification.problem.startswith("params")
    assert notification.to_wire() == message


def test_parameters_that_do_not_fit_make_an_unknown_request() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"maxTokens": 1}}
    request = parse_server_request(message)
    assert isinstance(request, UnknownRequest)
    assert request.problem == "params.messages: Field required"
    assert request.to_wire() == message


def test_a_message_without_a_method_is_an_error() -> None:
    for parse in (parse_notification, parse_server_request):
        with pytest.raises(ValidationError):
            parse({"jsonrpc": "2.0", "id": 1})


def test_log_levels_that_are_not_in_the_specification_are_kept() -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "warn", "data": "d"}}
    notification = parse_notification(message)
    assert isinstance(notification, LoggingMessageNotification)
    assert notification.params.level == "warn"


def test_both_modes_of_elicitation_are_told_apart() -> None:
    url = {"mode": "url", "message": "m", "url": "https://a", "elicitationId": "e"}
    form = PARAMS["elicitation/create"]
    for params, model in ((url, ElicitRequestURLParams), (form, ElicitRequestFormParams)):
        for sent in (params, {**params, "mode": params.get("mode", "form")}):
            message = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": sent}
            request = parse_server_request(message)
            assert isinstance(request, ElicitRequest)
            assert type(request.params) is model
            assert request.to_wire() == message
    assert isinstance(ElicitRequestFormParams.model_validate(form).mode, str)


def test_the_old_name_of_the_official_sdk_is_the_same_class() -> None:
    assert types.ElicitCompleteNotification is ElicitationCompleteNotification
    assert types.CreateMessageResultWithTools is types.CreateMessageResult


def test_input_requests_become_models_and_unknown_ones_are_kept() -> None:
    message = {
        "resultType": "input_required",
        "inputRequests": {
            "a": {"method": "sampling/createMessage", "params": PARAMS["sampling/createMessage"]},
            "b": {"method": "elicitation/create", "params": PARAMS["elicitation/create"]},
            "c": {"method": "roots/list"},
            "d": {"method": "novel/thing", "params": {"x": None}},
            "e": {"method": "sampling/createMessage", "params": {}},
        },
        "requestState": "s",
    }
    result = InputRequiredResult.model_validate(message)
    assert result.input_requests
    assert [type(request) for request in result.input_requests.values()] == [
        CreateMessageRequest,
        ElicitRequest,
        ListRootsRequest,
        UnknownRequest,
        UnknownRequest,
    ]
    assert result.to_wire() == message


def test_progress_keeps_its_token() -> None:
    for token in (0, -1, "", "1", "abc", 2**53):
        message = {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 1},
        }
        notification = parse_notification(message)
        assert isinstance(notification, ProgressNotification)
        assert notification.params.progress_token == token
        assert type(notification.params.progress_token) is type(token)


def test_a_response_that_needs_input_is_told_from_one_that_is_done() -> None:
    done = {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "content": []}}
    paused = {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "requestState": "s"}}
    assert type(types.CallToolResultResponse.model_validate(done).result) is types.CallToolResult
    assert type(types.CallToolResultResponse.model_validate(paused).result) is InputRequiredResult
