"""The faults of a fake server, seen from plain sockets and pipes."""

from __future__ import annotations

import io
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, Optional

import pytest
import websocket
from plain_peer import modern_meta

from mcp_sync._protocol.versions import LATEST_MODERN
from mcp_sync.testing import FakeServer, Fault, FaultPlan, HTTPEndpoint, ToolContext

SECONDS = 20.0


class Worker:
    """A server with a tool that reports progress and counts how often it has run."""

    def __init__(self) -> None:
        self.runs = 0
        self.server = FakeServer(tools=[self.work])

    def work(self, context: ToolContext) -> str:
        """Report progress."""
        self.runs += 1
        context.progress(1, 2)
        return "done"


@pytest.fixture
def worker() -> Worker:
    return Worker()


def call(request_id: int = 1, token: Optional[str] = None) -> bytes:
    meta = modern_meta() if token is None else {**modern_meta(), "progressToken": token}
    params = {"name": "work", "arguments": {}, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}).encode()


def head_of_post(path: str, body: bytes) -> bytes:
    fields = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "work",
        "MCP-Protocol-Version": LATEST_MODERN,
        "Content-Length": str(len(body)),
    }
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode()


class Socket:
    """A plain connection to an endpoint."""

    def __init__(self, endpoint: HTTPEndpoint) -> None:
        host, _, port = endpoint.url.split("/")[2].partition(":")
        self.path = endpoint.path
        self.sock = socket.create_connection((host, int(port)), timeout=SECONDS)

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.sock.close()

    def post(self, body: bytes) -> None:
        self.sock.sendall(head_of_post(self.path, body) + body)

    def rest(self) -> bytes:
        """Read until the server closes."""
        return b"".join(iter(lambda: self.sock.recv(65536), b""))

    def until(self, mark: bytes) -> bytes:
        data = b""
        while not data.endswith(mark):
            piece = self.sock.recv(65536)
            assert piece, data
            data += piece
        return data


def answered(worker: Worker, fault: Fault, *, token: Optional[str] = None, **options: Any) -> bytes:
    """Return all that comes back for a call that meets a fault, until the connection ends."""
    plan = FaultPlan({"tools/call": [fault]})
    with worker.server.serve_http(faults=plan, **options) as endpoint, Socket(endpoint) as peer:
        peer.post(call(token=token))
        peer.sock.shutdown(socket.SHUT_WR)
        return peer.rest()


# --- where it strikes --------------------------------------------------------------------------------------


def test_a_fault_at_the_request_comes_before_the_tool_runs(worker):
    assert answered(worker, Fault.drop("request")) == b""
    assert worker.runs == 0


def test_a_fault_at_the_answer_comes_after_the_tool_ran_and_before_the_head(worker):
    assert answered(worker, Fault.drop("answer")) == b""
    assert worker.runs == 1


def test_a_fault_in_the_head_cuts_it(worker):
    data = answered(worker, Fault.drop("head"))
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\n\r\n" not in data


def test_a_fault_at_the_result_leaves_the_head_whole(worker):
    head, _, body = answered(worker, Fault.drop("result")).partition(b"\r\n\r\n")
    assert b"Content-Length: " in head
    assert body == b""


def test_a_fault_in_the_body_leaves_half_of_it(worker):
    head, _, body = answered(worker, Fault.drop("body")).partition(b"\r\n\r\n")
    length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
    assert len(body) == length // 2


def test_a_fault_at_the_result_of_a_stream_comes_behind_the_notifications(worker):
    data = answered(worker, Fault.drop("result"), token="t", answers="sse")
    assert b"notifications/progress" in data
    assert b'"result"' not in data


def test_a_fault_in_the_body_of_a_stream_cuts_the_event_of_the_result(worker):
    data = answered(worker, Fault.drop("body"), token="t", answers="sse")
    assert b"notifications/progress" in data
    assert not data.endswith(b"\n\n\r\n")
    assert b"event: message\ndata: {" in data.rpartition(b"notifications/progress")[2]


def test_a_fault_at_the_end_of_a_stream_leaves_out_only_its_end(worker):
    data = answered(worker, Fault.drop("end"), answers="sse")
    assert b'"result"' in data
    assert data.endswith(b"}\n\n\r\n")


