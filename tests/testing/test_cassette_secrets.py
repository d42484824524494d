"""What is secret of a target stays out of a recording, however and in whatever direction it is repeated."""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from mcp_sync import BearerToken, Client, OAuth, Stdio, StreamableHTTP, WebSocket
from mcp_sync.testing import Cassette, FakeAuthorizationServer, FakeServer, HTTPReply, Recorder, Replay
from mcp_sync.testing._tape import Tape

CANARY = "canary/4e81+Q=zürich"
PLAIN = "canary-4e81-Qzurich"
SHORT = "s3cr3t"


def lower_quoted(secret: str) -> str:
    return re.sub("%..", lambda found: found[0].lower(), quote(secret, safe=""))


def spelled(secret: str) -> dict[str, str]:
    """Return a secret in all the ways in which a server may repeat it."""
    data = secret.encode()
    return {
        "plain": f"it is {secret}, indeed",
        "quoted": f"https://example.com/?a={quote(secret, safe='')}",
        "lower": f"a={lower_quoted(secret)}",
        "json": json.dumps({"said": [f"<{secret}>"]}),
        "base64": base64.b64encode(data).decode(),
        "pair": base64.b64encode(b"anna:" + data).decode(),
        "file": base64.b64encode(b"ab" + data + b" and more").decode(),
        "safe": base64.urlsafe_b64encode(b"a" + data).decode(),
    }


def traces(secret: str, path: Path) -> list[str]:
    """Return in which spelling a recording has a secret."""
    text = path.read_text(encoding="utf-8")
    known = {
        "plain": secret,
        "json": json.dumps(secret)[1:-1],
        "quoted": quote(secret, safe=""),
        "lower": lower_quoted(secret),
    }
    found = [name for name, spelling in known.items() if spelling in text]
    core = base64.b64encode(secret.encode()).decode()[:8]
    shifted = [base64.b64encode(bytes(count) + secret.encode()).decode()[4:8] for count in (1, 2)]
    safe = [each.replace("+", "-").replace("/", "_") for each in (core, *shifted)]
    return found + [each for each in (core, *shifted, *safe) if each in text]


def make_server(secret: Callable[[], str]) -> FakeServer:
    def repeat(said: str) -> dict[str, str]:
        return spelled(secret())

    return FakeServer([repeat])


def replayed(path: Path, said: str = "mine is another") -> str:
    """Replay the one call of a recording, with another secret."""
    with Client(Replay(path)) as client:
        result = client.call_tool("repeat", {"said": said})
    return str(result.structured_content["plain"])


HTTP_TARGETS: dict[str, Callable[[str], Any]] = {
    "bearer header": lambda url: StreamableHTTP(url, headers={"Authorization": f"Bearer {PLAIN}"}),
    "header": lambda url: StreamableHTTP(url, headers={"X-Team": PLAIN}),
    "query": lambda url: StreamableHTTP(f"{url}?api_key={quote(CANARY, safe='')}"),
    "user": lambda url: StreamableHTTP(url.replace("//", f"//anna:{quote(CANARY, safe='')}@")),
    "pair": lambda url: StreamableHTTP(url, auth=("anna", CANARY)),
    "short": lambda url: StreamableHTTP(url, auth=("anna", SHORT)),
    "token": lambda url: StreamableHTTP(url, auth=BearerToken(PLAIN)),
    "function": lambda url: StreamableHTTP(url, auth=BearerToken(lambda: PLAIN)),
    "hook": lambda url: StreamableHTTP(url, auth=lambda request: with_header(request)),
    "session": lambda url: StreamableHTTP(url, session=session_with(headers={"X-Api-Key": PLAIN})),
    "cookie": lambda url: StreamableHTTP(url, session=session_with(cookies={"sid": PLAIN})),
}


def with_header(request: Any) -> Any:
    request.headers["X-Api-Key"] = PLAIN
    return request


def session_with(headers: Any = None, cookies: Any = None) -> requests.Session:
    session = requests.Session()
    session.headers.update(headers or {})
    session.cookies.update(cookies or {})
    return session


