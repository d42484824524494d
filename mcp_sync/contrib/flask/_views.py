"""The views: connect, callback, disconnect, the form of a question, and the metadata of the client."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from flask import Blueprint, abort, jsonify, redirect, render_template, request, url_for
from werkzeug.exceptions import HTTPException, NotFound

from ..._concurrency.deadline import Deadline
from ..._protocol.urls import public_url
from ...auth import Key
from ...auth._errand import Errand
from ...auth._store_edge import StoreEdge
from ...errors import (
    AccessDenied,
    AnswerInvalid,
    AuthError,
    CallTimeout,
    EnvelopeRejected,
    InputRequired,
    TransportError,
    UnsafeURL,
    UsageError,
)
from . import _csrf, _forms, _pending, signals
from ._errors import log, no_authorization
from ._pages import (
    ANSWER,
    Link,
    back_to,
    http_error,
    is_local,
    next_of,
    page,
    remember_next,
    start,
    take_next,
)
from ._state import EXTENSION, AppState, logger, state_of


def make_blueprint() -> Blueprint:
    """Return the views, for any number of applications."""
    blueprint = Blueprint(EXTENSION, __name__, template_folder="templates")
    blueprint.add_url_rule("/connect/<alias>", "connect", connect, methods=["GET", "POST"])
    blueprint.add_url_rule("/callback/<alias>", "callback", callback)
    blueprint.add_url_rule("/disconnect/<alias>", "disconnect", disconnect, methods=["POST"])
    blueprint.add_url_rule("/input/<id>", "answer", answer, methods=["GET", "POST"])
    blueprint.add_url_rule("/client-metadata.json", "client_metadata", client_metadata)
    blueprint.register_error_handler(HTTPException, http_error)
    blueprint.register_error_handler(UsageError, _not_set_up)
    blueprint.after_request(_private)
    return blueprint


def _private(response: Any) -> Any:
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Frame-Options"] = "DENY"
    return response


def _not_set_up(error: UsageError) -> Any:
    logger.error("%s %s: %s", request.method, request.path, error)
    return page(500, "This site is not set up for that: see its log.", error="not_set_up")


def _known(alias: str) -> AppState:
    """Return the application, if users of it log in to a server with this name."""
    state = state_of()
    if alias not in state.entries or state.entries[alias].auth is None:
        raise NotFound("There is no such server.")
    return state


def _next() -> str:
    given = request.values.get("next")
    return given if given is not None and is_local(given) else start()


def connect(alias: str) -> Any:
    """Begin a login: ask whether the user wants to, and send them away."""
    state = _known(alias)
    place, url = _next(), state.server_url(alias)
    if request.method == "GET":
        # There may be a secret of the site in the address.
        values = {"alias": alias, "next": place, "server_url": public_url(url), "csrf": _csrf.field()}
        return render_template("mcp_sync/connect.html", **values)
    _csrf.check()
    try:
        with _in_time(state):
            flow = state.oauth(alias, state.principal()).begin(url)
    except (AuthError, CallTimeout) as error:
        return no_authorization(error, _connect_again(alias, place))
    remember_next(flow.state, place)
    return redirect(flow.url, 303)


def _in_time(state: AppState) -> AbstractContextManager[None]:
    return Errand(deadline=Deadline(state.settings.seconds("DEADLINE"))).here()


def _connect_again(alias: str, place: str) -> list[Link]:
    url = url_for("mcp_sync.connect", alias=alias, next=place)
    return [Link(f"Connect to {alias} again", url), back_to(place)]


def callback(alias: str) -> Any:
    """Finish a login: the user comes back."""
    state = _known(alias)
    principal = state.principal()
    oauth = state.oauth(alias, principal)
    token = request.args.get("state", "")
    links = _connect_again(alias, next_of(token))
    begun = oauth.vault.pending(token)
    if begun is None or _alias_of(begun.redirect_uri) != alias:
        return _nothing_to_finish(state, alias, token, links)
    if begun.principal != principal:
        text = "This answer belongs to the login of somebody else."
        return page(403, text, error="login_of_another", alias=alias, links=links)
    try:
        with _in_time(state):
            oauth.finish(request.query_string.decode("ascii", "replace"))
    except (AuthError, CallTimeout) as error:
        if type(error) is AuthError and error.__cause__ is None:
            return _nothing_to_finish(state, alias, token, links)
        if isinstance(error, AccessDenied):
            take_next(token)
        return no_authorization(error, links)
    state.users.forget(alias, principal)
    signals.send(signals.grant_created, server=alias, principal=principal)
    return redirect(take_next(token), 303)


def _alias_of(redirect_uri: str) -> str:
    return unquote(urlsplit(redirect_uri).path.rpartition("/")[2])


def _nothing_to_finish(state: AppState, alias: str, token: str, links: list[Link]) -> Any:
    stored = StoreEdge(state.store).get(Key("pending", resource=token)) if token else None
    if not token:
        status, text = 400, "This is no answer of an authorization server."
    elif stored is not None and "used" in stored.value:
        status, text = 409, "This answer was used already."
    else:
        status, text = 400, "This answer belongs to no login that has begun here."
    return page(status, text, error="login_over", alias=alias, links=links)


def disconnect(alias: str) -> Any:
    """Give a grant back, and forget it."""
    state = _known(alias)
    _csrf.check()
    principal = state.principal()
    try:
        state.oauth(alias, principal).logout(state.server_url(alias))
    except AuthError as error:
        return no_authorization(error, [back_to(_next())])
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
        raise NotFound("There is no such question.")
    if pending.is_over:
        _pending.forget(state, pending)
        return _closed(pending, 410, "This question is too old to be answered.")
    status = pending.value["status"]
    if status == _pending.DONE:
        return _shown(pending)
    if status == _pending.FAILED:
        return _closed(pending, 409, "This was answered, and the call has failed.")
    if status == _pending.RESUMING and not pending.is_stuck:
        return _closed(pending, 409, "Your answer is on its way. Please reload soon.")
    if request.method == "GET":
        return _form(pending, {}, 200)
    _csrf.check()
    return _go_on(state, pending)


def _closed(pending: _pending.Pending, status: int, text: str) -> Any:
    error = "gone" if status == 410 else "conflict"
    return page(
        status, text, error=error, alias=pending.value["alias"], links=[back_to(pending.value["place"])]
    )


def _form(pending: _pending.Pending, faults: dict[str, Any], status: int) -> Any:
    try:
        asked = _forms.read(pending.waiting(), request.form if request.method == "POST" else None, faults)
    except EnvelopeRejected:
        return _closed(pending, 410, "This question cannot be read any more.")
    values = {"pending": pending, "asked": asked, "faults": faults, "csrf": _csrf.field()}
    about = {"alias": pending.value["alias"], "tool": pending.subject}
    return render_template("mcp_sync/input.html", **about, **values), status


def _go_on(state: AppState, pending: _pending.Pending) -> Any:
    try:
        answers = _forms.answers(pending.waiting(), request.form)
    except AnswerInvalid as error:
        return _form(pending, error.faults, 422)
    except UnsafeURL:
        return _form(pending, {}, 422)
    if not pending.change(status=_pending.RESUMING):
        return _closed(pending, 409, "This was answered already, or is too old.")
    alias, principal = pending.value["alias"], pending.value["for_principal"]
    from ._server import Server

    server = Server(state, alias)
    client = server.client if principal is None else server._view(principal)
    try:
        pending.resume(client, answers)
    except InputRequired:
        return redirect(url_for(ANSWER, id=pending.id), 303)
    except (TransportError, CallTimeout) as error:
        if pending.value["status"] != _pending.WAITING:
            raise
        log(error)
        text = "The server cannot be reached; your answer was not sent."
        links = [Link("Answer once more", url_for(ANSWER, id=pending.id))]
        status = 504 if isinstance(error, CallTimeout) else 502
        return page(status, text, error="not_sent", alias=alias, links=links)
    signals.send(signals.input_answered, server=alias, principal=pending.value["owner"], id=pending.id)
    return _shown(pending)


def _shown(pending: _pending.Pending) -> Any:
    """Show what came of a call: on the page that made it, if that can be shown again."""
    place = pending.value["place"]
    if not pending.value["is_shown_again"]:
        result = pending.result()
        about = {"alias": pending.value["alias"], "tool": pending.subject, "place": place}
        text = getattr(result, "text", "") or "Done."
        return render_template("mcp_sync/result.html", result=result, text=text, **about)
    parts = urlsplit(place)
    query = "&".join(filter(None, [parts.query, urlencode({_pending.PARAMETER: pending.id})]))
    return redirect(parts._replace(query=query).geturl(), 303)
