"""Grants without a person: by the credentials of the client, or by the token of a workload.

A class says who asks (`Machine.identity`) and how a grant is had (`Machine._acquire`, a conversation).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from ..errors import TokenRequestFailed, UsageError
from ._answers import is_text
from ._authority import CONVERSATION_SECONDS
from ._current import Current
from ._dpop import Prover
from ._hook import TokenAuth
from ._login import Login, invalid_registration
from ._records import ClientRecord, Grant, ServerRecord
from ._registration import NONE, SIGNED, ClientIdentity, Secret, check_issuer, identify
from ._signing import signer_of
from ._sources import TokenFile, TokenSource, TokenVariable, check_source, read_source
from ._steps import Conversation
from ._token_request import ask_token, grant_of

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

_WORKLOAD = "the token of WorkloadIdentity"


class Machine(TokenAuth):
    """What the ways to a grant have in common in which no browser of this machine takes part."""

    _longest = CONVERSATION_SECONDS
    """How many seconds a login takes at most."""

    @property
    def _needs_person(self) -> bool:
        """Whether a login takes a person."""
        return self._interactive

    def _log_in(self, login: Login) -> Current:
        """See `TokenAuth._log_in`."""
        access, errand = login.access, login.errand
        found = login.found
        scope = login.scope_for(self.scopes)
        prover = access.new_prover(login.held)
        known = access.authority.known_client(found.issuer)
        client = access.authority.run(self._identify(found, known, time.time(), scope), errand)
        access.authority.bind(client)
        try:
            grant = self._grant(login, found, client, scope, prover)
        except TokenRequestFailed as error:
            if not invalid_registration(client, error):
                raise
            access.authority.forget_client(client)
            client = access.authority.run(self._identify(found, None, time.time(), scope), errand)
            grant = self._grant(login, found, client, scope, prover)
        errand.see_through()
        return access.keep_login(found, client, grant)

    def _grant(
        self,
        login: Login,
        found: ServerRecord,
        client: ClientRecord,
        scope: Optional[str],
        prover: Optional[Prover],
    ) -> Grant:
        conversation = self._acquire(found, client, scope, time.time(), prover)
        grant: Grant = login.access.authority.run(conversation, login.errand, self._longest)
        return grant

    def _identify(
        self, found: ServerRecord, known: Optional[ClientRecord], now: float, scope: Optional[str] = None
    ) -> Conversation[ClientRecord]:
        """Find out by what name to turn to an authorization server; see `identify`."""
        return identify(found, self.identity, known, None, now, scope=scope)

    def _acquire(
        self,
        found: ServerRecord,
        client: ClientRecord,
        scope: Optional[str],
        now: float,
        prover: Optional[Prover],
    ) -> Conversation[Grant]:
        """Get a grant.

        Args:
            found: The MCP server and its authorization server.
            client: What `_identify` returned.
            scope: What to ask for, separated by spaces, ``None`` for nothing in particular.
            now: Seconds since 1970.
            prover: What the token will be bound to, if to anything.

        Raises:
            TokenRequestFailed, AccessDenied: There is none.
        """
        raise NotImplementedError

    def _ask(
        self,
        found: ServerRecord,
        client: ClientRecord,
        form: Mapping[str, Optional[str]],
        scope: Optional[str],
        now: float,
        prover: Optional[Prover],
        purpose: str,
    ) -> Conversation[Grant]:
        """Ask the authorization server of the MCP server for a token."""
        whole = without_none({**form, "scope": scope, "resource": found.resource})
        signer = self.identity.signer
        answer = yield from ask_token(
            found, client, whole, now=now, signer=signer, prover=prover, purpose=purpose
        )
        return grant_of(
            answer,
            issuer=found.issuer,
            resource=found.resource,
            client_id=client.client_id,
            requested=scope,
            now=now,
            dpop_key=prover.key if prover is not None else None,
        )


class ClientCredentials(Machine):
    """Have the application itself log in, by a secret or by a key (RFC 6749, section 4.4).

    See the extension ``io.modelcontextprotocol/oauth-client-credentials``.

    Args:
        client_id: The name under which it is registered.
        client_secret: Its secret, or a function that returns it.
        private_key: Or else its key, with which it signs (``private_key_jwt``, RFC 7523): PEM, a JWK, a key
            of ``cryptography``, or a function that signs. Takes the extra ``jwt``, a function does not.
        private_key_alg: The algorithm, such as ``"ES256"``; follows from the key unless that is a function.
        private_key_id: The ``kid`` of the key.
        scopes: What to ask for; what the MCP server demands, or else lists, is added.
        method: How it authenticates; chosen if not given.
        issuer: The only authorization server that may be asked. Without it, it is the one that the first MCP
            server names: that server decides then who gets to see the secret. For the store it stays that
            one; where another is named, a call raises `IssuerMismatch`.
        settings: ``store``, ``principal``, ``server_url``, ``allow_private``, ``allow_http``, ``dpop``,
            ``verify``, ``proxies``, ``cert`` and ``leeway``, as in `OAuth`.

    Raises:
        UsageError: It cannot be so.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: Secret = None,
        *,
        private_key: Any = None,
        private_key_alg: Optional[str] = None,
        private_key_id: Optional[str] = None,
        scopes: Sequence[str] = (),
        method: Optional[str] = None,
        issuer: Optional[str] = None,
        **settings: Any,
    ) -> None:
        given = credentials(client_secret, private_key, private_key_alg, private_key_id, method)
        if method == NONE or (client_secret is None and private_key is None):
            raise UsageError("a client that logs in by itself needs a client_secret or a private_key")
        name = checked_name("client_id", client_id)
        identity = ClientIdentity(name, issuer=issuer, grant_types=("client_credentials",), **given)
        super().__init__(identity, scopes, **settings)

    def _acquire(
        self,
        found: ServerRecord,
        client: ClientRecord,
        scope: Optional[str],
        now: float,
        prover: Optional[Prover],
    ) -> Conversation[Grant]:
        """See `Machine._acquire`."""
        form = {"grant_type": "client_credentials"}
        return self._ask(found, client, form, scope, now, prover, "token for the client's credentials")


