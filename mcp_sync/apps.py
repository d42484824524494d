"""Apps: pages of servers that show what their tools return (SEP-1865).

A client that was given the extension `Apps` tells servers that it can show such pages. `app_of` and
``client.app`` read one, check what it asks to be allowed, and say how to serve it. What happens between the
page and its host in the browser (``postMessage``) belongs to the host, and is not part of this library.

An app is a program of a stranger. Serve it from an origin that nothing else is served from, in the sandbox
that `App.iframe` describes, with `App.headers`. Sandbox and policy keep it from the data of its host, from
other origins than those that it named, and from leaving its frame. They do not keep it from taking its own
frame to another address, with data in it: a policy says nothing of where its page goes. That is for the
policy of the page that shows it: ``Content-Security-Policy: frame-src ORIGIN``, with nothing but the origins
that apps are served from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Union

from .errors import AppRejected, UsageError
from .extensions import Extension
from .options import UNSET, TimeoutArgument

if TYPE_CHECKING:
    from . import types
    from ._concurrency.cancel import CancelToken

__all__ = [
    "MIME_TYPE",
    "App",
    "Apps",
    "app_of",
    "app_tools",
    "app_uri",
    "model_tools",
    "read_app",
    "visible_to",
]

MIME_TYPE = "text/html;profile=mcp-app"
_SCHEME = "ui://"
# What a page may ask for, and what browsers call it.
_PERMISSIONS = {
    "camera": "camera",
    "microphone": "microphone",
    "geolocation": "geolocation",
    "clipboardWrite": "clipboard-write",
}
# Which origins go where; what is not named here is forbidden.
_DIRECTIVES = {
    "connectDomains": ("connect-src",),
    "resourceDomains": ("script-src", "style-src", "img-src", "font-src", "media-src"),
    "frameDomains": ("frame-src",),
    "baseUriDomains": ("base-uri",),
}
# A page is one file, so that its scripts and styles stand in it.
_ALWAYS = {
    "script-src": "'unsafe-inline'",
    "style-src": "'unsafe-inline'",
    "img-src": "data:",
    "media-src": "data:",
}
_MOST_SOURCES = 64
_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}")
_SOURCE = re.compile(
    rf"(?:https?|wss?)://(?:\*\.(?={_LABEL}\.))?(?P<host>{_HOST.pattern})(?::[0-9]{{1,5}})?/?"
)
_SANDBOX = "allow-scripts allow-forms"
_EMBEDDER = re.compile(rf"'self'|'none'|https?://{_HOST.pattern}(?::[0-9]{{1,5}})?")


class Apps(Extension):
    """Tells servers that this client can show their pages (SEP-1865), on revisions with a handshake, too.

    Example:
        >>> client = Client(url, extensions=[Tasks(), Apps()])
        >>> for tool in client.tools():
        ...     if app_uri(tool): page = client.app(tool)
    """

    identifier = "io.modelcontextprotocol/ui"
    handshake = True

    def settings(self) -> Mapping[str, Any]:
        """Return the one kind of page that there is."""
        return {"mimeTypes": [MIME_TYPE]}


@dataclass(frozen=True)
class App:
    """The page of an app, and what it asks for: checked, but a stranger's all the same.

    Attributes:
        uri: Its URI (``ui://...``).
        html: The page.
        mime_type: Its type, as it came.
        csp: The value of a ``Content-Security-Policy`` header: it can do what it asks for, and no more.
        permissions: What it would like to use, in the words of the ``allow`` attribute of frames.
        prefers_border: Whether it would like a border; ``None`` leaves it to the host.
        domain: The origin that it would like; what that may be is up to the host.
        domains: The origins that it asks for, by the names of the specification (``connectDomains``, ...).
    """

    uri: str
    html: str
    mime_type: str
    csp: str
    permissions: tuple[str, ...] = ()
    prefers_border: Optional[bool] = None
    domain: Optional[str] = None
    domains: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def headers(self, embedder: str = "'self'", grant: Iterable[str] = ()) -> dict[str, str]:
        """Return the HTTP headers to serve the page with.

        With them the page has no origin of its own even where it is opened outside of its frame. They do
        not keep it from taking its frame elsewhere: for that, the page that shows it needs a policy of its
        own, ``Content-Security-Policy: frame-src ORIGIN`` with the origin that this page is served from.

        Args:
            embedder: The origin of the page that may show it in a frame, or ``'self'``, or ``'none'``.
            grant: What it may use, of `permissions`.

        Raises:
            UsageError: ``embedder`` is no origin.
        """
        if not isinstance(embedder, str) or not _EMBEDDER.fullmatch(embedder):
            raise UsageError(f"embedder must be an origin such as https://example.com, not {embedder!r:.80}")
        denied = sorted(set(_PERMISSIONS.values()) - set(self._granted(grant)))
        return {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": f"{self.csp}; frame-ancestors {embedder}; sandbox {_SANDBOX}",
            "Permissions-Policy": ", ".join(f"{name}=()" for name in denied),
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }

    def iframe(self, grant: Iterable[str] = ()) -> dict[str, str]:
        """Return the attributes of the frame that shows the page, without its address.

        The sandbox gives it no origin: it gets at no cookies and no storage, and at nothing of its host;
        it opens no windows, and does not take its host elsewhere. It may take its own frame elsewhere,
        unless the host has a policy with ``frame-src``: see `headers`.

        Args:
            grant: What it may use, of `permissions`; the rest stays forbidden. Ask the user first.
        """
        allowed = {"allow": "; ".join(self._granted(grant))} if self._granted(grant) else {}
        return {"sandbox": _SANDBOX, "referrerpolicy": "no-referrer", **allowed}

    def _granted(self, grant: Iterable[str]) -> list[str]:
        if isinstance(grant, str):
            raise UsageError("grant must be a list of permissions, not one string")
        given = set(grant)
        return [name for name in self.permissions if name in given]


# --- tools ------------------------------------------------------------------------------------------------


def app_uri(tool: types.Tool) -> Optional[str]:
    """Return the URI of the page that shows what a tool returns, ``None`` if it has none.

    Raises:
        UsageError: It is no tool.
    """
    meta = _meta(tool)
    for uri in (_ui(meta).get("resourceUri"), meta.get("ui/resourceUri")):
        if isinstance(uri, str) and uri.startswith(_SCHEME):
            return uri
    return None


def visible_to(tool: types.Tool) -> frozenset[str]:
    """Return who may see and call a tool: ``"model"``, ``"app"``, or both. Nonsense lets nobody."""
    ui = _ui(_meta(tool))
    given = ui.get("visibility", ["model", "app"])
    values = given if isinstance(given, list) else [given]
    return frozenset(name for name in ("model", "app") if name in values)


def model_tools(tools: Iterable[types.Tool]) -> Iterator[types.Tool]:
    """Leave out the tools that a model must not be shown."""
    return (tool for tool in tools if "model" in visible_to(tool))


def app_tools(tools: Iterable[types.Tool]) -> Iterator[types.Tool]:
    """Leave out the tools that an app must not call. An app may call those of its own server only."""
    return (tool for tool in tools if "app" in visible_to(tool))


def _meta(tool: Any) -> Mapping[str, Any]:
    if not hasattr(tool, "meta"):
        raise UsageError(f"a tool must be one that a client has listed, not {type(tool).__name__}")
    return tool.meta or {}


def _ui(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    ui = meta.get("ui")
    return ui if isinstance(ui, Mapping) else {}


# --- pages ------------------------------------------------------------------------------------------------


def app_of(
    client: Any, tool: types.Tool, *, timeout: TimeoutArgument = UNSET, cancel: Optional[CancelToken] = None
) -> Optional[App]:
    """Read the page that shows what a tool returns; ``None`` if it has none. Otherwise as `read_app`."""
    uri = app_uri(tool)
    return None if uri is None else read_app(client, uri, timeout=timeout, cancel=cancel)


def read_app(
    client: Any,
    app: Union[str, types.Tool],
    *,
    timeout: TimeoutArgument = UNSET,
    cancel: Optional[CancelToken] = None,
) -> App:
    """Read the page of an app. ``client.app`` is the same.

    Args:
        client: The client of its server.
        app: Its URI (``ui://...``), or a tool that needs it.
        timeout: See the client.
        cancel: Cancels it.

    Raises:
        AppRejected: It is no page of an app, or asks for what cannot be allowed.
        UsageError: That is no URI of an app, or no tool that needs one.
    """
    uri = app if isinstance(app, str) else app_uri(app)
    if uri is None or not uri.startswith(_SCHEME):
        raise UsageError(
            f"{uri!r:.80} is no URI of an app: {_SCHEME}..., or a tool for which app_uri() has one"
        )
    result = client.read_resource(uri, timeout=timeout, cancel=cancel)
    if len(result.contents) != 1:
        _reject(uri, f"{len(result.contents)} pieces came for one page")
    piece = result.contents[0]
    kind = re.sub(r'[\s"]', "", piece.mime_type or "").lower()
    if kind != MIME_TYPE:
        _reject(uri, f"its type is {piece.mime_type!r:.80} and not {MIME_TYPE}")
    ui = _ui(piece.meta or {})
    domains = _domains(uri, ui.get("csp"))
    return App(
        uri,
        _html(uri, piece),
        piece.mime_type,
        _policy(domains),
        _permissions(ui.get("permissions")),
        ui["prefersBorder"] if isinstance(ui.get("prefersBorder"), bool) else None,
        _domain(uri, ui.get("domain")),
        tuple(domains.items()),
    )


def _html(uri: str, piece: Any) -> str:
    if isinstance(getattr(piece, "text", None), str):
        return str(piece.text)
    try:
        return str(piece.as_bytes().decode("utf-8"))
    except (AttributeError, ValueError):
        _reject(uri, "what came is neither text nor UTF-8 in base64")


def _domains(uri: str, csp: Any) -> dict[str, tuple[str, ...]]:
    if csp is None:
        return {}
    if not isinstance(csp, Mapping):
        _reject(uri, "its csp is no object", "policy")
    return {name: _sources(uri, name, csp[name]) for name in _DIRECTIVES if csp.get(name)}


def _sources(uri: str, name: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > _MOST_SOURCES:
        _reject(uri, f"{name} is no list, or one of more than {_MOST_SOURCES}", "policy")
    return tuple(dict.fromkeys(_source(uri, name, source) for source in given))


def _source(uri: str, name: str, source: Any) -> str:
    """Return an origin as it may stand in a policy.

    The whole text is matched: whatever separates sources or directives, or is a keyword, is no origin.
    """
    is_plain = isinstance(source, str) and source.isascii() and len(source) < 300
    match = _SOURCE.fullmatch(source.lower()) if is_plain else None
    if match is None or len(match["host"]) > 253:
        text = f"{source!r:.80} in {name} is no origin such as https://example.com or https://*.example.com"
        _reject(uri, text, "policy")
    return match[0].rstrip("/")


def _policy(domains: Mapping[str, tuple[str, ...]]) -> str:
    allowed = dict(_ALWAYS)
    for name, directives in _DIRECTIVES.items():
        for directive in directives:
            words = " ".join([*allowed.get(directive, "").split(), *domains.get(name, ())])
            allowed[directive] = words or "'none'"
    allowed.update({"object-src": "'none'", "form-action": "'none'"})
    return "; ".join(["default-src 'none'", *(f"{name} {words}" for name, words in allowed.items())])


def _permissions(given: Any) -> tuple[str, ...]:
    if not isinstance(given, Mapping):
        return ()
    return tuple(name for key, name in _PERMISSIONS.items() if isinstance(given.get(key), Mapping))


def _domain(uri: str, given: Any) -> Optional[str]:
    if given is None:
        return None
    # Some letters become ASCII only when they are made small.
    is_plain = isinstance(given, str) and given.isascii() and len(given) <= 253
    if not is_plain or not _HOST.fullmatch(given.lower()):
        _reject(uri, f"{given!r:.80} is no name of a host", "policy")
    return str(given)


def _reject(uri: str, why: str, reason: str = "content") -> NoReturn:
    raise AppRejected(f"the app {uri!r:.200} is not to be shown: {why}", uri=uri, reason=reason)
