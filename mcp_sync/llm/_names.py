"""Names of tools and arguments that vendors accept, and the way back."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

from ..errors import UsageError

# What a name that was changed ends with. A name that ends so by itself is changed, too: no server can take
# the place of another tool.
_DIGEST = re.compile("_[0-9a-f]{10}$")
_DIGITS = 10


class Rule(NamedTuple):
    """Which names are accepted."""

    good: re.Pattern[str]
    bad: re.Pattern[str]
    first: str
    longest: int


_STRICT = Rule(re.compile("[a-zA-Z0-9_-]{1,64}"), re.compile("[^a-zA-Z0-9_-]+"), "", 64)
_GEMINI = Rule(re.compile("[a-zA-Z_][a-zA-Z0-9_.-]{0,63}"), re.compile("[^a-zA-Z0-9_.-]+"), "_", 64)
_ANY = Rule(re.compile(".*", re.DOTALL), re.compile("(?!)"), "", 1 << 30)
_KEY = Rule(re.compile("[a-zA-Z0-9_.-]{1,64}"), re.compile("[^a-zA-Z0-9_.-]+"), "", 64)

RULES = {
    "anthropic": _STRICT,
    "openai": _STRICT,
    "openai-chat": _STRICT,
    "gemini": _GEMINI,
    "plain": _ANY,
}
# What the API says to names of arguments: only one vendor has a rule.
KEY_RULES = {"anthropic": _KEY}


def check_vendor(vendor: str) -> str:
    """Return the name of a format.

    Raises:
        UsageError: There is no such format.
    """
    if vendor not in RULES:
        raise UsageError(f"there is no format {vendor!r}; there are: {', '.join(RULES)}")
    return vendor


def vendor_name(name: str, vendor: str) -> str:
    """Return the name of a tool as a vendor accepts it.

    A name that is accepted stays; of another one the bad characters go, and a digest of the name is added. It
    hangs on nothing but the name, so it is the same after a restart. `tool_name` is the way back.

    Raises:
        UsageError: There is no such format.
    """
    return changed(name, RULES[check_vendor(vendor)])


def changed(name: str, rule: Rule) -> str:
    """Return a name that fits a rule."""
    if rule is _ANY or (rule.good.fullmatch(name) and not _DIGEST.search(name)):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    stem = rule.bad.sub("_", name).strip("_")
    if rule.first and not rule.good.match(stem[:1]):
        stem = rule.first + stem
    return f"{stem[: rule.longest - _DIGITS - 1]}_{digest}"


def is_changed(name: str) -> bool:
    """Whether a name is not that of the server. Without a list of its tools there is no way back then."""
    return _DIGEST.search(name) is not None


def tool_name(name: str, names: Iterable[str], vendor: str) -> str:
    """Return the name of a tool as the server knows it.

    Args:
        name: The name that the vendor's model used.
        names: The names of all tools; not looked at unless the name was changed.
        vendor: The format.

    Raises:
        UsageError: No tool has this name, or there is no such format.
    """
    if not is_changed(name) or vendor == "plain":
        check_vendor(vendor)
        return name
    for each in names:
        if vendor_name(each, vendor) == name:
            return each
    raise UsageError(f"there is no tool that is named {name!r} for {vendor}")
