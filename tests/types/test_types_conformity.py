"""What is built in Python is valid by the official schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from official_schemas import REVISIONS, validator

from mcp_sync import types as t

pytestmark = pytest.mark.skipif(not REVISIONS, reason="the official schemas are not here")

V2024, V2503, V2506, V2511, V2607 = REVISIONS or [""] * 5
ALL = [V2024, V2503, V2506, V2511, V2607]
HANDSHAKE = ALL[:4]

TEXT = t.TextContent(text="a", annotations=t.Annotations(audience=["user"], priority=0.5))
IMAGE = t.ImageContent.from_bytes(b"x", "image/png")
INFO = t.Implementation(name="n", version="1", title=None)
TOOL = t.Tool(name="t", input_schema={"type": "object"}, description=None)
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
META = {
    t.PROTOCOL_VERSION_META_KEY: V2607,
    t.CLIENT_CAPABILITIES_META_KEY: {},
    t.CLIENT_INFO_META_KEY: INFO,
}

CASES: list[tuple[Any, str, list[str]]] = [
    (t.ErrorData(code=t.INVALID_PARAMS, message="m", data=None), "Error", [V2511, V2607]),
    (t.InvalidParamsError(message="m"), "InvalidParamsError", [V2607]),
    (t.JSONRPCErrorResponse(id=1, error=t.ErrorData(code=1, message="m")), "JSONRPCMessage", ALL),
    (t.JSONRPCRequest(id="a", method="m", params={"x": None}), "JSONRPCRequest", ALL),
    (t.JSONRPCNotification(method="m"), "JSONRPCNotification", ALL),
    (t.EmptyResult(), "EmptyResult", HANDSHAKE),
    (INFO, "Implementation", ALL),
    (
        t.InitializeRequest(
            id=0,
            params=t.InitializeRequestParams(
                protocol_version=V2511,
                capabilities=t.ClientCapabilities(
                    roots=t.RootsCapability(list_changed=True),
                    sampling=t.SamplingCapability(tools=t.SamplingToolsCapability()),
                    elicitation=t.ElicitationCapability(form=t.FormElicitationCapability(), url=None),
                ),
                client_info=INFO,
            ),
        ),
        "InitializeRequest",
        HANDSHAKE,
    ),
    (t.InitializedNotification(), "InitializedNotification", HANDSHAKE),
    (t.PingRequest(id=1), "PingRequest", HANDSHAKE),
    (t.ListToolsRequest(id=1, params=None), "ListToolsRequest", HANDSHAKE),
    (
        t.CallToolRequest(id=1, params=t.CallToolRequestParams(name="t", arguments={"a": None})),
        "CallToolRequest",
        HANDSHAKE,
    ),
    (
        t.CallToolRequest(
            id=1,
            params=t.CallToolRequestParams(
                name="t",
                meta=META,
                request_state="s",
                input_responses={
                    "a": t.ElicitResult.accept({"x": 1}),
                    "b": t.CreateMessageResult.from_text("hi", model="m"),
                    "c": t.ListRootsResult(roots=[t.Root(uri="file:///a")]),
                },
            ),
        ),
        "CallToolRequest",
        [V2607],
    ),
    (
        t.SubscriptionsListenRequest(
            id=1,
            params=t.SubscriptionsListenRequestParams(
                meta=META, notifications=t.SubscriptionFilter(tools_list_changed=True)
            ),
        ),
        "SubscriptionsListenRequest",
        [V2607],
    ),
    (t.DiscoverRequest(id=1, params=t.RequestParams(meta=META)), "DiscoverRequest", [V2607]),
    (t.SetLevelRequest(id=1, params=t.SetLevelRequestParams(level="info")), "SetLevelRequest", HANDSHAKE),
    (t.SubscribeRequest(id=1, params=t.SubscribeRequestParams(uri="x:y")), "SubscribeRequest", HANDSHAKE),
    (
        t.CompleteRequest(
            id=1,
            params=t.CompleteRequestParams(
                ref=t.PromptReference(name="p"), argument=t.CompletionArgument(name="a", value="b")
            ),
        ),
        "CompleteRequest",
        HANDSHAKE,
    ),
    (TOOL, "Tool", ALL),
    (t.ListToolsResult(tools=[TOOL], next_cursor=None), "ListToolsResult", HANDSHAKE),
    (
        t.ListToolsResult(tools=[TOOL], result_type="complete", ttl_ms=0, cache_scope="private"),
        "ListToolsResult",
        [V2607],
    ),
    (t.CallToolResult(content=[TEXT, IMAGE], is_error=False), "CallToolResult", HANDSHAKE),
    (
        t.CallToolResult(content=[], structured_content=[1, None], result_type="complete"),
        "CallToolResult",
        [V2607],
    ),
    (t.Resource(uri="x:y", name="n", size=3), "Resource", ALL),
    (t.ResourceTemplate(uri_template="x:{y}", name="n"), "ResourceTemplate", ALL),
    (
        t.EmbeddedResource(resource=t.BlobResourceContents.from_bytes("x:y", b"z")),
        "EmbeddedResource",
        ALL,
    ),
    (t.ResourceLink(uri="x:y", name="n"), "ResourceLink", [V2506, V2511, V2607]),
    (
        t.ReadResourceResult(contents=[t.TextResourceContents(uri="x:y", text="t")]),
        "ReadResourceResult",
        HANDSHAKE,
    ),
    (t.Prompt(name="p", arguments=[t.PromptArgument(name="a", required=True)]), "Prompt", ALL),
    (t.GetPromptResult(messages=[t.PromptMessage(role="user", content=TEXT)]), "GetPromptResult", HANDSHAKE),
    (t.CreateMessageResult.from_text("hi", model="m"), "CreateMessageResult", ALL),
    (
        t.CreateMessageResult(
            content=[TEXT, t.ToolUseContent(id="1", name="t", input={})], model="m", stop_reason="toolUse"
        ),
        "CreateMessageResult",
        [V2511, V2607],
    ),
    (
        t.SamplingMessage(role="user", content=t.ToolResultContent(tool_use_id="1", content=[TEXT])),
        "SamplingMessage",
        [V2511, V2607],
    ),
    (
        t.CreateMessageRequest(
            id=1,
            params=t.CreateMessageRequestParams(
                messages=[t.SamplingMessage(role="user", content=TEXT)],
                max_tokens=5,
                model_preferences=t.ModelPreferences(hints=[t.ModelHint(name="m")], cost_priority=1),
            ),
            jsonrpc="2.0",
        ),
        "CreateMessageRequest",
        ALL,
    ),
    (
        t.ElicitRequest(
            id=1, jsonrpc="2.0", params=t.ElicitRequestFormParams(message="m", requested_schema=SCHEMA)
        ),
        "ElicitRequest",
        [V2506, V2511, V2607],
    ),
    (
        t.ElicitRequest(
            id=1,
            jsonrpc="2.0",
            params=t.ElicitRequestURLParams(message="m", url="https://a.b", elicitation_id="e"),
        ),
        "ElicitRequest",
        [V2511, V2607],
    ),
    (t.ElicitResult.accept({"a": "b", "c": 1, "d": True}), "ElicitResult", [V2506, V2511, V2607]),
    (t.ElicitResult.accept({"a": ["b"]}), "ElicitResult", [V2511, V2607]),
    (t.ElicitResult.cancel(), "ElicitResult", [V2506, V2511, V2607]),
    (t.ListRootsResult(roots=[t.Root.from_path(".", name=None)]), "ListRootsResult", ALL),
    (t.ListRootsRequest(id=1, jsonrpc="2.0"), "ListRootsRequest", ALL),
    (t.RootsListChangedNotification(), "RootsListChangedNotification", HANDSHAKE),
    (t.ToolListChangedNotification(), "ToolListChangedNotification", ALL),
    (
        t.ProgressNotification(
            params=t.ProgressNotificationParams(progress_token=1, progress=0.5, total=None)
        ),
        "ProgressNotification",
        ALL,
    ),
    (
        t.CancelledNotification(params=t.CancelledNotificationParams(request_id=1, reason=None)),
        "CancelledNotification",
        ALL,
    ),
    (
        t.LoggingMessageNotification(params=t.LoggingMessageNotificationParams(level="info", data=None)),
        "LoggingMessageNotification",
        ALL,
    ),
    (
        t.GetTaskResult(
            task_id="1", status="working", created_at="", last_updated_at="", ttl=None, poll_interval=5
        ),
        "GetTaskResult",
        [V2511],
    ),
    (t.CancelTaskRequest(id=1, params=t.CancelTaskRequestParams(task_id="1")), "CancelTaskRequest", [V2511]),
    (
        t.InputRequiredResult(
            input_requests={"a": t.ListRootsRequest(), "b": {"method": "roots/list"}}, request_state=None
        ),
        "InputRequiredResult",
        [V2607],
    ),
    (
        t.HeaderMismatchError(id=1, error={"message": "m"}),
        "HeaderMismatchError",
        [V2607],
    ),
    (
        t.UnsupportedProtocolVersionError(
            id=1,
            error={
                "message": "m",
                "data": t.UnsupportedProtocolVersionErrorData(supported=[V2607], requested="x"),
            },
        ),
        "UnsupportedProtocolVersionError",
        [V2607],
    ),
    (t.StringSchema(min_length=1, format="email"), "StringSchema", [V2506, V2511, V2607]),
    (t.BooleanSchema(default=False), "PrimitiveSchemaDefinition", [V2506, V2511, V2607]),
    (t.NumberSchema(type="integer", minimum=0), "NumberSchema", [V2506, V2511, V2607]),
    (
        t.TitledSingleSelectEnumSchema(one_of=[t.EnumOption(const="a", title="A")]),
        "PrimitiveSchemaDefinition",
        [V2511, V2607],
    ),
    (
        t.UntitledMultiSelectEnumSchema(items=t.EnumItems(enum=["a"]), max_items=1),
        "PrimitiveSchemaDefinition",
        [V2511, V2607],
    ),
]


@pytest.mark.parametrize(
    ("model", "definition", "revision"),
    [(model, definition, revision) for model, definition, revisions in CASES for revision in revisions],
    ids=lambda value: type(value).__name__ if isinstance(value, t.WireModel) else str(value),
)
def test_what_is_built_in_python_is_valid(model: t.WireModel, definition: str, revision: str) -> None:
    wire = json.loads(json.dumps(model.to_wire()))
    validator(revision, definition).validate(wire)
    assert type(model).model_validate(wire).to_wire() == wire
