"""Servers that nobody waits for."""

from __future__ import annotations

from collections.abc import Iterable


class Question:
    """What a server is asked.

    Attributes:
        is_over: Whether it is not being asked any more.
        is_answered: Whether it has answered.
    """

    __slots__ = ("is_answered", "is_over")

    def __init__(self) -> None:
        self.is_over = self.is_answered = False


class Slow:
    """The servers that have kept others waiting, and have not answered since. Single operations only."""

    def __init__(self) -> None:
        # Each with what it was asked last.
        self._questions: dict[str, Question] = {}

    def aside(self, names: Iterable[str]) -> set[str]:
        """Return which of some servers nobody waits for: none, if no other is there to be kept waiting."""
        names = set(names)
        slow = names & set(self._questions)
        return slow if slow != names else set()

    def is_asked(self, name: str) -> bool:
        """Whether one of these is still being asked."""
        question = self._questions.get(name)
        return question is not None and not question.is_over

    def ask(self, name: str, question: Question) -> None:
        """Note what a server is asked, if it is one of these."""
        if name in self._questions:
            self._questions[name] = question

    def was_asked(self, name: str, question: Question) -> bool:
        """Whether it is one of these, and this is what it was asked last."""
        return self._questions.get(name) is question

    def add(self, name: str, question: Question) -> None:
        """Note that a server has kept others waiting by a question, unless it has answered meanwhile."""
        self._questions[name] = question
        if question.is_answered:
            self.forget(name)

    def forget(self, name: str) -> None:
        """Note that a server has answered, or is another one now."""
        self._questions.pop(name, None)
