"""Every exception that this library raises on its own account.

::

    MCPError
    |- UsageError                ClientClosed, NotSupported, Forked
    |  |- EnvelopeRejected       .reason: what was kept of a call cannot be resumed
    |  |- AnswerInvalid          .key .faults: what is wrong with an answer, field by field
    |  |- InvalidHandle          .reason: what was kept of a task does not fit this client
    |  `- FolderRefused          .path: a skill or a result cannot be written there
    |- TransportError            .request_sent: could the server have acted?
    |  |- ConnectFailed          spawn, DNS, TLS, refused
    |  |- ConnectionLost         stream ended, process exited
    |  |- HTTPStatusError        .status .headers .body_excerpt .retry_after
    |  |- SessionExpired
    |  `- MessageTooLarge        .limit
    |- CallTimeout               also a TimeoutError
    |- CallCancelled
    |- ProtocolError             the peer broke the rules
    |  |- InvalidMessage  InvalidResult  UnsafeURL
    |  |- NegotiationFailed      .client_versions .server_versions
    |  |- InputRoundsExceeded
    |  |- SkillRejected          .uri .path .reason: what the server sends of a skill is not to be used
    |  |  `- DigestMismatch      .expected .actual: a file is not the one that was described
    |  `- AppRejected            .uri .reason: the page of an app is not to be shown
    |- RemoteError               a JSON-RPC error: .code .message .data
    |  |- ParseError InvalidRequest MethodNotFound InvalidParams InternalError
    |  |- HeaderMismatch UnsupportedProtocolVersion MissingClientCapability
    |  |- UrlElicitationRequired ResourceNotFound
    |  `- TaskGone               .task_id: the server has forgotten the task
    |- InputRequired             the call was asked to pause for input: .requests .to_json()
    |- ToolFailed                only with ``raise_on_error=True`` or ``result_type``
    |- OutputInvalid             only with ``validation="strict"`` or ``result_type``
    `- AuthError                 raised by the authorization hooks: .url .transient
       |- AuthorizationRequired  AccessDenied  RegistrationFailed
       |- TokenRequestFailed     .error .status
       `- IssuerMismatch         InsufficientScope (.scopes)

All of them can be pickled. A message names method and peer where there are any, never a secret.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

if TYPE_CHECKING:
    from . import types

E = TypeVar("E", bound=BaseException)


def _rebuild(cls: type[MCPError], args: tuple[Any, ...], state: dict[str, Any]) -> MCPError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class MCPError(Exception):
    """Root of all errors of this library."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def another(error: E) -> E:
    """Return a copy of an error with the same cause, so that each of several callers raises its own.

    An error of another library that cannot be copied is returned itself.
    """
    try:
        twin = copy.copy(error)
    except Exception:
        return error
    twin.__cause__ = error.__cause__
    return twin


def unsent(error: E) -> E:
    """Return a copy of an error for a call whose own request was not sent because of it."""
    twin = another(error)
    if hasattr(twin, "request_sent"):
        twin.request_sent = False
    return twin


class UsageError(MCPError):
    """The library was used wrongly: a target, an argument or an order of calls that cannot work."""


class ClientClosed(UsageError):
    """The client was closed, before the call or while it waited."""


class NotSupported(UsageError):
    """The protocol revision in use has no such method.

    Attributes:
        method: The method that was asked for.
        version: The protocol revision of the connection.
    """

    def __init__(self, message: str, *, method: str = "", version: str = "") -> None:
        super().__init__(message)
        self.method = method
        self.version = version


class Forked(UsageError):
    """The session was opened in another process, before a fork."""


class EnvelopeRejected(UsageError):
    """What was kept of a call that waits for input cannot be resumed. Nothing was sent.

    Attributes:
        reason: ``"malformed"`` (no envelope), ``"version"`` (of another version of this library),
            ``"tampered"`` (not as it was made, or sealed with another key), ``"expired"`` (older than
            ``max_age``), ``"server"``, ``"principal"`` or ``"revision"`` (made for another one).
    """

    def __init__(self, message: str, *, reason: str = "malformed") -> None:
        super().__init__(message)
        self.reason = reason


class AnswerInvalid(UsageError):
    """The answer to a form does not match what the form asks for. Nothing was sent.

    Attributes:
        key: The key of the input request, empty where it is not known.
        faults: What is wrong, by the names of the fields.
    """

    def __init__(self, message: str, *, key: str = "", faults: Optional[Mapping[str, str]] = None) -> None:
        super().__init__(message)
        self.key = key
        self.faults = dict(faults or {})


