"""Results of tools as vendors want them told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from .._concurrency.fork import no_fork
from ._names import check_vendor

if TYPE_CHECKING:
    from .. import types
    from ._calls import ToolCall

JSON = dict[str, Any]

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF = "application/pdf"


class Piece(NamedTuple):
    """A piece of a result: text, or data with its MIME type."""

    text: str = ""
    mime_type: str = ""
    data: str = ""
    name: str = ""

    @property
    def is_image(self) -> bool:
        """Whether every vendor can show it."""
        return self.mime_type in _IMAGES

    def told(self) -> str:
        """Return it as text: what cannot be shown is named."""
        if not self.data:
            return self.text
        size = len(self.data) * 3 // 4
        return f"[{self.name or 'data'}, {self.mime_type or 'of no known type'}, {size} bytes: not shown]"


def tool_result(result: types.CallToolResult, call: ToolCall, vendor: str) -> list[JSON]:
    """Return the result of a tool in the format of a vendor: its block, item, part or message.

    Text, images and PDF files are passed on where the vendor takes them in results, everything else is named.
    Structured content is told where there is no text. Errors are marked, or begin with "Error:".
    Chat Completions take no images in the messages of tools: a message of the user follows that has them, and
    belongs behind the messages of all tools (`tool_results` sees to that).

    Args:
        result: The result.
        call: The call that it belongs to.
        vendor: The format; see `mcp_sync.llm`.

    Raises:
        UsageError: There is no such format.
    """
    return _WRITERS[check_vendor(vendor)](result, call)


def tool_results(results: Iterable[tuple[ToolCall, types.CallToolResult]], vendor: str) -> list[JSON]:
    """Return the results of all calls of one response, in order. See `tool_result`."""
    made = [each for call, result in results for each in tool_result(result, call, vendor)]
    if vendor == "openai-chat":
        # All calls must be answered before anybody else says something.
        made.sort(key=lambda message: message["role"] != "tool")
    return made


def pieces_of(result: types.CallToolResult) -> list[Piece]:
    """Return the pieces of a result; never empty texts."""
    found = [piece for block in result.content for piece in _pieces(block)]
    if result.structured_content is not None and not any(piece.text for piece in found):
        found.insert(0, Piece(json.dumps(result.structured_content, ensure_ascii=False)))
    return [piece for piece in found if piece.text.strip() or piece.data]


def _pieces(block: Any) -> Iterator[Piece]:
    with no_fork():
        from ..types import content
    kind = getattr(block, "type", "")
    # What does not have the shape of its kind is an unknown block.
    if isinstance(block, content.TextContent):
        yield Piece(block.text)
    elif isinstance(block, (content.ImageContent, content.AudioContent)):
        yield _data(block.mime_type, block.data, kind)
    elif isinstance(block, content.ResourceLink):
        about = f": {block.description}" if block.description else ""
        yield Piece(f"[{block.title or block.name}: {block.uri}]{about}")
    elif isinstance(block, content.EmbeddedResource):
        yield from _resource(block.resource)
    else:
        yield Piece(f"[{kind or 'something unknown'}: not shown]")


def _resource(resource: Any) -> Iterator[Piece]:
    if isinstance(getattr(resource, "text", None), str):
        yield Piece(f"{resource.uri}\n{resource.text}")
    elif isinstance(getattr(resource, "blob", None), str):
        yield _data(resource.mime_type or "", resource.blob, str(resource.uri))


def _data(mime_type: str, data: str, name: str) -> Piece:
    with no_fork():
        from ..types._binary import decode_base64, encode_base64
    try:
        # Vendors want the one form of base64, without line breaks.
        clean = encode_base64(decode_base64(data))
    except ValueError:
        return Piece(f"[{name}: cannot be decoded]")
    kind = mime_type.split(";")[0].strip().lower()
    return Piece("", "image/jpeg" if kind == "image/jpg" else kind, clean, name)


def _joined(pieces: Iterable[Piece]) -> str:
    return "\n".join(piece.told() for piece in pieces)


def _anthropic(result: types.CallToolResult, call: ToolCall) -> list[JSON]:
    pieces = pieces_of(result)
    made: JSON = {"type": "tool_result", "tool_use_id": call.id}
    if result.is_error:
        # An error may hold nothing but text.
        text = _joined(pieces) or "The tool failed and does not say why."
        return [{**made, "content": [{"type": "text", "text": text}], "is_error": True}]
    return [{**made, "content": [_anthropic_block(piece) for piece in pieces]}]


def _anthropic_block(piece: Piece) -> JSON:
    if piece.is_image or piece.mime_type == _PDF:
        source = {"type": "base64", "media_type": piece.mime_type, "data": piece.data}
        return {"type": "image" if piece.is_image else "document", "source": source}
    return {"type": "text", "text": piece.told()}


def _with_error(result: types.CallToolResult, text: str) -> str:
    return f"Error: {text or 'the tool failed and does not say why'}" if result.is_error else text


def _openai(result: types.CallToolResult, call: ToolCall) -> list[JSON]:
    pieces = pieces_of(result)
    made: JSON = {"type": "function_call_output", "call_id": call.id}
    if result.is_error or not any(piece.is_image or piece.mime_type == _PDF for piece in pieces):
        return [{**made, "output": _with_error(result, _joined(pieces))}]
    return [{**made, "output": [_openai_block(piece) for piece in pieces]}]


def _openai_block(piece: Piece) -> JSON:
    url = f"data:{piece.mime_type};base64,{piece.data}"
    if piece.is_image:
        return {"type": "input_image", "image_url": url}
    if piece.mime_type == _PDF:
        return {"type": "input_file", "filename": "result.pdf", "file_data": url}
    return {"type": "input_text", "text": piece.told()}


def _openai_chat(result: types.CallToolResult, call: ToolCall) -> list[JSON]:
    pieces = pieces_of(result)
    images = [] if result.is_error else [piece for piece in pieces if piece.is_image]
    texts = [piece for piece in pieces if piece not in images]
    told = [_joined(texts)] if texts else []
    if images:
        told.append(f"[{len(images)} image(s) of this result follow in a message of the user]")
    content = _with_error(result, "\n".join(told))
    made: list[JSON] = [{"role": "tool", "tool_call_id": call.id, "content": content}]
    if images:
        shown: list[JSON] = [{"type": "text", "text": f"Images of the result of {call.name} ({call.id}):"}]
        for piece in images:
            url = f"data:{piece.mime_type};base64,{piece.data}"
            shown.append({"type": "image_url", "image_url": {"url": url}})
        made.append({"role": "user", "content": shown})
    return made


def _gemini(result: types.CallToolResult, call: ToolCall) -> list[JSON]:
    pieces = pieces_of(result)
    media = [] if result.is_error else [piece for piece in pieces if _gemini_takes(piece)]
    text = _joined(piece for piece in pieces if piece not in media)
    if result.is_error:
        response: JSON = {"error": text or "The tool failed and does not say why."}
    else:
        structured = result.structured_content
        response = {"output": text if structured is None else structured}
    made: JSON = {"name": call.name, "response": response}
    if call.id:
        made["id"] = call.id
    if media:
        made["parts"] = [{"inlineData": {"mimeType": each.mime_type, "data": each.data}} for each in media]
    return [{"functionResponse": made}]


def _gemini_takes(piece: Piece) -> bool:
    return piece.mime_type == _PDF or (piece.is_image and piece.mime_type != "image/gif")


def _anybody(result: types.CallToolResult, call: ToolCall) -> list[JSON]:
    content = [block.to_wire() for block in result.content]
    made: JSON = {"id": call.id, "name": call.name, "content": content, "is_error": result.is_error}
    if result.structured_content is not None:
        made["structured_content"] = result.structured_content
    return [made]


_WRITERS = {
    "anthropic": _anthropic,
    "openai": _openai,
    "openai-chat": _openai_chat,
    "gemini": _gemini,
    "plain": _anybody,
}