def test_a_stream_of_the_handshake_era_meets_the_faults_of_get(worker):
    plan = FaultPlan({"GET": [Fault.drop("head")]})
    with worker.server.serve_http(faults=plan, sessions=False) as endpoint, Socket(endpoint) as peer:
        peer.sock.sendall(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        data = peer.rest()
    assert data.startswith(b"HTTP/1.1 200")
    assert b"\r\n\r\n" not in data


# --- what it does ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["request", "answer", "head", "result", "body"])
def test_a_reset_is_a_reset(worker, at):
    plan = FaultPlan({"tools/call": [Fault.reset(at)]})
    with worker.server.serve_http(faults=plan) as endpoint, Socket(endpoint) as peer:
        peer.post(call())
        with pytest.raises(ConnectionResetError):
            peer.rest()


def test_what_stalls_goes_on_when_it_is_released(worker):
    plan = FaultPlan({"tools/call": [Fault.stall("body")]})
    with worker.server.serve_http(faults=plan) as endpoint, Socket(endpoint) as peer:
        peer.post(call())
        head, half = _head_and_half(peer)
        assert not half.endswith(b"}}")
        plan.release()
        assert json.loads(half + peer.until(b"}}}}"))["result"]["content"][0]["text"] == "done"
        assert head.startswith(b"HTTP/1.1 200")


def _head_and_half(peer: Socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += peer.sock.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
    while len(body) < length // 2:
        body += peer.sock.recv(65536)
    assert len(body) == length // 2
    return head, body


def test_what_stalls_goes_on_by_itself_after_its_time(worker):
    assert b'"done"' in answered_whole(worker, Fault.stall("result", seconds=0.01))


def answered_whole(worker: Worker, fault: Fault, **options: Any) -> bytes:
    plan = FaultPlan({"tools/call": [fault]})
    with worker.server.serve_http(faults=plan, **options) as endpoint, Socket(endpoint) as peer:
        peer.post(call())
        return peer.until(b"0\r\n\r\n" if options.get("answers") == "sse" else b"}}}}")


def test_an_endpoint_that_closes_ends_what_stalls(worker):
    plan = FaultPlan({"tools/call": [Fault.stall("head")]})
    endpoint = worker.server.serve_http(faults=plan)
    try:
        with Socket(endpoint) as peer:
            peer.post(call())
            assert peer.sock.recv(1) == b"H"
            endpoint.close()
            assert b"\r\n\r\n" not in peer.rest()
    finally:
        endpoint.close()


def test_a_drip_sends_the_very_same_bytes(worker):
    whole = answered_whole(worker, Fault.drop("end"))
    assert answered_whole(worker, Fault.drip()) == whole
    assert answered_whole(worker, Fault.drip("body")) == whole


def test_a_drip_of_a_stream_sends_chunks_of_one_byte(worker):
    data = answered_whole(worker, Fault.drip("result"), answers="sse")
    _, _, body = data.partition(b"\r\n\r\n")
    assert body.startswith(b"1\r\ne\r\n1\r\nv\r\n")
    assert body.endswith(b"1\r\n\n\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("fault", "body"),
    [
        (Fault.garbage(), b"<html>502 Bad Gateway</html>"),
        (Fault.wrong_id(), b'{"jsonrpc":"2.0","id":"not-1","result":'),
        (Fault.no_result(), b'{"jsonrpc":"2.0","id":1}'),
        (Fault.truncate(), b'{"jsonrpc":"2.0","id":1,"result":'),
    ],
)
def test_a_fault_of_the_message_changes_the_message_alone(worker, fault, body):
    plan = FaultPlan({"tools/call": [fault]})
    with worker.server.serve_http(faults=plan) as endpoint, Socket(endpoint) as peer:
        peer.post(call())
        peer.sock.shutdown(socket.SHUT_WR)
        head, _, got = peer.rest().partition(b"\r\n\r\n")
    assert int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0]) == len(got)
    assert got.startswith(body)


def test_a_duplicate_comes_twice(worker):
    assert answered_whole(worker, Fault.duplicate(), answers="sse").count(b'"result":') == 2


def test_a_stream_ends_in_order_without_an_answer(worker):
    plan = FaultPlan({"tools/call": [Fault.no_answer()]})
    with worker.server.serve_http(faults=plan) as endpoint, Socket(endpoint) as peer:
        peer.post(call(token="t"))
        data = peer.until(b"0\r\n\r\n")
    assert b"notifications/progress" in data
    assert b'"result"' not in data


