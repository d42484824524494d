"""A web application whose users log in to an MCP server: nothing waits, and any process can finish a login.

python examples/oauth_web.py https://example.com/mcp [PORT]

Open http://127.0.0.1:PORT/?user=ada in a browser; /logout ends it. A real application knows its user from a
login of its own, and not from a cookie that anybody can write.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qsl
from wsgiref.simple_server import make_server

from mcp_sync import AuthError, AuthorizationRequired, Client, InsufficientScope, OAuth
from mcp_sync.auth import MemoryStore, Store


class Application:
    """Lists the tools of the MCP server for the user who asks.

    Args:
        mcp_url: The MCP server.
        own_url: Where this application is reached.
        store: Where grants are kept: a `SQLiteStore` where there are several processes.
    """

    def __init__(self, mcp_url: str, own_url: str, store: Store) -> None:
        self._mcp_url = mcp_url
        self._callback_url = own_url + "/callback"
        self._store = store

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Serve a request (PEP 3333)."""
        query = environ.get("QUERY_STRING", "")
        cookie = SimpleCookie(environ.get("HTTP_COOKIE", "")).get("user")
        user = dict(parse_qsl(query)).get("user") or (cookie.value if cookie is not None else "")
        user = user if user.isalnum() and user.isascii() else "guest"
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Set-Cookie", f"user={user}; HttpOnly")]
        if environ["PATH_INFO"] == "/callback":
            status, location, text = self._finish(user, query)
        elif environ["PATH_INFO"] == "/logout":
            status, location, text = self._log_out(user)
        else:
            status, location, text = self._tools(user)
        if location:
            headers.append(("Location", location))
        start_response(status, headers)
        return [text.encode()]

    def _oauth(self, user: str) -> OAuth:
        return OAuth(
            redirect_uri=self._callback_url, store=self._store, principal=user, server_url=self._mcp_url
        )

    def _tools(self, user: str) -> tuple[str, str, str]:
        try:
            with Client(self._mcp_url, auth=self._oauth(user)) as client:
                names = ", ".join(tool.name for tool in client.tools())
        except (AuthorizationRequired, InsufficientScope) as error:
            if not error.url:  # More is not to be had.
                return "403 Forbidden", "", f"Not allowed: {error}\n"
            return "302 Found", error.url, ""
        return "200 OK", "", f"Tools for {user}: {names}\n"

    def _finish(self, user: str, query: str) -> tuple[str, str, str]:
        try:
            self._oauth(user).finish(query)
        except AuthError as error:
            return "400 Bad Request", "", f"Not logged in: {error}\n"
        return "302 Found", "/", ""

    def _log_out(self, user: str) -> tuple[str, str, str]:
        # A real application does this for a POST with a token of its own, which no other site can forge.
        try:
            self._oauth(user).logout()
        except AuthError as error:
            return "500 Internal Server Error", "", f"Not logged out: {error}\n"
        return "200 OK", "", f"{user} is logged out\n"


def main(url: str, port: int) -> None:
    with make_server("127.0.0.1", port, None) as server:
        own_url = f"http://127.0.0.1:{server.server_port}"
        server.set_app(Application(url, own_url, MemoryStore()))
        print(f"Listening at {own_url}/?user=ada", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="the MCP server")
    parser.add_argument("port", nargs="?", type=int, default=8000, help="where to listen, 0 for a free port")
    main(**vars(parser.parse_args()))
