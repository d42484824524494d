"""The two eras of the protocol: with a handshake, and stateless.

An era is the immutable outcome of negotiation. It answers everything that depends on the revision, so
that no other code asks for a version.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Optional

from ..errors import InvalidResult, NotSupported
from .brief import excerpt
from .codec import meta_ending
from .frames import Wire
from .headers import standard_headers
from .methods import DISCOVER, PING, MethodSpec
from .versions import TRAITS, VersionTraits

_PREFIX = "io.modelcontextprotocol/"
LOG_LEVEL_KEY = _PREFIX + "logLevel"
SERVER_INFO_KEY = _PREFIX + "serverInfo"
SUBSCRIPTION_ID_KEY = _PREFIX + "subscriptionId"
RELATED_TASK_KEY = _PREFIX + "related-task"
_CAPABILITIES_KEY = _PREFIX + "clientCapabilities"

_NOTHING: Mapping[str, Any] = MappingProxyType({})

COMPLETE = "complete"
INPUT_REQUIRED = "input_required"


class Era(ABC):
    """What `HandshakeEra` and `StatelessEra` have in common.

    Attributes:
        version: The protocol revision.
        traits: Its row of traits.
        server: The raw result of ``initialize`` or ``server/discover``, empty if there was none.
        meta_ending: How each request ends whose caller has nothing for its ``_meta``: as `params` gives it
            always the same, it is written once. See `codec.encode_request`.
        handshake: Whether there is a session, opened by ``initialize``.
        server_requests: Whether the server may send requests.
        client_notifications: Whether the client may send notifications of its own.
        cancel_notification: Whether a request is cancelled by a notification even over HTTP.
        level_per_request: Whether each request says which log messages it wants, not the session.
        mirrors_arguments: Whether arguments that a tool marks are sent as HTTP headers too.
        ping: What is called to see whether the server answers.
    """

    handshake: bool
    server_requests: bool
    client_notifications: bool
    cancel_notification: bool
    level_per_request: bool
    mirrors_arguments: bool
    ping: MethodSpec

    def __init__(self, version: str, server: Optional[Mapping[str, Any]] = None) -> None:
        self.version = version
        self.traits: VersionTraits = TRAITS[version]
        self.server: Mapping[str, Any] = server or {}
        self.meta_ending = meta_ending()

    @abstractmethod
    def wire(self, listening: bool) -> Wire:
        """Return what the channel has to know; ``listening``: somebody takes what no request asked for."""

    def check(self, spec: MethodSpec) -> None:
        """Refuse a method that the revision lacks.

        Raises:
            NotSupported: It has no such method.
        """
        if not (spec.stateless if self.traits.modern else spec.handshake):
            raise NotSupported(
                f"{spec.method} does not exist in protocol revision {self.version}",
                method=spec.method,
                version=self.version,
            )

    @abstractmethod
    def params(
        self, params: dict[str, Any], meta: Mapping[str, Any], capabilities: Mapping[str, Any] = _NOTHING
    ) -> dict[str, Any]:
        """Return the params as they are sent, with their ``_meta``.

        Args:
            params: The method's own.
            meta: What the caller has for ``_meta``.
            capabilities: What the client declares for this request beside its capabilities.
        """

    @abstractmethod
    def headers(self, spec: MethodSpec, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the HTTP headers that mirror the body."""

    @abstractmethod
    def result_kind(self, result: Mapping[str, Any]) -> str:
        """Return the kind of a result: `COMPLETE`, `INPUT_REQUIRED`, or one that an extension may know.

        Raises:
            InvalidResult: It says its kind by something else than a string.
        """


class HandshakeEra(Era):
    """2024-11-05 to 2025-11-25: ``initialize`` first, both sides may send requests."""

    handshake = True
    server_requests = True
    client_notifications = True
    cancel_notification = True
    level_per_request = False
    mirrors_arguments = False
    ping = PING

    def wire(self, listening: bool) -> Wire:
        traits = self.traits
        return Wire(
            version_header=self.version if traits.version_header else None,
            sessions=True,
            get_stream=listening,
            resumable=True,
        )

    def params(
        self, params: dict[str, Any], meta: Mapping[str, Any], capabilities: Mapping[str, Any] = _NOTHING
    ) -> dict[str, Any]:
        return {**params, "_meta": meta} if meta else params

    def headers(self, spec: MethodSpec, params: Mapping[str, Any]) -> dict[str, str]:
        return {}

    def result_kind(self, result: Mapping[str, Any]) -> str:
        return COMPLETE


class StatelessEra(Era):
    """2026-07-28: every request carries version, client and capabilities; the server only answers.

    Args:
        version: The revision.
        client_info: The client's ``Implementation``, as it is sent.
        capabilities: The client's capabilities, as they are sent.
        server: The result of ``server/discover``, if it was asked.
    """

    handshake = False
    server_requests = False
    client_notifications = False
    cancel_notification = False
    level_per_request = True
    mirrors_arguments = True
    ping = DISCOVER

    def __init__(
        self,
        version: str,
        client_info: Mapping[str, Any],
        capabilities: Mapping[str, Any],
        server: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(version, server)
        self._meta = {
            _PREFIX + "protocolVersion": version,
            _PREFIX + "clientInfo": client_info,
            _CAPABILITIES_KEY: capabilities,
        }
        self._capabilities = capabilities
        self.meta_ending = meta_ending(self._meta)

    def wire(self, listening: bool) -> Wire:
        return Wire(version_header=self.version)

    def params(
        self, params: dict[str, Any], meta: Mapping[str, Any], capabilities: Mapping[str, Any] = _NOTHING
    ) -> dict[str, Any]:
        if capabilities:
            own = {**self._meta, _CAPABILITIES_KEY: {**self._capabilities, **capabilities}}
            return {**params, "_meta": {**meta, **own}}
        return {**params, "_meta": {**meta, **self._meta} if meta else self._meta}

    def headers(self, spec: MethodSpec, params: Mapping[str, Any]) -> dict[str, str]:
        return standard_headers(spec.method, params, spec.name_param)

    def result_kind(self, result: Mapping[str, Any]) -> str:
        kind = result.get("resultType", COMPLETE)
        if not isinstance(kind, str):
            raise InvalidResult(f"unknown kind of result {excerpt(repr(kind))}", result=result)
        return kind


def client_capabilities(
    traits: VersionTraits,
    *,
    sampling: bool,
    elicitation: bool,
    roots: bool,
    extensions: Optional[Mapping[str, Any]] = None,
) -> dict[str, Any]:
    """Return the capabilities to declare, in the words of one revision."""
    capabilities: dict[str, Any] = {}
    if sampling:
        capabilities["sampling"] = {}
    if roots:
        capabilities["roots"] = {} if traits.modern else {"listChanged": True}
    if elicitation and traits.elicitation_modes:
        modes = traits.elicitation_modes
        # The first revision with elicitation knows no modes: an empty object means a form.
        capabilities["elicitation"] = {mode: {} for mode in modes} if len(modes) > 1 else {}
    if extensions:
        capabilities["extensions"] = dict(extensions)
    return capabilities
