"""The headers of a request with a proof of possession: no proof is ever sent twice."""

from __future__ import annotations

from typing import Any, Optional
from urllib.parse import urljoin

import requests
from requests.structures import CaseInsensitiveDict
from requests.utils import requote_uri

from ._dpop import Prover

_PROOF = "dpop"


class ProofHeaders(CaseInsensitiveDict):  # type: ignore[type-arg]
    """Headers in which the proof is made anew each time that it is read.

    A server takes each proof once (RFC 9449, section 11.1), and a prepared request may be sent several times:
    after a redirect, by urllib3 when a connection breaks, by the user.

    Args:
        headers: The other headers.
        prover: What makes the proofs.
        token: The token that they go with.
        method: The method of the request.
        url: Its URL.
        nonce: The nonce for the first proof, by default the last that came from the URL; the others take
            that.
    """

    def __init__(
        self, headers: Any, prover: Prover, token: str, method: str, url: str, nonce: Optional[str] = None
    ) -> None:
        self._store: dict[str, tuple[str, str]]
        super().__init__({name: headers[name] for name in headers if name.lower() != _PROOF})
        self._store[_PROOF] = ("DPoP", "")
        self._prover: Optional[Prover] = prover
        self._token = token
        self._target = (method, url)
        self._next: Optional[tuple[str, str]] = None
        self._nonce = nonce

    def __getitem__(self, key: str) -> Any:
        """Return a header; of the proof a new one."""
        if self._prover is None or key.lower() != _PROOF or _PROOF not in self._store:
            return super().__getitem__(key)
        nonce, self._nonce = self._nonce, None
        return self._prover.proof(*self._target, nonce=nonce, access_token=self._token)

    def __setitem__(self, key: str, value: Any) -> None:
        """Set a header; a proof of somebody else takes the place of ours."""
        if key.lower() == _PROOF:
            self._prover = None
        super().__setitem__(key, value)

    def redirect(self, method: str, url: str) -> None:
        """Say where the copy of the request goes that follows a redirect."""
        self._next = (method, url)

    def copy(self) -> CaseInsensitiveDict[Any]:
        """Return headers for a copy of the request."""
        if self._prover is None or _PROOF not in self._store:
            return CaseInsensitiveDict(self.items())
        target, self._next = self._next or self._target, None
        nonce, self._nonce = self._nonce, None
        return ProofHeaders(self.without_proof(), self._prover, self._token, *target, nonce=nonce)

    def without_proof(self) -> CaseInsensitiveDict[Any]:
        """Return the other headers."""
        return CaseInsensitiveDict({name: self[name] for name in self if name.lower() != _PROOF})


def redirected(response: requests.Response, location: str) -> tuple[str, str]:
    """Return method and URL of the request with which requests follows a redirect.

    Raises:
        ValueError: It leads to what is no URL.
    """
    request = response.request
    method, status = request.method or "", response.status_code
    is_turned = (status in (302, 303) and method != "HEAD") or (status == 301 and method == "POST")
    return ("GET" if is_turned else method), urljoin(request.url or "", requote_uri(location))
