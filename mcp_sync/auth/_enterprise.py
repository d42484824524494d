"""Enterprise-managed authorization: the identity provider of an enterprise vouches for its users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Optional

from .._protocol.urls import public_url
from ..errors import TokenRequestFailed, UsageError
from ._discovery import server_metadata
from ._dpop import Prover
from ._machine import JWT_BEARER, Machine, checked_name, credentials, without_none
from ._records import ClientRecord, Grant, ServerRecord
from ._registration import NONE, ClientIdentity, Secret, identify
from ._rules import is_secure
from ._sources import TokenSource, check_source, read_source
from ._steps import Conversation
from ._token_request import ask_token

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"

_SUBJECT = "the subject_token of EnterpriseManaged"


class EnterpriseManaged(Machine):
    """Have the identity provider of an enterprise vouch for a user who has logged in there.

    The provider gives a grant for the user's ID token (RFC 8693), the authorization server of the MCP server
    a token for that grant (RFC 7523). See the extension
    ``io.modelcontextprotocol/enterprise-managed-authorization``.

    Args:
        client_id: The name under which the client is registered with the authorization server.
        client_secret: Its secret there, or a function that returns it; may be left out.
        private_key, private_key_alg, private_key_id: Or else its key there, as in `ClientCredentials`.
        subject_token: The user's ID token (or SAML assertion), or a function that returns it: from the
            session of the login, for instance.
        subject_token_type: What it is (RFC 8693, section 3).
        idp_issuer: The identity provider, whose token endpoint is looked up in its metadata.
        idp_token_endpoint: Or that endpoint itself.
        idp_client_id: The name under which the client is registered with the provider.
        idp_client_secret, idp_private_key, idp_private_key_alg, idp_private_key_id: What it authenticates
            with there, if with anything.
        scopes: What to ask for; what the MCP server demands, or else lists, is added.
        method: How the client authenticates to the authorization server; chosen if not given.
        issuer: The only authorization server that may be asked. Without it, a client that is registered by
            hand belongs to the first one that it is used at, as in `ClientCredentials`.

    Raises:
        UsageError: It cannot be so.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: Secret = None,
        *,
        subject_token: TokenSource,
        subject_token_type: str = ID_TOKEN,
        idp_issuer: Optional[str] = None,
        idp_token_endpoint: Optional[str] = None,
        idp_client_id: Optional[str] = None,
        idp_client_secret: Secret = None,
        idp_private_key: Any = None,
        idp_private_key_alg: Optional[str] = None,
        idp_private_key_id: Optional[str] = None,
        private_key: Any = None,
        private_key_alg: Optional[str] = None,
        private_key_id: Optional[str] = None,
        scopes: Sequence[str] = (),
        method: Optional[str] = None,
        issuer: Optional[str] = None,
        **settings: Any,
    ) -> None:
        check_source(_SUBJECT, subject_token)
        self._subject_token = subject_token
        self._subject_token_type = checked_name("subject_token_type", subject_token_type)
        for name, url in (("idp_issuer", idp_issuer), ("idp_token_endpoint", idp_token_endpoint)):
            if url is not None and not is_secure(url):
                raise UsageError(f"{name} must be an https URL")
        if idp_issuer is None and idp_token_endpoint is None:
            raise UsageError("the identity provider is not known: give idp_issuer or idp_token_endpoint")
        if idp_client_id is None and (idp_client_secret is not None or idp_private_key is not None):
            raise UsageError("what the client authenticates with at the provider belongs to an idp_client_id")
        self._idp_issuer = idp_issuer
        self._idp_token_endpoint = idp_token_endpoint
        idp = credentials(idp_client_secret, idp_private_key, idp_private_key_alg, idp_private_key_id, None)
        self._idp_identity = ClientIdentity(idp_client_id, **idp)
        given = credentials(client_secret, private_key, private_key_alg, private_key_id, method)
        client = checked_name("client_id", client_id)
        identity = ClientIdentity(client, issuer=issuer, grant_types=(JWT_BEARER,), **given)
        super().__init__(identity, scopes, **settings)

    def for_principal(self, key: str) -> NoReturn:
        """Refuse: the ``subject_token`` says who the user is. Make one object for each.

        Raises:
            UsageError: Always.
        """
        raise UsageError("subject_token belongs to one user: make an EnterpriseManaged for each of them")

    def _trusted_urls(self) -> list[str]:
        """See `TokenAuth._trusted_urls`."""
        given = (self.identity.issuer, self._idp_issuer, self._idp_token_endpoint)
        return [url for url in given if url is not None]

    def _acquire(
        self,
        found: ServerRecord,
        client: ClientRecord,
        scope: Optional[str],
        now: float,
        prover: Optional[Prover],
    ) -> Conversation[Grant]:
        """See `Machine._acquire`."""
        vouched = yield from self._exchange(found, scope, now)
        form = {"grant_type": JWT_BEARER, "assertion": vouched["access_token"]}
        # The provider may have allowed less than was asked for.
        allowed = vouched.get("scope")
        granted = allowed if isinstance(allowed, str) and allowed else scope
        return (
            yield from self._ask(
                found, client, form, granted, now, prover, "token for what the identity provider vouches for"
            )
        )

    def _exchange(
        self, found: ServerRecord, scope: Optional[str], now: float
    ) -> Conversation[Mapping[str, Any]]:
        """Have the identity provider vouch for the user at the authorization server."""
        provider = yield from self._provider()
        client = yield from self._name_at(provider, now)
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": found.issuer,
            "resource": found.resource,
            "scope": scope,
            "subject_token": read_source(_SUBJECT, self._subject_token),
            "subject_token_type": self._subject_token_type,
        }
        answer = yield from ask_token(
            provider,
            client,
            without_none(form),
            now=now,
            signer=self._idp_identity.signer,
            purpose="grant for the user's token",
        )
        # Anything else, such as a token of the provider's own, is not for the eyes of another server.
        if answer.get("issued_token_type") != ID_JAG:
            raise TokenRequestFailed(
                f"{provider.issuer} gave something else than an identity assertion (ID-JAG)",
                url=public_url(provider.issuer),
            )
        return answer

    def _provider(self) -> Conversation[ServerRecord]:
        if self._idp_token_endpoint is not None:
            metadata: dict[str, Any] = {"token_endpoint": self._idp_token_endpoint}
            return ServerRecord(self._idp_issuer or self._idp_token_endpoint, None, metadata)
        assert self._idp_issuer is not None
        metadata = yield from server_metadata(self._idp_issuer)
        return ServerRecord(metadata["issuer"], None, metadata)

    def _name_at(self, provider: ServerRecord, now: float) -> Conversation[ClientRecord]:
        if self._idp_identity.client_id is None:
            return ClientRecord(provider.issuer, "", method=NONE)
        return (yield from identify(provider, self._idp_identity, None, None, now))
