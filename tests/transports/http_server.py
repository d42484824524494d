"""A scripted HTTP server on sockets, and what the tests of the HTTP channel share.

A test passes a function that gets each request as a `Turn` and writes raw bytes, step by step, whenever its
events allow. So a test decides about each byte and each pause, and needs no sleep.
"""

from __future__ import annotations

import dataclasses
import json
import select
import socket
import ssl
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Callable, Optional

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync.options import Limits, Retry, Timeouts
from mcp_sync.transports import StreamableHTTP
from mcp_sync.transports._base import Frame, Settings, Wire

if TYPE_CHECKING:
    import trustme

PATIENCE = 10.0  # seconds that no test needs, unless something hangs
LEGACY = Wire(version_header="2025-11-25", sessions=True, resumable=True)
LISTENING = dataclasses.replace(LEGACY, get_stream=True)
MODERN = Wire(version_header="2026-07-28")


class Turn:
    """One request, and the means to answer it.

    Attributes:
        method, path, headers, body: What was asked, with the names of headers in lower case.
        names: The names of the headers as they were written.
        number: How many requests the server had before.
        connection: Which connection it came on.
    """

    def __init__(self, server: ScriptedServer, sock: socket.socket, head: bytes, body: bytes) -> None:
        start, *lines = head.decode("iso-8859-1").split("\r\n")
        self.method, self.path, _ = start.split(" ", 2)
        pairs = [line.split(": ", 1) for line in lines]
        self.names = [name for name, _ in pairs]
        self.headers = {name.lower(): value for name, value in pairs}
        self.body = body
        self.sock = sock
        self.server = server
        self.number = 0
        self.connection = 0

    @property
    def message(self) -> Any:
        """The body as JSON, empty if there is no body."""
        return json.loads(self.body or b"{}")

    @property
    def id(self) -> Any:
        """The JSON-RPC id."""
        return self.message.get("id")

    def write(self, data: bytes) -> None:
        """Send raw bytes."""
        self.sock.sendall(data)

    def head(self, status: int = 200, headers: Optional[Mapping[str, str]] = None) -> None:
        """Send the head of a response."""
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{k}: {v}" for k, v in (headers or {}).items())]
        self.write("\r\n".join([*lines, "", ""]).encode("iso-8859-1"))

    def reply(
        self, status: int = 200, body: bytes = b"", headers: Optional[Mapping[str, str]] = None
    ) -> None:
        """Send a whole response."""
        self.head_and({**(headers or {}), "Content-Length": str(len(body))}, body, status)

    def head_and(self, headers: Mapping[str, str], body: bytes, status: int = 200) -> None:
        """Send head and body in one piece."""
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        self.write("\r\n".join(lines).encode("iso-8859-1") + body)

    def json(self, value: Any, status: int = 200, headers: Optional[Mapping[str, str]] = None) -> None:
        """Send a JSON response."""
        body = json.dumps(value).encode()
        self.reply(status, body, {"Content-Type": "application/json", **(headers or {})})

    def result(self, result: Any = None, headers: Optional[Mapping[str, str]] = None) -> None:
        """Answer the request."""
        self.json(answer(self.id, result), headers=headers)

    def accepted(self) -> None:
        """Accept a notification."""
        self.reply(202)

    def stream(self, *events: bytes, headers: Optional[Mapping[str, str]] = None) -> None:
        """Open a chunked event stream and send these events."""
        self.head(
            200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **(headers or {})}
        )
        for item in events:
            self.chunk(item)

    def chunk(self, data: bytes) -> None:
        """Send one chunk."""
        self.write(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """End a chunked response."""
        self.write(b"0\r\n\r\n")

    def close(self) -> None:
        """Close the connection."""
        shut(self.sock)

    def reset(self) -> None:
        """Close the connection so that the peer sees a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def wait_for_close(self) -> bool:
        """Wait until the client closes the connection; return whether it did."""
        self.sock.settimeout(PATIENCE)
        try:
            return not self.sock.recv(1)
        except socket.timeout:
            return False
        except OSError:
            return True

    def wait(self, event: threading.Event) -> None:
        """Wait for the test to go on."""
        if not event.wait(PATIENCE):
            raise AssertionError("the test did not set the event")


Script = Callable[[Turn], None]


class ScriptedServer:
    """Runs a script for each request, with one thread for each connection.

    Attributes:
        turns: The requests so far.
        url: Its address, with the path ``/mcp``.
        connections: How many connections were made.
    """

    def __init__(self, script: Script, tls: Optional[ssl.SSLContext] = None, host: str = "127.0.0.1") -> None:
        self._script = script
        self._tls = tls
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family)
        self._listener.bind((host, 0))
        self._listener.listen(64)
        self.port: int = self._listener.getsockname()[1]
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://{'localhost' if tls else host}:{self.port}/mcp"
        self.turns: list[Turn] = []
        self.connections = 0
        self.failures: list[BaseException] = []
        self._stopping = False
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, name="scripted-server")]

    def __enter__(self) -> ScriptedServer:
        self._threads[0].start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping = True
        shut(self._listener)
        with self._lock:
            sockets = list(self._sockets)
        for sock in sockets:
            shut(sock)
        for thread in list(self._threads):
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a thread of the scripted server hangs"
        self._listener.close()
        if self.failures and exc_info[0] is None:
            raise self.failures[0]

    def _accept(self) -> None:
        while not self._stopping:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with self._lock:
                self._sockets.add(sock)
                thread = threading.Thread(
                    target=self._serve, args=(sock, self.connections), name="scripted-connection"
                )
                self._threads.append(thread)
            thread.start()

    def _serve(self, raw: socket.socket, connection: int) -> None:
        sock = raw
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(raw, server_side=True)
                with self._lock:
                    self._sockets.add(sock)
            buffer = b""
            while True:
                turn, buffer = self._read(sock, buffer)
                if turn is None:
                    return
                turn.connection = connection
                with self._lock:
                    turn.number = len(self.turns)
                    self.turns.append(turn)
                self._script(turn)
        except OSError:
            pass  # The client went away, or the test is over.
        except BaseException as error:
            if not self._stopping:
                self.failures.append(error)
        finally:
            shut(sock)
            sock.close()
            with self._lock:
                self._sockets -= {raw, sock}

    def _read(self, sock: socket.socket, buffer: bytes) -> tuple[Optional[Turn], bytes]:
        while b"\r\n\r\n" not in buffer:
            data = sock.recv(65536)
            if not data:
                return None, b""
            buffer += data
        head, _, rest = buffer.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line[15:])
        while len(rest) < length:
            rest += sock.recv(65536)
        return Turn(self, sock, head, rest[:length]), rest[length:]


def server_tls(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    """Return the TLS settings of a server of these names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


class Tunnel(ScriptedServer):
    """A proxy that knows CONNECT and passes bytes on.

    Attributes:
        targets: Where connections were wanted to.
    """

    def __init__(self, tls: Optional[ssl.SSLContext] = None) -> None:
        super().__init__(self._connect, tls)
        self.targets: list[str] = []

    def _connect(self, turn: Turn) -> None:
        assert turn.method == "CONNECT"
        self.targets.append(turn.path)
        host, _, port = turn.path.rpartition(":")
        with socket.create_connection((host, int(port))) as upstream:
            turn.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self.pass_on(turn.sock, upstream)

    @staticmethod
    def pass_on(one: socket.socket, other: socket.socket) -> None:
        """Pass bytes on in both directions until either side ends. One thread, because TLS needs that."""
        peers = {one: other, other: one}
        while True:
            pending = isinstance(one, ssl.SSLSocket) and one.pending()
            ready = [one] if pending else select.select(list(peers), [], [])[0]
            for sock in ready:
                try:
                    data = sock.recv(65536)
                    peers[sock].sendall(data)
                except OSError:
                    return
                if not data:
                    return


def shut(sock: socket.socket) -> None:
    """Shut a socket down, whatever state it is in."""
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        pass


def answer(request_id: Any, result: Any = None) -> dict[str, Any]:
    """Build a JSON-RPC result."""
    return {"jsonrpc": "2.0", "id": request_id, "result": {"ok": True} if result is None else result}


def event(value: Any, before: bytes = b"") -> bytes:
    """Build an event that carries a message."""
    return before + b"data: " + json.dumps(value).encode() + b"\n\n"


def gzipped(data: bytes) -> bytes:
    """Compress a piece of a stream so that all of it can be read."""
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)


