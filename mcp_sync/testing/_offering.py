"""What a fake server gets to offer after it has been made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Optional, Union, overload

from . import _catalog, _extensions, _skills
from ._catalog import FakePrompt, FakeResource, FakeTool
from ._functions import Function
from ._rpc import Message
from ._skills import FakeSkill


class Offering:
    """What `FakeServer` inherits: methods that add tools, resources, prompts, skills and apps.

    None of them tells the clients: that is for `FakeServer.tools_changed` and its like.

    Attributes:
        tools, prompts, resources, skills: What is offered, by name or URI.
    """

    tools: dict[str, FakeTool]
    prompts: dict[str, FakePrompt]
    resources: dict[str, FakeResource]
    skills: dict[str, FakeSkill]

    @overload
    def tool(self, function: Function, /) -> Function: ...

    @overload
    def tool(self, function: None = None, /, **details: Any) -> Callable[[Function], Function]: ...

    def tool(self, function: Optional[Function] = None, /, **details: Any) -> Any:
        """Decorate a function that is a tool; without details also as ``@server.tool``.

        ::

            @server.tool(task=True)
            def report(context, month: str) -> str:
                context.status("collecting")
                go_on.wait(10)  # an event of the test
                return "done"

        Args:
            function: The function.
            **details: Attributes of `FakeTool`.
        """
        if function is not None:
            self.add_tool(function)
            return function

        def add(function: Function) -> Function:
            self.add_tool(FakeTool(function, **details))
            return function

        return add

    def add_tool(self, tool: Union[Function, FakeTool], name: str = "") -> None:
        """Add a tool, or replace the one of that name.

        Raises:
            TypeError: ``tool`` is no function and no `FakeTool`.
        """
        _check_order("add_tool", tool, name)
        self.tools = {
            **self.tools,
            **_catalog.named_items("tools", {name: tool} if name else [tool], _catalog.as_tool),
        }

    def remove_tool(self, name: str) -> None:
        """Take a tool away."""
        self.tools = {key: tool for key, tool in self.tools.items() if key != name}

    def add_resource(self, uri: str, content: Any) -> None:
        """Add a resource or a template, or replace the one of that URI."""
        self.resources = {**self.resources, uri: _catalog.as_resource(uri, content)}

    def add_prompt(self, prompt: Union[Function, FakePrompt], name: str = "") -> None:
        """Add a prompt, or replace the one of that name.

        Raises:
            TypeError: ``prompt`` is no function and no `FakePrompt`.
        """
        _check_order("add_prompt", prompt, name)
        added = _catalog.named_items("prompts", {name: prompt} if name else [prompt], _catalog.as_prompt)
        self.prompts = {**self.prompts, **added}

    def add_skill(
        self,
        path: str,
        text: str = "Do as you see fit.",
        *,
        description: str = "A skill",
        files: Optional[Mapping[str, Union[str, bytes]]] = None,
        frontmatter: Optional[Mapping[str, Any]] = None,
        listed: bool = True,
        dynamic: bool = False,
        alter: Optional[Callable[[Message], Message]] = None,
    ) -> str:
        """Add a skill, or replace the one of that path.

        ::

            uri = server.add_skill("acme/refunds", "# Refunds", files={"templates/mail.md": "Dear ..."})

        Its files are resources. `add_resource` can replace one of them, so that it no longer fits its digest.

        Args:
            path: Where it is; its last part is the name. With ``://`` it is a whole URI, otherwise ``skill://``
                comes in front.
            text: What stands in its ``SKILL.md`` below the front matter.
            description: What it is for.
            files: Its other files by their paths. One named ``SKILL.md`` replaces the whole of that file.
            frontmatter: Further fields of the front matter.
            listed: Whether ``skills/list`` shows it.
            dynamic: Whether its entry has no digests.
            alter: Called with its entry, returns what clients see instead: wrong digests, sizes or paths.

        Returns:
            The URI of its ``SKILL.md``.
        """
        skill = _skills.make(
            path,
            text,
            description,
            files or {},
            frontmatter or {},
            listed=listed,
            dynamic=dynamic,
            alter=alter,
        )
        added = {uri: resource.at(uri) for uri, resource in skill.resources().items()}
        self.resources = {**self.resources, **added}
        self.skills = {**self.skills, skill.uri: skill}
        return skill.uri

    def add_app(self, uri: str, html: str, *, name: str = "", **ui: Any) -> None:
        """Add the page of an app, or replace the one of that URI.

        ::

            server.add_app("ui://weather/board", "<!DOCTYPE html>...", csp={"connectDomains": ["https://a.example"]})
            server.add_tool(FakeTool(forecast, ui="ui://weather/board"))

        Args:
            uri: Where it is: ``ui://...``.
            html: The page.
            name: Default: the end of the URI.
            **ui: What ``_meta.ui`` says: ``csp``, ``permissions``, ``domain``, ``prefersBorder``.
        """
        content: Message = {"text": html, **({"_meta": {"ui": ui}} if ui else {})}
        self.add_resource(uri, FakeResource(content, name, _extensions.APP_TYPE))


def _check_order(method: str, item: Any, name: Any) -> None:
    if isinstance(item, str) or not isinstance(name, str):
        shown = repr(item) if isinstance(item, str) else '"name"'
        raise TypeError(
            f"{method} takes the function first, and then its name: {method}(function, {shown:.80})"
        )
