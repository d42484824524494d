"""An authorization server on Authlib: `authlib_server.py [PATH]` binds a free port and prints it.

PATH is that of its issuer, such as `/tenant`. `/control` is for the test: GET tells counters and requests,
POST takes `{"reset": true, "settings": {...}, "clients": [...], "forget": [client ids], "expire": true}`.
"""

from __future__ import annotations

import logging
import sys
from html import escape
from typing import Any

from authlib.oauth2 import OAuth2Error
from authlib_grants import METHODS, build
from authlib_memory import Memory
from flask import Flask, Response, jsonify, request
from werkzeug.serving import WSGIRequestHandler, make_server

memory = Memory()
app = Flask(__name__)

PAGE = """<!doctype html><title>Consent</title><h1>{what}</h1>
<form method="post"><button id="allow" name="allow" value="yes">Allow</button>
<button id="deny" name="allow" value="no">Deny</button></form>"""


def metadata(issuer: str) -> dict[str, Any]:
    """Return what RFC 8414 has a server say of itself."""
    return {
        "issuer": memory.settings["issuer"] or issuer,
        "authorization_endpoint": issuer + "/authorize",
        "token_endpoint": issuer + "/token",
        "registration_endpoint": issuer + "/register",
        "revocation_endpoint": issuer + "/revoke",
        "introspection_endpoint": issuer + "/introspect",
        "device_authorization_endpoint": issuer + "/device_authorization",
        "scopes_supported": ["notes", "notes:write", "offline_access"],
        "response_types_supported": ["code"],
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "client_credentials",
            "urn:ietf:params:oauth:grant-type:device_code",
            "urn:ietf:params:oauth:grant-type:jwt-bearer",
        ],
        "token_endpoint_auth_methods_supported": METHODS,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
    }


@app.before_request
def note() -> Response | None:
    """Write down what came, and answer something else where the test wants that."""
    if request.path in ("/control", "/introspect"):
        return None
    with memory.lock:
        memory.requests.append(
            {
                "method": request.method,
                "path": request.path,
                "query": request.args.to_dict(),
                "form": request.form.to_dict(),
                "json": request.get_json(silent=True),
                "authorization": request.headers.get("Authorization", ""),
            }
        )
    fault = memory.fault_at(request.path)
    if fault is None:
        return None
    return Response(
        fault.get("body", ""), fault.get("status", 200), content_type=fault.get("type", "text/html")
    )


@app.route("/control", methods=["GET", "POST"])
def control() -> Any:
    """Obey the test, and tell it what has happened."""
    if request.method == "POST":
        told = request.get_json()
        with memory.lock:
            if told.get("reset"):
                memory.reset()
            memory.settings.update(told.get("settings", {}))
            for client in told.get("clients", []):
                memory.add_client(**client)
            for client_id in told.get("forget", []):
                memory.clients.pop(client_id, None)
            if told.get("expire"):
                memory.expire()
    with memory.lock:
        return jsonify(
            counters=memory.counters,
            requests=memory.requests,
            clients={name: client.metadata for name, client in memory.clients.items()},
        )


def serve(issuer: str, path: str) -> None:
    """Add the pages and endpoints below the path of the issuer."""
    server = build(app, memory, issuer)

    @app.route("/.well-known/oauth-authorization-server" + path)
    def describe() -> Any:
        return jsonify(metadata(issuer))

    @app.route(path + "/authorize", methods=["GET", "POST"])
    def authorize() -> Any:
        try:
            grant = server.get_consent_grant(end_user="alice")
        except OAuth2Error as error:
            return Response(escape(f"{error.error}: {error.description}"), 400)
        consent = memory.settings["consent"]
        if request.method == "GET" and consent == "ask":
            return PAGE.format(what=f"Allow {escape(grant.client.metadata.get('client_name', ''))}?")
        allowed = request.form.get("allow") == "yes" if consent == "ask" else consent == "allow"
        memory.count("consents" if allowed else "refusals")
        return server.create_authorization_response(grant=grant, grant_user="alice" if allowed else None)

    @app.route(path + "/token", methods=["POST"])
    def token() -> Any:
        return server.create_token_response()

    @app.route(path + "/device", methods=["GET", "POST"])
    def device() -> Any:
        if request.method == "GET":
            return PAGE.format(what=f"Allow the device with {escape(request.args.get('user_code', ''))}?")
        with memory.lock:
            memory.decisions[request.values["user_code"]] = request.form.get("allow") == "yes"
        return "Done."

    for name, endpoint in {
        "register": "client_registration",
        "revoke": "revocation",
        "introspect": "introspection",
        "device_authorization": "device_authorization",
    }.items():
        app.add_url_rule(
            f"{path}/{name}",
            name,
            lambda endpoint=endpoint: server.create_endpoint_response(endpoint),
            methods=["POST"],
        )


class Quiet(WSGIRequestHandler):
    """Keeps connections open, and says nothing of each request."""

    protocol_version = "HTTP/1.1"

    def log_request(self, *args: Any) -> None:
        """Say nothing."""


if __name__ == "__main__":
    logging.getLogger("authlib").setLevel(logging.WARNING)
    listening = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    where = sys.argv[1] if len(sys.argv) > 1 else ""
    serve(f"http://127.0.0.1:{listening.server_port}{where}", where)
    print(listening.server_port, flush=True)
    listening.serve_forever()
