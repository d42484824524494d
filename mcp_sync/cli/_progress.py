"""The progress of a call: a live bar on a terminal that can be drawn on, lines of plain text elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Optional

import click

from .._protocol.visible import clean
from ._colours import is_dumb_terminal

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_WIDTH = 20


class LiveBar:
    """Draws the progress of one call on standard error, from its first report on.

    A terminal that cannot be drawn on gets a line for each report.

    Safe from any thread. Use it as a context manager; `report` is the progress callback.
    """

    def __init__(self, label: str) -> None:
        self._label = clean(label)
        self._bar: Optional[Progress] = None
        self._task: Optional[TaskID] = None
        self._paused = False
        # Guards the three above; drawing happens under it, as rich itself does.
        self._lock = threading.Lock()

    @staticmethod
    def useful() -> bool:
        """Whether there is a terminal to draw on."""
        return sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> LiveBar:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with self._lock:
            self._paused = True
            self._stop()

    def report(self, progress: float, total: Optional[float], message: Optional[str]) -> None:
        """Draw a report."""
        with self._lock:
            if self._paused:
                return
            if is_dumb_terminal():
                click.echo(clean(f"{self._label} {progress_line(progress, total, message)}"), err=True)
                return
            if self._bar is None:
                self._start()
            assert self._bar is not None
            assert self._task is not None
            text = _one_line(message or "")
            self._bar.update(self._task, completed=progress, total=total, message=text)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to somebody else for a while."""
        with self._lock:
            self._paused = True
            self._stop()
        try:
            yield
        finally:
            with self._lock:
                self._paused = False

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.table import Column

        self._bar = Progress(
            TextColumn("{task.fields[label]}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            # A long one gets what the others leave, rather than their place.
            TextColumn("{task.fields[message]}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
            console=Console(stderr=True),
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("", total=None, label=self._label, message="")
        self._bar.start()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def progress_line(progress: float, total: Optional[float], message: Optional[str]) -> str:
    """Return one report of progress as a line of plain text."""
    if not total or total < 0:
        line = f"{progress:g}"
    else:
        filled = round(_WIDTH * min(max(progress / total, 0), 1))
        line = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {progress:g}/{total:g}"
    return f"{line}  {_one_line(message)}" if message else line


def _one_line(text: str) -> str:
    return clean(" ".join(text.split()))
