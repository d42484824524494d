"""Faults of a server, and the plan by which they come."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

STEPS = ("request", "answer", "head", "result", "body", "end")


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one message of the client, and at which step. Made by one of the methods below.

    The steps, in the order in which a server comes to them:

    - ``"request"``: the message has been read, and nothing is done with it;
    - ``"answer"``: it has been acted on, and nothing of the answer has been sent;
    - ``"head"``: in the middle of the HTTP head; elsewhere the same as ``"answer"``;
    - ``"result"``: after the head and the notifications that come first, and before the result;
    - ``"body"``: in the middle of the result;
    - ``"end"``: after the result, and before the end of the body.

    Attributes:
        kind: The name of the method that made it.
        at: The step.
        status: The HTTP status.
        headers: What goes with the status, as pairs.
        seconds: How long it lasts, ``None`` until `FaultPlan.release`.
        returncode: The exit code of the process.
    """

    kind: str
    at: str = "result"
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    seconds: Optional[float] = None
    returncode: int = 0

    def __post_init__(self) -> None:
        if self.at not in STEPS:
            raise ValueError(f"a fault comes at one of {', '.join(STEPS)}, not at {self.at!r}")
        if self.kind == "drip" and self.at == "request":
            raise ValueError("only an answer can drip, not the request")
        if not isinstance(self.status, int):
            raise TypeError(f"an HTTP status is a number, not {self.status!r}")
        if self.kind == "http" and self.at not in ("request", "answer"):
            raise ValueError(f'an HTTP status comes at "request" or "answer", not at {self.at!r}')

    # --- the connection ----------------------------------------------------------------------------------

    @classmethod
    def drop(cls, at: str = "result") -> Fault:
        """Close the connection; the process of a server on stdio ends in order."""
        return cls("drop", at)

    @classmethod
    def reset(cls, at: str = "result") -> Fault:
        """Reset the TCP connection; elsewhere the same as `drop`."""
        return cls("reset", at)

    @classmethod
    def stall(cls, at: str = "result", seconds: Optional[float] = None) -> Fault:
        """Stand still, and go on after ``seconds``, or by `FaultPlan.release`.

        On a channel that all calls share, ``"request"`` keeps the server from reading on, and ``"body"``
        holds up all other answers.
        """
        return cls("stall", at, seconds=seconds)

    @classmethod
    def drip(cls, at: str = "answer", seconds: float = 0.0) -> Fault:
        """Send from there on byte after byte, with a pause of ``seconds`` behind each."""
        return cls("drip", at, seconds=seconds)

    # --- the message -------------------------------------------------------------------------------------

    @classmethod
    def garbage(cls, at: str = "result") -> Fault:
        """Send what is no message instead of the result; with ``"answer"`` what is no HTTP."""
        return cls("garbage", at)

    @classmethod
    def noise(cls) -> Fault:
        """Send what is no message ahead of the result, which still comes."""
        return cls("noise")

    @classmethod
    def truncate(cls) -> Fault:
        """Send half of the result as if it were the whole."""
        return cls("truncate")

    @classmethod
    def wrong_id(cls) -> Fault:
        """Answer under an id that nobody has used."""
        return cls("wrong_id")

    @classmethod
    def duplicate(cls) -> Fault:
        """Send the answer twice."""
        return cls("duplicate")

    @classmethod
    def no_result(cls) -> Fault:
        """Answer with neither a result nor an error."""
        return cls("no_result")

    @classmethod
    def no_answer(cls) -> Fault:
        """Send no answer: an event stream ends in order without it, elsewhere nothing comes at all."""
        return cls("no_answer")

    # --- HTTP --------------------------------------------------------------------------------------------

    @classmethod
    def http(cls, status: int, headers: Optional[Mapping[str, str]] = None, at: str = "request") -> Fault:
        """Answer with an HTTP status, at ``"request"`` or, when it has been acted on, at ``"answer"``."""
        return cls("http", at, status=status, headers=tuple((headers or {}).items()))

    @classmethod
    def redirect(cls, location: str, status: int = 307) -> Fault:
        """Send the client elsewhere."""
        return cls.http(status, {"Location": location})

    # --- a server's process on stdio -----------------------------------------------------------------------

    @classmethod
    def exit(cls, returncode: int = 1, at: str = "result") -> Fault:
        """End the process at once; elsewhere than on standard streams the same as `drop`."""
        return cls("exit", at, returncode=returncode)

    @classmethod
    def kill(cls, at: str = "result") -> Fault:
        """Kill the process; elsewhere than on standard streams the same as `drop`."""
        return cls("kill", at)

    @classmethod
    def mute(cls, at: str = "result") -> Fault:
        """Close standard output and live on; elsewhere than on stdio the same as `drop`."""
        return cls("mute", at)


