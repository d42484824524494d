"""Two browsers side by side, for users who walk through an example."""

from __future__ import annotations

import base64
import itertools
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
import websocket

WAIT = 20

# The texts whose contrast is below 4.5 (WCAG 2.2, 1.4.3).
_FAINT = """(() => {
    const light = text => { const [r, g, b] = text.match(/[0-9.]+/g).map(Number).map(each => each / 255)
        .map(each => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const ground = each => { for (; each; each = each.parentElement) {
        const found = getComputedStyle(each).backgroundColor;
        if (!found.startsWith('rgba(0, 0, 0, 0')) return found; } return 'rgb(255, 255, 255)'; };
    return [...document.querySelectorAll('main *')].filter(each =>
        [...each.childNodes].some(child => child.nodeType === 3 && child.data.trim())).filter(each => {
            const [a, b] = [light(getComputedStyle(each).color), light(ground(each))].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05) < 4.5; }).map(each => each.innerText);
})()"""


class Tab:
    """A page of a browser of its own.

    Args:
        browser: The browser.
        shots: Where screenshots go.
        name: Whose it is.
    """

    def __init__(self, browser, shots, name):
        page = requests.put(f"http://127.0.0.1:{browser._port}/json/new?about:blank", timeout=WAIT).json()
        self._socket = websocket.create_connection(
            page["webSocketDebuggerUrl"], timeout=WAIT, suppress_origin=True
        )
        self._ids = itertools.count(1)
        self._shots, self._name = shots, name
        self.send("Page.enable")

    def send(self, method, **params):
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                return message.get("result", {})

    def run(self, script):
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        return found.get("result", {}).get("value")

    def go(self, url):
        self.send("Page.navigate", url=url)

    def click(self, text):
        """Press the button, or follow the link, with a text."""
        script = f"""(() => {{ const found = [...document.querySelectorAll('button, a')]
            .find(each => each.innerText.trim() === {json.dumps(text)}); found && found.click();
            return Boolean(found); }})()"""
        assert self.run(script), f"no {text!r} on: {self.text()}"

    def fill(self, label, value):
        """Fill in the field with a label."""
        script = f"""(() => {{ const found = [...document.querySelectorAll('label')]
            .find(each => each.innerText.startsWith({json.dumps(label)}));
            const field = found && document.getElementById(found.htmlFor);
            if (field) field.value = {json.dumps(value)}; return Boolean(field); }})()"""
        assert self.run(script), f"no field {label!r} on: {self.text()}"

    def text(self):
        return self.run("document.body ? document.body.innerText : ''") or ""

    def wait_for(self, text, shot=None):
        """Wait until a text is on the page."""
        until = time.monotonic() + WAIT
        while text not in self.text():
            assert time.monotonic() < until, f"{text!r} does not come: {self.text()}"
            time.sleep(0.02)
        if shot is not None:
            data = self.send("Page.captureScreenshot", format="png")["data"]
            (self._shots / f"{self._name}-{shot}.png").write_bytes(base64.b64decode(data))
            self.check_accessible()

    def check_accessible(self):
        """See that every field has a label, and the page a language, a title and one heading.

        Texts about a field are tied to it, and all texts stand out.
        """
        assert self.run("""[...document.querySelectorAll('input:not([type=hidden]), select')]
            .every(each => each.labels.length)""")
        assert self.run("document.documentElement.lang && document.title && true")
        assert self.run("document.querySelectorAll('h1').length") == 1
        assert self.run("""[...document.querySelectorAll('[aria-describedby]')].every(each =>
            each.getAttribute('aria-describedby').split(' ').every(id => document.getElementById(id)))""")
        assert self.run("[...document.querySelectorAll('a, button')].every(each => each.innerText.trim())")
        assert self.run(_FAINT) == []

    def close(self):
        self._socket.close()


@contextmanager
def two_tabs(folder: Path) -> Iterator[list[Tab]]:
    """Start two browsers with profiles of their own, and yield a page of each: that of Ada, and that of Bob.

    Screenshots go to the folder, or to that in ``MCP_SYNC_SCREENSHOTS``.
    """
    from authorization.browser import Browser

    shots = Path(os.environ.get("MCP_SYNC_SCREENSHOTS", folder))
    browsers = [Browser(folder / name) for name in ("ada", "bob")]
    found = [Tab(browser, shots, name) for browser, name in zip(browsers, ("ada", "bob"))]
    yield found
    for tab in found:
        tab.close()
    for browser in browsers:
        browser.end()
