"""The extensions of one client, as the engine asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from .. import types
from .._protocol import methods
from .._protocol.methods import MethodSpec
from ..errors import UsageError
from ..extensions import DeclaredExtension, Extension


class Extensions:
    """Finds the extension that something belongs to. Immutable.

    Args:
        extensions: In the order in which they are declared.

    Raises:
        UsageError: Two claim the same.
    """

    def __init__(self, extensions: Iterable[Extension] = ()) -> None:
        self.all = tuple(extensions)
        self._by_identifier: dict[str, Extension] = {}
        self._by_result: dict[tuple[str, str], Extension] = {}
        self._by_notification: dict[str, Extension] = {}
        self._specs: dict[str, MethodSpec] = {}
        for extension in self.all:
            self._enter(extension)

    def _enter(self, extension: Extension) -> None:
        if not isinstance(extension.identifier, str) or not extension.identifier:
            raise UsageError(f"the extension {type(extension).__name__} has no identifier")
        _claim(self._by_identifier, extension.identifier, extension)
        for method in extension.methods:
            spec = MethodSpec(
                method.name,
                input_rounds=method.input_rounds,
                handshake=method.handshake,
                idempotent=method.idempotent,
                name_param=method.name_param,
                cacheable=method.cacheable,
            )
            if method.name in methods.METHODS:
                raise UsageError(f"{extension.identifier}: the protocol itself has the method {method.name}")
            _claim(self._specs, method.name, spec)
        for kind, names in extension.result_types.items():
            for name in names:
                _claim(self._by_result, (kind, name), extension)
        for name in extension.notifications:
            _claim(self._by_notification, name, extension)

    def __bool__(self) -> bool:
        return bool(self.all)

    def settings(self, handshake: bool = False) -> dict[str, Any]:
        """Return what is declared, in a handshake or else with each request: settings by the identifiers."""
        declared = [each for each in self.all if each.handshake or not handshake]
        return {each.identifier: dict(each.settings()) for each in declared}

    def find(self, kind: type[Extension]) -> Optional[Extension]:
        """Return the extension of a class."""
        return next((each for each in self.all if isinstance(each, kind)), None)

    def spec_of(self, method: str) -> MethodSpec:
        """Return the row of a method, that of an extension or of the protocol."""
        return self._specs.get(method) or methods.spec_of(method)

    @property
    def cacheable(self) -> tuple[str, ...]:
        """The methods of extensions whose results may be kept."""
        return tuple(name for name, spec in self._specs.items() if spec.cacheable)

    def of_result(self, kind: str, method: str) -> Optional[Extension]:
        """Return the extension that knows what to do with a kind of result of a method."""
        return self._by_result.get((kind, method))

    def of_notification(self, method: Any) -> Optional[Extension]:
        """Return the extension that a notification belongs to."""
        return self._by_notification.get(method)

    def parse(self, message: dict[str, Any]) -> Any:
        """Return a notification as its model."""
        method = message.get("method")
        extension = self._by_notification.get(method) if isinstance(method, str) else None
        if extension is None:
            return types.parse_notification(message)
        return extension.notifications[str(method)].model_validate(message)


def _claim(table: dict[Any, Any], key: Any, value: Any) -> None:
    if key in table:
        raise UsageError(f"two extensions claim {key!r}")
    table[key] = value


def extensions_of(given: Any) -> Extensions:
    """Return the extensions that a user names.

    Args:
        given: Extensions and identifiers, or a mapping of identifiers to settings.

    Raises:
        UsageError: It is something else.
    """
    if isinstance(given, Mapping):
        return Extensions(_declared(name, settings) for name, settings in given.items())
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(
            "extensions must be a list of extensions and identifiers, or a mapping of identifiers to settings"
        )
    return Extensions(each if isinstance(each, Extension) else _declared(each, {}) for each in given)


def _declared(identifier: Any, settings: Any) -> Extension:
    if isinstance(identifier, type):
        raise UsageError(f"extensions has the class {identifier.__name__}: pass an object of it")
    if not isinstance(identifier, str) or not isinstance(settings, Mapping):
        raise UsageError(f"an extension is an object or an identifier, not {type(identifier).__name__}")
    return DeclaredExtension(identifier, settings)