class FakeInbound:
    """Takes the place of the engine: settles calls by their id, and keeps the rest."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.reports: list[Exception] = []
        self.losses: list[Exception] = []
        self.gaps: list[bool] = []
        self.streams_lost: list[Exception] = []
        self.arrived = threading.Condition()
        self.on_message: Callable[[Any], None] = lambda message: None

    def receive(self, message: Any, call: Optional[PendingCall] = None) -> None:
        """Settle the call if this is its answer, else keep the message."""
        items = message if isinstance(message, list) else [message]
        for item in items:
            is_answer = isinstance(item, dict) and ("result" in item or "error" in item)
            if call is not None and is_answer and item.get("id") == call.id:
                call.settle(item)
                return
            with self.arrived:
                self.messages.append(item)
                self.arrived.notify_all()
            self.on_message(item)

    def lost(self, error: Exception) -> None:
        """Keep the loss."""
        self.losses.append(error)

    def stream_stands(self, gap: bool) -> None:
        """Keep whether there was a gap."""
        with self.arrived:
            self.gaps.append(gap)
            self.arrived.notify_all()

    def stream_lost(self, error: Exception) -> None:
        """Keep why there is no stream."""
        with self.arrived:
            self.streams_lost.append(error)
            self.arrived.notify_all()

    def report(self, error: Exception) -> None:
        """Keep the report."""
        with self.arrived:
            self.reports.append(error)
            self.arrived.notify_all()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for messages or reports."""
        with self.arrived:
            assert self.arrived.wait_for(condition, PATIENCE), "nothing arrived"


