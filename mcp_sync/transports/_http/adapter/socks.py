"""Connections through SOCKS proxies, for which the package PySocks has to be there.

PySocks connects by itself: it is bounded by the connect timeout, but not woken by another thread.
"""

from __future__ import annotations

from typing import Any, cast

from urllib3.contrib.socks import SOCKSConnection, SOCKSHTTPSConnection

from .connection import BoundedConnection, GuardedConnection
from .pool import PlainPool, TLSPool


class _PlainConnection(BoundedConnection, SOCKSConnection):
    pass


class _TLSConnection(GuardedConnection, SOCKSHTTPSConnection):
    pass


class _PlainPool(PlainPool):
    ConnectionCls = cast(Any, _PlainConnection)


class _TLSPool(TLSPool):
    ConnectionCls = cast(Any, _TLSConnection)


SOCKS_POOL_CLASSES = {"http": _PlainPool, "https": _TLSPool}
