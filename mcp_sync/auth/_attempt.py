"""One request of the user: what comes after it was refused."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Optional

import requests

from .._protocol.urls import origin
from ..errors import AuthError
from ._access import Access
from ._challenge import Challenge, relevant_challenge
from ._current import Current
from ._decisions import (
    AUTHORIZE,
    NONCE,
    REFRESH,
    RESEND,
    STEP_UP,
    Case,
    Decision,
    GiveUp,
    Try,
    decide,
    demanded_scopes,
)
from ._dpop import nonce_in
from ._errand import Errand
from ._proofs import ProofHeaders, redirected
from ._resending import drain, rewound, send_again

_MOST_ADOPTED = 3  # grants for one request that turned out to be there already


class Attempt:
    """One request of the user, with all that is tried for it.

    A prepared request may be sent more than once, and each time begins anew: only then does the response
    belong to the very request that was prepared, and not to a copy.
    """

    __slots__ = ("_access", "_current", "_errand", "_first", "_prepared", "_tried")

    def __init__(
        self, access: Access, current: Optional[Current], errand: Errand, request: requests.PreparedRequest
    ) -> None:
        self._access = access
        # `_first` is what the prepared request itself carries.
        self._current = self._first = current
        self._errand = errand
        # The request holds this.
        self._prepared = weakref.ref(request)
        self._tried: list[str] = []

    def after(self, response: requests.Response, **options: Any) -> requests.Response:
        """Deal with a refusal: the response hook."""
        current = self._current
        if response.status_code < 300 and (current is None or current.prover is None):
            if current is not None and not current.serves:
                self._note_service(current)
            return response
        try:
            return self._after(response, options)
        except BaseException:
            response.close()
            raise

    def _after(self, response: requests.Response, options: Mapping[str, Any]) -> requests.Response:
        timeout = options.get("timeout")
        exchange = timeout if hasattr(timeout, "deadline") else self._errand.exchange
        self._errand = Errand(exchange, options)
        with self._errand.here():
            return self._settled(response, options)

    def _settled(self, response: requests.Response, options: Mapping[str, Any]) -> requests.Response:
        if response.request is self._prepared():
            self._tried, self._current = [], self._first
        sent, kept = response.request, None
        while True:
            request = response.request
            # requests copies the hook to the request that follows a redirect, wherever that leads.
            if origin(request.url or "") != self._access.origin:
                return response
            nonce = nonce_in(response.headers)
            if response.status_code not in (401, 403):
                self._note_nonce(response, nonce or kept)
                if self._tried[-1:] == [NONCE]:
                    self._tried.pop()  # It has served. Where a redirect leads, another may be needed.
                self._direct_proof(response, sent)
                if response.status_code < 300 and self._current is not None:
                    self._note_service(self._current)
                return response
            challenge = relevant_challenge(response.headers, self._schemes())
            decision = self._decide(response, challenge)
            if not isinstance(decision, (Try, GiveUp)):
                return response
            # One that comes with the demand for it is for this request: others would use it up.
            kept = nonce if isinstance(decision, Try) and decision.what == NONCE else None
            if kept is None:
                self._note_nonce(response, nonce)
            drain(response)
            if isinstance(decision, GiveUp):
                try:
                    raise self._explained(decision.error)
                finally:
                    del decision  # A frame that knows its own error is a circle.
            self._tried.append(decision.what)
            with self._errand.aside():
                current = self._take(decision, challenge, request.method or "")
            if not rewound(request):
                raise AuthError(
                    f"{self._access.server_name} refused the request, and its body cannot be sent again: "
                    "give it as bytes, or as a file that can be rewound",
                    url=self._access.server_name,
                )
            # Before the request is copied: should the answer be a redirect, requests goes on from this one.
            self._current = current
            current.present(request, kept)
            if request is self._prepared():
                self._first = current
            response = send_again(response, options)

    def _decide(self, response: requests.Response, challenge: Optional[Challenge]) -> Decision:
        access, current = self._access, self._current
        request = response.request
        kept = access.read()
        return decide(
            Case(
                access.server,
                response.status_code,
                challenge,
                used=current.token if current is not None else None,
                is_late=current is not None and not current.is_valid,
                held=kept.grant if kept is not None else None,
                is_valid=kept is not None and kept.is_valid,
                tried=self._tried,
                can_refresh=kept is not None and kept.grant.refresh_token is not None and not self._is_last,
                may_ask=self._may_ask(request.method),
                brings_nonce="dpop-nonce" in response.headers,
                asked=access.in_use.asked,
                is_enough=access.auth._needs_person and access.authority.has_logged_in_again_and_again(),
            )
        )

    @property
    def _is_last(self) -> bool:
        """Whether the request ends a session of a `Client`: no grant is got for that."""
        request = self._prepared()
        return self._errand.exchange is not None and request is not None and request.method == "DELETE"

    def _may_ask(self, method: Optional[str]) -> bool:
        """Whether a grant may be got by a login.

        Nobody is asked at the end of a session, nor for a stream in the background, for which nobody waits.
        """
        auth = self._access.auth
        if self._is_last:
            return False
        if not auth._may_log_in or not auth._needs_person:
            return auth._may_log_in
        exchange = self._errand.exchange
        if method != "GET" or exchange is None:
            return method != "DELETE"
        bound = self._errand.deadline
        return exchange.call is not None or bound.pausable or bound.timeout is not None

    def _take(self, step: Try, challenge: Optional[Challenge], method: str) -> Current:
        """Get the grant with which the request is to be sent again."""
        access, errand = self._access, self._errand
        used = self._current.token if self._current is not None else None
        if step.what in (NONCE, RESEND):
            current = self._current if step.what == NONCE else access.read()
        elif step.what == REFRESH:
            current = access.renew(errand, used)
        else:
            current = None
        if current is not None:
            return current
        if step.what in (NONCE, RESEND, REFRESH):
            step = self._without_grant(challenge, method)
        if step.what == STEP_UP:
            demanded = " ".join(demanded_scopes(challenge, used))
            got = access.step_up(errand, used, challenge, step.scope, demanded)
        else:
            got = access.authorize(errand, used, challenge, None)
        if got.was_there and self._tried.count(RESEND) < _MOST_ADOPTED:
            # That it is refused, too, says nothing yet about what a login would bring.
            self._tried[-1] = RESEND
        return got.current

    def _without_grant(self, challenge: Optional[Challenge], method: str) -> Try:
        """Say what follows where there is no grant: the refresh came to nothing, or the user has logged out.

        Raises:
            AuthError: Nothing does.
        """
        case = Case(
            self._access.server,
            401,
            challenge,
            tried=(REFRESH,),
            used=self._current.token if self._current is not None else None,
            is_enough=self._access.auth._needs_person
            and self._access.authority.has_logged_in_again_and_again(),
            may_ask=self._may_ask(method),
        )
        decision = decide(case)
        if isinstance(decision, GiveUp):
            try:
                raise self._explained(decision.error)
            finally:
                del decision
        self._tried.append(AUTHORIZE)
        return Try(AUTHORIZE)

    def _explained(self, error: AuthError) -> AuthError:
        if self._access.in_use.why is not None:
            error.__cause__ = self._access.in_use.why
        return error

    def _schemes(self) -> tuple[str, str]:
        """Return the schemes of challenges: what a server says of the other kind of token counts less."""
        is_bound = self._current is not None and self._current.prover is not None
        return ("dpop", "bearer") if is_bound else ("bearer", "dpop")

    def _note_service(self, current: Current) -> None:
        """Remember that a token was of use: when it is over, it makes sense to log in again."""
        current.serves = True
        self._access.in_use.news.serves(self._access.server, current.grant.access_token)

    def _note_nonce(self, response: requests.Response, nonce: Optional[str]) -> None:
        """Remember a nonce for the requests to come."""
        current = self._current
        if nonce is not None and current is not None and current.prover is not None:
            current.prover.note_nonce(response.request.url or "", {"dpop-nonce": nonce})

    def _direct_proof(self, response: requests.Response, sent: requests.PreparedRequest) -> None:
        """Have the proof of a request that is redirected made for where it goes; none goes to another server.

        Args:
            response: The redirect, or any other response.
            sent: The request that requests goes on from.
        """
        location = response.headers.get("location")
        if self._current is None or not location or not 300 <= response.status_code < 400:
            return
        try:
            method, url = redirected(response, location)
            is_here = origin(url) == self._access.origin
        except ValueError:
            return
        for request in (sent, response.request):
            if not is_here:
                request.headers.pop("DPoP", None)
                request.headers.pop("Authorization", None)
            elif isinstance(request.headers, ProofHeaders):
                request.headers.redirect(method, url)