class Client:
    """A channel with what a test needs around it."""

    def __init__(self, target: StreamableHTTP, wire: Wire, settings: Settings) -> None:
        self.channel: Any = target.channel(settings)
        self.inbound = FakeInbound()
        self.channel.start(self.inbound, Deadline(PATIENCE))
        self.channel.configure(wire)
        self._ids = 0

    def pending(self, method: str = "tools/call", timeout: float = PATIENCE) -> PendingCall:
        """Make a call that is not sent yet."""
        self._ids += 1
        return PendingCall(self._ids, method, Deadline(timeout))

    def send(self, call: PendingCall, headers: Optional[Mapping[str, str]] = None) -> Any:
        """Send a call and return the result; a JSON-RPC error is returned whole."""
        self.channel.request(frame_of(call, headers), call)
        assert call.settled
        reply = call.result()
        return reply.get("result", reply)

    def call(
        self,
        method: str = "tools/call",
        timeout: float = PATIENCE,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Any:
        """Make a call and return its result."""
        return self.send(self.pending(method, timeout), headers)

    def notify(self, method: str = "notifications/initialized") -> None:
        """Send a notification."""
        body = json.dumps({"jsonrpc": "2.0", "method": method}).encode()
        self.channel.send(Frame(body, method), Deadline(PATIENCE))


def frame_of(call: PendingCall, headers: Optional[Mapping[str, str]] = None) -> Frame:
    """Encode a call."""
    body = json.dumps({"jsonrpc": "2.0", "id": call.id, "method": call.method, "params": {}}).encode()
    return Frame(body, call.method, headers or {})


@contextmanager
def connected(
    url: str,
    wire: Wire = MODERN,
    timeouts: Optional[Timeouts] = None,
    limits: Optional[Limits] = None,
    retry: Optional[Retry] = None,
    **target: Any,
) -> Iterator[Client]:
    """Open a channel to a URL, and close it in the end."""
    settings = Settings(
        "test", timeouts or Timeouts(), limits or Limits(), retry or Retry(resume=3, backoff=0.01)
    )
    client = Client(StreamableHTTP(url, **target), wire, settings)
    try:
        yield client
    finally:
        client.channel.close(Deadline(PATIENCE))


@contextmanager
def serving() -> Iterator[Callable[..., Any]]:
    """Yield a function that runs a script on a server and returns a client of it; both end with the block."""
    with ExitStack() as stack:

        def start(script: Script, **options: Any) -> Any:
            server = stack.enter_context(ScriptedServer(script, tls=options.pop("tls", None)))
            client: Any = stack.enter_context(connected(server.url, **options))
            client.server = server
            return client

        yield start


@contextmanager
def in_thread(function: Callable[..., Any], *args: Any) -> Iterator[Future]:
    """Run a function on a thread of its own, and wait for its end."""
    future = Future(function, args)
    future.thread.start()
    try:
        yield future
    finally:
        future.thread.join(PATIENCE)
        assert not future.thread.is_alive(), "the function does not return"


class Future:
    """The outcome of a function on another thread."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._work = (function, args)
        self.value: Any = None
        self.error: Optional[BaseException] = None
        self.thread = threading.Thread(target=self._run, name="test-work")

    def _run(self) -> None:
        function, args = self._work
        try:
            self.value = function(*args)
        except BaseException as error:
            self.error = error

    def result(self) -> Any:
        """Wait for the end and return the value, or raise the error."""
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "the function does not return"
        if self.error is not None:
            raise self.error
        return self.value
