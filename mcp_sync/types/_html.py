"""Tools, results and lists for notebooks. What a server sent is text there, never markup."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from mcp_sync.types._binary import decode_base64, encode_base64
from mcp_sync.types._contents import resources_in

__all__ = ["list_html", "progress_html", "result_html", "tool_html"]

_LONGEST = 20_000
_LARGEST = 8 * 1024 * 1024
_MANY = 200
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_SOUNDS = re.compile("audio/(?:wav|x-wav|mpeg|mp3|ogg|flac|webm|mp4|aac)")
_PRE = "white-space:pre-wrap;text-align:left;margin:0"


def escaped(value: Any) -> str:
    """Return text for HTML, cut if it is very long; characters that nobody sees are shown."""
    text = str(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... ({len(text) - _LONGEST} more characters)"
    shown = "".join(char if char in "\n\t" or _is_seen(char) else "\ufffd" for char in text)
    return html.escape(shown, quote=True)


def _is_seen(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co")


def _page(body: str) -> str:
    # Without these classes notebooks look for formulas in the text, and run what they find.
    return f'<div class="mathjax_ignore tex2jax_ignore">{body}</div>'


def _pre(text: Any) -> str:
    return f'<pre style="{_PRE}">{escaped(text)}</pre>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells are HTML."""
    top = "".join(f"<th>{escaped(each)}</th>" for each in head)
    body = "".join(
        f"<tr>{''.join(f'<td style={chr(34)}text-align:left{chr(34)}>{cell}</td>' for cell in row)}</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def tool_html(tool: Any) -> str:
    """Return a tool with its arguments."""
    properties = tool.input_schema.get("properties")
    needed = tool.input_schema.get("required")
    rows = []
    for key, schema in list(properties.items() if isinstance(properties, dict) else ())[:_MANY]:
        about = schema if isinstance(schema, dict) else {}
        mark = "yes" if isinstance(needed, list) and key in needed else ""
        rows.append((_code(key), escaped(about.get("type", "")), mark, escaped(about.get("description", ""))))
    title = f" {escaped(tool.title)}" if tool.title else ""
    table = _table(("argument", "type", "required", ""), rows) if rows else "<p>No arguments.</p>"
    return _page(f"<p>{_code(tool.name)}{title}</p>{_pre(tool.description or '')}{table}")


def _code(text: Any) -> str:
    return f"<code>{escaped(text)}</code>"


def progress_html(progress: Any, total: Any, message: Any) -> str:
    """Return a bar; one that only says "busy" if it is not known how far there is to go."""
    size = f'value="{float(progress):g}" max="{float(total):g}"' if total and total > 0 else ""
    told = f"{float(progress):g}" + (f" of {float(total):g}" if total else "")
    return _page(f"<progress {size}></progress> <span>{told} {escaped(message or '')}</span>")


def list_html(items: Sequence[Any], address: str) -> str:
    """Return a table of tools, resources or prompts.

    Args:
        items: The list.
        address: The field that names what can be called or read.
    """
    rows = [
        (_code(getattr(item, address)), escaped(item.title or ""), escaped(item.description or ""))
        for item in items[:_MANY]
    ]
    more = f"<p>{len(items) - _MANY} more</p>" if len(items) > _MANY else ""
    return _page(_table((address.replace("_", " "), "title", "description"), rows) + more)


def result_html(result: Any, blocks: Iterable[Any]) -> str:
    """Return a result with its texts, images and sounds."""
    parts = []
    if getattr(result, "is_error", False):
        parts.append('<p style="color:#b00020"><strong>The tool failed.</strong></p>')
    roles = [getattr(message, "role", "") for message in getattr(result, "messages", ())]
    shown = list(blocks)
    for index, block in enumerate(shown[:_MANY]):
        role = f"<p><strong>{escaped(roles[index])}</strong></p>" if index < len(roles) else ""
        parts.append(role + _block(block))
    if len(shown) > _MANY:
        parts.append(f"<p>{len(shown) - _MANY} more</p>")
    structured = getattr(result, "structured_content", None)
    if structured is not None:
        text = json.dumps(structured, indent=2, ensure_ascii=False, default=str)
        parts.append(f"<details><summary>structured content</summary>{_pre(text)}</details>")
    return _page("".join(parts))


def _block(block: Any) -> str:
    kind = getattr(block, "type", "")
    if kind == "text":
        return _pre(getattr(block, "text", ""))
    if kind in ("image", "audio"):
        return _media(getattr(block, "mime_type", ""), getattr(block, "data", ""), kind)
    if kind == "resource_link":
        # No link: where it leads is the server's choice.
        name = getattr(block, "title", None) or getattr(block, "name", "")
        return f"<p>{escaped(name)}: {_code(getattr(block, 'uri', ''))}</p>"
    resource = next(resources_in([block]), None)
    if resource is None:
        return f"<p>[{escaped(kind or 'something unknown')}]</p>"
    head = f"<p>{_code(resource.uri)}</p>"
    if isinstance(getattr(resource, "text", None), str):
        return head + _pre(resource.text)
    return head + _media(resource.mime_type or "", getattr(resource, "blob", ""), "resource")


def _media(mime_type: Any, data: Any, kind: str) -> str:
    mime, text = str(mime_type or "").lower(), data if isinstance(data, str) else ""
    told = (
        f"<p>[{escaped(kind)}, {escaped(mime or 'of no known type')}, about {len(text) * 3 // 4} bytes]</p>"
    )
    is_image, is_sound = mime in _IMAGES, _SOUNDS.fullmatch(mime) is not None
    if len(text) > _LARGEST or not (is_image or is_sound):
        return told
    try:
        # Decoded and encoded again, it is nothing but base64.
        clean = encode_base64(decode_base64(text))
    except ValueError:
        return told
    source = f'src="data:{mime};base64,{clean}"'
    if is_image:
        return f'<img {source} style="max-width:100%" alt="image">'
    return f"<audio controls {source}></audio>"
