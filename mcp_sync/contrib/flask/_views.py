"""The views: connect, callback, disconnect, the form of a question, and the metadata of the client."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode, urlsplit

from flask import Blueprint, abort, jsonify, redirect, render_template, request, url_for
from werkzeug.exceptions import Conflict, Forbidden, Gone, HTTPException, NotFound

from ...errors import AccessDenied, AnswerInvalid, AuthError, EnvelopeRejected, InputRequired, UnsafeURL
from . import _csrf, _forms, _pending, signals
from ._errors import no_authorization
from ._pages import http_error, is_local, page, remember_next, take_next
from ._state import EXTENSION, AppState, state_of


def make_blueprint() -> Blueprint:
    """Return the views, for any number of applications."""
    blueprint = Blueprint(EXTENSION, __name__, template_folder="templates")
    blueprint.add_url_rule("/connect/<alias>", "connect", connect, methods=["GET", "POST"])
    blueprint.add_url_rule("/callback/<alias>", "callback", callback)
    blueprint.add_url_rule("/disconnect/<alias>", "disconnect", disconnect, methods=["POST"])
    blueprint.add_url_rule("/input/<id>", "answer", answer, methods=["GET", "POST"])
    blueprint.add_url_rule("/client-metadata.json", "client_metadata", client_metadata)
    blueprint.register_error_handler(HTTPException, http_error)
    blueprint.after_request(_private)
    return blueprint


def _private(response: Any) -> Any:
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Frame-Options"] = "DENY"
    return response


def _known(alias: str) -> AppState:
    """Return the application, if users of it log in to a server with this name."""
    state = state_of()
    if alias not in state.entries or state.entries[alias].auth is None:
        raise NotFound(f"There is no server named {alias!r} to connect to.")
    return state


def _next() -> str:
    given = request.values.get("next")
    return given if given is not None and is_local(given) else "/"


def connect(alias: str) -> Any:
    """Begin a login: ask whether the user wants to, and send them away."""
    state = _known(alias)
    if request.method == "GET":
        return render_template("mcp_sync/connect.html", alias=alias, next=_next(), csrf=_csrf.field())
    _csrf.check()
    flow = state.oauth(alias, state.principal()).begin(state.server_url(alias))
    remember_next(flow.state, _next())
    return redirect(flow.url, 303)


def callback(alias: str) -> Any:
    """Finish a login: the user comes back."""
    state = _known(alias)
    principal = state.principal()
    oauth = state.oauth(alias, principal)
    token = request.args.get("state", "")
    begun = oauth.vault.pending(token)
    if begun is not None and begun.principal != principal:
        raise Forbidden("This login was begun by somebody else. Log in as the same user, and begin anew.")
    try:
        oauth.finish(request.query_string.decode("ascii", "replace"))
    except AccessDenied:
        take_next(token)
        raise
    except AuthError as error:
        if type(error) is not AuthError or error.__cause__ is not None:
            return no_authorization(error)
        text = "This login is over: it was finished before, has taken too long, or was not begun here."
        link = url_for("mcp_sync.connect", alias=alias)
        return page(400, "Nothing to finish", text, error="login_over", alias=alias, connect=link)
    state.users.forget(alias, principal)
    signals.send(signals.grant_created, server=alias, principal=principal)
    return redirect(take_next(token), 303)


def disconnect(alias: str) -> Any:
    """Give a grant back, and forget it."""
    state = _known(alias)
    _csrf.check()
    principal = state.principal()
    state.oauth(alias, principal).logout(state.server_url(alias))
    state.users.forget(alias, principal)
    signals.send(signals.grant_revoked, server=alias, principal=principal)
    return redirect(_next(), 303)


def client_metadata() -> Any:
    """Say who this application is, for authorization servers (client ID metadata document)."""
    state = state_of()
    if not state.settings.get("CLIENT_METADATA"):
        abort(404)
    users = [alias for alias, entry in state.entries.items() if entry.auth is not None]
    answer = jsonify(
        client_id=state.external("client_metadata"),
        client_name=state.client_name,
        redirect_uris=[state.external("callback", alias=alias) for alias in users],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    answer.headers["Cache-Control"] = "public, max-age=300"
    return answer


def answer(id: str) -> Any:
    """Show what a server asks, and go on with the call once it is answered."""
    state = state_of()
    pending = _pending.load(state, id, state.principal())
    if pending is None:
        raise NotFound("There is no such question, or it is not for you.")
    if pending.is_over:
        _pending.forget(state, pending)
        raise Gone("This question is out of date. Begin anew.")
    status = pending.value["status"]
    if status == _pending.DONE:
        return _shown(pending)
    if status == _pending.FAILED:
        raise Conflict("This was answered, and failed. Begin anew.")
    if status == _pending.RESUMING and not pending.is_stuck:
        raise Conflict("Your answer is being worked on. Load this page again in a moment.")
    if request.method == "GET":
        return _form(pending, {}, 200)
    _csrf.check()
    return _go_on(state, pending)


def _form(pending: _pending.Pending, faults: dict[str, Any], status: int) -> Any:
    try:
        asked = _forms.read(pending.waiting(), request.form if request.method == "POST" else None, faults)
    except EnvelopeRejected:
        raise Gone("This question cannot be answered any more. Begin anew.") from None
    values = {"pending": pending, "asked": asked, "faults": faults, "csrf": _csrf.field()}
    return render_template("mcp_sync/input.html", alias=pending.value["alias"], **values), status


def _go_on(state: AppState, pending: _pending.Pending) -> Any:
    try:
        answers = _forms.answers(pending.waiting(), request.form)
    except AnswerInvalid as error:
        return _form(pending, error.faults, 422)
    except UnsafeURL:
        return _form(pending, {}, 422)
    if not pending.change(status=_pending.RESUMING):
        raise Conflict("This question has been answered in another window.")
    alias, principal = pending.value["alias"], pending.value["for_principal"]
    from ._server import Server

    server = Server(state, alias)
    client = server.client if principal is None else server._view(principal)
    try:
        pending.resume(client, answers)
    except InputRequired:
        return redirect(url_for("mcp_sync.answer", id=pending.id), 303)
    signals.send(signals.input_answered, server=alias, principal=pending.value["owner"], id=pending.id)
    return _shown(pending)


def _shown(pending: _pending.Pending) -> Any:
    """Show what came of a call: on the page that made it, if that can be shown again."""
    back = pending.value["back"]
    if not back:
        result = pending.result()
        text = getattr(result, "text", "") or "Done."
        return render_template("mcp_sync/result.html", alias=pending.value["alias"], result=result, text=text)
    parts = urlsplit(back)
    query = "&".join(filter(None, [parts.query, urlencode({_pending.PARAMETER: pending.id})]))
    return redirect(parts._replace(query=query).geturl(), 303)
