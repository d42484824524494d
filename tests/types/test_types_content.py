"""Helpers of results and content blocks."""

from __future__ import annotations

import pytest

from mcp_sync.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    CreateMessageResult,
    EmbeddedResource,
    ImageContent,
    ReadResourceResult,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolUseContent,
)


def test_the_text_of_a_result_joins_its_text_blocks() -> None:
    result = CallToolResult(
        content=[
            TextContent(text="a"),
            ImageContent(data="", mime_type="image/png"),
            EmbeddedResource(resource=TextResourceContents(uri="x:y", text="not this")),
            TextContent(text="b"),
        ]
    )
    assert result.text == "a\nb"
    assert CallToolResult(content=[]).text == ""


def test_the_text_of_a_resource_joins_its_texts() -> None:
    result = ReadResourceResult.model_validate(
        {
            "contents": [
                {"uri": "x:1", "text": "a"},
                {"uri": "x:2", "blob": "AA=="},
                {"uri": "x:3", "text": "b"},
            ]
        }
    )
    assert result.text == "a\nb"
    assert isinstance(result.contents[1], BlobResourceContents)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xfb\xff\xfe", bytes(range(256))])
def test_bytes_go_in_and_out(data: bytes) -> None:
    assert ImageContent.from_bytes(data, "image/png").as_bytes() == data
    assert AudioContent.from_bytes(data, "audio/wav").as_bytes() == data
    assert BlobResourceContents.from_bytes("x:y", data).as_bytes() == data


@pytest.mark.parametrize("text", ["+//+", "-__-", "+/\n/+\r\n", " +//+ "])
def test_base64_is_read_in_the_forms_that_occur(text: str) -> None:
    assert ImageContent(data=text, mime_type="image/png").as_bytes() == b"\xfb\xff\xfe"


def test_base64_without_padding_is_read() -> None:
    assert BlobResourceContents(uri="x:y", blob="AAE").as_bytes() == b"\x00\x01"


@pytest.mark.parametrize("text", ["!", "AAAAA", "\u00e9\u00e9"])
def test_what_is_not_base64_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        AudioContent(data=text, mime_type="audio/wav").as_bytes()


def test_blocks_are_told_apart_by_their_type() -> None:
    message = {
        "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "", "mimeType": "image/png"},
            {"type": "audio", "data": "", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "x:y", "name": "n"},
            {"type": "resource", "resource": {"uri": "x:y", "text": ""}},
        ]
    }
    result = CallToolResult.model_validate(message)
    kinds = [TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource]
    assert [type(block) for block in result.content] == kinds
    assert result.to_wire() == message


def test_one_block_or_many_can_be_read_alike() -> None:
    block = TextContent(text="a")
    use = ToolUseContent(id="1", name="t", input={})
    assert SamplingMessage(role="user", content=block).content_as_list == [block]
    result = CreateMessageResult(content=[block, use], model="m")
    assert result.content_as_list == [block, use]
    received = CreateMessageResult.model_validate(result.to_wire())
    assert [type(part) for part in received.content_as_list] == [TextContent, ToolUseContent]
