"""What a shell completes: names of servers, and of what they have. Silent, bounded, kept for a while."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any, Callable, Optional

import click

_SECONDS = 2.0
_KEPT = 300.0
# A server that did not answer may be up by then, or somebody logged in; each key pressed need not ask it.
_KEPT_FAILURE = 15.0
_MOST = 500

# A longer name is no help to anybody.
_LONGEST = 200


def servers_first(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a server, where one is still to be named."""
    return [] if context.params.get("words") else _servers(context, incomplete)


def tool_words(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a server, then that of a tool, then the names of its arguments."""
    words: tuple[str, ...] = context.params.get("words") or ()
    if len(words) < 2:
        return _second(context, incomplete, "tools")
    known = _offered(context, words[0]).get("arguments", {}).get(words[1], [])
    return [f"{name}=" for name in known if name.startswith(incomplete)]


def prompt_words(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a server, then that of a prompt."""
    return _second(context, incomplete, "prompts")


def resource_words(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a server, then the URI of a resource."""
    return _second(context, incomplete, "resources")


def _second(context: click.Context, incomplete: str, kind: str) -> list[str]:
    words = context.params.get("words") or ()
    if not words:
        return _servers(context, incomplete)
    if len(words) > 1:
        return []
    found: list[str] = _offered(context, words[0]).get(kind, [])
    return [name for name in found if name.startswith(incomplete)]


def _servers(context: click.Context, incomplete: str) -> list[str]:
    def names() -> list[str]:
        from ..config import load_config
        from ._configuration import config_file

        path = config_file(context.params.get("config"))
        if path is None:
            return []
        return [name for name in load_config(path, timeout=_SECONDS).servers if _is_plain(name)]

    return [name for name in _silently(names, []) if name.startswith(incomplete)]


def _offered(context: click.Context, word: str) -> dict[str, Any]:
    """Return the names of what a server has, those that are kept or those of now."""
    found: dict[str, Any] = _silently(lambda: _kept_or_asked(context, word), {})
    return found


def _silently(ask: Callable[[], Any], otherwise: Any) -> Any:
    """Return what ``ask`` does. Nothing may be printed into a line that somebody is typing."""
    import logging

    logging.disable(logging.CRITICAL)
    try:
        return ask()
    except (Exception, KeyboardInterrupt):
        return otherwise
    finally:
        logging.disable(logging.NOTSET)


def _kept_or_asked(context: click.Context, word: str) -> dict[str, Any]:
    from ._budget import Budget
    from ._logins import home
    from ._options import CommonOptions
    from ._targets import named_server

    params = context.params
    options = CommonOptions(
        headers=tuple(params.get("headers") or ()),
        mode=params.get("mode"),
        config=params.get("config"),
        budget=Budget(_SECONDS),
    )
    server = named_server(options, [word], may_ask=False)[0]
    if server.url is None:
        return {}  # A shell that completes a word must not start programs.
    name = json.dumps([server.url, sorted(options.headers), options.mode])
    path = home() / "completion" / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"
    found = _kept(path)
    if found is None:
        found = _silently(lambda: _asked(server, options), {})
        _keep(path, found)
    return found


def _kept(path: Path) -> Optional[dict[str, Any]]:
    try:
        age = time.time() - path.stat().st_mtime
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    # From the future: the clock was set back since.
    is_fresh = 0 <= age < (_KEPT if found else _KEPT_FAILURE)
    return found if is_fresh and isinstance(found, dict) else None


def _keep(path: Path, found: dict[str, Any]) -> None:
    from ._logins import write_private

    for old in path.parent.glob("*.json"):
        if time.time() - old.stat().st_mtime > _KEPT:
            old.unlink(missing_ok=True)
    write_private(path, json.dumps(found))


def _asked(server: Any, options: Any) -> dict[str, Any]:
    budget = options.budget
    found: dict[str, Any] = {"arguments": {}}
    with budget.closing(server.client(options)) as client:
        client.open(**budget.left())
        offered = client.server_capabilities
        if offered.tools is not None:
            tools = client.list_tools(**budget.left()).tools
            found["tools"] = _names(tool.name for tool in tools)
            found["arguments"] = {tool.name: _names(_properties(tool)) for tool in tools[:_MOST]}
        if offered.prompts is not None:
            found["prompts"] = _names(prompt.name for prompt in client.list_prompts(**budget.left()).prompts)
        if offered.resources is not None:
            resources = client.list_resources(**budget.left()).resources
            found["resources"] = _names(resource.uri for resource in resources)
    return found


def _properties(tool: Any) -> list[str]:
    properties = tool.input_schema.get("properties")
    return list(properties) if isinstance(properties, dict) else []


def _names(names: Any) -> list[str]:
    return [name for name in names if _is_plain(name)][:_MOST]


def _is_plain(name: str) -> bool:
    """Whether a name may be put into a command line that somebody is typing.

    It shows what it is, and is no option: ``--config=...`` as the name of a tool, say.
    """
    return 0 < len(name) <= _LONGEST and name.isprintable() and not name.startswith("-")
