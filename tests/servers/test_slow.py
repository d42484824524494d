"""A server of a group that hangs keeps the others waiting once, and nobody longer than they want."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_sync import CallTimeout, ClientGroup, Timeouts, UsageError

from .fakes import PATIENCE, named, over_http

# How long one may keep the others waiting here, in seconds: a busy machine keeps those that answer for less.
A_WHILE = 2.5
# The same where it is no matter whether those that answer do so in time.
A_MOMENT = 0.1
# What takes less has waited for nobody, on a busy machine, too; the time of a client to open is far longer.
AT_ONCE = 5.0
# Ends only when it is killed.
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
DEAF = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}


@pytest.fixture
def deaf_url() -> Iterator[str]:
    """Give the URL of a server that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"


class Held:
    """A server that answers a method only when it may."""

    def __init__(self, name: str, method: str, **settings: Any) -> None:
        self.server = named(name, **settings)
        self.method = method
        self.asked = threading.Event()
        self.released = threading.Event()
        self.server.on(method, self._hold)

    def _hold(self, message: Any) -> Any:
        self.asked.set()
        self.released.wait(PATIENCE)
        return NotImplemented


@pytest.fixture
def held(request: pytest.FixtureRequest) -> Iterator[Held]:
    """Give a server named ``slow`` that holds the method of the test."""
    made = Held("slow", request.param)
    yield made
    made.released.set()


holding = pytest.mark.parametrize("held", ["server/discover", "tools/list"], indirect=True)


def names_of(group: ClientGroup, **options: Any) -> list[str]:
    return [tool.name for tool in group.tools(**options)]


def leave_out(group: ClientGroup, answering: list[str]) -> None:
    """Ask until those that hang, and only they, have been waited for in vain; be patient from then on."""
    group._patience = A_MOMENT
    begin = time.monotonic()
    # On a busy machine others are left out, too, and are back as soon as they answer.
    while names_of(group) != answering:
        threading.Event().wait(0.01)
        assert took(begin) < PATIENCE
    assert took(begin) < PATIENCE
    group._patience = PATIENCE


def took(begin: float) -> float:
    return time.monotonic() - begin


def wait_until_up(group: ClientGroup, name: str) -> None:
    """Wait until a server has answered that nobody waited for."""
    end = time.monotonic() + PATIENCE
    while any(each.name == name and each.error is not None for each in group.status()):
        assert time.monotonic() < end
        threading.Event().wait(0.01)


