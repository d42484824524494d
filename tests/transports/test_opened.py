"""Transports that are opened with ``with``, as the official SDK has them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import UsageError
from mcp_sync.options import Limits, Retry, Timeouts
from mcp_sync.transports._base import Channel, Settings
from mcp_sync.transports._opened import OpenedTransport, streamablehttp_client

SETTINGS = Settings("test", Timeouts(close=7), Limits(), Retry())


class FakeChannel:
    """Keeps how it was closed."""

    def __init__(self) -> None:
        self.closed: list[Any] = []

    def close(self, deadline: Deadline) -> None:
        """Note the bound."""
        self.closed.append(deadline.timeout)


class FakeTarget:
    """Makes channels and keeps them."""

    def __init__(self) -> None:
        self.channels: list[Any] = []

    def __repr__(self) -> str:
        return "FakeTarget()"

    def identity(self) -> Hashable:
        """Return a name."""
        return "fake"

    def channel(self, settings: Settings) -> Channel:
        """Make a channel."""
        self.channels.append(FakeChannel())
        channel: Channel = self.channels[-1]
        return channel


def test_every_session_on_a_transport_ends_with_it() -> None:
    target = FakeTarget()
    transport = OpenedTransport(target)
    assert transport.channel(SETTINGS) is target.channels[0]
    assert transport.channel(SETTINGS) is target.channels[1]
    assert [channel.closed for channel in target.channels] == [[], []]
    transport.close()
    assert [channel.closed for channel in target.channels] == [[7], [7]]


def test_a_transport_that_was_closed_makes_no_connection() -> None:
    target = FakeTarget()
    transport = OpenedTransport(target)
    transport.close()
    with pytest.raises(UsageError, match="closed"):
        transport.channel(SETTINGS)
    assert target.channels == []


def test_it_stands_for_its_target() -> None:
    transport = OpenedTransport(FakeTarget())
    assert (repr(transport), transport.identity()) == ("FakeTarget()", "fake")


def test_the_end_of_the_block_closes_even_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), streamablehttp_client("http://h.example/mcp") as transport:
        raise ZeroDivisionError
    with pytest.raises(UsageError):
        transport.channel(SETTINGS)


def test_who_unpacks_streams_is_told_what_there_is_instead() -> None:
    opening: Any = streamablehttp_client("http://127.0.0.1:9/mcp")
    with pytest.raises(UsageError, match="no streams to unpack: write `as transport`"), opening as (_, _, _):
        pass
