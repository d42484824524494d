"""Notices when the other end of a socket is gone, while nobody reads or writes there."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Callable, Optional

from .._concurrency.threads import spawn

_INTERVAL = 0.02


class Disconnects:
    """Watches sockets with one thread, which is started with the first of them."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        # Guards the selector, which is only ever asked without waiting.
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._thread: Optional[threading.Thread] = None

    @contextlib.contextmanager
    def watch(self, sock: socket.socket, callback: Callable[[], None]) -> Iterator[None]:
        """Call ``callback`` once if the peer hangs up before the block is left."""
        with self._lock:
            self._selector.register(sock, selectors.EVENT_READ, callback)
            if self._thread is None:
                self._thread = spawn("fake-server", "watch", self._run)
        try:
            yield
        finally:
            self._forget(sock)

    def _forget(self, sock: socket.socket) -> bool:
        with self._lock:
            try:
                self._selector.unregister(sock)
            except (KeyError, ValueError, RuntimeError):  # gone already, with its peer or with the selector
                return False
            return True

    def _run(self) -> None:
        while not self._stopped.wait(_INTERVAL):
            with self._lock:
                ready = [key for key, _ in self._selector.select(0)]
            for key in ready:
                if (
                    isinstance(key.fileobj, socket.socket)
                    and is_gone(key.fileobj)
                    and self._forget(key.fileobj)
                ):
                    key.data()

    def close(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._selector.close()


def is_gone(sock: socket.socket) -> bool:
    """Whether the other end of a socket that can be read has hung up."""
    if isinstance(sock, ssl.SSLSocket):
        # It cannot be peeked at; but a client that waits for an answer sends nothing except its farewell.
        return True
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True
