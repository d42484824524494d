"""Chromium walks through the example: two users side by side, a screenshot of each page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interop.install import home

from ..tabs import two_tabs
from .test_example import EXAMPLE, program


@pytest.fixture
def tabs(tmp_path: Path) -> Iterator[list[Any]]:
    if not (home() / "chromium.installed").exists():
        pytest.fail("this test needs Chromium: python -m tests.interop.install chromium")
    with two_tabs(tmp_path) as found:
        yield found


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_two_users_walk_through_the_example_with_browsers(tabs: list[Any], tmp_path: Path) -> None:
    ada, bob = tabs
    with program(str(EXAMPLE / "app.py"), "0", RESTAURANT_FOLDER=str(tmp_path)) as address:
        for tab in tabs:
            tab.go(address)
            tab.wait_for("You are not connected", "home")
        ada.click("Connect")
        ada.wait_for("You are connected", "connected")
        bob.go(f"{address}/add?a=1&b=1")  # Without a grant he is sent to log in, and comes back.
        bob.wait_for("2 euros", "bill")

        ada.click("Cook")
        ada.wait_for("of 5", "progress")
        ada.wait_for("5 courses are served.", "meal")
        ada.click("Back")
        ada.wait_for("You are connected")
        ada.click("Book")
        ada.wait_for("For whom shall the table be booked?", "form")
        ada.fill("Name", "A")
        ada.click("Send")
        ada.wait_for("Your answer was not sent", "mended")
        ada.fill("Name", "Ada")
        form = ada.run("location.href")
        bob.go(form)
        bob.wait_for("There is no such question", "not-his")
        ada.click("Send")
        ada.wait_for("in the name of Ada", "booked")

        ada.click("Back")
        ada.wait_for("You are connected")
        ada.click("Disconnect")
        ada.wait_for("You are not connected", "gone")
        bob.go(address)
        bob.wait_for("You are connected")
        ada.go(f"{address}/mcp/connect/kitchen")
        ada.wait_for("You are going to be asked", "connect")
        ada.go(f"{address}/mcp/callback/kitchen?state=forged&code=x")
        ada.wait_for("belongs to no login", "forged")
