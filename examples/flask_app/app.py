"""A restaurant: a Flask application that uses a protected MCP server for its users.

    python examples/flask_app/app.py

Then open http://127.0.0.1:5000. The MCP server and the authorization server, which agrees to everything, run
in the same process. Each browser is a user of its own.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend import running
from flask import Flask, abort, jsonify, redirect, render_template, request, session, url_for
from werkzeug.serving import make_server

from mcp_sync.auth import SQLiteStore
from mcp_sync.contrib.flask import MCP

mcp = MCP()

# What is being cooked, by a name that nobody can guess. For one process: see celery.md for more.
orders: dict[str, dict[str, Any]] = {}


def create_app(server_url: str, config: Mapping[str, Any]) -> Flask:
    app = Flask(__name__)
    servers = {"kitchen": {"url": server_url, "auth": "oauth"}}
    app.config.from_mapping(MCP_SERVERS=servers, MCP_CLIENT_NAME="Restaurant")
    app.config.from_mapping(config)
    mcp.init_app(app)
    app.register_blueprint(mcp.blueprint, url_prefix="/mcp")
    app.add_url_rule("/", view_func=index)
    app.add_url_rule("/add", view_func=add)
    app.add_url_rule("/book", view_func=book)
    app.add_url_rule("/cook", view_func=cook, methods=["POST"])
    app.add_url_rule("/cook/<order>", view_func=cooking)
    app.add_url_rule("/cook/<order>/state", view_func=state)
    return app


def index() -> str:
    is_connected = mcp["kitchen"].status().state in ("valid", "refreshable", "expired")
    session.setdefault("form", secrets.token_urlsafe(16))
    return render_template("index.html", is_connected=is_connected, form=session["form"])


def add() -> Any:
    try:
        numbers = {name: int(request.args[name]) for name in ("a", "b")}
    except ValueError:
        return render_template("result.html", title="Two numbers, please", text="Whole ones."), 400
    result = mcp["kitchen"].call_tool("add", numbers)
    return render_template("result.html", title="The bill", text=f"{result.structured_content['sum']} euros")


def book() -> str:
    # The server asks: the user fills in a form, comes back here, and this call returns the result.
    result = mcp["kitchen"].call_tool("book")
    return render_template("result.html", title="Your table", text=result.text)


def cook() -> Any:
    if request.form.get("form") != session.get("form"):
        abort(400)
    kitchen, order = mcp["kitchen"].for_user().client, secrets.token_urlsafe(16)
    kitchen.send_ping()  # Whoever has to log in is sent there now.
    made = orders[order] = {"of": session["form"], "done": 0, "of_all": 5, "message": "begun", "text": None}

    def show(done: float, total: Any, message: Any) -> None:
        made.update(done=done, of_all=total, message=message)

    job = kitchen.submit(kitchen.call_tool, "cook", {"courses": 5}, progress_callback=show)
    job.add_done_callback(lambda job: made.update(text="It burnt." if job.exception() else job.result().text))
    return redirect(url_for("cooking", order=order), 303)


def _order(name: str) -> dict[str, Any]:
    found = orders.get(name)
    if found is None or found["of"] != session.get("form"):
        abort(404)
    return found


def cooking(order: str) -> Any:
    found = _order(order)
    if found["text"] is not None:
        return render_template("result.html", title="Your meal", text=found["text"])
    return render_template("progress.html", order=order, **found)


def state(order: str) -> Any:
    return jsonify({name: _order(order)[name] for name in ("done", "of_all", "message", "text")})


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    folder = Path(os.environ.get("RESTAURANT_FOLDER", Path(__file__).parent / "kept"))
    folder.mkdir(exist_ok=True)
    key = folder / "secret"
    if not key.exists():
        key.touch(mode=0o600)
        key.write_text(secrets.token_urlsafe(32))
    with running() as url:
        app = create_app(
            url, {"SECRET_KEY": key.read_text(), "MCP_TOKEN_STORE": SQLiteStore(folder / "grants.sqlite")}
        )
        server = make_server("127.0.0.1", port, app, threaded=True)
        print(f"Open http://127.0.0.1:{server.server_port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            mcp.registry(app).close()


if __name__ == "__main__":
    main()