def test_noise_comes_ahead_of_the_result(worker):
    data = answered_whole(worker, Fault.noise(), answers="sse")
    assert data.index(b"data: <html>") < data.index(b'"result":')


def test_garbage_instead_of_an_answer_is_no_http(worker):
    assert answered(worker, Fault.garbage("answer")).startswith(b"<html>")


def test_a_status_keeps_the_tool_from_running_unless_it_comes_later(worker):
    data = answered(worker, Fault.http(429, {"Retry-After": "1"}))
    assert data.startswith(b"HTTP/1.1 429 ")
    assert b"Retry-After: 1\r\n" in data
    assert worker.runs == 0
    assert answered(worker, Fault.http(503, at="answer")).startswith(b"HTTP/1.1 503 ")
    assert worker.runs == 1


def test_a_redirect_names_the_place(worker):
    assert b"\r\nLocation: /there\r\n" in answered(worker, Fault.redirect("/there"))


# --- the plan ----------------------------------------------------------------------------------------------


def test_a_plan_goes_by_method_and_then_lets_everything_pass():
    plan = FaultPlan({"tools/call": [None, Fault.drop()], "GET": itertools.repeat(Fault.http(405))})
    assert [plan.meet(name) for name in ("tools/call", "tools/list", "tools/call", "tools/call")] == [
        None,
        None,
        Fault.drop(),
        None,
    ]
    assert plan.meet("GET") == plan.meet("GET") == Fault.http(405)
    assert plan.met == [("tools/call", Fault.drop()), ("GET", Fault.http(405)), ("GET", Fault.http(405))]


def test_a_seed_draws_the_same_faults_again():
    faults = [Fault.drop(), Fault.reset("head"), Fault.noise()]
    first, second = (FaultPlan.seeded(7, faults, {"tools/call": 0.5}) for _ in range(2))
    drawn = [first.meet("tools/call") for _ in range(200)]
    assert drawn == [second.meet("tools/call") for _ in range(200)]
    assert 60 < sum(fault is not None for fault in drawn) < 140
    assert {fault for fault in drawn if fault} == set(faults)
    assert first.meet("tools/list") is None


@pytest.mark.parametrize(
    "make",
    [lambda: Fault.drop("somewhere"), lambda: Fault.drip("request"), lambda: Fault.http(500, at="body")],
)
def test_a_fault_at_an_impossible_step_is_refused(make):
    with pytest.raises(ValueError):
        make()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: FaultPlan({"ping": Fault.drop()}),
            r"'ping' must be a list such as \[None, Fault\.drop\(\)\]",
        ),
        (lambda: FaultPlan({"ping": ["drop"]}), "'ping' must be a list"),
        (lambda: FaultPlan({"ping": "drop"}), "'ping' must be a list"),
        (lambda: FaultPlan({"ping": 5}), "'ping' must be a list"),
        (lambda: Fault.http("500"), "an HTTP status is a number, not '500'"),
        (lambda: FakeServer().serve_http(faults=Fault.drop()), "faults must be a FaultPlan"),
        (lambda: FakeServer().serve_sse(faults={"ping": [Fault.drop()]}), "faults must be a FaultPlan"),
        (lambda: FakeServer().serve_websocket(faults=[Fault.drop()]), "faults must be a FaultPlan"),
        (
            lambda: FakeServer().serve_stdio(io.BytesIO(), io.BytesIO(), faults=[]),
            "faults must be a FaultPlan",
        ),
    ],
)
def test_what_is_no_plan_of_faults_is_refused(make, says):
    with pytest.raises(TypeError, match=says):
        make()


# --- channels that all calls share -----------------------------------------------------------------------


class Lines:
    """A fake server at the other end of two pipes."""

    def __init__(self, server: FakeServer, plan: FaultPlan) -> None:
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        self.source = os.fdopen(self._read, "rb")
        self._thread = threading.Thread(target=self._serve, args=(server, read, write, plan))
        self._thread.start()

    @staticmethod
    def _serve(server: FakeServer, read: int, write: int, plan: FaultPlan) -> None:
        with open(read, "rb") as source, open(write, "wb", buffering=0) as sink:
            server.serve_stdio(source, sink, faults=plan)

    def send(self, body: bytes) -> None:
        os.write(self._write, body + b"\n")

    def close(self) -> None:
        os.close(self._write)
        self._thread.join(SECONDS)
        self.source.close()
        assert not self._thread.is_alive()


