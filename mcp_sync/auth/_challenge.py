"""Reading of ``WWW-Authenticate`` (RFC 9110, section 11.6.1), in whatever form it comes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Optional, Union

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_GAP = re.compile(r"[\s,]*")
_EQUALS = re.compile(r"[ \t]*=[ \t]*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# Legal is a token only; URLs come unquoted all the same.
_UNQUOTED = re.compile(r'[^\s,"]*')
_TOKEN68 = re.compile(r"[ \t]+[A-Za-z0-9\-._~+/]+=*[ \t]*(?=,|$)")

# What a challenge says that this client goes by.
_TELLING = ("resource_metadata", "scope", "error")


class Challenge(NamedTuple):
    """One challenge of a server.

    Attributes:
        scheme: The authentication scheme, in lower case.
        params: Its parameters, with names in lower case. One that came twice with different values is left
            out: which of them was meant is anybody's guess.
    """

    scheme: str
    params: Mapping[str, str]


def parse_challenges(values: Iterable[str]) -> list[Challenge]:
    """Return the challenges of all ``WWW-Authenticate`` lines, in order; what is none is skipped.

    Never raises. Missing commas and unquoted values are forgiven.
    """
    challenges: list[Challenge] = []
    for value in values:
        if isinstance(value, str):
            challenges.extend(_parse(value))
    return challenges


def relevant_challenge(
    headers: Union[Mapping[str, str], Iterable[str]], schemes: Iterable[str] = ("bearer", "dpop")
) -> Optional[Challenge]:
    """Return the challenge to go by, ``None`` if there is none of these schemes.

    Args:
        headers: The headers of a response, or the values of its ``WWW-Authenticate`` lines.
        schemes: The schemes that can be met, the preferred one first. One that tells what is wanted comes
            before one that does not.
    """
    if isinstance(headers, Mapping):
        headers = [value for name, value in headers.items() if name.lower() == "www-authenticate"]
    known = parse_challenges(headers)
    ranked = [each for scheme in schemes for each in known if each.scheme == scheme]
    telling = (each for each in ranked if any(name in each.params for name in _TELLING))
    return next(telling, ranked[0] if ranked else None)


def _parse(text: str) -> Iterator[Challenge]:
    scheme: Optional[str] = None
    params: list[tuple[str, str]] = []
    for name, value in _pieces(text):
        if value is not None:
            params.append((name, value))
            continue
        if scheme is not None:
            yield Challenge(scheme, _unambiguous(params))
        scheme, params = name, []
    if scheme is not None:
        yield Challenge(scheme, _unambiguous(params))


def _pieces(text: str) -> Iterator[tuple[str, Optional[str]]]:
    """Give each scheme as ``(scheme, None)`` and each parameter as ``(name, value)``, in lower case."""
    at = _end(_GAP.match(text), 0)
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            at = _after_garbage(text, at)
            continue
        equals = _EQUALS.match(text, token.end())
        if equals is None:
            yield token.group().lower(), None
            at = _end(_TOKEN68.match(text, token.end()), token.end())
        else:
            value = _QUOTED.match(text, equals.end())
            if value is not None:
                yield token.group().lower(), re.sub(r"\\(.)", r"\1", value.group(1), flags=re.DOTALL)
                at = value.end()
            else:
                value = _UNQUOTED.match(text, equals.end())
                at = _end(value, equals.end())
                # A quotation mark that nothing closes: what follows it cannot be told apart.
                if at < len(text) and text[at] == '"':
                    return
                yield token.group().lower(), text[equals.end() : at]
        at = _end(_GAP.match(text, at), at)


def _after_garbage(text: str, at: int) -> int:
    """Return where the next thing may begin: behind a quoted string, or behind one character."""
    quoted = _QUOTED.match(text, at)
    if quoted is None and text[at] == '"':
        return len(text)
    at = _end(quoted, at + 1)
    return _end(_GAP.match(text, at), at)


def _end(match: Optional[re.Match[str]], otherwise: int) -> int:
    return match.end() if match is not None else otherwise


def _unambiguous(params: list[tuple[str, str]]) -> dict[str, str]:
    values: dict[str, set[str]] = {}
    for name, value in params:
        values.setdefault(name, set()).add(value)
    return {name: value for name, value in params if len(values[name]) == 1}
