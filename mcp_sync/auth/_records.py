"""What is kept about servers, clients and grants, as JSON-safe values whose ``repr`` shows no secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NamedTuple, Optional, TypeVar

R = TypeVar("R", bound="Record")


@dataclass(frozen=True)
class Record:
    """A value that a store keeps."""

    def to_json(self) -> dict[str, Any]:
        """Return what a store keeps: JSON-safe, without what may be left out and is not set."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        needed = {each.name for each in fields(self) if each.default is MISSING}
        kept = {name: v for name, v in values.items() if v is not None or name in needed}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in kept.items()}

    @classmethod
    def from_json(cls: type[R], value: Mapping[str, Any]) -> R:
        """Make a record of what `to_json` returned; what it does not know is left out.

        Raises:
            TypeError: Something that it needs is missing.
        """
        known = {each.name for each in fields(cls)}
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in value.items() if k in known})


@dataclass(frozen=True)
class ServerRecord(Record):
    """What discovery found out about an MCP server.

    Attributes:
        issuer: Its authorization server, as it is written in the metadata.
        resource: The ``resource`` parameter (RFC 8707) as it has to be sent, ``None`` for none.
        metadata: The metadata of the authorization server as it came (RFC 8414).
        scopes_supported: What the protected-resource metadata lists, ``None`` where it lists none.
        logins: When the latest logins for it were, in seconds since 1970.
    """

    issuer: str
    resource: Optional[str]
    metadata: Mapping[str, Any]
    scopes_supported: Optional[tuple[str, ...]] = None
    logins: tuple[float, ...] = ()


@dataclass(frozen=True)
class ClientRecord(Record):
    """How this client is known to an authorization server.

    Attributes:
        issuer: The authorization server that knows it.
        client_id: Its name there.
        client_secret: Its secret, ``None`` for a public client.
        method: How it authenticates at the token endpoint (RFC 7591 ``token_endpoint_auth_method``), ``None``
            where nobody has said.
        expires_at: When the secret expires, in seconds since 1970, ``None`` for never.
        registered: Whether it was registered by itself (RFC 7591), and so may be registered anew.
        redirect_uris: The redirect URIs that the server has accepted, empty where it has not said.
        scope: What it may ask for, separated by spaces; ``None`` where nobody has said.
    """

    issuer: str
    client_id: str
    client_secret: Optional[str] = field(default=None, repr=False)
    method: Optional[str] = None
    expires_at: Optional[float] = None
    registered: bool = False
    redirect_uris: tuple[str, ...] = ()
    scope: Optional[str] = None


@dataclass(frozen=True)
class Grant(Record):
    """What an authorization server has granted.

    Attributes:
        issuer: Which server.
        resource: The ``resource`` that it is for, as it was sent, ``None`` for none.
        client_id: Which client it was granted to.
        access_token: The token.
        token_type: ``"Bearer"`` or ``"DPoP"``, in this spelling whatever the server's.
        expires_at: When it expires, in seconds since 1970; ``None`` where that is not known: it is used until
            it is refused.
        refresh_token: What a new one is had for, ``None`` for nothing.
        scope: What was granted, separated by spaces; ``None`` where the server has not said.
        requested: What was asked for, separated by spaces; a step-up adds to it.
        dpop_key: The private key that the token is bound to (RFC 9449), as a JWK, ``None`` for none.
    """

    issuer: str
    resource: Optional[str]
    client_id: str
    access_token: str = field(repr=False)
    token_type: str = "Bearer"
    expires_at: Optional[float] = None
    refresh_token: Optional[str] = field(default=None, repr=False)
    scope: Optional[str] = None
    requested: Optional[str] = None
    dpop_key: Optional[Mapping[str, Any]] = field(default=None, repr=False)


@dataclass(frozen=True)
class Pending(Record):
    """An authorization that waits for the user: all that `finish` needs, in this process or in another.

    Attributes:
        url: Where to send the user.
        state: What the answer has to bring back; also the name under which a store keeps this.
        verifier: The secret of PKCE (RFC 7636).
        server: The MCP server.
        principal: Whose grant it will be.
        found: What discovery found (`ServerRecord.to_json`).
        client: The client that asks (`ClientRecord.to_json`).
        redirect_uri: Where the answer goes.
        scope: What is asked for, separated by spaces, ``None`` for nothing in particular.
        created_at: When it began, in seconds since 1970.
    """

    url: str = field(repr=False)
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    server: str
    principal: str
    found: Mapping[str, Any] = field(repr=False)
    client: Mapping[str, Any] = field(repr=False)
    redirect_uri: str
    scope: Optional[str]
    created_at: float


class Key(NamedTuple):
    """What a record is kept under.

    Attributes:
        kind: ``"server"``, ``"client"``, ``"grant"`` or ``"pending"``.
        issuer: The authorization server (``client``, ``grant``); the only one that may be asked (``server``),
            empty where the user has named none.
        resource: The MCP server (``server``: its URL; ``grant``: the ``resource``), or the state
            (``pending``).
        principal: The user; empty for the only one there is, and for what all of them share.
        client: Which application: a digest of what it says about itself.
    """

    kind: str
    issuer: str = ""
    resource: str = ""
    principal: str = ""
    client: str = ""