@pytest.mark.parametrize("kind", ["process", "socket"])
def test_one_that_hangs_is_left_out_after_a_while_and_the_second_time_at_once(
    kind: str, deaf_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with over_http(named("web"), named("mail")) as servers:
        servers = {"web": servers["web"], "hung": DEAF if kind == "process" else deaf_url, **servers}
        with ClientGroup(servers, server_timeout=A_WHILE) as group:
            begin = time.monotonic()
            assert names_of(group) == ["web_whoami", "mail_whoami"]
            assert A_WHILE < took(begin) < PATIENCE
            group._patience = PATIENCE  # Who waits now does so for long.
            opening = group["hung"]._engine._opening
            for ask in (group.tools, group.prompts, group.resources, group.open):
                begin = time.monotonic()
                ask()
                assert took(begin) < AT_ONCE
            # It is still the first attempt.
            assert group["hung"]._engine._opening is opening
            status = group.status()[1]
            assert status.state == "opening"
            assert str(status.error) == "no answer for 2.5 s (server_timeout)"
            assert names_of(group) == ["web_whoami", "mail_whoami"]
            assert caplog.messages == ["Server hung is left out: no answer for 2.5 s (server_timeout)"]
            assert group.call_tool("mail_whoami", timeout=PATIENCE).text == "mail"


@pytest.mark.parametrize("kind", ["process", "socket"])
def test_a_call_to_one_that_hangs_ends_in_its_own_time_and_says_which_server_it_is(
    kind: str, deaf_url: str
) -> None:
    servers = {"hung": DEAF if kind == "process" else deaf_url}
    with ClientGroup(servers) as group:
        begin = time.monotonic()
        with pytest.raises(CallTimeout, match=r"^server 'hung': .* not open within 0\.3 s$") as caught:
            group.call_tool("hung_whoami", timeout=0.3)
        assert took(begin) < 0.3 + AT_ONCE
        assert caught.value.timeout == 0.3
        assert group.status()[0].state == "opening"


def test_a_call_to_one_that_answers_waits_for_no_other(deaf_url: str) -> None:
    with over_http(named("web")) as servers:
        with ClientGroup({"hung": deaf_url, **servers}) as group:
            begin = time.monotonic()
            assert group.call_tool("web_whoami").text == "web"
            assert took(begin) < AT_ONCE
        # Without a prefix the lists have to tell whose it is.
        with ClientGroup({"hung": deaf_url, **servers}, names="first") as group:
            leave_out(group, ["whoami"])
            assert group.call_tool("whoami", timeout=PATIENCE).text == "web"
            with pytest.raises(UsageError, match=r"has a tool 'other' \(hung could not be asked\)"):
                group.call_tool("other", timeout=PATIENCE)
            with pytest.raises(UsageError, match=r"no server lists the resource demo://a \(hung could not"):
                group.read_resource("demo://a", timeout=PATIENCE)


def test_closing_ends_soon_whatever_hangs(deaf_url: str) -> None:
    with over_http(named("web")) as servers:
        stubborn = [sys.executable, "-c", STUBBORN]
        group = ClientGroup({"hung": deaf_url, "process": stubborn, **servers})
        leave_out(group, ["web_whoami"])
        begin = time.monotonic()
        group.close(1.0)
        assert took(begin) < AT_ONCE


@holding
def test_one_that_answers_later_is_there_again_and_was_asked_once(held: Held) -> None:
    with over_http(named("web"), held.server) as servers, ClientGroup(servers) as group:
        leave_out(group, ["web_whoami"])
        for _ in range(2):
            assert names_of(group) == ["web_whoami"]
        assert held.server.count(held.method) == 1
        held.released.set()
        wait_until_up(group, "slow")
        assert names_of(group) == ["web_whoami", "slow_whoami"]
        assert {each.state for each in group.status()} == {"open"}


@holding
def test_who_gives_a_time_waits_for_all(held: Held) -> None:
    with over_http(named("web"), held.server) as servers, ClientGroup(servers) as group:
        leave_out(group, ["web_whoami"])
        group._patience = A_MOMENT
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.extend(names_of(group, timeout=PATIENCE)))
        thread.start()
        thread.join(3 * A_MOMENT)
        assert thread.is_alive()
        held.released.set()
        thread.join(PATIENCE)
        assert found == ["web_whoami", "slow_whoami"]


def test_with_raise_each_has_the_time_of_its_client(deaf_url: str) -> None:
    with over_http(named("web")) as servers:
        options: Any = {
            "on_error": "raise",
            "server_timeout": A_MOMENT,
            "timeouts": Timeouts(open=3 * A_MOMENT),
        }
        timeout = pytest.raises(CallTimeout, match=r"Timeouts\.open")
        with ClientGroup({"hung": deaf_url, **servers}, **options) as group, timeout:
            group.tools()


def test_where_nobody_else_is_left_those_that_hang_are_waited_for(deaf_url: str) -> None:
    with ClientGroup({"a": deaf_url, "b": deaf_url}, server_timeout=A_MOMENT) as group:
        for _ in range(2):
            begin = time.monotonic()
            assert names_of(group) == []
            assert took(begin) >= A_MOMENT


def test_one_that_takes_long_to_fail_is_not_waited_for_again(deaf_url: str) -> None:
    with over_http(named("web")) as servers:
        options: Any = {"timeouts": Timeouts(open=A_WHILE)}
        with ClientGroup({"hung": deaf_url, **servers}, **options) as group:
            assert names_of(group) == ["web_whoami"]
            assert "Timeouts.open" in str(group.status()[0].error)
            assert names_of(group) == ["web_whoami"]
            while not group._slow.is_asked("hung"):  # On a busy machine that attempt may be over, too.
                assert names_of(group) == ["web_whoami"]


