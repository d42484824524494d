"""Helps for tests: servers in memory in the place of those of the settings.

::

    class IssuesTest(TestCase):
        @fake_server("github", tools={"list_issues": lambda state="open": []})
        def test_page(self):
            assert self.client.get("/issues/").status_code == 200

With pytest, ``pytest_plugins = ["mcp_sync.contrib.django.test"]`` gives the fixture ``mcp_fake``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

from ...testing import FakeServer
from .servers import mcp


@contextmanager
def fake_server(alias: str, fake: Any = None, **options: Any) -> Iterator[Any]:
    """Have a server in memory answer for an alias: a decorator, and a context manager.

    Nobody has to connect to it, whatever the settings say.

    Args:
        alias: The server, which need not be in the settings.
        fake: A `FakeServer`, or a target such as the URL of one that listens.
        options: What a new `FakeServer` is made of.

    Yields:
        The fake: ``fake.received("tools/call")`` is what it was asked.
    """
    server = FakeServer(**options) if fake is None else fake
    with mcp.override({alias: server}):
        yield server


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture
    def mcp_fake() -> Iterator[Callable[..., Any]]:
        """Return what puts fake servers in place for the test: ``mcp_fake("github", tools=...)``."""
        from contextlib import ExitStack

        with ExitStack() as stack:
            yield lambda alias, fake=None, **options: stack.enter_context(fake_server(alias, fake, **options))