class FaultPlan:
    """Which messages of the client meet which fault. Threads may share it.

    ::

        plan = FaultPlan({"tools/call": [None, Fault.drop("body"), Fault.http(503)]})
        with server.serve_http(faults=plan) as endpoint, Client(endpoint.url) as client:
            ...  # the first call succeeds, the second breaks off, the third is refused, all others succeed

    Args:
        scripts: By the method of a message, or ``"GET"`` and ``"DELETE"`` for requests of HTTP that carry
            none (``"GET"`` opens event streams and WebSockets): the faults of the first message of that
            method, the second and so on, ``None`` for no fault. A generator may go on for ever.

    Attributes:
        released: Set by `release`.

    Raises:
        TypeError: A script is no list of faults.
    """

    def __init__(self, scripts: Mapping[str, Iterable[Optional[Fault]]]) -> None:
        for method, script in scripts.items():
            _check_script(method, script)
        self.released = threading.Event()
        # Guards the scripts and what has come of them.
        self._lock = threading.Lock()
        self._scripts = {method: iter(script) for method, script in scripts.items()}
        self._met: list[tuple[str, Fault]] = []

    @classmethod
    def seeded(
        cls, seed: Union[int, str], faults: Sequence[Fault], rates: Optional[Mapping[str, float]] = None
    ) -> FaultPlan:
        """Draw the faults by chance: for one seed always the same ones in the same order of each method.

        Args:
            seed: What the chance starts from.
            faults: What may happen, each as likely as the others.
            rates: By method, the share of its messages that meet a fault, from 0 to 1; default: one call
                of a tool in five.
        """
        rates = {"tools/call": 0.2} if rates is None else rates
        return cls(
            {method: _drawn(f"{seed} {method}", tuple(faults), rate) for method, rate in rates.items()}
        )

    def meet(self, method: str) -> Optional[Fault]:
        """Return the fault of the next message of a method, ``None`` for none."""
        with self._lock:
            script = self._scripts.get(method)
            fault = None if script is None else next(script, None)
            if fault is not None:
                self._met.append((method, fault))
            return fault

    @property
    def met(self) -> list[tuple[str, Fault]]:
        """The methods and faults that have come so far, in order."""
        with self._lock:
            return list(self._met)

    def release(self) -> None:
        """Let all that stalls go on, now and from now on."""
        self.released.set()


def _check_script(method: str, script: Any) -> None:
    is_list = isinstance(script, Iterable) and not isinstance(script, (str, bytes))
    items = script if isinstance(script, (list, tuple)) else ()
    if not is_list or not all(each is None or isinstance(each, Fault) for each in items):
        raise TypeError(
            f"the faults of {method!r} must be a list such as [None, Fault.drop()], not {script!r:.80}"
        )


def _drawn(key: str, faults: tuple[Fault, ...], rate: float) -> Iterator[Optional[Fault]]:
    import random  # Takes its time, and a server that starts quickly has no use for it.

    chance = random.Random(key)
    while True:
        yield chance.choice(faults) if faults and chance.random() < rate else None
