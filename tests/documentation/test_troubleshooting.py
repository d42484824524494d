"""Every message of the page about trouble is one that really comes, word for word."""

from __future__ import annotations

import datetime
import json
import logging
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
import trustme
from auth.oauth_server import OAuthServer, visit

from mcp_sync import (
    BearerToken,
    Client,
    ClientCredentials,
    ClientSession,
    InputRequired,
    Limits,
    OAuth,
    Retry,
    StreamableHTTP,
    Timeouts,
    load_config,
    streamablehttp_client,
)
from mcp_sync.testing import FakeServer, FakeTool, Fault, FaultPlan
from mcp_sync.testing._http import HTTPReply

from .pages import page_named, text_of

PAGE = page_named("troubleshooting")
MESSAGES = [
    (title, message.rstrip("\n"))
    for title, body in re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", text_of(PAGE), re.MULTILINE | re.DOTALL)
    for message in re.findall(r"^```text\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
]
# A server over stdio that answers the handshake, and dies of the first call.
DYING = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    info = {"name": "dying", "version": "1"}
    if message["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
    elif message["method"] == "tools/call":
        sys.stderr.write("MemoryError")
        sys.stderr.flush()
        os._exit(3)
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    if "id" in message:
        print(json.dumps(answer), flush=True)
"""
TALKATIVE = "print('Listening...')\n"
CONFIG = '{"mcpServers": {\n  "files": {"command": "npx"%s}%s\n    }}'

Scene = Callable[["Stage"], Any]
SCENES: dict[str, list[Scene]] = {}


def below(title: str) -> Callable[[Scene], Scene]:
    """Say which title the message of a scene stands below; several have theirs in this order."""

    def add(scene: Scene) -> Scene:
        SCENES.setdefault(title, []).append(scene)
        return scene

    return add


class Stage:
    """What scenes need; all of it is gone afterwards."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def client(self, target: Any, **options: Any) -> Client:
        client = Client(target, **options)
        self._stack.callback(client.close)
        return client

    def server(self, served: Optional[FakeServer] = None, **options: Any) -> Any:
        return self._stack.enter_context((served or make_server()).serve_http(**options))

    def answering(self, status: int, body: bytes = b"", **headers: str) -> Client:
        """Return a client of a server that gives everybody the same answer."""
        reply = HTTPReply(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)
        return self.client(self.server(intercept=lambda request: reply).url, retry=Retry(attempts=1))

    def protected(self) -> tuple[str, OAuthServer]:
        server = self._stack.enter_context(OAuthServer())
        return self.server(intercept=server.protect).url, server

    def listener(self, context: Optional[ssl.SSLContext] = None) -> int:
        """Return the port of a server that speaks http, or https with a context."""
        return self._stack.enter_context(listening(context))


@contextmanager
def listening(context: Optional[ssl.SSLContext]) -> Iterator[int]:
    class Silent(BaseHTTPRequestHandler):
        def log_message(self, *words: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = False

        def handle_error(self, *words: Any) -> None:
            pass  # The client does not like the certificate.

    server = Server(("127.0.0.1", 0), Silent)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
    return port


def slow(context: Any) -> str:
    context.cancelled.wait(30)
    return "too late"


def crash() -> None:
    raise ValueError("no luck")


def weather() -> dict[str, str]:
    return {"celsius": "warm"}


def ask(context: Any) -> str:
    return str(context.elicit("Sure?", {"type": "object", "properties": {}}))


def make_server(**options: Any) -> FakeServer:
    celsius = {"type": "object", "properties": {"celsius": {"type": "number"}}}
    return FakeServer(tools=[slow, crash, ask, FakeTool(weather, output_schema=celsius)], **options)


@below("Command not found")
def _(stage: Stage) -> None:
    stage.client(["no-such-command"]).open()


@below("The server process ends at once")
def _(stage: Stage) -> None:
    stage.client([sys.executable, "-m", "no_such_module"]).open()


@below("The server writes something else to its standard output")
def _(stage: Stage) -> None:
    Path("server.py").write_text(TALKATIVE)
    stage.client([sys.executable, "server.py"]).open()


@below("Connection refused")
def _(stage: Stage) -> None:
    stage.client(f"http://127.0.0.1:{closed_port()}/mcp").open()


@below("The name of the host is not known")
def _(stage: Stage) -> None:
    stage.client("https://no-such-host.invalid/mcp").open()


@below("The certificate is refused")
def _(stage: Stage) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    stage.client(f"https://localhost:{stage.listener(context)}/mcp").open()


@below("The server speaks plain http")
def _(stage: Stage) -> None:
    stage.client(f"https://localhost:{stage.listener()}/mcp").open()


@below("The proxy does not answer")
def _(stage: Stage) -> None:
    proxies = {"http": f"http://127.0.0.1:{closed_port()}"}
    stage.client(StreamableHTTP("http://example.com/mcp", proxies=proxies)).open()


@below("A web page instead of an answer")
def _(stage: Stage) -> None:
    stage.answering(200, b"<html>Welcome</html>", Content_Type="text/html").open()


@below("404")
def _(stage: Stage) -> None:
    stage.answering(404, b"Not here").open()


@below("A redirect to another server")
def _(stage: Stage) -> None:
    stage.answering(307, Location="https://other.example.com/mcp").open()


@below("A redirect to a login page")
def _(stage: Stage) -> None:
    stage.answering(302, Location="/login").open()


@below("A revision that the server does not speak")
def _(stage: Stage) -> None:
    stage.client(stage.server(make_server(versions="2025-06-18")).url, mode="2025-11-25").open()


@below("The bound of the call was reached")
def _(stage: Stage) -> None:
    stage.client(stage.server().url).call_tool("slow", timeout=0.2)


@below("The server was silent")
def _(stage: Stage) -> None:
    stage.client(stage.server().url, timeouts=Timeouts(silence=0.2)).call_tool("slow")


@below("The connection broke")
def _(stage: Stage) -> None:
    plan = FaultPlan({"tools/call": [Fault.drop("body")]})
    stage.client(stage.server(faults=plan).url).call_tool("crash")


@below("The server process died")
def _(stage: Stage) -> None:
    Path("server.py").write_text(DYING)
    stage.client([sys.executable, "server.py"]).call_tool("anything")


@below("The session is gone")
def _(stage: Stage) -> None:
    endpoint = stage.server(make_server(versions="2025-11-25"))
    with streamablehttp_client(endpoint.url) as transport, ClientSession(transport) as session:
        session.initialize()
        endpoint.expire_sessions()
        session.list_tools()


@below("The answer is too large")
def _(stage: Stage) -> None:
    url = stage.server(FakeServer(tools={"text": lambda: "x" * 1000})).url
    stage.client(url, limits=Limits(message_bytes=1000)).call_tool("text")


@below("401")
def _(stage: Stage) -> None:
    stage.answering(401, b"Who are you?").open()


@below("The server is busy")
def _(stage: Stage) -> None:
    stage.answering(429, b"Busy", Retry_After="120").open()


@below("An error of the server")
def _(stage: Stage) -> None:
    stage.answering(500, b"Oops").open()


@below("No such tool")
def _(stage: Stage) -> None:
    stage.client(stage.server().url).call_tool("no_such_tool")


@below("No such method")
def _(stage: Stage) -> None:
    stage.client(stage.server().url).request("example/method")


@below("A tool has changed")
def _(stage: Stage) -> None:
    for description in ("Add numbers.", "Add numbers, and tell everybody."):
        tool = FakeTool(lambda a, b: a + b, name="add", description=description)
        with FakeServer(tools=[tool]).serve_http() as endpoint, Client(endpoint.url) as client:
            client.pin_tools("tools.lock")
            client.call_tool("add", {"a": 1, "b": 2})


@below("A tool failed")
def _(stage: Stage) -> None:
    stage.client(stage.server().url).call_tool("crash", raise_on_error=True)


@below("The server wants to ask, and nobody answers")
def _(stage: Stage) -> None:
    stage.client(stage.server().url).call_tool("ask")


@below("The structured output does not match")
def _(stage: Stage) -> None:
    client = stage.client(stage.server().url)
    list(client.tools())
    client.call_tool("weather")


@below("The structured output does not match")
def _(stage: Stage) -> None:
    client = stage.client(stage.server().url, validation="strict")
    list(client.tools())
    client.call_tool("weather")


@below("A command that is no list")
def _(stage: Stage) -> None:
    stage.client("python server.py")


@below("An async callback")
def _(stage: Stage) -> None:
    async def log(params: Any) -> None:
        pass

    stage.client("https://example.com/mcp", logging_callback=log)


@below("Arguments that JSON cannot hold")
def _(stage: Stage) -> None:
    stage.client(stage.server().url).call_tool("weather", {"when": datetime.datetime(2026, 7, 28)})


@below("The client is closed")
def _(stage: Stage) -> None:
    client = stage.client("https://example.com/mcp")
    client.close()
    client.call_tool("weather")


@below("After a fork")
def _(stage: Stage) -> None:
    with streamablehttp_client(stage.server().url) as transport, ClientSession(transport) as session:
        session.discover()
        told, tells = os.pipe()
        child = os.fork()
        if not child:
            try:
                session.list_tools()
            except BaseException as error:
                os.write(tells, said(error).encode())
            finally:
                os._exit(0)
        os.close(tells)
        os.waitpid(child, 0)
        with open(told, encoding="utf-8") as pipe:
            raise FromElsewhere(pipe.read())


@below("Pausing a call on an older revision")
def _(stage: Stage) -> None:
    stage.client(stage.server().url, mode="2025-11-25").call_tool("ask", on_input="raise")


@below("A paused call that cannot go on")
def _(stage: Stage) -> None:
    client = stage.client(stage.server().url)
    with pytest.raises(InputRequired) as caught:
        client.call_tool("ask", on_input="raise")
    client.resume(caught.value.to_json(key="one"), {}, key="another")


@below("Somebody has to log in")
def _(stage: Stage) -> None:
    stage.client(stage.protected()[0], auth=OAuth(interactive=False)).open()


@below("Somebody has to log in")
def _(stage: Stage) -> None:
    oauth = OAuth(redirect_uri="https://app.example.com/oauth/callback")
    stage.client(stage.protected()[0], auth=oauth).open()


@below("The secret is wrong")
def _(stage: Stage) -> None:
    stage.client(stage.protected()[0], auth=ClientCredentials("my-service", "wrong")).open()


@below("The user has said no")
def _(stage: Stage) -> None:
    url, server = stage.protected()
    server.on_authorize = lambda query: {"error": "access_denied", "state": query["state"]}
    stage.client(url, auth=OAuth()).open()


@below("The client cannot be registered")
def _(stage: Stage) -> None:
    url, server = stage.protected()
    server.metadata = {"registration_endpoint": None}
    stage.client(url, auth=OAuth()).open()


@below("Another authorization server than expected")
def _(stage: Stage) -> None:
    service = ClientCredentials("my-service", "its secret", issuer="https://login.company.example")
    stage.client(stage.protected()[0], auth=service).open()


@below("The token does not suffice")
def _(stage: Stage) -> None:
    url, server = stage.protected()
    server.clients["my-service"] = "its secret"
    server.needed_scope = {"weather": "write"}
    server.granted = lambda scope: ""
    stage.client(url, auth=ClientCredentials("my-service", "its secret")).call_tool("weather")


@below("The answer comes twice, or too late")
def _(stage: Stage) -> None:
    redirect_uri = "https://app.example.com/oauth/callback"
    oauth = OAuth(redirect_uri=redirect_uri, server_url=stage.protected()[0])
    oauth.finish(f"{redirect_uri}?code=1&state=2")


@below("A token over http")
def _(stage: Stage) -> None:
    stage.client("http://example.com/mcp", auth=BearerToken("a-token")).open()


@below("An authorization server at a private address")
def _(stage: Stage) -> None:
    url, server = stage.protected()
    server.resource_metadata = {"authorization_servers": ["https://10.0.0.8"]}
    stage.client(url, auth=OAuth()).open()


def configure(more: str = "", behind: str = "") -> Any:
    Path("mcp.json").write_text(CONFIG % (more, behind))
    return load_config("mcp.json")


@below("A variable is missing")
def _(stage: Stage) -> None:
    configure(', "env": {"API_KEY": "${FILES_KEY}"}')["files"].client()


@below("A value that cannot be")
def _(stage: Stage) -> None:
    configure(', "args": "-y server"')["files"].client()


@below("A comma too many")
def _(stage: Stage) -> None:
    configure(behind=",")


@below("An unknown key")
def _(stage: Stage) -> None:
    configure(', "comand": "npx"')


@below("No such server")
def _(stage: Stage) -> None:
    configure()["file"]


def flask_site() -> Any:
    """Return an application with a store that has no table, and its extension."""
    flask, sa = pytest.importorskip("flask"), pytest.importorskip("sqlalchemy")
    from mcp_sync.contrib.flask import MCP, SQLAlchemyTokenStore

    mcp, app = MCP(), flask.Flask("site")
    app.config["SECRET_KEY"] = "a secret"
    app.config["MCP_SERVERS"] = {"github": {"url": "https://example.com/mcp", "auth": "oauth"}}
    engine = sa.create_engine("sqlite:///site.sqlite", poolclass=sa.pool.NullPool)
    app.config["MCP_TOKEN_STORE"] = SQLAlchemyTokenStore(engine)
    mcp.init_app(app)
    app.register_blueprint(mcp.blueprint, url_prefix="/mcp")
    mcp.principal_getter(lambda: flask.session.get("user", "ada"))
    app.add_url_rule("/issues", view_func=lambda: mcp["github"].call_tool("list_issues").text)
    return app, mcp


@below("The token store has no table")
def _(stage: Stage) -> None:
    app, mcp = flask_site()
    assert app.test_client().get("/issues").status_code == 503
    mcp.registry(app).close()


@below("What was kept cannot be decrypted")
def _(stage: Stage) -> None:
    app, mcp = flask_site()
    store = app.config["MCP_TOKEN_STORE"]
    store.create_table()
    from mcp_sync.auth import Key

    key = Key("server", resource="https://example.com/mcp", principal="user:ada")
    assert store.put(key, {"sealed": "by another key"}, None)
    assert app.extensions["mcp_sync"].store.get(key).value == {}
    mcp.registry(app).close()


@below("Nobody knows for which user")
def _(stage: Stage) -> None:
    app, mcp = flask_site()
    with app.app_context():
        mcp["github"].call_tool("list_issues")


@below("Nobody knows where the application is")
def _(stage: Stage) -> None:
    app, mcp = flask_site()
    with app.app_context():
        mcp["github"].for_user("ada")


@below("The command line is not installed")
def _(stage: Stage) -> None:
    # An interpreter without site-packages has no click either.
    program = "import sys; sys.path.append(sys.argv.pop()); from mcp_sync.cli import main; main()"
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, root], stderr=subprocess.PIPE, encoding="utf-8"
    )
    assert done.returncode == 2
    raise FromElsewhere(done.stderr.rstrip())


class FromElsewhere(Exception):
    """What another process said."""


class Records(logging.Handler):
    """Keeps the warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")


def said(error: BaseException) -> str:
    return str(error) if isinstance(error, FromElsewhere) else f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("title", SCENES)
def test_the_messages_are_those_of_the_library(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(webbrowser, "open", visit)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    shown = [message for below, message in MESSAGES if below == title]
    assert len(shown) == len(SCENES[title])
    for scene, message in zip(SCENES[title], shown):
        heard = listen(scene)
        wanted = [spelled(line) for line in heard]
        assert any(same(alike(message), line) for line in wanted), f"{message!r} is not what came: {wanted}"


def listen(scene: Scene) -> list[str]:
    """Return what is logged and raised by a scene."""
    records = Records()
    logger = logging.getLogger("mcp_sync")
    logger.addHandler(records)
    try:
        with ExitStack() as stack:
            try:
                scene(Stage(stack))
            except Exception as error:
                records.lines.append(said(error))
    finally:
        logger.removeHandler(records)
    return records.lines


def spelled(message: str) -> str:
    """Put the names of the page into a message."""
    for real, shown in (
        (re.escape(sys.executable), "python"),
        (re.escape(f"{Path.cwd()}{os.sep}"), ""),
        (r"PATH searched: .*\)", "PATH searched: ...)"),
        (r"(proxy )http://127\.0\.0\.1:\d+", r"\1http://127.0.0.1:9"),
        (r"http://127\.0\.0\.1:\d+/(mcp|login)", r"https://example.com/\1"),
        (r"(?<!proxy )http://127\.0\.0\.1:\d+", "https://login.example.com"),
        (r"https://localhost:\d+", "https://localhost"),
        (r"\d+ bytes read, \d+ more", "0 bytes read, 100 more"),
        # What OpenSSL says of its sources, and of its versions.
        (r" \(_ssl\.c:\d+\)", ""),
    ):
        message = re.sub(real, shown, message)
    return message


def same(message: str, line: str) -> bool:
    """Whether a line is what the page shows, whose dots at the end stand for more."""
    return line.startswith(message[:-3]) if message.endswith("...") else line == message


def alike(message: str) -> str:
    """Have the system say on this machine what it said on another one."""
    known = "Name or service not known"
    if known in message:
        with pytest.raises(OSError) as caught:
            socket.getaddrinfo("no-such-host.invalid", 443)
        message = message.replace(known, str(caught.value.strerror))
    return message


def test_every_message_has_a_scene() -> None:
    titles = [title for title, _message in MESSAGES]

    assert set(titles) == set(SCENES)
    assert len(titles) > 40
    assert json.dumps(titles) == json.dumps([title for title in SCENES for _scene in SCENES[title]])