class InvalidHandle(UsageError):
    """What was kept of a task does not fit this client. Nothing was sent.

    Attributes:
        reason: ``"malformed"`` (no handle), ``"version"`` (of another version of this library),
            ``"server"`` or ``"principal"`` (made for another one).
    """

    def __init__(self, message: str, *, reason: str = "malformed") -> None:
        super().__init__(message)
        self.reason = reason


class FolderRefused(UsageError):
    """A skill, or what a result holds, cannot be written where it was to be. Nothing was left there.

    Attributes:
        path: The folder.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class TransportError(MCPError):
    """A message could not be carried.

    Attributes:
        request_sent: ``False`` when the server certainly did not get the request, ``True`` when it
            may have acted on it, ``None`` where that cannot be told or no request was concerned.
    """

    def __init__(self, message: str, *, request_sent: Optional[bool] = None) -> None:
        super().__init__(message)
        self.request_sent = request_sent


class ConnectFailed(TransportError):
    """No connection: the command could not be started, or DNS, TCP or TLS failed.

    Attributes:
        returncode: Exit code of a server process that ended while it started, else ``None``.
        stderr_tail: The last lines that it wrote to standard error.
    """

    def __init__(
        self,
        message: str,
        *,
        request_sent: Optional[bool] = False,
        returncode: Optional[int] = None,
        stderr_tail: str = "",
    ) -> None:
        super().__init__(message, request_sent=request_sent)
        self.returncode = returncode
        self.stderr_tail = stderr_tail


class ConnectionLost(TransportError):
    """The connection ended before the answer came.

    Attributes:
        returncode: Exit code of the server process (negative: signal), ``None`` if it is not one.
        stderr_tail: The last lines that it wrote to standard error.
        close_code: The code with which a WebSocket server closed (RFC 6455, section 7.4), ``None`` if
            it named none or there was none.
    """

    def __init__(
        self,
        message: str,
        *,
        request_sent: Optional[bool] = None,
        returncode: Optional[int] = None,
        stderr_tail: str = "",
        close_code: Optional[int] = None,
    ) -> None:
        super().__init__(message, request_sent=request_sent)
        self.returncode = returncode
        self.stderr_tail = stderr_tail
        self.close_code = close_code


class HTTPStatusError(TransportError):
    """The server answered with an HTTP status that is no success and brought no JSON-RPC error.

    Attributes:
        status: The HTTP status code.
        headers: The response headers, names in lower case, without cookies.
        body_excerpt: The first characters of the body.
        retry_after: Seconds to wait, from ``Retry-After``, or ``None``.
        url: The URL that answered, without credentials and query.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        headers: Optional[Mapping[str, str]] = None,
        body_excerpt: str = "",
        retry_after: Optional[float] = None,
        url: str = "",
        request_sent: Optional[bool] = None,
    ) -> None:
        super().__init__(message, request_sent=request_sent)
        self.status = status
        self.headers = dict(headers or {})
        self.body_excerpt = body_excerpt
        self.retry_after = retry_after
        self.url = url


class SessionExpired(TransportError):
    """The server no longer knows the session (HTTP 404 to a request with a session id)."""


class MessageTooLarge(TransportError):
    """A message was larger than ``Limits`` admits.

    Attributes:
        limit: The limit in bytes.
    """

    def __init__(self, message: str, *, limit: int, request_sent: Optional[bool] = None) -> None:
        super().__init__(message, request_sent=request_sent)
        self.limit = limit


class CallTimeout(MCPError, TimeoutError):
    """The call did not end in time. The request was cancelled; the server may have acted on it.

    Attributes:
        timeout: The bound that was reached, in seconds.
        request_sent: As in `TransportError`.
    """

    def __init__(
        self, message: str, *, timeout: Optional[float] = None, request_sent: Optional[bool] = None
    ) -> None:
        super().__init__(message)
        self.timeout = timeout
        self.request_sent = request_sent


