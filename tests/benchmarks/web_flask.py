"""Flask, as `web` measures it: with SQLAlchemy on SQLite, or on what ``MCP_SYNC_TEST_SQLALCHEMY`` names."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from flask import Flask

from mcp_sync.auth._records import Grant, ServerRecord
from mcp_sync.contrib.flask import MCP, SQLAlchemyTokenStore
from mcp_sync.contrib.flask._state import state_of

from .web import Site


@contextmanager
def site(url: str) -> Iterator[Site]:
    """Give a site whose user has a grant for the server."""
    with tempfile.TemporaryDirectory() as folder:
        address = os.environ.get("MCP_SYNC_TEST_SQLALCHEMY", f"sqlite:///{Path(folder)}/site.sqlite")
        engine = sa.create_engine(address)
        store = SQLAlchemyTokenStore(engine, table=f"mcp_sync_{time.time_ns()}")
        app, mcp = Flask("site"), MCP()
        servers = {"guarded": {"url": url, "auth": "oauth"}}
        app.config.from_mapping(SECRET_KEY="a secret", MCP_SERVERS=servers, MCP_TOKEN_STORE=store)
        mcp.init_app(app)
        app.register_blueprint(mcp.blueprint, url_prefix="/mcp")
        mcp.principal_getter(lambda: "ada")

        def view() -> str:
            mcp["guarded"].call_tool("add", {"a": 1, "b": 2})
            return ""

        app.add_url_rule("/", view_func=view)

        def asked(view: Callable[[], Any]) -> Callable[[], object]:
            def ask() -> object:
                with app.test_request_context("/"):
                    return view()

            # The look-up has an application around it, which requests would share.
            return lambda: Context().run(ask)

        def queries(ask: Callable[[], object]) -> int:
            seen: list[str] = []

            def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
                seen.append(statement)

            sa.event.listen(engine, "before_cursor_execute", note)
            ask()
            sa.event.remove(engine, "before_cursor_execute", note)
            return len(seen)

        store.create_table()
        with app.test_request_context("/"):
            _connect(url)
        try:
            with app.app_context():
                yield Site({"plain": asked(view)}, lambda: mcp["guarded"], queries)
        finally:
            mcp.registry(app).close()
            store.table.drop(engine)
            engine.dispose()


def _connect(url: str) -> None:
    state = state_of()
    vault = state.oauth("guarded", state.principal()).vault
    issuer, resource = "https://auth.example.com", url
    vault.keep_found(url, ServerRecord(issuer=issuer, resource=resource, metadata={}))
    grant = Grant(issuer=issuer, client_id="site", access_token="a-token", resource=resource)
    assert vault.keep_grant(url, grant, None)
