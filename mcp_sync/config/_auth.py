"""What a configuration says about authorization, as an object that does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional
from urllib.parse import urlsplit

from .._concurrency.fork import no_fork
from .._protocol.urls import is_loopback
from ._errors import Place, named_kind
from ._keys import plain, unknown
from ._variables import Variables

# By their letters alone, as in `_keys`.
_KEYS = {
    "type": "kind",
    "kind": "kind",
    "enabled": "enabled",
    "token": "token",
    "tokenenv": "token_variable",
    "clientid": "client_id",
    "clientsecret": "client_secret",
    "clientname": "client_name",
    "clientmetadataurl": "client_metadata_url",
    "scope": "scopes",
    "scopes": "scopes",
    "issuer": "issuer",
    "redirecturi": "redirect_uri",
    "callbackport": "callback_port",
    "interactive": "interactive",
    "principal": "principal",
    "store": "store",
}
# They are looked up: see the authorization pages of the specification.
_LOOKED_UP = {"authorizationurl", "tokenurl", "registrationurl", "authservermetadataurl"}
_OAUTH = ("client_id", "client_secret", "client_name", "client_metadata_url", "issuer", "interactive")
_KINDS = {
    "oauth": "oauth",
    "oauth2": "oauth",
    "clientcredentials": "client_credentials",
    "bearer": "bearer",
    "none": "none",
}


def check_auth(value: Any, place: Place) -> Iterator[str]:
    """Give warnings about what is said of authorization.

    Raises:
        ConfigError: It has a form that no host has.
    """
    if value is None or isinstance(value, (bool, str)):
        return
    if not isinstance(value, Mapping):
        raise place.error(f"this must be a string or an object, not {named_kind(value)}")
    for name in map(str, value):
        if plain(name) in _LOOKED_UP:
            yield f"{place.at(name)}: ignored, since it is looked up; `issuer` says whom to ask"
        elif plain(name) not in _KEYS and not name.startswith(("_", "//", "$")):
            yield f"{place.at(name)}: {unknown(name, _KEYS)}"
    kind_of(settings(value), place)


def settings(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of it by the names of this library."""
    return {_KEYS[plain(str(key))]: each for key, each in value.items() if plain(str(key)) in _KEYS}


def oauth_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the settings that `OAuth` takes as they are."""
    return {name: given[name] for name in _OAUTH if given.get(name) is not None}


def kind_of(given: Mapping[str, Any], place: Place) -> str:
    """Return how somebody logs in: ``oauth``, ``client_credentials``, ``bearer`` or ``none``.

    Raises:
        ConfigError: In no way that is known.
    """
    kind = given.get("kind")
    if kind is None:
        return "bearer" if "token" in given or "token_variable" in given else "oauth"
    found = _KINDS.get(plain(kind)) if isinstance(kind, str) else None
    if found is None:
        raise place.at("type").error("this must be oauth, client_credentials, bearer or none")
    return found


def make_auth(value: Any, variables: Variables, place: Place) -> Any:
    """Return an authorization of requests, ``None`` for none.

    Args:
        value: ``"oauth"``, a bearer token, or an object.
        variables: What its variables stand for.
        place: Where it stands.

    Raises:
        ConfigError: Something of it is missing, or cannot be.
    """
    if value is None or value is False:
        return None
    if value is True or (isinstance(value, str) and plain(value) == "oauth"):
        value = {}
    if isinstance(value, str):
        return bearer(variables.fill(value, place), place)
    given = settings(variables.fill(value, place))
    kind = kind_of(given, place)
    if kind == "none" or given.get("enabled") is False:
        return None
    if kind == "bearer":
        token, name = given.get("token"), given.get("token_variable")
        if token is None and name is not None:
            token = variables.variable(str(name), None, place)
        return bearer(token, place)
    given["scopes"] = as_list(given.get("scopes"), place.at("scopes"))
    return _by_secret(given, place) if kind == "client_credentials" else _by_user(given, variables, place)


def bearer(token: Any, place: Place) -> Any:
    """Return the authorization with a token.

    Raises:
        ConfigError: It is none.
    """
    if not isinstance(token, str) or not token.strip():
        raise place.error("this must be a token, and is empty, or no string")
    with no_fork():
        from ..auth import BearerToken

    token = token.strip()
    return BearerToken(token[7:].lstrip() if token[:7].lower() == "bearer " else token)


def as_list(value: Any, place: Place) -> tuple[str, ...]:
    """Return words, given as a list or in one string.

    Raises:
        ConfigError: They are something else.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(value.replace(",", " ").split())
    if isinstance(value, Sequence) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise place.error("this must be a list of strings")


def _by_secret(given: Mapping[str, Any], place: Place) -> Any:
    with no_fork():
        from ..auth import ClientCredentials

    for name in ("client_id", "client_secret"):
        if not isinstance(given.get(name), str):
            raise place.at(name).error("a client that logs in by itself needs this")
    return ClientCredentials(
        given["client_id"], given["client_secret"], scopes=given["scopes"], issuer=given.get("issuer")
    )


def _by_user(given: Mapping[str, Any], variables: Variables, place: Place) -> Any:
    with no_fork():
        from ..auth import FileStore, OAuth

    options = oauth_options(given)
    options["scopes"] = given["scopes"]
    if given.get("principal"):
        options["principal"] = given["principal"]
    if given.get("store"):
        options["store"] = FileStore(variables.path(str(given["store"])))
    options.update(_callback(given, place))
    return OAuth(**options)


def _callback(given: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return where the answer of the authorization server comes to."""
    with no_fork():
        from ..auth import LoopbackBrowser

    port, uri = given.get("callback_port"), given.get("redirect_uri")
    if port is not None:
        if isinstance(port, bool) or not isinstance(port, int):
            raise place.at("callbackPort").error("this must be the number of a port")
        return {"interaction": LoopbackBrowser(port, host="localhost")}
    if uri is None:
        return {}
    parts = _parsed(uri, place.at("redirectUri"))
    if not is_loopback(parts[0]):
        return {"redirect_uri": uri}
    host, number, path = parts
    return {"interaction": LoopbackBrowser(number or 0, host=host or "127.0.0.1", path=path or "/")}


def _parsed(uri: Any, place: Place) -> tuple[Optional[str], Optional[int], str]:
    try:
        parts = urlsplit(uri)
        return parts.hostname, parts.port, parts.path
    except (ValueError, AttributeError, TypeError):
        raise place.error("this must be a URL") from None
