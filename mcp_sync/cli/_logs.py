"""The log of the library on standard error."""

from __future__ import annotations

import logging

import click

from .._protocol.visible import clean


class _StderrHandler(logging.Handler):
    """Writes log messages to what is standard error now."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"mcp-sync: {clean(self.format(record))}", err=True)


_handler = _StderrHandler()


def log_to_stderr(as_json: bool) -> None:
    """Show what the library warns of; nothing where standard error is for a program."""
    _handler.setLevel(logging.CRITICAL if as_json else logging.WARNING)
    logging.getLogger("mcp_sync").addHandler(_handler)


def tell_of_bug(as_json: bool) -> None:
    """Show the exception that is being handled, with its traceback."""
    log_to_stderr(as_json)
    logging.getLogger("mcp_sync.cli").critical("This is a bug in mcp-sync", exc_info=True)  # noqa: LOG014
