"""The device flow (RFC 8628): the user logs in with any browser, on any machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple, Optional

from .._arguments import check_callback
from .._protocol.urls import public_url
from ..errors import AuthError, MCPError, TokenRequestFailed, UsageError
from ._answers import json_object, number_of, quoted, text_of
from ._current import Current
from ._dpop import Prover
from ._login import Login
from ._machine import Machine, credentials, without_none
from ._records import ClientRecord, Grant, ServerRecord
from ._registration import ClientIdentity, Secret
from ._rules import endpoint, is_secure, with_offline_access
from ._steps import Conversation, Pause
from ._token_request import failure, post

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"

_INTERVAL = 5.0  # seconds between two questions, where the server says nothing (RFC 8628, section 3.2)
_SHORTEST_INTERVAL = 1.0
_SLOWER = 5.0  # seconds that slow_down adds (RFC 8628, section 3.5)
_LIFETIME = 600.0  # seconds, where the server says nothing
_LONGEST_LIFETIME = 3600.0
_LONGEST_BACKOFF = 60.0


@dataclass(frozen=True)
class DevicePrompt:
    """What the user has to do. As a text it is a sentence to be printed.

    Attributes:
        user_code: The code to enter.
        verification_uri: Where to enter it.
        verification_uri_complete: The same with the code in it, for a link or a QR code; ``None`` where the
            server offers none.
        expires_in: Seconds until the code expires.
    """

    user_code: str = field(repr=False)
    verification_uri: str
    verification_uri_complete: Optional[str] = field(repr=False)
    expires_in: float

    def __str__(self) -> str:
        complete = self.verification_uri_complete
        shorter = f" (or open {complete})" if complete is not None else ""
        return f"To log in, open {self.verification_uri} and enter the code {self.user_code}{shorter}"


class DeviceCode(Machine):
    """Have the user log in with a browser anywhere, while the program waits (RFC 8628).

    For terminals without a browser, over SSH or in a container. The call waits until the user has agreed, as
    long as its deadline and the code admit.

    Args:
        client_id: The name under which the client is registered; without it, it registers by itself where
            that is possible.
        client_secret: Its secret, if it has one.
        show: Called with a `DevicePrompt`, which can be printed; on the thread that waits for the user, which
            is not that of the call.
        private_key, private_key_alg, private_key_id: As in `ClientCredentials`.
        client_metadata_url: Where the client's metadata document lies, as in `OAuth`.
        client_name: What users are shown.
        scopes: What to ask for; what the MCP server demands, or else lists, is added.
        method: How it authenticates; chosen if not given.
        issuer: The only authorization server that may be asked. Without it, a client that is registered by
            hand belongs to the first one that it is used at, as in `ClientCredentials`.

    Raises:
        UsageError: It cannot be so.
    """

    _interactive = True
    _longest = _LONGEST_LIFETIME + 60.0

    def __init__(
        self,
        client_id: Optional[str] = None,
        client_secret: Secret = None,
        *,
        show: Callable[[DevicePrompt], object] = print,
        private_key: Any = None,
        private_key_alg: Optional[str] = None,
        private_key_id: Optional[str] = None,
        client_metadata_url: Optional[str] = None,
        client_name: str = "mcp-sync",
        scopes: Sequence[str] = (),
        method: Optional[str] = None,
        issuer: Optional[str] = None,
        **settings: Any,
    ) -> None:
        check_callback("show", show)
        if show is None:
            raise UsageError("show must be a function: somebody has to see the code")
        self._show = show
        identity = ClientIdentity(
            client_id,
            metadata_url=client_metadata_url,
            issuer=issuer,
            client_name=client_name,
            grant_types=(DEVICE_CODE, "refresh_token"),
            **credentials(client_secret, private_key, private_key_alg, private_key_id, method),
        )
        super().__init__(identity, scopes, **settings)

    def _log_in(self, login: Login) -> Current:
        """See `TokenAuth._log_in`. What the user has agreed to must not be lost with an answer."""
        work, doing = login.access.turn.work, login.access.login_name
        return work(login.errand, doing, lambda own: super(DeviceCode, self)._log_in(login.on(own)))

    def _identify(
        self, found: ServerRecord, known: Optional[ClientRecord], now: float, scope: Optional[str] = None
    ) -> Conversation[ClientRecord]:
        """See `Machine._identify`. It registers for all that `_acquire` will ask for."""
        return super()._identify(found, known, now, with_offline_access(scope, found))

    def _acquire(
        self,
        found: ServerRecord,
        client: ClientRecord,
        scope: Optional[str],
        now: float,
        prover: Optional[Prover],
    ) -> Conversation[Grant]:
        """See `Machine._acquire`."""
        scope = with_offline_access(scope, found)
        begun = yield from self._begin(found, client, scope, now)
        self._tell(begun.prompt)
        form = {"grant_type": DEVICE_CODE, "device_code": begun.device_code}
        lifetime, interval, waited = begun.prompt.expires_in, begun.interval, 0.0
        while waited < lifetime:
            pause = min(interval, lifetime - waited)
            yield Pause(pause)
            waited += pause
            try:
                return (
                    yield from self._ask(
                        found, client, form, scope, now + waited, prover, "token for the code of the user"
                    )
                )
            except TokenRequestFailed as error:
                interval = _next_interval(interval, error)
        raise TokenRequestFailed(
            f"the code to log in at {public_url(begun.prompt.verification_uri)} has expired",
            url=public_url(found.issuer),
            error="expired_token",
        )

    def _begin(
        self, found: ServerRecord, client: ClientRecord, scope: Optional[str], now: float
    ) -> Conversation[_Begun]:
        """Ask for the codes (RFC 8628, section 3.1)."""
        url = endpoint(found.metadata, "device_authorization_endpoint")
        if url is None:
            raise AuthError(
                f"{found.issuer} has no device_authorization_endpoint: it does not offer the device flow",
                url=public_url(found.issuer),
            )
        form = without_none({"scope": scope, "resource": found.resource})
        purpose = "code for the user"
        posted = yield from post(
            found, client, url, form, now=now, signer=self.identity.signer, purpose=purpose
        )
        body = json_object(posted.answer.body)
        if body is None or posted.answer.status >= 300 or body.get("error"):
            raise failure(posted, found, url, purpose)
        begun = _begun(body)
        if begun is None:
            missing = "device_code, user_code or an https verification_uri"
            raise TokenRequestFailed(
                f"{found.issuer} gave no {purpose}: {missing} is missing",
                url=public_url(url),
                status=posted.answer.status,
            )
        return begun

    def _tell(self, prompt: DevicePrompt) -> None:
        try:
            self._show(prompt)
        except MCPError:
            raise
        except Exception as error:
            raise AuthError(f"the code could not be shown to the user: {type(error).__name__}") from error


class _Begun(NamedTuple):
    """An answer of the device authorization endpoint."""

    device_code: str
    prompt: DevicePrompt
    interval: float


def _begun(body: Mapping[str, Any]) -> Optional[_Begun]:
    """Read the answer, ``None`` if something is missing, or can be shown to nobody."""
    device_code, user_code = text_of(body, "device_code"), text_of(body, "user_code")
    # Google's name for it is older than the RFC.
    uri = text_of(body, "verification_uri") or text_of(body, "verification_url")
    complete = text_of(body, "verification_uri_complete")
    if device_code is None or user_code is None or not is_secure(uri) or uri is None:
        return None
    lifetime = number_of(body.get("expires_in")) or 0.0
    prompt = DevicePrompt(
        # It is printed on a terminal, which obeys control characters.
        quoted(user_code),
        uri,
        complete if is_secure(complete) else None,
        min(lifetime, _LONGEST_LIFETIME) if lifetime > 0.0 else _LIFETIME,
    )
    given = number_of(body.get("interval"))
    return _Begun(device_code, prompt, _INTERVAL if given is None else max(given, _SHORTEST_INTERVAL))


def _next_interval(interval: float, error: TokenRequestFailed) -> float:
    """Return how long to wait after a refusal.

    Raises:
        TokenRequestFailed: It is final.
    """
    if error.error == "authorization_pending":
        return interval
    if error.error == "slow_down":
        return interval + _SLOWER
    if error.transient:
        return max(interval, min(interval * 2, _LONGEST_BACKOFF))
    raise error
