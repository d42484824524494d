"""A call waits for input, or what was kept of it or answered to it does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, Union

from .._concurrency.fork import no_fork
from ._base import MCPError, UsageError
from ._protocol import ProtocolError


class InputRequired(MCPError):
    """The call waits for input and was asked to pause (``on_input="raise"``, 2026-07-28).

    It knows all that is needed to go on, in this process or in another one: keep `to_json`, get the
    answers, and call ``client.resume(envelope, answers)``.

    Made by the library. Can be pickled, too; but unpickle only what nobody else could have written.
    """

    def __init__(self, message: str, *, envelope: Mapping[str, Any]) -> None:
        super().__init__(message)
        self._envelope = dict(envelope)

    @classmethod
    def from_json(
        cls, data: Union[Mapping[str, Any], str, bytes], *, key: Union[str, bytes, None] = None
    ) -> InputRequired:
        """Read what `to_json` returned, as it is or as JSON text.

        Args:
            data: The envelope.
            key: The key that `to_json` was given.

        Raises:
            EnvelopeRejected: It is none, of another version of this library, or was changed.
        """
        with no_fork():
            from .._envelope import unseal
            from ..types.input_required import parse_input_requests
        envelope = unseal(data, key)
        if parse_input_requests(envelope["requests"]) is None:
            raise EnvelopeRejected("the envelope cannot be resumed: its requests have another form")
        return cls(f"{envelope['method']} waits for input", envelope=envelope)

    def to_json(self, *, key: Union[str, bytes, None] = None) -> dict[str, Any]:
        """Return an envelope: a dict of plain JSON values with which the call can be resumed.

        It holds the arguments of the call, the ``meta`` that was given for it, the server's requests and
        state, and of the server and the principal what tells them from others; no headers, credentials
        or tokens. Keep it where you keep the arguments.

        Args:
            key: A secret of your application, such as Django's ``SECRET_KEY``. With it, nobody who does
                not know it can change or make an envelope (HMAC-SHA256); `resume` and `from_json` need the
                same one. Without it there is a checksum that anybody can make anew: it shows accidents, and
                protects from nobody who can write where the envelope is kept.

        Nothing keeps an envelope from being resumed twice: where that would harm, note its ``id``.
        """
        with no_fork():
            from .._envelope import seal
        return seal(self._envelope, key)

    @property
    def requests(self) -> dict[str, Any]:
        """What the server asks, by its keys: `ElicitRequest`, `CreateMessageRequest` or `ListRootsRequest`.

        The ``params`` of an `ElicitRequest` are `ElicitRequestFormParams` or `ElicitRequestURLParams`, as an
        ``elicitation_callback`` gets them; `mcp_sync.elicitation` helps with both.
        """
        with no_fork():
            from ..types.input_required import parse_input_requests
        return parse_input_requests(self._envelope["requests"]) or {}

    @property
    def id(self) -> str:
        """A random name of this pause."""
        return str(self._envelope["id"])

    @property
    def created_at(self) -> int:
        """When the call paused, in seconds since 1970."""
        return int(self._envelope["created_at"])

    @property
    def method(self) -> str:
        """The method that waits, such as ``tools/call``."""
        return str(self._envelope["method"])

    @property
    def params(self) -> dict[str, Any]:
        """The params of the call as they were sent: ``name`` and ``arguments``, or ``uri``."""
        return dict(self._envelope["params"])

    @property
    def request_state(self) -> Optional[str]:
        """The server's state, exactly as it came; means something to the server only."""
        state: Optional[str] = self._envelope["state"]
        return state

    @property
    def principal(self) -> Optional[str]:
        """For whom the call was made (``client.for_principal``), ``None`` if that was not said.

        The envelope is bound to whom the credentials name, then, without saying who that is.
        """
        principal: Optional[str] = self._envelope["principal"]
        return principal


class EnvelopeRejected(UsageError):
    """What was kept of a call that waits for input cannot be resumed. Nothing was sent.

    Attributes:
        reason: ``"malformed"`` (no envelope), ``"version"`` (of another version of this library),
            ``"tampered"`` (not as it was made, or sealed with another key), ``"expired"`` (older than
            ``max_age``), ``"server"``, ``"principal"`` or ``"revision"`` (made for another one).
    """

    def __init__(self, message: str, *, reason: str = "malformed") -> None:
        super().__init__(message)
        self.reason = reason


class AnswerInvalid(UsageError):
    """The answer to a form does not match what the form asks for. Nothing was sent.

    Attributes:
        key: The key of the input request, empty where it is not known.
        faults: What is wrong, by the names of the fields.
    """

    def __init__(self, message: str, *, key: str = "", faults: Optional[Mapping[str, str]] = None) -> None:
        super().__init__(message)
        self.key = key
        self.faults = dict(faults or {})


class UnsafeURL(ProtocolError):
    """A URL that a server wants shown to a person should not be.

    Attributes:
        url: The URL as it came. Not to be made a link.
    """

    def __init__(self, message: str, *, url: str = "") -> None:
        super().__init__(message)
        self.url = url
