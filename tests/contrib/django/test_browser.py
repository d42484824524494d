"""Chromium walks through the example site: two users side by side, a screenshot of each page."""

from __future__ import annotations

import pytest

from ..tabs import two_tabs
from . import test_example

pytestmark = pytest.mark.heavy

site = test_example.site  # the fixture


@pytest.fixture
def tabs(tmp_path):
    from interop.install import home

    if not (home() / "chromium.installed").exists():
        pytest.skip("needs Chromium: python -m tests.interop.install chromium")
    with two_tabs(tmp_path) as found:
        yield found


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
    ada.click("Send")
    ada.wait_for("an answer is needed", "wrong")
    wrong = "document.activeElement"
    assert ada.run(f"{wrong}.labels[0].innerText").startswith("Where to?")
    assert ada.run(f"{wrong}.getAttribute('aria-invalid')") == "true"
    described = f"document.getElementById({wrong}.getAttribute('aria-describedby')).innerText"
    assert ada.run(described) == "an answer is needed"
    ada.fill("Where to?", "Oslo")
    ada.click("Send")
    ada.wait_for("2 nights in Oslo", "done")
    ada.click("Go on")
    ada.wait_for("Disconnect")
    ada.click("Disconnect")
    ada.wait_for("You are not connected", "disconnected")
    bob.go(site)
    bob.wait_for("You are connected")
