"""Fixtures for pytest, there as soon as this package is installed. They load nothing until a test uses them.

``mcp_server``
    A `FakeServer` without anything in it. A project overrides this fixture with a server of its own.
``mcp_client``
    A client of ``mcp_server``, which the marker ``mcp`` runs on several revisions and transports.
``mcp_client_options``
    Arguments for that client; to be overridden.
``mcp_notifications``
    A `NotificationCollector`; a test that has both gets what the server sends to ``mcp_client``.
``mcp_cassette``
    ``mcp_cassette(target)`` records a real server into a file beside the test, and replays it from then on.

Threads of clients that are still there when the test run ends are listed, with the tests that began them;
``mcp_leaks = error`` in the settings of pytest has such a test fail instead.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import pytest

if TYPE_CHECKING:
    from ..client import Client
    from ._cassette import Cassette
    from ._collector import NotificationCollector
    from ._server import FakeServer

_MODES = ("once", "none", "all", "new")
_LEAKS = ("report", "error", "off")
_TRANSPORTS = ("memory", "http", "events", "sse", "websocket")
_MARKER = (
    "mcp(eras=..., transports=...): the revisions that mcp_client runs with ('modern', 'legacy', 'auto' or "
    f"versions), and how it reaches mcp_server ({', '.join(_TRANSPORTS)})"
)
_THREAD = re.compile(r"mcp_sync-")
# Seconds in which the threads of a test have to end.
_PATIENCE = 2.0
# Seconds between two looks at a thread that is about to start.
_PAUSE = 0.005


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("mcp", "Model Context Protocol")
    group.addoption(
        "--mcp-cassettes",
        choices=_MODES,
        default=None,
        help="what mcp_cassette does: record once (default), record nothing, everything, or what is new",
    )
    parser.addini(
        "mcp_leaks", "threads of clients that outlive their test: report, error or off", default="report"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _MARKER)
    choice = config.getini("mcp_leaks")
    if choice not in _LEAKS:
        raise pytest.UsageError(f"mcp_leaks must be one of {', '.join(_LEAKS)}, not {choice!r}")
    if choice != "off":
        config.pluginmanager.register(_Leaks(choice == "error"), "mcp_sync-leaks")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with ``mcp_client`` as their marker says."""
    marker = metafunc.definition.get_closest_marker("mcp")
    if marker is None or "mcp_client" not in metafunc.fixturenames:
        return
    eras = _listed(marker.kwargs.get("eras", "auto"))
    transports = _listed(marker.kwargs.get("transports", "memory"))
    unknown = [
        *marker.args,
        *(set(marker.kwargs) - {"eras", "transports"}),
        *(set(transports) - {*_TRANSPORTS}),
    ]
    if unknown:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: unknown {unknown!r} in the marker mcp; {_MARKER}"
        )
    pairs = [(era, transport) for era in eras for transport in transports]
    metafunc.parametrize("mcp_client", pairs, indirect=True, ids=["-".join(pair) for pair in pairs])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a test has failed."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


@pytest.fixture
def mcp_server() -> FakeServer:
    """A fake server of every revision, without anything in it."""
    from ._server import FakeServer

    return FakeServer()


@pytest.fixture
def mcp_client_options() -> dict[str, Any]:
    """Arguments for ``mcp_client``."""
    return {}


@pytest.fixture
def mcp_notifications() -> NotificationCollector:
    """What the server has sent unasked to ``mcp_client``."""
    from ._collector import NotificationCollector

    return NotificationCollector()


@pytest.fixture
def mcp_client(
    request: pytest.FixtureRequest, mcp_server: FakeServer, mcp_client_options: dict[str, Any]
) -> Iterator[Client]:
    """A client of ``mcp_server``, opened and closed."""
    from ..client import Client

    era, transport = getattr(request, "param", ("auto", "memory"))
    options = {"mode": _mode_of(era), **mcp_client_options}
    if "mcp_notifications" in request.fixturenames:
        options.setdefault("message_handler", request.getfixturevalue("mcp_notifications"))
    with ExitStack() as stack:
        target = _target_of(mcp_server, transport, stack)
        yield stack.enter_context(Client(target, **options))


