"""Chromium walks through the example site: two users side by side, a screenshot of each page."""

from __future__ import annotations

import base64
import itertools
import json
import os
import time
from pathlib import Path

import pytest
import requests
import websocket

from . import test_example

WAIT = 20
site = test_example.site  # the fixture


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


@pytest.fixture
def tabs(tmp_path):
    from authorization.browser import Browser
    from interop.install import home

    if not (home() / "chromium.installed").exists():
        pytest.skip("needs Chromium: python -m tests.interop.install chromium")
    shots = Path(os.environ.get("MCP_SYNC_SCREENSHOTS", tmp_path))
    browsers = [Browser(tmp_path / name) for name in ("ada", "bob")]
    found = [Tab(browser, shots, name) for browser, name in zip(browsers, ("ada", "bob"))]
    yield found
    for tab in found:
        tab.close()
    for browser in browsers:
        browser.end()


def log_in(tab, name, place):
    tab.go(place)
    tab.wait_for("Username", "login")
    tab.fill("Username", name)
    tab.fill("Password", "secret")
    tab.click("Log in")
    tab.wait_for("You are not connected", "home")


def connect(tab, name):
    tab.click("Connect")
    tab.wait_for("You are going to be asked", "connect")
    tab.click("Connect")
    tab.wait_for("Allow access?", "consent")
    tab.fill("Your name here", f"{name} there")
    tab.click("Allow")
    tab.wait_for("You are connected", "connected")


@pytest.mark.contrib
@pytest.mark.timeout(180)
def test_two_users_walk_through_the_example_with_browsers(site, tabs):
    ada, bob = tabs
    log_in(ada, "ada", site)
    log_in(bob, "bob", site)
    connect(ada, "ada")
    connect(bob, "bob")
    ada.click("See what it can do")
    bob.click("See what it can do")
    ada.wait_for("You are ada there", "tools")
    bob.wait_for("You are bob there", "tools")
    assert "bob" not in ada.text()
    assert "ada" not in bob.text()
    ada.go(site)
    ada.wait_for("Make a report")
    ada.click("Make a report")
    ada.wait_for("1 of 5", "progress")
    ada.wait_for("all is well", "report")
    ada.click("Back")
    ada.wait_for("Book a trip")
    ada.click("Book a trip")
    ada.wait_for("Where to?", "question")
    ada.click("Continue")
    ada.wait_for("an answer is needed", "wrong")
    wrong = "document.activeElement"
    assert ada.run(f"{wrong}.labels[0].innerText").startswith("Where to?")
    assert ada.run(f"{wrong}.getAttribute('aria-invalid')") == "true"
    described = f"document.getElementById({wrong}.getAttribute('aria-describedby')).innerText"
    assert ada.run(described) == "an answer is needed"
    ada.fill("Where to?", "Oslo")
    ada.click("Continue")
    ada.wait_for("2 nights in Oslo", "done")
    ada.click("Go on")
    ada.wait_for("Disconnect")
    ada.click("Disconnect")
    ada.wait_for("You are not connected", "disconnected")
    bob.go(site)
    bob.wait_for("You are connected")
