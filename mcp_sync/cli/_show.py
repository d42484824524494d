"""How things look on the screen: tools, results, resources and prompts as short plain text.

Everything here returns strings. What a server sent is cleaned before it reaches a terminal: an escape
sequence in it could recolour, rewrite or even drive the terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from .. import types
from .._protocol.visible import clean as clean

_SHORT = 96
# What JSON lets stand in its strings, and a terminal obeys or shows in another order.
_EFFECTIVE = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def echo(text: str) -> None:
    """Print to standard output: cleaned on a terminal, letter by letter into a pipe or a file."""
    if sys.stdout.isatty():
        click.echo(clean(text.replace("\r\n", "\n")))
    else:
        # click would take colours out.
        click.echo(text, color=True)


def heading(text: str) -> None:
    """Print a text whose first line stands out on a terminal."""
    first, line_break, rest = clean(text).partition("\n")
    click.echo(click.style(first, bold=True) + line_break + rest)


def echo_json(value: Any) -> None:
    """Print one JSON document to standard output."""
    utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, indent=2, ensure_ascii=not utf8)
    click.echo(_EFFECTIVE.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


def indent(text: str, by: int = 2) -> str:
    """Move each line to the right; lines without text stay empty."""
    return "\n".join(f"{' ' * by}{line}" if line else "" for line in text.splitlines())


# --- what a server offers ---------------------------------------------------------------------------------


def tool_text(tool: types.Tool) -> str:
    """Return a tool as a signature, with its description below."""
    signature = f"{tool.name}({', '.join(_parameters(tool.input_schema))})"
    if tool.output_schema:
        signature += f" -> {{{', '.join(_parameters(tool.output_schema))}}}"
    return _described(signature, tool.description or tool.title)


def resource_text(resource: types.Resource) -> str:
    """Return a resource as its URI and kind."""
    kind = f" [{resource.mime_type}]" if resource.mime_type else ""
    return _described(resource.uri + kind, resource.description or resource.title)


def template_text(template: types.ResourceTemplate) -> str:
    """Return a resource template as its URI and kind."""
    kind = f" [{template.mime_type}]" if template.mime_type else ""
    return _described(template.uri_template + kind, template.description or template.title)


def prompt_text(prompt: types.Prompt) -> str:
    """Return a prompt as a signature, with its description below."""
    arguments = [item.name if item.required else f"{item.name}?" for item in prompt.arguments or ()]
    return _described(f"{prompt.name}({', '.join(arguments)})", prompt.description or prompt.title)


def _described(line: str, description: Any) -> str:
    # A name with a line break must not look like the names of two.
    line = line.replace("\n", "\\n")
    return f"{line}\n{indent(str(description).strip(), 4)}" if description else line


def _parameters(schema: Mapping[str, Any]) -> list[str]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    required = schema.get("required")
    required = required if isinstance(required, Sequence) else ()
    # What must be given comes first; otherwise the server's order.
    names = sorted(properties, key=lambda name: name not in required)
    return [_parameter(name, properties[name], name in required) for name in names]


def _parameter(name: str, schema: Any, required: bool) -> str:
    kind = type_name(schema)
    shown = f"{name}: {kind}" if kind else str(name)
    if required:
        return shown
    if isinstance(schema, Mapping) and schema.get("default") is not None:
        return f"{shown} = {json.dumps(schema['default'], ensure_ascii=False)}"
    return f"{name}?: {kind}" if kind else f"{name}?"


def type_name(schema: Any) -> str:
    """Return the type that a schema admits, in a few words; empty if it does not say."""
    if not isinstance(schema, Mapping):
        return ""
    if isinstance(schema.get("enum"), list):
        return "|".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"{type_name(schema.get('items')) or 'any'}[]"
    if isinstance(kind, str):
        return kind
    if isinstance(kind, list):
        return "|".join(str(each) for each in kind)
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return "|".join(dict.fromkeys(type_name(each) or "any" for each in schema[word]))
    reference = schema.get("$ref")
    return reference.rsplit("/", 1)[-1] if isinstance(reference, str) else ""


# --- what a server answered -------------------------------------------------------------------------------


def result_text(result: types.CallToolResult) -> str:
    """Return what a tool answered: its content, and its structured content if that says more."""
    parts = [block_text(block) for block in result.content]
    if result.structured_content is not None and not _told(result):
        parts.append(compact_json(result.structured_content))
    return "\n".join(parts)


def _told(result: types.CallToolResult) -> bool:
    """Whether the content already says what the structured content says."""
    structured, text = result.structured_content, result.text
    values: list[Any] = [text]
    try:
        values.append(json.loads(text))
    except ValueError:
        pass
    if structured in values:
        return True
    if not isinstance(structured, dict) or len(structured) != 1:
        return False
    # What is no object is wrapped into one: by the official SDK as {"result": ...}, by others a list or a
    # text (a file that was read, say) under names of their own.
    ((name, only),) = structured.items()
    return only in values and (name == "result" or isinstance(only, (list, str)))


def block_text(block: Any) -> str:
    """Return a content block as text; what is no text is named, with its kind and size."""
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, (types.ImageContent, types.AudioContent)):
        return f"[{block.type} {block.mime_type}, {_size(block.data)}]"
    if isinstance(block, types.ResourceLink):
        return f"[link {block.uri}]"
    if isinstance(block, types.EmbeddedResource):
        return piece_text(block.resource)
    return compact_json(block.to_wire())


def contents_text(result: types.ReadResourceResult) -> str:
    """Return what was read."""
    return "\n".join(piece_text(piece) for piece in result.contents)


def piece_text(piece: Any) -> str:
    """Return one piece of a resource."""
    if isinstance(piece, types.TextResourceContents):
        return piece.text
    if isinstance(piece, types.BlobResourceContents):
        return f"[resource {piece.uri}, {piece.mime_type or 'bytes'}, {_size(piece.blob)}]"
    return compact_json(piece.to_wire())


def messages_text(messages: Iterable[types.PromptMessage]) -> str:
    """Return the messages of a prompt, each with its role."""
    return "\n".join(f"{message.role}: {block_text(message.content)}" for message in messages)


def compact_json(value: Any) -> str:
    """Return JSON on one line if it is short, else indented."""
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= _SHORT else json.dumps(value, ensure_ascii=False, indent=2)


def _size(base64: str) -> str:
    return f"{len(base64.rstrip('=')) * 3 // 4} bytes"