class CallCancelled(MCPError):
    """The call was cancelled by its token.

    Attributes:
        reason: What was passed to ``CancelToken.cancel``.
        request_sent: As in `TransportError`.
    """

    def __init__(
        self, message: str, *, reason: Optional[str] = None, request_sent: Optional[bool] = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.request_sent = request_sent


class ProtocolError(MCPError):
    """The peer broke the rules of the protocol."""


class InvalidMessage(ProtocolError):
    """What arrived is not a JSON-RPC message.

    Attributes:
        excerpt: The first characters of it.
        request_id: The request that it would have answered, ``None`` where that cannot be told.
    """

    def __init__(self, message: str, *, excerpt: str = "", request_id: Optional[int] = None) -> None:
        super().__init__(message)
        self.excerpt = excerpt
        self.request_id = request_id


class InvalidResult(ProtocolError):
    """The result does not have the shape that the method asks for.

    Attributes:
        result: The result as it came.
    """

    def __init__(self, message: str, *, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class NegotiationFailed(ProtocolError):
    """Client and server have no protocol revision in common.

    Attributes:
        client_versions: What the client offered.
        server_versions: What the server named.
    """

    def __init__(
        self,
        message: str,
        *,
        client_versions: tuple[str, ...] = (),
        server_versions: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.client_versions = tuple(client_versions)
        self.server_versions = tuple(server_versions)


class UnsafeURL(ProtocolError):
    """A URL that a server wants shown to a person should not be.

    Attributes:
        url: The URL as it came. Not to be made a link.
    """

    def __init__(self, message: str, *, url: str = "") -> None:
        super().__init__(message)
        self.url = url


class InputRoundsExceeded(ProtocolError):
    """The server asked for input again and again (``Limits.input_rounds``)."""


class SkillRejected(ProtocolError):
    """What the server says or sends of a skill is not to be used. The message says why.

    Attributes:
        uri: The URI of the skill's ``SKILL.md``, as it came.
        path: The file that it is about, below the root of the skill; empty where it is about the skill.
        reason: ``"entry"`` (what describes the skill is malformed), ``"path"`` (a file would lie outside of
            its folder, or has a name that not every system takes), ``"limits"`` (too many or too large
            files), ``"unlisted"`` (the entry does not list the file), ``"dynamic"`` (there are no digests),
            ``"content"`` (what came is not one file), ``"size"``, ``"digest"`` or ``"front matter"``
            (it is not what the entry describes).
    """

    def __init__(self, message: str, *, uri: str = "", path: str = "", reason: str = "entry") -> None:
        super().__init__(message)
        self.uri = uri
        self.path = path
        self.reason = reason


class DigestMismatch(SkillRejected):
    """A file is not the one that the skill's entry describes: changed since, damaged, or forged.

    Attributes:
        expected: The digest of the entry, or its size.
        actual: That of the file.
    """

    def __init__(
        self,
        message: str,
        *,
        uri: str = "",
        path: str = "",
        reason: str = "digest",
        expected: str = "",
        actual: str = "",
    ) -> None:
        super().__init__(message, uri=uri, path=path, reason=reason)
        self.expected = expected
        self.actual = actual


class AppRejected(ProtocolError):
    """The page of an app, or what it asks for, is not to be shown to anybody. The message says why.

    Attributes:
        uri: The URI of the page.
        reason: ``"content"`` (what came is not one page of HTML) or ``"policy"`` (what it asks to be allowed
            is malformed, or more than an app may ask for).
    """

    def __init__(self, message: str, *, uri: str = "", reason: str = "content") -> None:
        super().__init__(message)
        self.uri = uri
        self.reason = reason


class RemoteError(MCPError):
    """The server answered with a JSON-RPC error.

    Attributes:
        code: The error code.
        message: The server's words.
        data: What came with it, ``None`` if nothing.
        status: The HTTP status that carried it, ``None`` elsewhere.
        method: The method of the request that it answers, ``""`` where it was not built for one.
        peer: How the server is named, without secrets; ``""`` likewise.
    """

    def __init__(
        self,
        code: int,
        message: str,
        data: Any = None,
        *,
        status: Optional[int] = None,
        method: str = "",
        peer: str = "",
    ) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data
        self.status = status
        self.method = method
        self.peer = peer

    def __str__(self) -> str:
        words = f"{self.message} ({self.code})"
        return f"{self.method}: {self.peer} answered: {words}" if self.method else words


class ParseError(RemoteError):
    """-32700: the server could not read the message as JSON."""


class InvalidRequest(RemoteError):
    """-32600: the server takes the message for no valid request."""


class MethodNotFound(RemoteError):
    """-32601: the server has no such method."""


class InvalidParams(RemoteError):
    """-32602: unknown tool, prompt, resource or cursor, or wrong arguments."""


class InternalError(RemoteError):
    """-32603: the server failed."""


class HeaderMismatch(RemoteError):
    """-32020: HTTP headers and body of the request differ."""


class MissingClientCapability(RemoteError):
    """-32021: the server needs a capability that this client did not declare."""


class UnsupportedProtocolVersion(RemoteError):
    """-32022: the server does not speak the revision of the request."""


class ResourceNotFound(RemoteError):
    """-32002: no such resource (revisions up to 2025-11-25)."""


class UrlElicitationRequired(RemoteError):
    """-32042: the user has to visit a URL first (revision 2025-11-25).

    The server has not done what it was asked: once the visits of `elicitations` are over, the same call
    can be made again, from anywhere.
    """

    @property
    def elicitations(self) -> list[types.ElicitRequestURLParams]:
        """The pages to visit, each with ``url``, ``message`` and ``elicitation_id``; malformed ones left out.

        Untrusted: see `mcp_sync.elicitation.check_url`.
        """
        from .types.input_required import pages_to_visit

        return pages_to_visit(self.data)


class TaskGone(RemoteError):
    """The server does not know the task (any more): its time is over, or it never was one of this server.

    Attributes:
        task_id: The id of the task.
        code: That of the server's answer.
        message: The server's words.
    """

    def __init__(self, code: int, message: str, data: Any = None, *, task_id: str = "") -> None:
        super().__init__(code, message, data)
        self.task_id = task_id

    def __str__(self) -> str:
        return f"the server does not know the task {self.task_id} (any more): {super().__str__()}"


_BY_CODE: dict[int, type[RemoteError]] = {
    -32700: ParseError,
    -32600: InvalidRequest,
    -32601: MethodNotFound,
    -32602: InvalidParams,
    -32603: InternalError,
    -32020: HeaderMismatch,
    -32021: MissingClientCapability,
    -32022: UnsupportedProtocolVersion,
    -32002: ResourceNotFound,
    -32042: UrlElicitationRequired,
}


def remote_error(
    code: int,
    message: str,
    data: Any = None,
    *,
    status: Optional[int] = None,
    method: str = "",
    peer: str = "",
) -> RemoteError:
    """Build the `RemoteError` class that belongs to a JSON-RPC error code."""
    return _BY_CODE.get(code, RemoteError)(code, message, data, status=status, method=method, peer=peer)


class InputRequired(MCPError):
    """The call waits for input and was asked to pause (``on_input="raise"``, 2026-07-28).

    It knows all that is needed to go on, in this process or in another one: keep `to_json`, get the
    answers, and call ``client.resume(envelope, answers)``.

    Made by the library. Can be pickled, too; but unpickle only what nobody else could have written.
    """

    def __init__(self, message: str, *, envelope: Mapping[str, Any]) -> None:
        super().__init__(message)
        self._envelope = dict(envelope)

    @classmethod
    def from_json(
        cls, data: Union[Mapping[str, Any], str, bytes], *, key: Union[str, bytes, None] = None
    ) -> InputRequired:
        """Read what `to_json` returned, as it is or as JSON text.

        Args:
            data: The envelope.
            key: The key that `to_json` was given.

        Raises:
            EnvelopeRejected: It is none, of another version of this library, or was changed.
        """
        from ._envelope import unseal
        from .types.input_required import parse_input_requests

        envelope = unseal(data, key)
        if parse_input_requests(envelope["requests"]) is None:
            raise EnvelopeRejected("the envelope cannot be resumed: its requests have another form")
        return cls(f"{envelope['method']} waits for input", envelope=envelope)

    def to_json(self, *, key: Union[str, bytes, None] = None) -> dict[str, Any]:
        """Return an envelope: a dict of plain JSON values with which the call can be resumed.

        It holds the arguments of the call, the ``meta`` that was given for it, the server's requests and
        state, and of the server and the principal what tells them from others; no headers, credentials
        or tokens. Keep it where you keep the arguments.

        Args:
            key: A secret of your application, such as Django's ``SECRET_KEY``. With it, nobody who does
                not know it can change or make an envelope (HMAC-SHA256); `resume` and `from_json` need the
                same one. Without it there is a checksum that anybody can make anew: it shows accidents, and
                protects from nobody who can write where the envelope is kept.

        Nothing keeps an envelope from being resumed twice: where that would harm, note its ``id``.
        """
        from ._envelope import seal

        return seal(self._envelope, key)

    @property
    def requests(self) -> dict[str, Any]:
        """What the server asks, by its keys: `ElicitRequest`, `CreateMessageRequest` or `ListRootsRequest`.

        The ``params`` of an `ElicitRequest` are `ElicitRequestFormParams` or `ElicitRequestURLParams`, as an
        ``elicitation_callback`` gets them; `mcp_sync.elicitation` helps with both.
        """
        from .types.input_required import parse_input_requests

        return parse_input_requests(self._envelope["requests"]) or {}

    @property
    def id(self) -> str:
        """A random name of this pause."""
        return str(self._envelope["id"])

    @property
    def created_at(self) -> int:
        """When the call paused, in seconds since 1970."""
        return int(self._envelope["created_at"])

    @property
    def method(self) -> str:
        """The method that waits, such as ``tools/call``."""
        return str(self._envelope["method"])

    @property
    def params(self) -> dict[str, Any]:
        """The params of the call as they were sent: ``name`` and ``arguments``, or ``uri``."""
        return dict(self._envelope["params"])

    @property
    def request_state(self) -> Optional[str]:
        """The server's state, exactly as it came; means something to the server only."""
        state: Optional[str] = self._envelope["state"]
        return state

    @property
    def principal(self) -> Optional[str]:
        """For whom the call was made (``client.for_principal``), ``None`` if that was not said."""
        principal: Optional[str] = self._envelope["principal"]
        return principal


class ToolFailed(MCPError):
    """The tool reported an error, and ``raise_on_error=True`` or a ``result_type`` was asked for.

    Attributes:
        result: The whole `CallToolResult`.
    """

    def __init__(self, message: str, *, result: Any) -> None:
        super().__init__(message)
        self.result = result


class OutputInvalid(MCPError):
    """The structured output does not match the tool's output schema, or the ``result_type``.

    Attributes:
        result: The whole `CallToolResult`, readable as ever.
    """

    def __init__(self, message: str, *, result: Any) -> None:
        super().__init__(message)
        self.result = result


class AuthError(MCPError):
    """Authorization failed.

    Attributes:
        url: Who said so, without query; empty where nobody did.
        transient: Whether trying again later may help, with nothing changed.
    """

    def __init__(self, message: str, *, url: str = "", transient: bool = False) -> None:
        super().__init__(message)
        self.url = url
        self.transient = transient


class AuthorizationRequired(AuthError):
    """Somebody has to log in, or to agree, before the call can be made.

    Attributes:
        url: Where to send them; empty if that is not known.
    """


class AccessDenied(AuthError):
    """The user or the authorization server refused.

    Attributes:
        error: The OAuth error code, such as ``access_denied``.
    """

    def __init__(self, message: str, *, url: str = "", error: str = "") -> None:
        super().__init__(message, url=url)
        self.error = error


class RegistrationFailed(AuthError):
    """This client is not known to the authorization server, and could not make itself known."""


class TokenRequestFailed(AuthError):
    """The authorization server gave no token.

    Attributes:
        error: The OAuth error code, such as ``invalid_grant``; empty if there was none.
        status: The HTTP status of the answer, ``None`` if there was none.
    """

    def __init__(
        self,
        message: str,
        *,
        url: str = "",
        error: str = "",
        status: Optional[int] = None,
        transient: bool = False,
    ) -> None:
        super().__init__(message, url=url, transient=transient)
        self.error = error
        self.status = status


class IssuerMismatch(AuthError):
    """An authorization server, or an answer of one, claims to be another than it should.

    Attributes:
        expected: The issuer that was asked.
        actual: What was found instead.
    """

    def __init__(self, message: str, *, url: str = "", expected: str = "", actual: str = "") -> None:
        super().__init__(message, url=url)
        self.expected = expected
        self.actual = actual


class InsufficientScope(AuthError):
    """The token does not suffice, and a better one was not to be had.

    Attributes:
        url: Where to send the user for it; empty if that is not known.
        scopes: What the server asks for.
    """

    def __init__(self, message: str, *, url: str = "", scopes: tuple[str, ...] = ()) -> None:
        super().__init__(message, url=url)
        self.scopes = scopes
