"""Authorization failed."""

from __future__ import annotations

from typing import Optional

from ._base import MCPError


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
