"""Asks the user in the terminal what a server wants to know (elicitation).

Questions go to standard error, so that standard output keeps nothing but results. Without a terminal
every question is declined.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from . import types
from ._concurrency import fork
from ._protocol.form_values import read_value
from ._protocol.forms import FormField, shown_default
from ._protocol.visible import clean
from .elicitation import check_url, form_fields
from .errors import UnsafeURL
from .handlers import CallbackContext

_POLL = 0.1


class _Ended(Exception):
    """The user ended the input (Ctrl-D), or nobody waits for the answer any more."""


class TerminalPrompt:
    """Asks the user; as an ``elicitation_callback``, from any thread, one question at a time."""

    def __init__(self) -> None:
        # Held while the user is asked. Nobody waits for it to close.
        self._turn = threading.Lock()

    def after_fork_in_child(self) -> None:
        """Replace a lock that another thread may have held."""
        self._turn = threading.Lock()

    def room(self) -> AbstractContextManager[Any]:
        """Return what keeps the terminal free meanwhile."""
        return nullcontext()

    def too_late(self, context: CallbackContext) -> bool:
        """Tell whether nobody waits for an answer any more."""
        return context.session.closed

    def __call__(self, context: CallbackContext, params: Any) -> types.ElicitResult:
        """Answer an elicitation."""
        with self._turn, self.room():
            # Only here: what draws in the terminal may have put itself in the place of standard error.
            if not interactive():
                return types.ElicitResult.decline()
            try:
                if isinstance(params, types.ElicitRequestURLParams):
                    return self._visit(context, params)
                return self._fill_in(context, params)
            except _Ended:
                _say("")
                return types.ElicitResult.cancel()

    def _visit(self, context: CallbackContext, params: types.ElicitRequestURLParams) -> types.ElicitResult:
        _say(f"The server asks you to visit a page: {params.message}")
        _say(f"  {params.url}")
        try:
            page = check_url(params)
        except UnsafeURL as fault:
            _say(f"Declined: {fault}")
            return types.ElicitResult.decline()
        _say(f"It belongs to {page.host}")
        for warning in page.warnings:
            _say(f"Careful: {warning}")
        if self._yes(context, "Will you? [y/N] "):
            _say("(The call goes on when the server knows that you have been there; Ctrl-C gives it up.)")
            return types.ElicitResult.accept()
        return types.ElicitResult.decline()

    def _fill_in(self, context: CallbackContext, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        _say(f"The server asks: {params.message}")
        fields = form_fields(params)
        if not fields:
            agreed = self._yes(context, "Do you agree? [y/N] ")
            return types.ElicitResult.accept({}) if agreed else types.ElicitResult.decline()
        _say("(Enter leaves out what is optional, Ctrl-D cancels.)")
        content = {}
        for field in fields:
            value = self._field(context, field)
            if value is not None:
                content[field.name] = value
        return types.ElicitResult.accept(content)

    def _field(self, context: CallbackContext, field: FormField) -> Any:
        """Ask for one field until the answer fits; ``None`` if it is left out."""
        for choice in field.choices:
            is_plain = choice.title == str(choice.value)
            _say(f"  {choice.value}" if is_plain else f"  {choice.value}: {choice.title}")
        question = _question(field)
        while True:
            text = self._read(context, question).strip()
            if not text and (field.default is not None or not field.required):
                return field.default
            fault: Any = "an answer is needed"
            if text:
                parts = [part.strip() for part in text.split(",") if part.strip()]
                value, fault = read_value(field, parts if field.type == "array" else text)
                if fault is None:
                    return value
            _say(f"  {fault}")

    def _yes(self, context: CallbackContext, question: str) -> bool:
        return self._read(context, question).strip().lower() in ("y", "yes")

    def _read(self, context: CallbackContext, question: str) -> str:
        """Read one line of the terminal, as long as anybody waits for it.

        Not by ``input()``: this may run on a thread, and a process that ends while one of its threads
        holds the lock of the buffered standard input is aborted by the interpreter.
        """
        _write(question)
        stdin = sys.stdin
        raw = getattr(getattr(stdin, "buffer", None), "raw", None)
        if raw is None:
            line: Any = stdin.readline()
        else:
            while os.name == "posix" and not select.select([raw], [], [], _POLL)[0]:
                if self.too_late(context):
                    raise _Ended
            line = raw.readline()
        if not line:
            raise _Ended
        return line if isinstance(line, str) else line.decode(stdin.encoding or "utf-8", "replace")


def interactive() -> bool:
    """Whether there is somebody to ask: a terminal, to read from and to write to."""
    try:
        return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    except ValueError:  # One of them is closed.
        return False


def _question(field: FormField) -> str:
    title = f"{field.title} ({field.description})" if field.description else field.title
    hints = ["" if field.type in ("string", "array") else field.type, field.format]
    if field.default is not None:
        hints.append(f"default: {shown_default(field.default)}")
    elif not field.required:
        hints.append("optional")
    if field.type == "array":
        hints.append("several: separate them by commas")
    shown = ", ".join(hint for hint in hints if hint)
    return f"{title} [{shown}]: " if shown else f"{title}: "


def _say(text: str) -> None:
    _write(f"{text}\n")


def _write(text: str) -> None:
    sys.stderr.write(clean(text))
    sys.stderr.flush()


PROMPT = TerminalPrompt()
fork.watch(PROMPT)
