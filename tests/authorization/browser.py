"""A real browser without a window: Debian's Chromium, steered by the DevTools protocol."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import requests
import websocket
from interop.install import chromium

WAIT = 20
CLICK = """(() => {
    const button = document.querySelector('#allow, button[type=submit]:not([name=abort])');
    for (const field of document.querySelectorAll('input:not([type=hidden])')) field.value = 'alice';
    if (button) button.click();
    return [document.body.innerText, Boolean(button)];
})()"""


class Browser:
    """A browser in which somebody agrees to everything. Use it as ``open=`` of `LoopbackBrowser`.

    Args:
        folder: Where it keeps its profile.

    Attributes:
        last_page: The text of the page on which the last visit ended.
    """

    def __init__(self, folder: Path) -> None:
        binary, environment = chromium()
        self._process = subprocess.Popen(
            [
                str(binary),
                "--no-sandbox",  # It may run as root here, and opens nothing but the pages of the tests.
                "--disable-gpu",
                "--no-first-run",
                "--no-proxy-server",
                f"--user-data-dir={folder}",
                "--remote-debugging-port=0",
                "about:blank",
            ],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._threads: list[threading.Thread] = []
        self._port = self._awaited_port(folder / "DevToolsActivePort")
        self.last_page = ""

    def _awaited_port(self, path: Path) -> int:
        until = time.monotonic() + WAIT
        while time.monotonic() < until and self._process.poll() is None:
            lines = path.read_text().splitlines() if path.exists() else []
            if len(lines) == 2:
                return int(lines[0])
            time.sleep(0.02)
        self.end()
        raise AssertionError(f"the browser does not start: {self._process.returncode}")

    def __call__(self, url: str) -> bool:
        """Begin a visit, as `webbrowser.open` does."""
        thread = threading.Thread(target=self.visit, args=(url,), name="browser")
        self._threads.append(thread)
        thread.start()
        return True

    def visit(self, url: str) -> None:
        """Open a page, and press what agrees on each page until there is nothing to press."""
        page = requests.put(f"http://127.0.0.1:{self._port}/json/new?about:blank", timeout=WAIT).json()
        address = page["webSocketDebuggerUrl"]
        socket = websocket.create_connection(address, timeout=WAIT, suppress_origin=True)
        try:
            tab = _Tab(socket)
            tab.go(url)
            # Each button leads to the next page, the last page has none.
            while True:
                self.last_page, pressed = tab.press()
                if not pressed:
                    break
                tab.wait_for_page()
        finally:
            socket.close()

    def end(self) -> None:
        """Wait for all visits, and end the process."""
        for thread in self._threads:
            thread.join(WAIT)
        self._process.terminate()
        self._process.wait(WAIT)


class _Tab:
    """One tab, over its WebSocket."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._loaded = False
        self._ask("Page.enable")

    def go(self, url: str) -> None:
        """Open a page and wait for it."""
        self._loaded = False
        self._ask("Page.navigate", url=url)
        self.wait_for_page()

    def press(self) -> tuple[str, bool]:
        """Fill in the form and press its button; return the text of the page and whether it had a button."""
        self._loaded = False
        done = self._ask("Runtime.evaluate", expression=CLICK, returnByValue=True)
        text, pressed = done["result"]["value"]
        return text, pressed

    def wait_for_page(self) -> None:
        """Wait until the page that is on its way has loaded."""
        while not self._loaded:
            self._receive()

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = self._receive()
            if message.get("id") == number:
                result: dict[str, Any] = message["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv())
        if message.get("method") == "Page.loadEventFired":
            self._loaded = True
        return message
