"""What the authorization hooks read and write: records instead of raw values of a store."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, TypeVar
from urllib.parse import urlsplit

from .._protocol.urls import is_loopback
from ._news import News, news_of
from ._reading import read_record
from ._records import ClientRecord, Grant, Key, Pending, Record, ServerRecord
from ._rules import canonical_resource
from ._store import Store, Stored
from ._store_edge import StoreEdge

if TYPE_CHECKING:
    from ._registration import ClientIdentity

logger = logging.getLogger("mcp_sync.auth")
SIGNED = "private_key_jwt"
R = TypeVar("R", bound=Record)

PENDING_LIFE = 3600.0  # seconds for which an authorization waits for the user
_WAITING, _USED = "waiting", "used"
# Authorizations of one principal that may wait at once; and those that are known to have been used.
_PENDING_MOST = {_WAITING: 100, _USED: 1000}
_ATTEMPTS = 20  # how often a write that somebody else keeps overtaking is tried
# What was said to be left out, by hashes of key and version: each request may come by it.
_left_out: set[int] = set()
_MOST_LEFT_OUT = 10_000


class Kept(NamedTuple):
    """A grant and the version under which the store holds it."""

    grant: Grant
    version: str


class Vault:
    """Typed access to a store, for one user of one application. Safe for any number of threads.

    What users share is how the application is known to an authorization server. Which authorization server
    they have chosen, and what they were granted there, is theirs: it is kept apart by principal, by
    application, and by the issuer that the user has set.

    A record that cannot be understood counts as absent, with a warning, and may be replaced; what a newer
    release has added to one is left out.

    Args:
        store: Where the records are.
        identity: The application.
        redirect_uri: The redirect URI that it registers with, as long as that tells it from others.
        principal: The user.
        clock: Tells the time, in seconds since 1970.

    Raises:
        AuthError: From every method: the store cannot be read or written.
    """

    def __init__(
        self,
        store: Store,
        identity: ClientIdentity,
        redirect_uri: Optional[str] = None,
        principal: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = StoreEdge(store)
        self._registration = registration_name(identity, redirect_uri)
        self._application = application_name(identity, redirect_uri)
        # Whatever the application does with them, they are the same credentials.
        self._credentials = _digest(identity.client_id) if identity.client_id else self._application
        self._signs = identity.signer is not None
        self._pinned = identity.issuer or ""
        self._principal = principal
        self._clock = clock

    def for_principal(self, principal: str) -> Vault:
        """Return the part of the same store that belongs to another user."""
        twin = copy.copy(self)
        twin._principal = principal
        return twin

    @property
    def news(self) -> News:
        """What tells that this user has logged in, or out."""
        return news_of(self._principal, self._application)

    # What discovery found out about a server.

    def found(self, server: str) -> Optional[ServerRecord]:
        """Return what is known of an MCP server: the authorization server that this user has a grant from."""
        return self._record(ServerRecord, self._server_key(server))

    def keep_found(self, server: str, found: ServerRecord) -> None:
        """Keep what discovery found; the latest finding wins."""
        self._replace(self._server_key(server), found.to_json())

    def _server_key(self, server: str) -> Key:
        return Key("server", self._pinned, server_name(server), self._principal, self._application)

    # How an authorization server knows this client.

    def client(self, issuer: str) -> Optional[ClientRecord]:
        """Return the registration at an authorization server."""
        client = self._record(ClientRecord, self.client_key(issuer))
        # It may be another program's, or older than a change of this one, which has no key any more.
        return None if client is not None and client.method == SIGNED and not self._signs else client

    def keep_client(self, client: ClientRecord) -> None:
        """Keep a registration; the latest one wins."""
        self._replace(self.client_key(client.issuer), client.to_json())

    def forget_client(self, issuer: str, client: Optional[ClientRecord] = None) -> None:
        """Remove a registration.

        Args:
            issuer: The authorization server.
            client: The registration that does not work. Another one, which somebody has made meanwhile,
                stays. ``None`` removes whatever is there.
        """
        key = self.client_key(issuer)
        stored = self.store.get(key)
        if stored is None:
            return
        kept = self._understood(ClientRecord, key, stored)
        if client is None or kept is None or kept.client_id == client.client_id:
            self.store.put(key, None, stored.version)

    def client_key(self, issuer: str) -> Key:
        """Return what a registration is kept under: other applications have others."""
        return Key("client", issuer, client=self._registration)

    def first_client(self) -> Optional[ClientRecord]:
        """Return where credentials that were given by hand were first used, whoever used them."""
        return self._record(ClientRecord, self._first_key)

    def keep_first_client(self, client: ClientRecord) -> None:
        """Keep where such credentials belong, unless that is known."""
        key = self._first_key
        stored = self.store.get(key)
        if stored is None or self._understood(ClientRecord, key, stored) is None:
            self.store.put(key, client.to_json(), stored.version if stored is not None else None)

    def forget_first_client(self) -> None:
        """Have such credentials belong nowhere yet."""
        self._replace(self._first_key, None)

    @property
    def _first_key(self) -> Key:
        return Key("client", client=self._credentials)

    # Grants.

    def grant(self, server: str) -> Optional[Kept]:
        """Return the grant for an MCP server, from the authorization server that is known for it."""
        key = self.grant_key(server)
        return self.grant_under(key) if key is not None else None

    def grant_under(self, key: Key) -> Optional[Kept]:
        """Return the grant under a key that `grant_key` has returned."""
        stored = self.store.get(key)
        grant = self._understood(Grant, key, stored) if stored is not None else None
        return None if grant is None or stored is None else Kept(grant, stored.version)

    def keep_grant(self, server: str, grant: Grant, expected: Optional[str]) -> bool:
        """Keep a grant, unless somebody else was faster.

        Args:
            server: The MCP server.
            grant: The new grant.
            expected: The version of the grant that it replaces, ``None`` if there was none.

        Returns:
            ``False`` if another grant is there by now: it is the one to use.
        """
        key = self.key_of(server, grant)
        if self.store.put(key, grant.to_json(), expected):
            return True
        stored = self.store.get(key) if expected is None else None
        if stored is None or self._understood(Grant, key, stored) is not None:
            return False
        # What nobody can read must not stand in the way for ever.
        return self.store.put(key, grant.to_json(), stored.version)

    def forget_grant(self, server: str, expected: Optional[str]) -> bool:
        """Remove a grant, unless it has been replaced meanwhile.

        Args:
            server: The MCP server.
            expected: The version that is to go, ``None`` for whatever is there.

        Returns:
            ``False`` if another grant is there by now.
        """
        key = self.grant_key(server)
        if key is None:
            return True
        if expected is None:
            self.forget_grant_under(key)
            return True
        return self.store.put(key, None, expected)

    def forget_grant_under(self, key: Key) -> None:
        """Remove whatever is under a key that `grant_key` has returned."""
        self._replace(key, None)

    def key_of(self, server: str, grant: Grant) -> Key:
        """Return what a certain grant is kept under, whatever is known of the server."""
        return self._grant_key(server, grant.issuer, grant.resource)

    def grant_key(self, server: str) -> Optional[Key]:
        """Return what a grant is kept and locked under, ``None`` while nothing is known of the server."""
        found = self.found(server)
        return None if found is None else self._grant_key(server, found.issuer, found.resource)

    def _grant_key(self, server: str, issuer: str, resource: Optional[str]) -> Key:
        return Key("grant", issuer, resource or server_name(server), self._principal, self._application)

    # Authorizations that wait for the user.

    def keep_pending(self, pending: Pending) -> None:
        """Keep an authorization until it is taken, an hour at most, and drop those that were given up."""
        self._replace(Key("pending", resource=pending.state), pending.to_json())
        self._list_pending(pending, _WAITING)

    def pending(self, state: str) -> Optional[Pending]:
        """Return an authorization that waits, and leave it where it is."""
        key = Key("pending", resource=state)
        stored = self.store.get(key) if state else None
        if stored is None or _USED in stored.value:
            return None
        pending = self._understood(Pending, key, stored)
        return None if pending is None or self._is_over(pending.created_at) else pending

    def take_pending(self, pending: Pending) -> bool:
        """Mark an authorization as used: of any number of callers only one may, and only within the hour.

        One that is not there, because the application has kept it, is marked all the same.

        Returns:
            ``False`` if it was used before, or is too old.
        """
        if self._is_over(pending.created_at):
            return False
        key = Key("pending", resource=pending.state)
        # Listed first: what is marked must be found when its hour is over.
        self._list_pending(pending, _USED)
        stored = self.store.get(key)
        if stored is not None and _USED in stored.value:
            return False
        version = stored.version if stored is not None else None
        return self.store.put(key, {_USED: pending.created_at}, version)

    def give_back_pending(self, pending: Pending) -> None:
        """Have an authorization wait on that was taken, and did not come to its end."""
        self._replace(Key("pending", resource=pending.state), pending.to_json())

    def _list_pending(self, pending: Pending, which: str) -> None:
        """Add to one of a principal's two lists of authorizations, and drop what is over.

        A store cannot be asked for all its keys: without lists nobody would find those that were given up.
        """
        key = Key("pending", principal=pending.principal)
        for _ in range(_ATTEMPTS):
            stored = self.store.get(key)
            value = stored.value if stored is not None else {}
            lists = {name: _times(value.get(name)) for name in (_WAITING, _USED)}
            before = {*lists[_WAITING], *lists[_USED]}
            lists[_WAITING].pop(pending.state, None)
            lists[which][pending.state] = pending.created_at
            kept = {name: self._latest(lists[name], _PENDING_MOST[name]) for name in lists}
            if self.store.put(key, kept, stored.version if stored is not None else None):
                for state in before - {*kept[_WAITING], *kept[_USED], pending.state}:
                    self._replace(Key("pending", resource=state), None)
                return

    def _latest(self, times: Mapping[str, float], most: int) -> dict[str, float]:
        latest = sorted(times.items(), key=lambda item: item[1])[-most:]
        return {state: since for state, since in latest if not self._is_over(since)}

    def _is_over(self, since: float) -> bool:
        # The clock may have been set back since.
        return abs(self._clock() - since) > PENDING_LIFE

    # What they have in common.

    def _record(self, kind: type[R], key: Key) -> Optional[R]:
        stored = self.store.get(key)
        return None if stored is None else self._understood(kind, key, stored)

    def _understood(self, kind: type[R], key: Key, stored: Stored) -> Optional[R]:
        try:
            return read_record(kind, stored.value)
        except TypeError as error:
            _tell_once(key, stored.version, error)
            return None

    def _replace(self, key: Key, value: Optional[Mapping[str, Any]]) -> None:
        """Write over whatever is there: for records of which the latest is the best."""
        for _ in range(_ATTEMPTS):
            stored = self.store.get(key)
            if self.store.put(key, value, stored.version if stored is not None else None):
                return
        # The others have written something at least as new.


def server_name(server: str) -> str:
    """Return the URL under which a server is kept: no query, no user and password, no slash at the end."""
    return canonical_resource(server).rstrip("/")


def registration_name(identity: ClientIdentity, redirect_uri: Optional[str] = None) -> str:
    """Return what tells the registration of an application from those of others."""
    # A native application is registered for any port, a web application for its own redirect URIs only.
    uris = {*identity.redirect_uris, redirect_uri or ""}
    return _digest(
        identity.client_name,
        identity.client_id,
        identity.metadata_url,
        identity.software_id,
        identity.application_type,
        identity.method,
        sorted(identity.grant_types),
        sorted("loopback" if is_loopback(urlsplit(uri).hostname) else uri for uri in uris),
    )


def application_name(identity: ClientIdentity, redirect_uri: Optional[str] = None) -> str:
    """Return what tells the grants of an application from those of others.

    It is known by the name that it was given, wherever its users are sent back to; one without a name by all
    that it registers with. What it is called there may change with each registration.
    """
    name = identity.client_id or identity.metadata_url
    if name is None:
        return registration_name(identity, redirect_uri)
    return _digest(name, sorted(identity.grant_types))


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _tell_once(key: Key, version: str, error: TypeError) -> None:
    """Warn that a record is left out, once for each version of it in this process."""
    mark = hash((key, version))
    if mark in _left_out:
        return
    if len(_left_out) >= _MOST_LEFT_OUT:
        _left_out.clear()
    _left_out.add(mark)
    whose = key.issuer or key.resource if key.kind != "pending" else "a login"
    logger.warning("The %s record kept for %s is left out: %s", key.kind, whose, error)


def _times(value: Any) -> dict[str, float]:
    """Return a list of authorizations, as far as it can be understood."""
    if not isinstance(value, dict):
        return {}
    return {state: since for state, since in value.items() if isinstance(since, (int, float))}
