"""The one clock of a public call."""

from __future__ import annotations

import math
import threading
import time
from typing import Optional

_now = time.monotonic
_NEVER = math.inf


class Deadline:
    """When a call has to end: a hard end, and a silence that signs of life reset.

    Made once per public call and passed down; below the public functions nothing takes seconds.
    Safe from any thread.

    Args:
        timeout: Seconds until the hard end, ``None`` for no end.
        silence: Seconds without `touch` until the end, ``None`` for no such bound.
        pausable: Whether `hold` stops the hard end, too. Only for bounds that no caller has set for a call:
            what a login takes, for instance, does not count for the opening of a connection.

    Attributes:
        began: When it was made, by the clock of ``time.monotonic``.
    """

    # Of the class until the clock is held for the first time.
    _holds = 0
    _held_since = 0.0
    _parent: Optional[Deadline] = None

    def __init__(
        self, timeout: Optional[float], silence: Optional[float] = None, *, pausable: bool = False
    ) -> None:
        self.began = now = _now()
        self.timeout = timeout
        self.silence = silence
        self.pausable = pausable
        self._end = _NEVER if timeout is None else now + timeout
        self._last = now

    def remaining(self) -> Optional[float]:
        """Return the seconds left, at least 0, or ``None`` where there is no bound."""
        # In this order: whoever releases a held clock meanwhile sets first what is read last.
        now = _now()
        if self._holds:
            # Held, the clock shows its full time, so that whoever waits by it looks again after the release.
            end, last = self._end, now
            if self.pausable:
                end += now - self._held_since
        else:
            end, last = self._end, self._last
        if self.silence is not None and last + self.silence < end:
            end = last + self.silence
        if end == _NEVER:
            return None
        return end - now if end > now else 0.0

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return self.remaining() == 0.0

    def hard_end_passed(self) -> bool:
        """Whether the hard end has passed: the silence does not count. For whoever asks at each call."""
        return _now() >= self._end and self.expired  # A held clock may show more.

    @property
    def was_silent(self) -> bool:
        """Whether it is the silence, not the hard end, that ends the call."""
        return self.silence is not None and _now() < self._end

    @property
    def reached(self) -> Optional[float]:
        """The bound, in seconds, that ends the call: for the message of its error."""
        return self.silence if self.was_silent else self.timeout

    def touch(self) -> None:
        """Note a sign of life: the silence starts anew."""
        self._last = _now()

    def lift(self) -> None:
        """Take all bounds away, for good. Whoever waits by it finds out when it looks again."""
        self._end = _NEVER
        if self.silence is not None:
            self.silence = math.inf

    def hold(self) -> None:
        """Stop the clock of the silence, while a handler of this call works; and that of a pausable end."""
        with self._guard():
            if not self._holds:
                self._held_since = _now()
            self._holds += 1
        if self._parent is not None:
            self._parent.hold()

    def release(self) -> None:
        """Let the clock of the silence go on, from zero, and that of a pausable end from where it stood."""
        with self._guard():
            self._last = now = _now()
            if self.pausable and self._holds == 1:
                self._end += now - self._held_since
            self._holds -= 1
        if self._parent is not None:
            self._parent.release()

    def _guard(self) -> threading.Lock:
        """Return what guards the count of holds, which several handlers change: most calls never need it."""
        lock: threading.Lock = self.__dict__.setdefault("_lock", threading.Lock())
        return lock

    def within(self, seconds: Optional[float]) -> Deadline:
        """Return a new deadline: at most ``seconds`` from now, never after this one."""
        left = self.remaining()
        if seconds is not None:
            left = seconds if left is None else min(seconds, left)
        child = Deadline(left, pausable=self.pausable)
        if self.pausable:
            child._parent = self
        return child

    def with_silence(self, seconds: float) -> Deadline:
        """Return a new deadline with the same hard end, and with a silence of its own."""
        child = Deadline(self.timeout, seconds)
        child._end = self._end
        return child

    def beside(self, seconds: float) -> Deadline:
        """Return the deadline of work during which this one is held: at most ``seconds`` from now.

        The end that a caller has set counts there, too; that of a pausable one does not.
        """
        return Deadline(seconds) if self.pausable else self.within(seconds)