class WorkloadIdentity(Machine):
    """Log in by the token that the platform gives to the workload (RFC 7523, section 2.1).

    For Kubernetes, SPIFFE, GitHub Actions and clouds: ``WorkloadIdentity.from_file("/var/run/secrets/...")``.
    The token has to be made out for the authorization server (``aud``: its issuer). A refusal is final: it is
    not tried in another way.

    Args:
        token: The token (a JWT), or a function that returns it and is called each time.
        client_id: The name of the client, where the authorization server wants one.
        client_secret: Its secret, where it has one.
        scopes: What to ask for; what the MCP server demands, or else lists, is added.
        issuer: The only authorization server that may be asked. Without it, it is the one that the first MCP
            server names: that server decides then who gets to see the token. For the store it stays that
            one; where another is named, a call raises `IssuerMismatch`.

    Raises:
        UsageError: It cannot be so.
    """

    def __init__(
        self,
        token: TokenSource,
        client_id: Optional[str] = None,
        *,
        client_secret: Secret = None,
        scopes: Sequence[str] = (),
        issuer: Optional[str] = None,
        **settings: Any,
    ) -> None:
        check_source(_WORKLOAD, token)
        self._token = token
        identity = ClientIdentity(client_id, client_secret, issuer=issuer, grant_types=(JWT_BEARER,))
        super().__init__(identity, scopes, **settings)

    @classmethod
    def from_file(
        cls, path: Union[str, os.PathLike[str]], client_id: Optional[str] = None, **options: Any
    ) -> WorkloadIdentity:
        """Read the token from a file, anew each time it is needed.

        Args:
            path: The file.
            client_id: As for the class, and so are all others.
        """
        return cls(TokenFile(path), client_id, **options)

    @classmethod
    def from_environment(cls, name: str, client_id: Optional[str] = None, **options: Any) -> WorkloadIdentity:
        """Read the token from an environment variable, anew each time it is needed.

        Args:
            name: The variable.
            client_id: As for the class, and so are all others.
        """
        return cls(TokenVariable(name), client_id, **options)

    def _identify(
        self, found: ServerRecord, known: Optional[ClientRecord], now: float, scope: Optional[str] = None
    ) -> Conversation[ClientRecord]:
        """See `Machine._identify`. Without a name it has none: nothing is registered for that."""
        if self.identity.client_id is not None:
            return (yield from super()._identify(found, known, now, scope))
        check_issuer(found, self.identity, known)
        return ClientRecord(found.issuer, "", method=NONE)

    def _acquire(
        self,
        found: ServerRecord,
        client: ClientRecord,
        scope: Optional[str],
        now: float,
        prover: Optional[Prover],
    ) -> Conversation[Grant]:
        """See `Machine._acquire`."""
        form = {"grant_type": JWT_BEARER, "assertion": read_source(_WORKLOAD, self._token)}
        return self._ask(found, client, form, scope, now, prover, "token for the workload's own")


def checked_name(what: str, name: Any) -> str:
    """Return a name that has to be given.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"{what} must be a string that is not empty")
    return name


def credentials(
    secret: Secret, key: Any, alg: Optional[str], kid: Optional[str], method: Optional[str]
) -> dict[str, Any]:
    """Return the part of a `ClientIdentity` that says how a client authenticates.

    Args:
        secret: Its secret, if it has one.
        key, alg, kid: Or else its private key, as `signer_of` takes it.
        method: What the user says about it.

    Raises:
        UsageError: It cannot be so.
    """
    if isinstance(secret, str) and not is_text(secret):
        raise UsageError("the client_secret cannot be sent: it has half a character")
    if key is None:
        if alg is not None or kid is not None:
            raise UsageError("an algorithm or an id of a private key was given, but no key")
        return {"client_secret": secret, "method": method}
    if secret is not None:
        raise UsageError("a client has either a client_secret or a private_key")
    if method not in (None, SIGNED):
        raise UsageError(f"a client with a private key authenticates by {SIGNED!r}, not by {method!r}")
    return {"signer": signer_of(key, alg, kid), "method": SIGNED}


def without_none(form: Mapping[str, Optional[str]]) -> dict[str, str]:
    """Return a form without what is not there."""
    return {name: value for name, value in form.items() if value is not None}