@pytest.fixture
def mcp_cassette(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cassette]]:
    """Make cassettes: ``mcp_cassette(target, **options)`` takes the arguments of `Cassette`.

    Without ``path`` the file is ``cassettes/<module>/<test>.jsonl`` beside the test, with the class before
    the test where there is one; the second one of a test is ``<test>-2.jsonl``. ``--mcp-cassettes`` goes
    before ``mode``. A test that fails leaves no new recording behind: it may be half of one.
    """
    from ._cassette import Cassette

    made: list[Cassette] = []

    def cassette(target: Any, path: Any = None, **options: Any) -> Cassette:
        file = _cassette_file(request, len(made) + 1) if path is None else request.path.parent / path
        mode = request.config.getoption("--mcp-cassettes")
        made.append(Cassette(target, file, **{**options, **({} if mode is None else {"mode": mode})}))
        return made[-1]

    yield cassette
    if request.node.stash.get(_FAILED, False):
        for each in made:
            if each.fresh:
                each.path.unlink(missing_ok=True)


def _cassette_file(request: pytest.FixtureRequest, number: int) -> Path:
    """Return where a cassette of a test is kept: the first, the second, ..."""
    test = ".".join(request.node.nodeid.split("::")[1:])
    name = re.sub(r"[^\w.-]+", "_", test).strip("_") + (f"-{number}" if number > 1 else "")
    return request.path.parent / "cassettes" / request.path.stem / f"{name}.jsonl"


def _mode_of(era: str) -> str:
    from .._protocol.versions import LATEST_MODERN

    return LATEST_MODERN if era == "modern" else era


def _target_of(server: FakeServer, transport: str, stack: ExitStack) -> Any:
    from ..transports import InMemory, LegacySSE

    if transport == "memory":
        return InMemory(server)
    if transport == "sse":
        return LegacySSE(stack.enter_context(server.serve_sse()).url)
    if transport == "websocket":
        return stack.enter_context(server.serve_websocket()).url
    answers: Any = "sse" if transport == "events" else "json"
    return stack.enter_context(server.serve_http(answers=answers)).url


class _Leaks:
    """Watches the threads of clients.

    Args:
        strict: Whether a test fails whose threads outlive it.
    """

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        # The threads that outlived their test, with its name.
        self._left: dict[threading.Thread, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        item.stash[_BEFORE] = _threads()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        new = _threads()
        if _BEFORE in item.stash:
            before = item.stash[_BEFORE]
            new -= before
        if new and self._strict:
            new = _outliving(new)
        for thread in new:
            self._left[thread] = item.nodeid
        if new and self._strict:
            names = ", ".join(sorted(thread.name for thread in new))
            pytest.fail(f"a client or a fake server was not closed: {names}", pytrace=False)
        return result

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        left = _outliving(set(self._left))
        if left and not self._strict:
            terminalreporter.section("MCP clients and fake servers that were not closed", yellow=True)
            for thread in sorted(left, key=lambda thread: (self._left[thread], thread.name)):
                terminalreporter.line(f"{self._left[thread]}: thread {thread.name}")


_FAILED: pytest.StashKey[bool] = pytest.StashKey()
_BEFORE: pytest.StashKey[set[threading.Thread]] = pytest.StashKey()


def _threads() -> set[threading.Thread]:
    """Return the threads of clients."""
    if "mcp_sync._concurrency.threads" not in sys.modules:
        return set()
    return {thread for thread in threading.enumerate() if _THREAD.match(thread.name)}


def _outliving(threads: set[threading.Thread]) -> set[threading.Thread]:
    ends = time.monotonic() + _PATIENCE
    for thread in threads:
        _join(thread, ends)
    return threads & set(threading.enumerate())


def _join(thread: threading.Thread, ends: float) -> None:
    while True:
        try:
            thread.join(max(ends - time.monotonic(), 0.0))
            return
        except RuntimeError:
            # Another thread is just about to start it: so it is among the threads, but cannot be joined.
            if time.monotonic() >= ends:
                return
            time.sleep(_PAUSE)
