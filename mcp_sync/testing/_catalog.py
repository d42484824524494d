"""What a fake server offers: tools, resources, templates and prompts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Literal, Optional, Union

from . import _functions
from ._functions import Function

JSON = dict[str, Any]

_VARIABLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class FakeTool:
    """A tool with more to it than its function tells.

    Attributes:
        function: Called with the arguments by name, and with a `ToolContext` if its first parameter is
            named ``context``.
        name: The name, default: the function's.
        description: Default: the first paragraph of the docstring.
        input_schema: Default: derived from the signature.
        output_schema: The schema of the structured content, ``None`` for none.
        extra: Further members of the tool on the wire (``title``, ``annotations``, ``_meta``, ...).
        task: ``True`` to run it as a task where the client can do with one, ``"required"`` to refuse all
            other clients. It decides by itself when to go on: by events of the test, for example.
        ui: The URI of the page that shows its results, or all that ``_meta.ui`` says. Only clients that have
            declared apps see it.
    """

    function: Function
    name: str = ""
    description: Optional[str] = None
    input_schema: Optional[JSON] = None
    output_schema: Optional[JSON] = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    task: Union[bool, Literal["required"]] = False
    ui: Union[str, Mapping[str, Any], None] = None

    def named(self, name: str) -> FakeTool:
        """Return this tool under a name, with everything filled in that can be derived."""
        schema = self.input_schema
        return replace(
            self,
            name=self.name or name,
            description=self.description or _functions.first_paragraph(self.function),
            input_schema=schema if schema is not None else _functions.input_schema(self.function),
        )

    def wire(self, task_support: Optional[str] = None, shows_apps: bool = False) -> JSON:
        """Return the tool as ``tools/list`` shows it, with what the client knows of tasks and apps."""
        shown: JSON = {"name": self.name, "inputSchema": self.input_schema}
        if self.description:
            shown["description"] = self.description
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        if task_support is not None:
            shown["execution"] = {"taskSupport": task_support}
        shown.update(self.extra)
        if shows_apps and self.ui is not None:
            ui = {"resourceUri": self.ui} if isinstance(self.ui, str) else dict(self.ui)
            shown["_meta"] = {**shown.get("_meta", {}), "ui": ui}
        return shown


@dataclass(frozen=True)
class FakePrompt:
    """A prompt with more to it than its function tells; the attributes are those of `FakeTool`."""

    function: Function
    name: str = ""
    description: Optional[str] = None
    arguments: Optional[list[JSON]] = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def named(self, name: str) -> FakePrompt:
        """Return this prompt under a name, with everything filled in that can be derived."""
        return FakePrompt(
            self.function,
            self.name or name,
            self.description or _functions.first_paragraph(self.function),
            self.arguments if self.arguments is not None else _functions.prompt_arguments(self.function),
            self.extra,
        )

    def wire(self) -> JSON:
        """Return the prompt as ``prompts/list`` shows it."""
        shown: JSON = {"name": self.name, "arguments": self.arguments}
        if self.description:
            shown["description"] = self.description
        return {**shown, **self.extra}


@dataclass(frozen=True)
class FakeResource:
    """A resource, or a template if its URI holds ``{variables}``.

    Attributes:
        content: Text, bytes, contents in the protocol's shape, or a function that returns one of these.
            It is called with the template's variables by name.
        name: Default: the end of the URI.
        mime_type: Default: ``text/plain`` for text, none for anything else.
        extra: Further members on the wire.
    """

    content: Any
    name: str = ""
    mime_type: Optional[str] = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def at(self, uri: str) -> FakeResource:
        """Return this resource with everything filled in that can be derived."""
        mime_type = self.mime_type or ("text/plain" if isinstance(self.content, str) else None)
        name = self.name or _VARIABLE.sub("", uri).rstrip("/").rsplit("/", 1)[-1]
        return FakeResource(self.content, name, mime_type, self.extra)

    def wire(self, uri: str) -> JSON:
        """Return the resource as ``resources/list`` or ``resources/templates/list`` shows it."""
        shown: JSON = {"uriTemplate" if is_template(uri) else "uri": uri, "name": self.name}
        if self.mime_type is not None:
            shown["mimeType"] = self.mime_type
        if isinstance(self.content, (str, bytes)):
            shown["size"] = len(self.content.encode() if isinstance(self.content, str) else self.content)
        return {**shown, **self.extra}


Tools = Union[Mapping[str, Union[Function, FakeTool]], Iterable[Union[Function, FakeTool]], None]
Prompts = Union[Mapping[str, Union[Function, FakePrompt]], Iterable[Union[Function, FakePrompt]], None]
Resources = Optional[Mapping[str, Any]]


def named_items(kind: str, items: Any, wrap: Callable[[Any], Any]) -> dict[str, Any]:
    """Bring a mapping of names, or a plain sequence, of functions into one form.

    Raises:
        TypeError: It is neither, or holds something else.
    """
    if items is not None and (isinstance(items, (str, bytes)) or not isinstance(items, Iterable)):
        shown = getattr(items, "__name__", type(items).__name__)
        raise TypeError(f"{kind} must be a list of functions or a mapping of names to them, not {shown}")
    pairs = items.items() if isinstance(items, Mapping) else [("", item) for item in items or ()]
    found = {}
    for name, item in pairs:
        wrapped = wrap(item)
        if not callable(wrapped.function):
            raise TypeError(f"{kind} must be functions, not {wrapped.function!r}")
        ready = wrapped.named(name or getattr(wrapped.function, "__name__", ""))
        found[name or ready.name] = ready
    return found


def as_tool(item: Any) -> FakeTool:
    """Wrap a plain function."""
    return item if isinstance(item, FakeTool) else FakeTool(item)


def as_prompt(item: Any) -> FakePrompt:
    """Wrap a plain function."""
    return item if isinstance(item, FakePrompt) else FakePrompt(item)


def resources_by_uri(items: Any) -> dict[str, FakeResource]:
    """Wrap the contents of a mapping.

    Raises:
        TypeError: It is none.
    """
    if items is not None and not isinstance(items, Mapping):
        raise TypeError(f"resources must be a mapping of URIs to contents, not {type(items).__name__}")
    return {uri: as_resource(uri, item) for uri, item in (items or {}).items()}


def as_resource(uri: str, item: Any) -> FakeResource:
    """Wrap plain content."""
    return (item if isinstance(item, FakeResource) else FakeResource(item)).at(uri)


def is_template(uri: str) -> bool:
    """Whether a URI holds variables."""
    return "{" in uri


def match_template(template: str, uri: str) -> Optional[dict[str, str]]:
    """Return the variables with which a template gives ``uri``, ``None`` if it does not."""
    parts = _VARIABLE.split(template)
    pattern = "".join(
        f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts)
    )
    match = re.fullmatch(pattern, uri)
    return match.groupdict() if match else None
