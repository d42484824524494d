"""The access of one user to one MCP server: what a request needs, and what is done so that it has it.

What costs a request happens in turns: one thread at a time gets a grant, and the others take what it got.
Between processes the lock of the store has the same effect, around reading, refreshing and writing; it is
never held while a person is asked, and no lock is held during a request of the user.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Optional

from .._concurrency.deadline import Deadline
from .._protocol.urls import origin, public_url
from ..errors import (
    AccessDenied,
    AuthError,
    AuthorizationRequired,
    CallTimeout,
    InsufficientScope,
    TokenRequestFailed,
    UsageError,
    another,
)
from ._authority import CONVERSATION_SECONDS, Authority
from ._challenge import Challenge
from ._current import Current
from ._dpop import Prover, new_key
from ._errand import Errand
from ._grant_in_use import GrantInUse
from ._login import FORGOTTEN, Login, is_for
from ._records import ClientRecord, Grant, Key, ServerRecord
from ._rules import scope_tokens
from ._turn import Taker, Turn
from ._vault import server_name

if TYPE_CHECKING:
    from ._hook import TokenAuth

logger = logging.getLogger("mcp_sync.auth")

# How long a renewal ahead of time is waited for while the token is valid: little, and a small part of what
# the request has left. Where that is next to nothing none is begun.
_AHEAD_SECONDS = 5.0
_AHEAD_PART = 3
_AHEAD_LEAST = 0.5
_NO_GOOD = "invalid_grant"  # what an authorization server says of a grant that is over

_now = time.time


class Got(NamedTuple):
    """What there is now instead of a grant that does not do.

    Attributes:
        current: The grant.
        was_there: Whether it was there before, and only had to be found.
    """

    current: Current
    was_there: bool = False


class Access:
    """See the module. Safe for any number of threads.

    Args:
        auth: What the user has set.
        server: The URL of the MCP server.

    Attributes:
        authority: Its authorization server.
        in_use: The grant that is used for it.
    """

    def __init__(self, auth: TokenAuth, server: str) -> None:
        self.auth = auth
        self.server = server
        self.origin = origin(server)
        self.vault = auth.vault
        self.authority = Authority(auth, server)
        self.in_use = GrantInUse(auth.vault, server, auth.leeway)
        self.turn = Turn()

    @property
    def server_name(self) -> str:
        """The server, as logs and errors may name it."""
        return public_url(self.server)

    @property
    def login_name(self) -> str:
        """What a login is called in errors."""
        return f"the login for {self.server_name}"

    @property
    def places(self) -> list[str]:
        """The URLs at and below which a request is for this server: its own, and that of its resource."""
        current = self.in_use.current
        resource = current.grant.resource if current is not None else None
        return [server_name(self.server), *([resource] if resource is not None else [])]

    def read(self) -> Optional[Current]:
        """Take what the store holds now."""
        return self.in_use.read()

    # --- for a request -------------------------------------------------------------------------------------

    def ready(self, errand: Errand) -> Optional[Current]:
        """Return the grant to use for a request, got ahead of its expiry; ``None`` if there is none.

        Raises:
            AuthError: It has expired, and another one cannot be had just now.
        """
        current = self.in_use.current
        if current is not None and current.version is not None and current.news is self.in_use.news.mark:
            moment = _now()
            if moment < current.renew_at and moment < current.look_at:
                return current
        with errand.here():
            return self._made_ready(errand)

    def at_hand(self, errand: Errand) -> Optional[Current]:
        """Return the grant that is there, for a request that is not worth another one; ``None`` for none."""
        with errand.here():
            return self.in_use.current if self.in_use.current is not None else self.read()

    def _made_ready(self, errand: Errand) -> Optional[Current]:
        current = self._looked_after()
        if current is not None and current.version is None:
            current = self.in_use.written(current)
        if current is None or _now() < current.renew_at:
            return current
        if current.grant.refresh_token is None and self.auth._needs_person:
            return self.read()
        if current.is_valid:
            return self._ahead(errand, current)
        with errand.aside():
            return self._next(errand, current)

    def _looked_after(self) -> Optional[Current]:
        """Return the grant in use, unless the user has logged in or out by another object or process."""
        current = self.in_use.current
        if current is None:
            return self.read()
        if current.version is None or (current.news is self.in_use.news.mark and _now() < current.look_at):
            return current
        try:
            return self.read()
        except (AuthError, CallTimeout):
            # A token that is valid is no worse because the store cannot be read just now.
            if not current.is_valid:
                raise
            current.looked(current.news)
            return current

    def _next(self, errand: Errand, current: Current) -> Optional[Current]:
        newer = self.renew(errand, current.token)
        if newer is None and not self.auth._needs_person:
            newer = self.authorize(errand, current.token, None, None).current
        return newer

    def _ahead(self, errand: Errand, current: Current) -> Optional[Current]:
        """Return the next grant, or the one that is valid still if another is not to be had just now."""
        left = errand.deadline.remaining()
        seconds = _AHEAD_SECONDS if left is None else min(_AHEAD_SECONDS, left / _AHEAD_PART)
        if seconds < _AHEAD_LEAST or self.turn.is_working:
            return current
        # Before it begins: whoever comes meanwhile goes on with what is valid.
        current.put_off_renewal()
        part = errand.part(seconds)
        try:
            with errand.aside(), part.here():
                newer = self._next(part, current) or self.read()
        except (AuthError, CallTimeout, UsageError) as error:
            # It may be the authorization server, the way to it, or the store that cannot do it just now. What
            # stays wrong is told when the token has expired.
            newer, why = current, str(error)
        else:
            why = str(self.in_use.why)
        if newer is current:
            current.put_off_renewal()
            if self.turn.is_working:
                logger.info("The token for %s is being renewed still", self.server_name)
            else:
                logger.warning(
                    "The token for %s could not be renewed ahead of time: %s", self.server_name, why
                )
        return newer

    # --- another grant for the one that there is -----------------------------------------------------------

    def renew(self, errand: Errand, used: Optional[str]) -> Optional[Current]:
        """Return the grant that replaces one: what others have got meanwhile, or a refreshed one.

        Args:
            errand: What it is for.
            used: The token that is of no use any more.

        Returns:
            ``None`` if there is none to be had without a login. The old grant is forgotten then only if the
            authorization server says that it is no good.

        Raises:
            TokenRequestFailed: Not now (``transient``); or the server does not accept this client, or refuses
                without saying that the grant is no good.
        """
        doing = f"the refresh of a token for {self.server_name}"
        with self.turn.taken(errand, doing):
            self.turn.join(errand, doing)
            current = self.read()
            if current is None or current.is_newer_than(used):
                return current
            if current.grant.refresh_token is None:
                return None
            return self.turn.work(errand, doing, lambda own: self._renewed(own, used))

    def _renewed(self, errand: Errand, used: Optional[str]) -> Optional[Current]:
        with self._locked(errand):
            # Once the refresh token has been sent, its answer is all that there is.
            errand.see_through()
            current = self.read()
            if current is not None and not current.is_newer_than(used):
                current = self.in_use.rewritten(current)
            if current is None or current.is_newer_than(used):
                return current
            return self._refreshed(errand, current)

    def _refreshed(self, errand: Errand, current: Current) -> Optional[Current]:
        grant, found = current.grant, self.authority.known()
        client = self.authority.client_of(errand, grant, found)
        if found is None or client is None:
            return None
        prover = self.in_use.prover(grant.dpop_key) if grant.dpop_key is not None else None
        try:
            new = self.authority.refresh(errand, grant, found, client, prover)
        except TokenRequestFailed as error:
            return self._after_refusal(error, current, client)
        except AccessDenied as error:
            self.in_use.why = error.with_traceback(None)
            return None
        kept = self.in_use.keep(new, current.version)
        if kept.version is None and self.read() is None:
            # The user has logged out meanwhile, and had only the old grant revoked.
            self._revoke(errand, new, found)
            return None
        return kept

    def _after_refusal(
        self, error: TokenRequestFailed, current: Current, client: ClientRecord
    ) -> Optional[Current]:
        """Find out what is left after a refresh that was refused."""
        if error.transient:
            raise error
        newer = self.read()
        if newer is not None and newer.grant.access_token != current.grant.access_token:
            return newer
        if error.error in FORGOTTEN:
            if not client.registered:
                raise error
            self.authority.forget_client(client)
        elif error.error != _NO_GOOD and self.auth._needs_person:
            # It may be a gateway that says so, or somebody's mistake: no reason to trouble the user, nor to
            # give away what may work again in a minute.
            raise error
        # Its frames would keep alive whatever they hold.
        self.in_use.why = error.with_traceback(None)
        served = self.in_use.news.has_served(self.server, current.grant.access_token)
        if error.error == _NO_GOOD and served:
            # It was of use, and is over: that is not like a new one which is refused, and another may do.
            self.authority.forget_logins()
        if error.error in (_NO_GOOD, *FORGOTTEN):
            # Only what was refused: whatever is newer stays.
            self.in_use.forget(current.version)
        return None

    # --- a new one -----------------------------------------------------------------------------------------

    def authorize(
        self,
        errand: Errand,
        used: Optional[str],
        challenge: Optional[Challenge],
        scope: Optional[str],
        must_cover: Optional[str] = None,
    ) -> Got:
        """Get a grant by a login, with a person or without; or take what others have got meanwhile.

        A person is asked once for all that wait: what they answer counts for those, and for nobody later.

        Args:
            errand: What it is for.
            used: The token that does not do.
            challenge: What the MCP server has said.
            scope: What to ask for, ``None`` for what the challenge, the user and the server say.
            must_cover: What a grant of others must be for, to be taken.

        Raises:
            AuthError: There is none.
        """
        asking = None if scope is None else frozenset(scope_tokens(scope))
        doing = self.login_name
        with self.turn.taken(errand, doing, asking) as taker:
            self.turn.join(errand, doing)
            others = self._of_others(used, must_cover) or taker.answer()
            if others is not None and others.grant.access_token != used:
                return Got(others)
            found = self.authority.find(errand, challenge)
            if self.auth._needs_person:
                # The grant for another server may do for this one: only now it is known which that is.
                others = self._of_others(used, must_cover)
                if others is not None:
                    return Got(others, was_there=True)
                return Got(self._asked(Login(self, errand, found, challenge, scope, used), taker))
            with self._locked(errand):
                others = self._of_others(used, must_cover)
                if others is not None:
                    return Got(others, was_there=True)
                return Got(self.auth._log_in(Login(self, errand, found, challenge, scope, used)))

    def _of_others(self, used: Optional[str], must_cover: Optional[str]) -> Optional[Current]:
        current = self.read()
        if current is None or not current.is_newer_than(used) or not is_for(current.grant, must_cover):
            return None
        return current

    def _asked(self, login: Login, taker: Taker) -> Current:
        """Have a person asked, and tell the answer to all that wait for it."""
        try:
            current = self.auth._log_in(login)
        except AuthError as error:
            # A copy, without the frames.
            self.turn.tell(taker, None, another(error))
            raise
        if taker.asking is not None:
            self.in_use.asked.add(taker.asking)
        self.turn.tell(taker, current, None)
        return current

    def step_up(
        self,
        errand: Errand,
        used: Optional[str],
        challenge: Optional[Challenge],
        scope: Optional[str],
        demanded: Optional[str],
    ) -> Got:
        """Get a grant for more than before; see `authorize`.

        Raises:
            InsufficientScope: Somebody has to agree, and is not asked by this process.
            AuthError: There is none.
        """
        try:
            got = self.authorize(errand, used, challenge, scope, demanded)
        except AuthorizationRequired as error:
            scopes = tuple(scope_tokens(demanded))
            text = f"{self.server_name} asks for the scope {demanded!r}: {error}"
            raise InsufficientScope(text, url=error.url, scopes=scopes) from error
        self.in_use.asked.add(frozenset(scope_tokens(scope)))
        return got

    def new_prover(self, held: Optional[Grant]) -> Optional[Prover]:
        """Return what a new token will be bound to, ``None`` if to nothing."""
        if not self.auth.dpop:
            return None
        key = held.dpop_key if held is not None and held.dpop_key is not None else new_key()
        return self.in_use.prover(key)

    def keep_login(self, found: ServerRecord, client: ClientRecord, grant: Grant) -> Current:
        """Keep what a login has brought, with all that belongs to it. The latest login wins."""
        try:
            old, key = self.vault.grant_key(self.server), self.vault.key_of(self.server, grant)
            self.authority.keep_client(client)
            kept = self.vault.grant_under(key)
        except (AuthError, CallTimeout):
            self.in_use.use_unwritten(grant)
            raise
        current = self.in_use.keep(grant, kept.version if kept is not None else None, is_login=True)
        # The old grant is found, and there, until the new one is written.
        self.authority.keep_login(found)
        if old is not None and old != key:
            self.vault.forget_grant_under(old)
        self.in_use.news.tell()
        current.looked(self.in_use.news.mark)
        return current

    # --- none any more -------------------------------------------------------------------------------------

    def log_out(self, seconds: float) -> bool:
        """Have the grant revoked, and forget it in any case; return whether it was revoked.

        Raises:
            AuthError: The store cannot be read or written.
        """
        errand = Errand(deadline=Deadline(seconds))
        try:
            with errand.here(), ExitStack() as lock:
                key = self.vault.grant_key(self.server)
                with suppress(CallTimeout):
                    # A refresh that is under way would bring a grant that nobody revokes.
                    lock.enter_context(self._locked(errand))
                return self._log_out(errand, key)
        except CallTimeout as error:
            what = "others keep the token store from being used"
            raise AuthError(f"{what}: not within {seconds:g} s") from error

    def _log_out(self, errand: Errand, key: Optional[Key]) -> bool:
        current, found = self.read(), self.authority.known()
        self.in_use.current = None
        self.in_use.asked.clear()
        try:
            return current is not None and found is not None and self._revoke(errand, current.grant, found)
        finally:
            if key is not None:
                self.vault.forget_grant_under(key)
            self.in_use.news.tell()

    def _revoke(self, errand: Errand, grant: Grant, found: ServerRecord) -> bool:
        try:
            return self.authority.revoke(errand, grant, found)
        except (AuthError, CallTimeout, UsageError) as error:
            logger.warning("A token for %s could not be revoked: %s", self.server_name, error)
            return False

    @contextmanager
    def _locked(self, errand: Errand) -> Iterator[None]:
        """Hold the grant against other processes."""
        key = self.vault.grant_key(self.server)
        if key is None:
            yield
            return
        with self.vault.store.lock(key, errand.within(CONVERSATION_SECONDS)):
            yield
