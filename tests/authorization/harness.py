"""Authorization servers and protected MCP servers of other makes, and a robot instead of a user."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import requests
from interop.harness import HttpServer
from interop.install import node, npm_script, venv_python

SERVERS = Path(__file__).parent / "servers"
WAIT = 20


class Controlled:
    """A server that obeys the test."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = HttpServer.printing_its_port(command)
        self.origin = f"http://127.0.0.1:{self._process.port}"

    def tell(self, **orders: Any) -> dict[str, Any]:
        """Have the server obey, and return what it tells of itself."""
        answer = requests.post(f"{self.origin}/control", json=orders, timeout=WAIT)
        answer.raise_for_status()
        told: dict[str, Any] = answer.json()
        return told

    def set(self, **settings: Any) -> None:
        """Change settings of an authorization server."""
        self.tell(settings=settings)

    @property
    def counters(self) -> dict[str, int]:
        """What has happened, and how often."""
        counters: dict[str, int] = self.tell()["counters"]
        return counters

    def end(self) -> None:
        """End the process."""
        self._process.end()


class AuthlibServer(Controlled):
    """An authorization server on Authlib."""

    def __init__(self, path: str = "") -> None:
        super().__init__([str(venv_python("authlib")), str(SERVERS / "authlib_server.py"), path])
        self.issuer = self.origin + path
        self.introspection = self.issuer + "/introspect"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """All requests that it has got, but for those about tokens by protected servers."""
        got: list[dict[str, Any]] = self.tell()["requests"]
        return got

    def register(self, client_id: str, secret: str | None, method: str, ports: Sequence[int]) -> None:
        """Register a client of users as an administrator does, with callbacks at ports of this machine."""
        client = {
            "client_id": client_id,
            "client_secret": secret,
            "token_endpoint_auth_method": method,
            "grant_types": ["authorization_code", "refresh_token"],
            "redirect_uris": [f"http://127.0.0.1:{port}/callback" for port in ports],
        }
        self.tell(clients=[client])

    def requests_for(self, path: str) -> list[dict[str, Any]]:
        """Return the requests that one path has got."""
        return [request for request in self.requests if request["path"] == path]


class OidcProvider(Controlled):
    """An authorization server on node-oidc-provider."""

    def __init__(self) -> None:
        package = npm_script("oidc-provider", "lib", "index.js")
        super().__init__([str(node()), str(SERVERS / "oidc_provider.mjs"), str(package)])
        self.issuer = self.origin
        self.introspection = self.issuer + "/token/introspection"

    def publish_client(self) -> str:
        """Have it find the document of a client; return the URL at which it does, the client's name."""
        name = "https://client.example/metadata.json"
        document = {
            "client_id": name,
            "client_name": "Example",
            "redirect_uris": ["http://127.0.0.1/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            "scope": "notes offline_access",
        }
        self.tell(document=document)
        return name


class ProtectedServer(Controlled):
    """A protected MCP server on the official SDK.

    Args:
        maker: ``sdk1`` or ``sdk2``.
        authorization: Who gives out its tokens; it does so itself if that is ``None``.
        options: More options of ``protected_server.py``.
    """

    def __init__(self, maker: str, authorization: Any = None, *options: str) -> None:
        command = [str(venv_python(maker)), str(SERVERS / "protected_server.py"), *options]
        if authorization is not None:
            command += ["--issuer", authorization.issuer, "--introspect", authorization.introspection]
        super().__init__(command)
        self.url = self.origin + "/mcp"


class Robot:
    """Does what a user would do with a browser: agrees to everything, on any page.

    Use it as ``open=`` of `LoopbackBrowser`: each call starts a thread, which `wait` joins.

    Attributes:
        urls: What it was asked to open.
    """

    def __init__(self) -> None:
        self.urls: list[str] = []
        self._pages: list[requests.Response] = []
        self._threads: list[threading.Thread] = []

    def __call__(self, url: str) -> bool:
        """Begin a visit, as `webbrowser.open` does."""
        thread = threading.Thread(target=self.visit, args=(url,), name="robot")
        self.urls.append(url)
        self._threads.append(thread)
        thread.start()
        return True

    def visit(self, url: str, *, follow: bool = True, **choices: str) -> requests.Response:
        """Go through the pages until one has no form.

        Args:
            url: Where to begin.
            follow: Whether to go where the authorization server sends the browser in the end; else that
                redirect is returned.
            choices: What to enter or press where it is not what agrees.
        """
        with requests.Session() as session:
            session.headers["Connection"] = "close"
            page = self._follow(session, session.get(url, allow_redirects=False, timeout=WAIT), follow)
            while page.ok and not page.is_redirect:
                form = Form.of(page.text)
                if form is None:
                    break
                target, sent = urljoin(page.url, form.action), {**form.fields, **choices}
                page = session.post(target, data=sent, allow_redirects=False, timeout=WAIT)
                page = self._follow(session, page, follow)
            self._pages.append(page)
            return page

    def _follow(self, session: requests.Session, page: requests.Response, follow: bool) -> requests.Response:
        """Follow redirects, to the callback only if that is wanted."""
        while page.is_redirect:
            target = urljoin(page.url, page.headers["location"])
            if not follow and ("?code=" in target or "&code=" in target or "error=" in target):
                return page
            page = session.get(target, allow_redirects=False, timeout=WAIT)
        return page

    @property
    def pages(self) -> list[requests.Response]:
        """The last page of each visit, when all visits have ended."""
        self.wait()
        return self._pages

    def wait(self) -> None:
        """Wait for the ends of all visits."""
        for thread in self._threads:
            thread.join(WAIT)
            assert not thread.is_alive(), "the robot hangs"


class Form(HTMLParser):
    """The first form of a page, filled in and with its first button pressed."""

    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self._pressed = False

    @classmethod
    def of(cls, page: str) -> Form | None:
        """Return the form of a page, if it has one."""
        form = cls()
        form.feed(page)
        return form if form.action is not None else None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a form, its fields and its buttons."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and self.action is None:
            self.action = given.get("action", "")
        elif self.action is None or "name" not in given:
            return
        elif tag == "input" and given.get("type") != "submit":
            self.fields[given["name"]] = given.get("value") or "alice"
        elif tag == "button" and not self._pressed and given["name"] != "abort":
            self._pressed = True
            self.fields[given["name"]] = given.get("value", "")