def test_a_token_is_masked_in_the_very_message_that_it_goes_with(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    with make_server(lambda: PLAIN).serve_http() as endpoint:
        target = StreamableHTTP(endpoint.url, auth=BearerToken(PLAIN))
        with Client(Recorder(target, path), mode="2026-07-28") as client:
            client.call_tool("repeat", {"said": f"mine is {PLAIN}"})
    assert traces(PLAIN, path) == []


@pytest.mark.parametrize("kind", HTTP_TARGETS)
def test_what_is_secret_of_a_target_over_http_is_masked_wherever_it_is_repeated(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "session.jsonl"
    secret = {"short": SHORT, **dict.fromkeys(("query", "user", "pair"), CANARY)}.get(kind, PLAIN)
    with make_server(lambda: secret).serve_http() as endpoint:
        target = HTTP_TARGETS[kind](endpoint.url)
        with Client(Recorder(target, path)) as client:
            result = client.call_tool("repeat", {"said": f"mine is {secret}"})
        if target.session is not None:
            target.session.close()
    assert result.structured_content == spelled(secret)
    assert traces(secret, path) == []
    assert replayed(path) == "it is ***, indeed"


def test_what_the_command_of_a_process_has_that_is_secret_is_masked(tmp_path: Path) -> None:
    program = (
        "import os\n"
        "from mcp_sync.testing import FakeServer\n"
        "FakeServer(tools={'repeat': lambda said: ' and '.join(said) + os.environ['LEVEL']}).serve_stdio()\n"
    )
    args = [
        "-c",
        program,
        "--api-key",
        f"{PLAIN}-1",
        f"--token={PLAIN}-2",
        f"https://a:{PLAIN}-3@h/?key={PLAIN}-4",
    ]
    env = {
        "THE_KEY": f"{PLAIN}-env",
        "LEVEL": "warning",
        "DAY": "2026-07-28",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    path = tmp_path / "session.jsonl"
    with Client(Recorder(Stdio(sys.executable, args, env=env), path)) as client:
        client.call_tool("repeat", {"said": [f"{PLAIN}-{name}" for name in ("env", 1, 2, 3, 4)]})
    assert traces(PLAIN, path) == []
    # A mere word, and a revision, mean something in many messages.
    assert "warning" in path.read_text()
    with Client(Replay(path)) as client:
        assert client.protocol_version == "2026-07-28"


def test_what_is_secret_of_a_websocket_is_masked(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    with make_server(lambda: PLAIN).serve_websocket() as endpoint:
        target = WebSocket(endpoint.url, auth=BearerToken(PLAIN))
        with Client(Recorder(target, path)) as client:
            client.call_tool("repeat", {"said": PLAIN})
    assert traces(PLAIN, path) == []
    assert replayed(path) == "it is ***, indeed"


def test_the_headers_of_one_call_are_masked(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    with (
        make_server(lambda: PLAIN).serve_http() as endpoint,
        Client(Recorder(endpoint.url, path)) as client,
    ):
        client.call_tool("repeat", {"said": PLAIN}, headers={"X-User": PLAIN})
    assert traces(PLAIN, path) == []


def test_the_session_and_the_cookies_that_a_server_gives_are_masked(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    given: list[str] = []
    server = FakeServer(tools={"repeat": lambda said: " ".join(given)}, versions="legacy")

    def give(request: Any) -> Any:
        given[:] = [request.headers.get("mcp-session-id", ""), PLAIN]
        if request.headers.get("cookie") is None:
            return HTTPReply(307, {"Location": request.path, "Set-Cookie": f"basket={PLAIN}"})
        return None

    with (
        server.serve_http(intercept=give) as endpoint,
        Client(Recorder(endpoint.url, path), mode="legacy") as client,
    ):
        text = client.call_tool("repeat", {"said": client.session_id}).text
        assert text == f"{client.session_id} {PLAIN}"
        assert str(client.session_id) not in path.read_text()
    assert traces(PLAIN, path) == []


def test_a_token_that_takes_the_place_of_a_refused_one_is_masked(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    tokens = iter([f"{PLAIN}-old", f"{PLAIN}-new", f"{PLAIN}-new"])

    def refuse_old(request: Any) -> Any:
        return HTTPReply(401) if request.headers["authorization"].endswith("-old") else None

    server = FakeServer(tools={"repeat": lambda said: f"{PLAIN}-new"})
    with server.serve_http(intercept=refuse_old) as endpoint:
        target = StreamableHTTP(endpoint.url, auth=BearerToken(lambda: next(tokens)))
        with Client(Recorder(target, path), mode="2026-07-28") as client:
            assert client.call_tool("repeat", {"said": "x"}).text == f"{PLAIN}-new"
    assert traces(PLAIN, path) == []


def test_an_access_token_of_oauth_is_masked(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    server = FakeServer(tools={"repeat": lambda said: spelled(token())})
    with FakeAuthorizationServer() as issuer, server.serve_http(intercept=issuer.guard()) as endpoint:

        def token() -> str:
            return endpoint.requests[-1].headers["authorization"].partition(" ")[2]

        oauth = OAuth(redirect_uri="https://app.example/callback")
        flow = oauth.begin(endpoint.url)
        oauth.finish(issuer.consent(flow.url))
        with Client(Recorder(StreamableHTTP(endpoint.url, auth=oauth), path)) as client:
            client.call_tool("repeat", {"said": "x"})
        known = token()
    assert traces(known, path) == []
    assert replayed(path, "x") == "it is ***, indeed"


def test_what_a_message_names_as_secret_is_masked_elsewhere_before_and_after(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    given = {"note": f"this is {PLAIN}", "api_key": PLAIN, PLAIN: 1}
    answers = iter([f"your key will be {PLAIN}", given, f"{PLAIN} works"])
    server = FakeServer(tools={"next": lambda said: next(answers)})
    with server.serve_http() as endpoint, Client(Recorder(endpoint.url, path)) as client:
        for said in ("hello", "my key", PLAIN):
            client.call_tool("next", {"said": said})
    assert traces(PLAIN, path) == []
    with Client(Replay(path)) as client:
        assert client.call_tool("next", {"said": "hello"}).text == "your key will be ***"
        assert client.call_tool("next", {"said": "my key"}).structured_content["note"] == "this is ***"
        assert client.call_tool("next", {"said": "another one"}).text == "*** works"


def test_a_word_a_date_and_a_number_are_not_taken_for_secrets_because_of_their_name(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    words = {"auth": "structured", "session": "2026-07-28", "pin": 1234, "token": "x1"}
    server = FakeServer(tools={"say": lambda: words})
    with server.serve_http() as endpoint, Client(Recorder(endpoint.url, path)) as client:
        client.call_tool("say")
    with Client(Replay(path)) as client:
        assert client.call_tool("say").structured_content == dict.fromkeys(words, "***")
        assert client.protocol_version == "2026-07-28"


def test_a_line_that_comes_while_the_file_is_changed_is_not_lost(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "session.jsonl")
    tape.begin("a server")
    thread = threading.Thread(target=tape.write, args=(1, {"event": "open"}))

    def change(text: str) -> str:
        thread.start()
        thread.join(0.2)
        return text.replace("a server", "another")

    tape.change(change)
    thread.join(20)
    text = tape.path.read_text()
    assert "another" in text
    assert "open" in text


def test_what_a_cassette_adds_masks_what_it_has_already(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    answers = iter([f"see {PLAIN}", {"token": PLAIN}])
    with FakeServer(tools={"next": lambda n: next(answers)}).serve_http() as endpoint:
        for numbers in ([1], [1, 2]):
            with Client(Cassette(endpoint.url, path, mode="new")) as client:
                for number in numbers:
                    client.call_tool("next", {"n": number})
    assert traces(PLAIN, path) == []