@pytest.fixture
def lines(worker: Worker) -> Iterator[Any]:
    made: list[Lines] = []

    def serve(*faults: Optional[Fault]) -> Lines:
        plan = FaultPlan({"tools/call": faults})
        made.append(Lines(worker.server, plan))
        made[0].plan = plan
        return made[0]

    yield serve
    made[0].close()


def test_lines_break_off_in_the_middle(lines):
    peer = lines(Fault.drop("body"))
    peer.send(call())
    rest = peer.source.read()
    assert rest.startswith(b'{"jsonrpc":"2.0","id":1,"result":')
    assert not rest.endswith(b"\n")


def test_a_stalled_answer_on_lines_holds_up_no_other(lines):
    peer = lines(Fault.stall())
    peer.send(call(1))
    peer.send(call(2))
    assert json.loads(peer.source.readline())["id"] == 2
    peer.plan.release()
    assert json.loads(peer.source.readline())["id"] == 1


def test_a_server_that_stalls_at_the_request_reads_no_further(lines, worker):
    peer = lines(Fault.stall("request"))
    peer.send(call(1))
    peer.send(call(2))
    assert worker.runs == 0
    peer.plan.release()
    assert {json.loads(peer.source.readline())["id"] for _ in range(2)} == {1, 2}


def test_noise_on_lines_is_a_line_of_its_own(lines):
    peer = lines(Fault.noise())
    peer.send(call())
    assert peer.source.readline() == b"<html>502 Bad Gateway</html>\n"
    assert json.loads(peer.source.readline())["id"] == 1


SERVER = """
from mcp_sync.testing import FakeServer, Fault, FaultPlan
FakeServer(tools={{"work": lambda: "done"}}).serve_stdio(faults=FaultPlan({{"tools/call": [{fault}]}}))
"""


@pytest.mark.parametrize(
    ("fault", "returncode"),
    [("Fault.exit(3)", 3), ("Fault.kill()", -9), ("Fault.drop()", 0), ("Fault.exit(4, 'body')", 4)],
)
def test_a_process_ends_as_it_is_told(fault, returncode):
    code = SERVER.format(fault=fault)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdin.write(call() + b"\n")
        child.stdin.flush()
        rest = child.stdout.read()
        assert child.wait(SECONDS) == returncode
    assert bool(rest) == ("body" in fault)


def test_a_process_closes_its_output_alone():
    code = SERVER.format(fault="Fault.mute()")
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdin.write(call() + b"\n")
        child.stdin.flush()
        assert child.stdout.read() == b""
        assert child.poll() is None
        child.stdin.close()
        assert child.wait(SECONDS) == 0


def test_websocket_frames_break_off_in_the_middle(worker):
    plan = FaultPlan({"tools/call": [None, Fault.drop("body")]})
    with worker.server.serve_websocket(faults=plan) as endpoint:
        peer = websocket.create_connection(endpoint.url, timeout=SECONDS)
        try:
            peer.send(call(1))
            assert json.loads(peer.recv())["id"] == 1
            peer.send(call(2))
            with pytest.raises(websocket.WebSocketConnectionClosedException):
                peer.recv()
        finally:
            peer.close()


def test_a_stream_for_all_calls_breaks_off_in_the_middle_of_an_answer(worker):
    plan = FaultPlan({"tools/call": [Fault.drop("body")]})
    with (
        worker.server.serve_sse(faults=plan) as endpoint,
        Socket(endpoint) as stream,
        Socket(endpoint) as peer,
    ):
        stream.sock.sendall(b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        peer.path = stream.until(b"\n\n\r\n").rpartition(b"data: ")[2].strip().decode()
        peer.post(call())
        rest = stream.rest()
        assert peer.until(b"Accepted").startswith(b"HTTP/1.1 202")
    assert b'"result":' in rest
    assert not rest.endswith(b"\n\n\r\n")


def test_a_fault_in_the_head_meets_the_post_and_not_the_stream(worker):
    plan = FaultPlan({"tools/call": [Fault.drop("head")]})
    with (
        worker.server.serve_sse(faults=plan) as endpoint,
        Socket(endpoint) as stream,
        Socket(endpoint) as peer,
    ):
        stream.sock.sendall(b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        peer.path = stream.until(b"\n\n\r\n").rpartition(b"data: ")[2].strip().decode()
        peer.post(call())
        assert b"\r\n\r\n" not in peer.rest()
