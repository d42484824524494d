"""Which revision client and server speak: the rules, as a conversation without I/O.

`negotiate` is a generator. It yields what to do next, is sent what came of it (the raw result, or the
exception), and returns a `Verdict`. The rules are those of the specification, "Versioning and
Compatibility" and the backward-compatibility sections of its transports:

- ``auto`` asks ``server/discover`` first. A result, or an error that only a modern server sends, settles
  that the server is modern. Anything else, silence included, means ``initialize``.
- A refusal of ``initialize`` that names modern revisions leads back to them; so does an answer to the
  first question that comes late.
- A server process that died of the question is started again and asked ``initialize`` first.
- A server that refuses a revision and lists others is asked once more, with the best of those.
- A server at a URL that refuses ``initialize`` may be one that speaks HTTP with SSE alone.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

from ..errors import (
    CallTimeout,
    ConnectionLost,
    HeaderMismatch,
    HTTPStatusError,
    MCPError,
    MethodNotFound,
    MissingClientCapability,
    NegotiationFailed,
    ProtocolError,
    RemoteError,
    UnsupportedProtocolVersion,
    UsageError,
    another,
)
from .versions import (
    HANDSHAKE_VERSIONS,
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    MODERN_VERSIONS,
    TRAITS,
    best_common,
)

AUTO = "auto"
LEGACY = "legacy"

# What no other revision would change: the credentials, the load, the proxy.
_FINAL_STATUSES = frozenset({401, 403, 407, 429, 503})
# With these a server that speaks HTTP with SSE alone refuses a POST to its stream.
_OLDER_TRANSPORT_STATUSES = frozenset({400, 404, 405})
# Errors that only a server of Streamable HTTP sends with such a status.
_MODERN_ERRORS = (HeaderMismatch, MethodNotFound, MissingClientCapability, UnsupportedProtocolVersion)
_VERSION_TEXT = re.compile(r"\b20\d\d-\d\d-\d\d\b")


@dataclass(frozen=True)
class Discover:
    """Send ``server/discover`` with this revision; wait no longer than a probe may take if ``probe``."""

    version: str
    probe: bool


@dataclass(frozen=True)
class Initialize:
    """Send ``initialize`` with this revision, and nothing else until it is answered."""

    version: str


@dataclass(frozen=True)
class Restart:
    """Replace the channel, which did not survive the probe. Nothing is sent back."""


@dataclass(frozen=True)
class FallBack:
    """Replace the channel by one over the older transport. Sent back: why there is none, or ``None``."""


@dataclass(frozen=True)
class LateAnswer:
    """Send back the result of the probe if it has come since, else ``None``."""


Step = Union[Discover, Initialize, Restart, FallBack, LateAnswer]
Outcome = Union[Mapping[str, Any], Exception, None]


@dataclass(frozen=True)
class Verdict:
    """What was settled.

    Attributes:
        version: The revision to speak.
        server: The result that settled it, ``None`` if the server was not asked.
        remember: Whether a later connection to the same server may skip the probe.
        older_transport: Whether the server speaks the older transport.
    """

    version: str
    server: Optional[Mapping[str, Any]] = None
    remember: bool = False
    older_transport: bool = False


Negotiation = Generator[Step, Outcome, Verdict]


def check_mode(mode: object) -> None:
    """Refuse a ``mode`` that means nothing.

    Raises:
        UsageError: It is neither ``"auto"`` nor ``"legacy"`` nor a known revision.
    """
    if mode not in (AUTO, LEGACY) and mode not in TRAITS:
        raise UsageError(f'mode must be "auto", "legacy" or one of {", ".join(TRAITS)}, not {mode!r}')


def negotiate(
    mode: str, *, known_legacy: bool = False, falls_back: bool = False, known_older: bool = False
) -> Negotiation:
    """Settle the revision, and the transport where there is a choice.

    Args:
        mode: ``"auto"``, ``"legacy"`` or a revision.
        known_legacy: Whether an earlier connection found a handshake server here.
        falls_back: Whether there is an older transport to fall back to.
        known_older: Whether an earlier connection had to.
    """
    if mode in MODERN_VERSIONS:
        return Verdict(mode)
    talk = _settle(mode, known_legacy, falls_back, known_older)
    if mode == AUTO:
        return (yield from talk)
    try:
        return (yield from talk)
    except NegotiationFailed as error:
        if best_common(tuple(TRAITS), error.server_versions) is None:
            raise
        raise _not_admitted(mode, error.server_versions) from error.__cause__
    except MethodNotFound as error:
        raise _not_admitted(mode, ()) from error


def _settle(mode: str, known_legacy: bool, falls_back: bool, known_older: bool) -> Negotiation:
    pinned = mode not in (AUTO, LEGACY)
    offer = mode if pinned else LATEST_HANDSHAKE
    if known_older:
        fault = yield FallBack()
        if fault is None:
            return (yield from _over_older_transport(offer, pinned))
        yield Restart()
    if mode != AUTO:
        return (yield from _handshake(offer, pinned=pinned, modern=False, falls_back=falls_back))
    if known_legacy:
        try:
            return (yield from _handshake(LATEST_HANDSHAKE, remember=True))
        except (RemoteError, HTTPStatusError) as error:
            # The server may have been replaced by a modern one, and few of those say so.
            if not _means_legacy(error):
                raise
    outcome = yield Discover(LATEST_MODERN, probe=True)
    verdict = yield from _modern(outcome, LATEST_MODERN)
    if verdict is not None:
        return verdict
    if isinstance(outcome, ConnectionLost):
        yield Restart()
    remember = isinstance(outcome, RemoteError)
    return (yield from _handshake(LATEST_HANDSHAKE, remember=remember, falls_back=falls_back))


def take_up(version: str) -> Negotiation:
    """Go on with a session that somebody else has opened: nothing is asked."""
    yield from ()
    return Verdict(version)


def discover(version: str) -> Negotiation:
    """Ask a server that is said to be modern; never fall back."""
    outcome = yield Discover(version, probe=False)
    verdict = yield from _modern(outcome, version)
    if verdict is not None:
        return verdict
    if isinstance(outcome, Exception):
        raise outcome
    raise NegotiationFailed(
        "the server speaks no modern protocol revision",
        client_versions=MODERN_VERSIONS,
        server_versions=_named_versions(outcome),
    )


def may_be_older(refusal: Exception) -> bool:
    """Whether a server may have refused a request because it speaks no modern revision.

    Source: specification 2026-07-28, the sections on backward compatibility.
    """
    if isinstance(refusal, HTTPStatusError):
        return refusal.status == 400
    return isinstance(refusal, RemoteError) and not isinstance(
        refusal, (HeaderMismatch, MissingClientCapability)
    )


def unfit(mode: str, refusal: Exception, answer: Outcome) -> Optional[NegotiationFailed]:
    """Judge a server that refused a request of the revision that it was said to speak.

    Args:
        mode: That revision.
        refusal: What it said to the request.
        answer: What it then said to ``server/discover``.

    Returns:
        What is wrong, or ``None`` if it speaks that revision, or if that cannot be told.
    """
    if isinstance(answer, Exception) and not may_be_older(answer):
        return None
    named = _named_versions(answer) or _named_versions(refusal)
    return None if mode in named else _not_admitted(mode, named)


def _modern(outcome: Outcome, asked: str) -> Generator[Step, Outcome, Optional[Verdict]]:
    """Judge the answer to ``server/discover``; ``None`` means: not a modern server."""
    if isinstance(outcome, (HeaderMismatch, MissingClientCapability)):
        return Verdict(asked)
    named = _named_versions(outcome)
    common = best_common(MODERN_VERSIONS, named)
    if isinstance(outcome, UnsupportedProtocolVersion):
        if common is not None:
            # Also if it is the one that was asked for: some gateways learn by the first request.
            outcome = yield Discover(common, probe=False)
            if isinstance(outcome, Exception):
                raise outcome
            return Verdict(common, outcome)
        if best_common(HANDSHAKE_VERSIONS, named) is None:
            raise _nothing_in_common(named) from outcome
        return None
    if isinstance(outcome, Exception):
        if not _means_legacy(outcome):
            raise outcome
        return None
    if named and common is None and best_common(HANDSHAKE_VERSIONS, named) is None:
        raise _nothing_in_common(named)
    return Verdict(common, outcome) if common is not None else None


def _means_legacy(error: Exception) -> bool:
    if isinstance(error, HTTPStatusError):
        return error.status not in _FINAL_STATUSES
    return isinstance(error, (RemoteError, ProtocolError, CallTimeout, ConnectionLost))


def _handshake(
    offer: str,
    *,
    pinned: bool = False,
    modern: bool = True,
    remember: bool = False,
    again: bool = True,
    falls_back: bool = False,
) -> Negotiation:
    outcome = yield Initialize(offer)
    if not isinstance(outcome, Exception):
        return _accepted(outcome or {}, offer, pinned, remember)
    if modern:
        late = yield LateAnswer()
        verdict = yield from _modern(late, LATEST_MODERN)
        if verdict is not None:
            return verdict
    named = _named_versions(outcome)
    common = best_common(MODERN_VERSIONS, named)
    if modern and common is not None:
        return (yield from discover(common))
    older = best_common(HANDSHAKE_VERSIONS, named)
    if again and not pinned and older is not None and older != offer:
        return (yield from _handshake(older, modern=False, remember=remember, again=False))
    if named and (pinned or older is None):
        raise _nothing_in_common(named) from outcome
    if falls_back and not named and may_speak_older_transport(outcome):
        fault = yield FallBack()
        if fault is None:
            return (yield from _over_older_transport(offer, pinned))
        raise _both(outcome, fault)
    raise outcome


def _over_older_transport(offer: str, pinned: bool) -> Negotiation:
    verdict = yield from _handshake(offer, pinned=pinned, modern=False)
    return replace(verdict, older_transport=True)


def may_speak_older_transport(error: Exception) -> bool:
    """Whether a refusal of ``initialize`` over Streamable HTTP leaves HTTP with SSE to be tried.

    Source: specification 2026-07-28, "Streamable HTTP", section "Backward Compatibility".
    """
    if not isinstance(error, (HTTPStatusError, RemoteError)) or isinstance(error, _MODERN_ERRORS):
        return False
    return error.status in _OLDER_TRANSPORT_STATUSES


def _both(first: Exception, second: Outcome) -> Exception:
    """Return the first of two failures, which tells of the second too."""
    error = another(first)
    if not isinstance(error, RemoteError):  # Its words are the server's.
        error.args = (f"{first}; then, over HTTP with SSE: {second}", *error.args[1:])
    error.__cause__ = second if isinstance(second, MCPError) else None
    return error


def _accepted(result: Mapping[str, Any], offer: str, pinned: bool, remember: bool) -> Verdict:
    version = result.get("protocolVersion")
    if version not in HANDSHAKE_VERSIONS or (pinned and version != offer):
        named = (version,) if isinstance(version, str) else ()
        raise NegotiationFailed(
            f"the server chose protocol revision {version!r}; this client offered {offer}"
            + ("" if pinned else f" and knows {', '.join(HANDSHAKE_VERSIONS)}"),
            client_versions=(offer,) if pinned else HANDSHAKE_VERSIONS,
            server_versions=named,
        )
    return Verdict(version, result, remember)


def _nothing_in_common(named: tuple[str, ...]) -> NegotiationFailed:
    return NegotiationFailed(
        f"no protocol revision in common: the server names {', '.join(named) or 'none'}; "
        f"this client knows {', '.join(TRAITS)}",
        client_versions=tuple(TRAITS),
        server_versions=named,
    )


def _not_admitted(mode: str, named: tuple[str, ...]) -> NegotiationFailed:
    """Say that a server could be spoken to, or may be, if it were not for ``mode``."""
    admitted = HANDSHAKE_VERSIONS if mode == LEGACY else (mode,)
    found = best_common(tuple(TRAITS), named)
    if found is not None:
        text = f"the server offers protocol revision {', '.join(named)}, but mode={mode!r} admits only "
        text += f"{', '.join(admitted)}; mode='auto' finds {found}"
    elif mode in MODERN_VERSIONS:
        text = f"the server takes no requests of protocol revision {mode}, so it seems to speak older ones "
        text += "only; mode='auto' finds out which"
    else:
        text = f"the server does not know initialize, so it speaks no revision that mode={mode!r} admits; "
        text += "mode='auto' finds out what it speaks"
    return NegotiationFailed(text, client_versions=admitted, server_versions=named)


def _named_versions(outcome: Outcome) -> tuple[str, ...]:
    """Return the revisions that an answer names: in a result, in an error's data, in the text of a 400."""
    listed: Any = None
    if isinstance(outcome, RemoteError):
        listed = outcome.data.get("supported") if isinstance(outcome.data, Mapping) else None
    elif isinstance(outcome, HTTPStatusError):
        listed = _VERSION_TEXT.findall(outcome.body_excerpt) if outcome.status == 400 else None
    elif isinstance(outcome, Mapping):
        listed = outcome.get("supportedVersions")
    if not isinstance(listed, (list, tuple)):
        return ()
    return tuple(version for version in listed if isinstance(version, str))
