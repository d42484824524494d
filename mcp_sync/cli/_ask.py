"""Asks the user in the terminal what a server wants to know (elicitation).

Questions go to standard error, so that standard output keeps nothing but results. Without a terminal
every question is declined.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Callable, Optional

import click

from .. import types
from ..handlers import CallbackContext
from ._arguments import Given, GivenArguments
from ._progress import LiveBar
from ._show import clean, type_name

_POLL = 0.1


class _Ended(Exception):
    """The user ended the input (Ctrl-D), or nobody waits for the answer any more."""


class Asker:
    """Asks the user; as an ``elicitation_callback``, from any thread.

    Use it as a context manager inside the client's: at its end it stops to wait for input.

    Args:
        bar: The progress bar that is to be out of the way meanwhile.
        too_late: Tells when nobody waits for an answer any more.
    """

    def __init__(self, bar: LiveBar, too_late: Callable[[], bool]) -> None:
        self._bar = bar
        self._too_late = too_late
        self._stopped = threading.Event()
        # One question at a time: held while the user is asked. Nobody waits for it to close.
        self._turn = threading.Lock()

    def __enter__(self) -> Asker:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._stopped.set()

    def __call__(self, context: CallbackContext, params: Any) -> types.ElicitResult:
        """Answer an elicitation."""
        if not interactive():
            return types.ElicitResult.decline()
        with self._turn, self._bar.paused():
            try:
                if isinstance(params, types.ElicitRequestURLParams):
                    return self._visit(params)
                return self._fill_in(params)
            except _Ended:
                _say("")
                return types.ElicitResult.cancel()

    def _visit(self, params: types.ElicitRequestURLParams) -> types.ElicitResult:
        _say(f"The server asks you to visit a page: {params.message}")
        _say(f"  {params.url}")
        if self._yes("Will you? [y/N] "):
            return types.ElicitResult.accept()
        return types.ElicitResult.decline()

    def _fill_in(self, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        _say(f"The server asks: {params.message}")
        schema = params.requested_schema
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            agreed = self._yes("Do you agree? [y/N] ")
            return types.ElicitResult.accept({}) if agreed else types.ElicitResult.decline()
        _say("(Enter leaves out what is optional, Ctrl-D cancels.)")
        required = schema.get("required") or ()
        content = {}
        for name, field in properties.items():
            value = self._field(name, field if isinstance(field, Mapping) else {}, name in required)
            if value is not None:
                content[name] = value
        return types.ElicitResult.accept(content)

    def _field(self, name: str, schema: Mapping[str, Any], required: bool) -> Any:
        """Ask for one field until the answer fits; ``None`` if it is left out."""
        choices = _choices(schema)
        for value, title in choices.items():
            _say(f"  {value}" if title == value else f"  {value}: {title}")
        question = _question(name, schema, required)
        while True:
            text = self._read(question).strip()
            if not text and "default" in schema:
                return schema["default"]
            if not text and not required:
                return None
            value, fault = _checked(name, text, schema, choices)
            if fault is None:
                return value
            _say(f"  {fault}")

    def _yes(self, question: str) -> bool:
        return self._read(question).strip().lower() in ("y", "yes")

    def _read(self, question: str) -> str:
        """Read one line of the terminal, as long as anybody waits for it.

        Not by ``input()``: this may run on a thread, and a process that ends while one of its threads
        holds the lock of the buffered standard input is aborted by the interpreter.
        """
        click.echo(clean(question), err=True, nl=False)
        raw = getattr(getattr(sys.stdin, "buffer", None), "raw", None)
        if raw is None:
            line: Any = sys.stdin.readline()
        else:
            while os.name == "posix" and not select.select([raw], [], [], _POLL)[0]:
                if self._stopped.is_set() or self._too_late():
                    raise _Ended
            line = raw.readline()
        if not line:
            raise _Ended
        return line if isinstance(line, str) else line.decode(sys.stdin.encoding or "utf-8", "replace")


def interactive() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def _question(name: str, schema: Mapping[str, Any], required: bool) -> str:
    title = str(schema.get("title") or name)
    if schema.get("description"):
        title += f" ({schema['description']})"
    hints = [type_name(schema) if schema.get("type") not in ("string", "array") else ""]
    hints.append(str(schema.get("format") or ""))
    if "default" in schema:
        hints.append(f"default: {json.dumps(schema['default'], ensure_ascii=False)}")
    elif not required:
        hints.append("optional")
    if schema.get("type") == "array":
        hints.append("several: separate them by commas")
    shown = ", ".join(hint for hint in hints if hint)
    return f"{title} [{shown}]: " if shown else f"{title}: "


def _checked(
    name: str, text: str, schema: Mapping[str, Any], choices: Mapping[str, str]
) -> tuple[Any, Optional[str]]:
    """Return an answer as the field's type wants it, and what is wrong with it."""
    if not text:
        return None, "an answer is needed"
    try:
        value = _typed(name, text, schema)
    except click.UsageError as error:
        return None, error.message
    return value, _fault(value, schema, choices)


def _typed(name: str, text: str, schema: Mapping[str, Any]) -> Any:
    if schema.get("type") == "array":
        return [part.strip() for part in text.split(",") if part.strip()]
    arguments = GivenArguments({}, (Given(name, text),))
    return arguments.typed({"properties": {name: schema}})[name]


def _choices(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that may be chosen, with their titles."""
    inside = schema.get("items")
    source = inside if isinstance(inside, Mapping) else schema
    titled = source.get("oneOf") or source.get("anyOf")
    if isinstance(titled, list):
        options = [each for each in titled if isinstance(each, Mapping) and "const" in each]
        return {str(each["const"]): str(each.get("title", each["const"])) for each in options}
    values = source.get("enum")
    if not isinstance(values, list):
        return {}
    names = source.get("enumNames")
    titles = names if isinstance(names, list) and len(names) == len(values) else values
    return {str(value): str(title) for value, title in zip(values, titles)}


def _fault(value: Any, schema: Mapping[str, Any], choices: Mapping[str, str]) -> Optional[str]:
    """Say what is wrong with an answer, ``None`` if nothing is."""
    if choices:
        wrong = [each for each in (value if isinstance(value, list) else [value]) if str(each) not in choices]
        if wrong:
            return f"choose from {', '.join(choices)}"
    if isinstance(value, bool):
        return None
    size = len(value) if isinstance(value, (str, list)) else value
    kind = "Length" if isinstance(value, str) else "Items" if isinstance(value, list) else "imum"
    unit = " characters" if isinstance(value, str) else ""
    least, most = schema.get(f"min{kind}"), schema.get(f"max{kind}")
    if isinstance(least, (int, float)) and size < least:
        return f"at least {least:g}{unit}"
    if isinstance(most, (int, float)) and size > most:
        return f"at most {most:g}{unit}"
    return None


def _say(text: str) -> None:
    click.echo(clean(text), err=True)
