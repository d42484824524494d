"""What may be shown of messages: JSON and texts without what is secret, as far as that can be told.

A help, and no proof: what is confidential need not be named so, nor look like it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

HIDDEN = "***"
# How many values of a message are looked at, and how deep; how many characters of a text.
_MOST_VALUES = 2000
_DEEPEST = 30
_LONGEST = 100_000

# Where a name in one word begins another: accessKeyId, APIKey.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GAP = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 200
# For names in small letters, whose words are joined by underscores.
_SECRET_NAME = re.compile(
    r"authorization|cookie|passw|passphrase|pass_?code|pwd|secret|credential|signature|assertion"
    r"|(?:api|private|access|signing|encryption|master|account|shared|ssh|license)_?key"
    r"|session_?id|connection_?string|security_answer|request_?state|code_?verifier"
    r"|(?<!progress)(?<!progress_)tokens?$"
    r"|(?:^|_)(?:auth|otp|totp|pin|pin_?code|cvv|cvc|pass|jwt|bearer|sid|dsn|mnemonic|ssn|[cx]srf)s?$|(?:^|_)session$"
    r"|(?:^|_)(?:mfa|otp|totp|2fa|verification|security|auth|backup|recovery|access|login|sms)_?codes?$"
)
# Of these there are numbers, too, and numbers are no secrets: how many tokens a model has used.
_COUNTED = re.compile(r"tokens$")
_COUNT_NAME = re.compile(
    r"(?:^|_)(?:(?:max|min|num|n|total)_(?:\w{1,30}_)?"
    r"|(?:prompt|completion|input|output|used|cached|reasoning|thinking)_)tokens$"
)

_NAMES = (
    r"passw\w{0,30}|passphrase|pass[-_]?code|pwd|secret|credentials?|connection[-_]?string"
    r"|(?:api|private|access|signing|encryption|account)[-_]?key(?:[-_]?id)?"
    r"|session[-_]?id|code[-_]?verifier|(?<!progress)(?<!progress.)token"
    r"|(?<![a-z])(?:x-auth|otp|pin(?:[-_]?code)?|jwt|auth|ssn|[cx]srf)"
    # In prose a colon may follow it.
    r"|(?<![a-z])session(?=\\?[\"']?\s{0,5}=|\\?[\"']\s{0,5}:)"
)
_VALUE = r"(?:\"[^\"\r\n]{0,1000}\"?|'[^'\r\n]{0,1000}'?|[^\s\"',;&<>]+)"
_SECRETS = re.compile(
    # The order counts: what comes first takes the most.
    r"(?P<header>\b(?:proxy-)?authorization[\"']?\s{0,5}[:=]\s{0,5}[\"']?)"
    r"(?:(?:bearer|basic|dpop|digest|negotiate|token|key|apikey)\s+)?[^\s\"',;]+"
    r"|(?P<cookie>\bcookie[\"']?\s{0,5}[:=]\s{0,5}[\"']?)[^\r\n\"']+"
    r"|(?P<scheme>\b(?:bearer|basic|dpop)\s+)[\w.~+/=-]{6,}"
    r"|\beyJ[\w-]{4,}\.[\w-]{4,}\.[\w-]*"
    r"|(?P<user>\w://)[^\s/@\"]+@"
    r"|(?P<query>[?&#;](?:[\w.-]{0,60}(?:token|key|secret)|passw\w{0,30}|pwd|sig\w{0,30}|code|state|auth\w{0,30}|jwt)=)"
    r"[^&#\s\"]+"
    rf"|(?P<option>(?<![\w-])--?(?:[\w-]{{0,40}}[-_])?(?:{_NAMES})s?\s{{1,5}})(?!-){_VALUE}"
    rf"|(?P<element><[\w.:-]{{0,40}}(?:{_NAMES})s?(?:\s[^<>]{{0,200}})?>(?:<!\[CDATA\[)?)[^<]{{1,1000}}(?=</)"
    rf"|(?P<named>(?:{_NAMES})s?\\?[\"']?\s{{0,5}}[:=]\s{{0,5}}\\?){_VALUE}",
    re.IGNORECASE,
)
_WORD_BEFORE = re.compile(r"[\w.-]+$")
# Keys that tell by their form whose they are.
_SHAPES = re.compile(
    r"\bgh[oprsu]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}"
    r"|\b[rs]k-[\w-]{16,}|\b(?:sk|rk|pk|whsec)_(?:(?:live|test)_)?[A-Za-z0-9]{16,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bxox[a-z]-[\w-]{10,}|\bxapp-[\w-]{10,}"
    r"|\bAIza[\w-]{30,}|\bya29\.[\w-]{10,}|\bhf_[A-Za-z0-9]{16,}|\bnpm_[A-Za-z0-9]{20,}|\bpypi-[\w-]{20,}"
    r"|\bSG\.[\w-]{16,}\.[\w-]{16,}|\bdo[opr]_v1_[0-9a-f]{20,}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:(?!-----END)[\s\S])*"
    r"(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
)


def is_secret_name(name: str) -> bool:
    """Whether what stands under a name, or in a header of that name, has to be taken for a secret."""
    words = _words(name)
    return _SECRET_NAME.search(words) is not None and not _COUNT_NAME.search(words)


def _words(name: str) -> str:
    return _GAP.sub("_", _HUMP.sub("_", name[:_LONGEST_NAME]).lower()).strip("_")


def masked(value: Any) -> Any:
    """Return a copy of a JSON value without what is secret.

    Hidden are what stands under the name of a secret, also in a text that is JSON, and what `masked_text`
    hides.
    """
    return _masked(value, 0, [_MOST_VALUES])


def _masked(value: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0 or depth > _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return _mapping(value, depth, left)
    if isinstance(value, (list, tuple)):
        return _list(value[: left[0] + 1], depth, left)
    return _text(value, depth, left) if isinstance(value, str) else value


def _list(value: Sequence[Any], depth: int, left: list[int]) -> list[Any]:
    before = ["", *value]  # Of a command line.
    return [
        HIDDEN if is_option_value(option, item) else _masked(item, depth + 1, left)
        for option, item in zip(before, value)
    ]


def is_option_value(option: Any, item: Any) -> bool:
    """Whether an item of a list is a secret because of the one before it: ``["--password", "x"]``."""
    if not (isinstance(option, str) and isinstance(item, str) and option.startswith("-")):
        return False
    return "=" not in option and not item.startswith("-") and is_secret_name(option)


def _mapping(value: Mapping[Any, Any], depth: int, left: list[int]) -> dict[str, Any]:
    # The name and the value of something: of a header, or of an argument.
    name = value.get("name", value.get("key"))
    is_named = isinstance(name, str) and "value" in value and is_secret_name(name)
    shown: dict[str, Any] = {}
    for key, item in value.items():
        if left[0] <= 0:
            shown["..."] = "..."
            break
        is_secret = (is_named and key == "value") or hides(str(key), item)
        shown[masked_text(str(key))] = HIDDEN if is_secret else _masked(item, depth + 1, left)
    return shown


def hides(key: str, item: Any) -> bool:
    """Whether what stands under a key is a secret: it is named so, and neither a yes or no nor a count."""
    if item is None or isinstance(item, bool) or not is_secret_name(key):
        return False
    return not (isinstance(item, (int, float)) and _COUNTED.search(key.lower()))


def _text(text: str, depth: int, left: list[int]) -> str:
    if text.lstrip()[:1] in ("{", "[") and len(text) <= _LONGEST:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return json.dumps(_masked(value, depth + 1, left), ensure_ascii=False)
    return masked_text(text)


def public_uri(uri: str) -> str:
    """Return a URI of any scheme without user, query and fragment."""
    scheme, separator, rest = uri.partition("#")[0].partition("?")[0].partition("://")
    if not separator:
        return scheme
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def masked_text(text: str) -> str:
    """Return the beginning of a text as `without_credentials` has it."""
    return without_credentials(text[:_LONGEST])


def without_credentials(text: str) -> str:
    """Return a text without what looks like a credential in it, or is named like one."""
    return _SHAPES.sub(HIDDEN, _SECRETS.sub(_mask, text))


def _mask(found: re.Match[str]) -> str:
    if found["named"] and _is_count(found):
        return found[0]
    groups = ("header", "cookie", "scheme", "user", "query", "option", "element", "named")
    before = next((found[name] for name in groups if found[name]), "")
    return before + HIDDEN + ("@" if found["user"] else "")


def _is_count(found: re.Match[str]) -> bool:
    """Whether what was found is a number under the name of a count, which may begin further ahead."""
    name, value = found["named"], found[0][len(found["named"]) :]
    if not value.strip("\"'").isdigit():
        return False
    begin = found.string[max(0, found.start() - _LONGEST_NAME) : found.start()]
    before = _WORD_BEFORE.search(begin)
    return _COUNT_NAME.search(_words((before[0] if before else "") + name)) is not None