def test_as_long_as_one_after_the_other_answers_all_are_waited_for() -> None:
    step = 0.4
    servers = [named(f"s{number}") for number in range(8)]

    def late(number: int) -> Any:
        def wait(message: Any) -> Any:
            threading.Event().wait(number * step)
            return NotImplemented

        return wait

    for number, server in enumerate(servers):
        server.on("server/discover", late(number))
    with over_http(*servers) as entries, ClientGroup(entries, server_timeout=6 * step) as group:
        assert len(group.tools()) == 8


def test_those_that_hang_leave_a_thread_to_the_others(deaf_url: str) -> None:
    with over_http(named("web"), named("mail")) as servers:
        hung = {f"hung{number}": deaf_url for number in range(3)}
        with ClientGroup({**hung, **servers}, threads=1) as group:
            leave_out(group, ["web_whoami", "mail_whoami"])


def test_one_that_could_not_be_opened_meanwhile_is_asked_again_and_nobody_waits(deaf_url: str) -> None:
    options: Any = {"timeouts": Timeouts(open=A_WHILE), "threads": 1}
    with over_http(named("web")) as servers, ClientGroup({"hung": deaf_url, **servers}, **options) as group:
        leave_out(group, ["web_whoami"])
        end = time.monotonic() + PATIENCE
        while group._slow.is_asked("hung"):
            assert time.monotonic() < end
            threading.Event().wait(0.01)
        assert group.status()[0].state == "failed"
        assert "Timeouts.open" in str(group.status()[0].error)
        assert names_of(group) == ["web_whoami"]
        while not (group._slow.is_asked("hung") and group.status()[0].state == "opening"):
            assert time.monotonic() < end
            threading.Event().wait(0.01)


@holding
def test_a_server_that_was_connected_anew_is_waited_for_again(held: Held) -> None:
    with over_http(named("web"), held.server) as servers, ClientGroup(servers) as group:
        leave_out(group, ["web_whoami"])
        held.asked.wait(PATIENCE)
        held.released.set()
        group.reconnect("slow")
        assert not group._slow.aside(["web", "slow"])
        assert group.status()[1].error is None


def test_one_that_is_replaced_is_waited_for_again(deaf_url: str) -> None:
    with over_http(named("web"), named("mail")) as servers:
        entries = {"web": servers["web"], "mail": deaf_url}
        with ClientGroup(entries) as group:
            leave_out(group, ["web_whoami"])
            group.reload(servers)
            assert names_of(group) == ["web_whoami", "mail_whoami"]
        with ClientGroup(entries) as group:
            leave_out(group, ["web_whoami"])
            group.remove("mail")
            group.add("mail", servers["mail"])
            assert names_of(group) == ["web_whoami", "mail_whoami"]


def test_names_are_the_same_whoever_hangs(deaf_url: str) -> None:
    # What either has could bear the name of what the other has.
    with over_http(named("a", "b_c"), named("a_b", "c")) as servers:
        with ClientGroup(servers) as group:
            names = names_of(group)
        for index, name in enumerate(servers):
            with ClientGroup({**servers, name: deaf_url}) as group:
                leave_out(group, [names[1 - index]])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_asks_by_itself(deaf_url: str) -> None:
    slow = Held("slow", "tools/list")
    with over_http(named("web"), slow.server) as servers, ClientGroup(servers) as group:
        leave_out(group, ["web_whoami"])
        assert group._slow.is_asked("slow")
        slow.released.set()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                code = 0 if names_of(group) == ["web_whoami", "slow_whoami"] else 2
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(UsageError, match="server_timeout must be a number of seconds"):
        ClientGroup({}, server_timeout=-1)
    with ClientGroup({}, server_timeout=None) as group:
        assert group.tools() == []
