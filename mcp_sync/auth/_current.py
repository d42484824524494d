"""The grant in use, ready to be put on requests."""

from __future__ import annotations

import time
from typing import Optional

import requests

from ._dpop import Prover
from ._proofs import ProofHeaders
from ._records import Grant

_AGAIN_SECONDS = 10.0  # after a renewal ahead of time has failed; or half of what the token has left
_AGAIN_LEAST = 1.0
# Between two looks at whether another process has logged in or out. Of this process that is known at once.
_LOOK_SECONDS = 30.0
_WRITE_SECONDS = 1.0  # between two attempts to write what the store does not hold

now = time.time


class Hidden(str):
    """A secret. Reports of errors, which show what frames hold, show no more than that it is there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<secret>"


class Current:
    """A grant as it is put on requests.

    Attributes:
        grant: The grant.
        version: Under which the store holds it, ``None`` while it does not.
        replaces: While the store does not hold it: the version that it is to replace, ``None`` if there was
            none.
        renew_at: From when on another one is to be had, in seconds since 1970.
        prover: What proves the possession of its key, ``None`` for a token that has none.
        news: The latest change that was known when the store was looked into.
        look_at: From when on the store is to be looked into again, in seconds since 1970.
        serves: Whether the server has taken it, as far as this object knows.
    """

    __slots__ = (
        *("_header", "_write_at", "grant", "look_at", "news"),
        *("prover", "renew_at", "replaces", "serves", "version"),
    )

    def __init__(
        self,
        grant: Grant,
        version: Optional[str],
        renew_at: float,
        prover: Optional[Prover],
        replaces: Optional[str] = None,
    ) -> None:
        self.grant = grant
        self.version = version
        self.replaces = replaces
        self.renew_at = renew_at
        self.prover = prover
        self.news: Optional[object] = None
        self.look_at = 0.0
        self.serves = False
        self._write_at = float("inf")  # It is being written.
        self._header = f"{grant.token_type} {grant.access_token}"

    @property
    def token(self) -> Hidden:
        """The token, to be told from others."""
        return Hidden(self.grant.access_token)

    @property
    def is_valid(self) -> bool:
        """Whether the token has not expired, as far as that is known."""
        return self.grant.expires_at is None or now() < self.grant.expires_at

    def is_newer_than(self, token: Optional[str]) -> bool:
        """Whether it is valid, and another one than the token that does not do."""
        return self.grant.access_token != token and self.is_valid

    def looked(self, news: object) -> None:
        """Note that it is what the store holds.

        Args:
            news: The latest change that was known before the store was looked into.
        """
        self.news = news
        self.look_at = now() + _LOOK_SECONDS

    def put_off_renewal(self) -> None:
        """Use the token for a while before another one is had: at most until it expires."""
        moment, expiry = now(), self.grant.expires_at or 0.0
        wait = max(min(_AGAIN_SECONDS, (expiry - moment) / 2), _AGAIN_LEAST)
        self.renew_at = min(moment + wait, expiry)

    def must_be_written(self) -> None:
        """Note that it could not be written: its next use tries again."""
        self._write_at = 0.0

    def may_write(self) -> bool:
        """Whether this use is to try to write it; true once a second at most."""
        moment = time.monotonic()
        if moment < self._write_at:
            return False
        self._write_at = moment + _WRITE_SECONDS
        return True

    def present(self, request: requests.PreparedRequest, nonce: Optional[str] = None) -> None:
        """Put the token on a request.

        Args:
            request: The request.
            nonce: The nonce for its proof, by default the last that came from its URL.
        """
        if self.prover is not None:
            request.headers = ProofHeaders(
                request.headers,
                self.prover,
                self.grant.access_token,
                request.method or "",
                request.url or "",
                nonce,
            )
        elif isinstance(request.headers, ProofHeaders):
            request.headers = request.headers.without_proof()
        request.headers["Authorization"] = self._header

    def __repr__(self) -> str:
        return f"<{self.grant.token_type} token of {self.grant.issuer}>"
