"""The pages on which users connect to servers, and disconnect.

Each step is a method of a class: override what your site does otherwise, and name your class in urls of your
own. Templates are in ``mcp_sync/``; a template ``mcp_sync/base.html`` of yours replaces the frame.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, suppress
from typing import Any, Optional
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.db import DEFAULT_DB_ALIAS, DatabaseError, transaction
from django.http import Http404, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables

from ..._concurrency.deadline import Deadline
from ..._protocol.urls import public_url
from ...auth._errand import Errand
from ...auth._records import Key
from ...errors import AccessDenied, AuthError, CallTimeout, MCPError, UsageError
from . import conf
from ._connections import is_of_database
from .authorization import address_of, path_of, principal_of
from .middleware import BACK, NO_DATABASE, SCOPES
from .models import PendingFlow
from .server import Server
from .servers import mcp
from .stores import ModelTokenStore, digest

logger = logging.getLogger("mcp_sync.django")

NEXT = "mcp_sync_next"  # in the session: where users go on, by the server
_LOGGED_IN = "logged_in"  # in the URL: the user has come by the login of this site
_MOST_PLACES = 20
_NOT_SET_UP = "This site is not set up for that: see its log."


class Page(View):
    """A page that nobody keeps, and whose changes stay, whatever becomes of the request."""

    @classmethod
    def as_view(cls, **options: Any) -> Any:
        """See `View.as_view`."""
        view = never_cache(super().as_view(**options))
        for database in (DEFAULT_DB_ALIAS, conf.get("DATABASE")):
            transaction.non_atomic_requests(using=database)(view)
        return view


class ServerView(Page):
    """What the pages have in common.

    Attributes:
        alias: The name in the URL.
        server: The server of that name.
    """

    alias: str
    server: Server

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Find the server, and see that the user may deal with it."""
        self.alias = kwargs["alias"]
        try:
            response = self.found(request, *args, **kwargs)
        except DatabaseError:  # It may be that of users and sessions, too.
            logger.exception("The database of the token store failed")
            response = self.problem(NO_DATABASE, 503)
        # The answers of authorization servers go to no other site. With less, browsers would send no origin,
        # and Django takes no form without one.
        response.headers.setdefault("Referrer-Policy", "same-origin")
        return response

    def found(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Go on with a server that is there, for a user who may."""
        try:
            self.server = mcp[self.alias]
            is_open = self.server.oauth_for(request.user) is None
        except UsageError as error:
            return self.not_set_up(error)
        if is_open:
            raise Http404("Nobody has to connect to this server.")
        if not request.user.is_authenticated:
            return redirect_to_login(self.place_after_login())
        if not self.may_connect(request):
            return self.problem("You may not connect this site to the server for everybody.", 403)
        return super().dispatch(request, *args, **kwargs)

    def place_after_login(self) -> str:
        """Return where who has to log in at this site first goes on."""
        return str(self.request.get_full_path())

    def not_set_up(self, error: MCPError) -> HttpResponse:
        """Return the page for a server that the settings do not describe, or not so that it can be used.

        Raises:
            Http404: There is none of that name.
        """
        with suppress(MCPError):
            if self.alias not in mcp:
                raise Http404("There is no such server.") from error
        logger.error("The server %s cannot be used: %s", self.alias, error)
        return self.problem(_NOT_SET_UP, 500)

    def in_time(self) -> AbstractContextManager[None]:
        """Have what asks other servers in the block end within ``DEFAULT_DEADLINE``, by `CallTimeout`."""
        return Errand(deadline=Deadline(conf.get("DEFAULT_DEADLINE"))).here()

    def may_connect(self, request: Any) -> bool:
        """Whether this user may connect: everybody for themselves, for all only who may add grants."""
        return self.server.needs_user or bool(request.user.has_perm("mcp_sync.add_grant"))

    def redirect_uri(self) -> str:
        """Return the URL of the callback: below ``BASE_URL``, or at the host of this request."""
        return str(self.request.build_absolute_uri(address_of("callback", self.server.alias)))

    def checked_next(self, place: Optional[str]) -> str:
        """Return a place on this site to go on at; ``LOGIN_REDIRECT_URL`` for any other."""
        hosts, secure = {self.request.get_host()}, self.request.is_secure()
        if place and url_has_allowed_host_and_scheme(place, allowed_hosts=hosts, require_https=secure):
            return place
        from django.shortcuts import resolve_url

        return str(resolve_url(settings.LOGIN_REDIRECT_URL))

    def page(self, template: str, status: int = 200, **context: Any) -> HttpResponse:
        """Return a page."""
        context = {"alias": self.alias, **context}
        return render(self.request, f"mcp_sync/{template}.html", context, status=status)

    def problem(self, text: str, status: int, *, again: bool = False) -> HttpResponse:
        """Return a page that says what is wrong, and what to do about it.

        Args:
            text: What is wrong.
            status: The HTTP status.
            again: Whether it makes sense to connect once more.
        """
        place, links = self.place(), []
        if again:
            query = f"?{urlencode({'next': place})}" if place else ""
            links.append((f"{path_of('connect', self.alias)}{query}", f"Connect to {self.alias} again"))
        if place:
            links.append((place, BACK))
        return self.page("problem", status, problem=text, links=links)

    def place(self) -> str:
        """Return where the user has begun to connect, empty if that is not known."""
        known = self.request.POST.get("next") or self.request.GET.get("next")
        if not known:
            with suppress(DatabaseError):  # It may be this that the page is about.
                known = self.request.session.get(NEXT, {}).get(self.alias)
        return self.checked_next(known) if known else ""

    def failed(self, error: MCPError) -> HttpResponse:
        """Return the page for an error of an authorization server, of the token store, or on the way."""
        logger.warning("Connecting to %s failed: %s", self.server.alias, error)
        if is_of_database(error):
            return self.problem(NO_DATABASE, 503)
        if isinstance(error, CallTimeout):
            return self.problem("The server did not answer in time. Please try again later.", 504)
        return self.problem(f"The connection did not come about: {error}", 502, again=True)


class ConnectView(ServerView):
    """Asks the user (GET), and sends them to the authorization server (POST)."""

    def place_after_login(self) -> str:
        """See `ServerView.place_after_login`: perhaps they are connected, which nobody could know before."""
        query = self.request.GET.copy()
        query[_LOGGED_IN] = "1"
        return f"{self.request.path}?{query.urlencode()}"

    def get(self, request: Any, alias: str) -> HttpResponse:
        """Show a button; who was merely not logged in goes on without."""
        place = self.checked_next(request.GET.get("next"))
        scopes = request.session.get(SCOPES, {}).get(alias, [])
        if _LOGGED_IN in request.GET and not scopes:
            try:
                if self.server.is_connected(request.user):
                    return HttpResponseRedirect(place)
            except AuthError as error:
                return self.failed(error)
        # There may be a secret of the site in the address.
        return self.page("connect", next=place, scopes=scopes, server_url=public_url(self.server.url))

    def post(self, request: Any, alias: str) -> HttpResponse:
        """Begin: discovery, registration, PKCE. Another worker may finish it."""
        oauth = self.server.oauth_for(request.user)
        assert oauth is not None
        scopes = request.session.get(SCOPES, {}).get(alias)
        try:
            with self.in_time():
                flow = oauth.begin(self.server.url, self.redirect_uri(), scopes or None)
        except UsageError as error:
            return self.not_set_up(error)
        except (AuthError, CallTimeout) as error:
            return self.failed(error)
        places = {**request.session.get(NEXT, {}), alias: self.checked_next(request.POST.get("next"))}
        request.session[NEXT] = dict(list(places.items())[-_MOST_PLACES:])
        return HttpResponseRedirect(flow.url)


class CallbackView(ServerView):
    """Where the authorization server sends users back to.

    The grant is that of the user who began. Whoever else opens the URL gets an error, and uses up nothing.
    """

    @method_decorator(sensitive_variables())
    def get(self, request: Any, alias: str) -> HttpResponse:
        """Finish the login."""
        try:
            wrong = self.known_problem(request, alias)
        except AuthError as error:
            return self.failed(error)
        if wrong is not None:
            return wrong
        oauth = self.server.oauth_for(request.user)
        assert oauth is not None
        try:
            with self.in_time():
                oauth.finish(dict(request.GET.lists()))
        except AccessDenied:
            return self.problem("Access was not granted, so nothing has changed.", 403, again=True)
        except (AuthError, CallTimeout) as error:
            return self.refused(error)
        self.server.forget_client(request.user)
        self.forget_scopes(request, alias)
        place = request.session.get(NEXT, {}).get(alias)
        return HttpResponseRedirect(self.checked_next(place))

    def known_problem(self, request: Any, alias: str) -> Optional[HttpResponse]:
        """Return the page for an answer that belongs to no login of this user, if that can be told."""
        state = request.GET.get("state", "")
        if not state:
            return self.problem("This is no answer of an authorization server.", 400, again=True)
        store = token_store_of(alias)
        if not isinstance(store, ModelTokenStore):
            return None
        key = Key("pending", resource=state)
        stored = store.get(key)
        if stored is None:
            return self.problem("This answer belongs to no login that has begun here.", 400, again=True)
        # Whose it was that is used by now, the row alone knows; but not each login is in its row yet.
        row = PendingFlow.objects.filter(key=digest(alias, key)).first()
        if stored.value.get("principal", row and row.principal) not in (None, self.principal()):
            return self.problem("This answer belongs to the login of somebody else.", 403, again=True)
        if "used" in stored.value:
            return self.problem("This answer was used already.", 409, again=True)
        return None

    def principal(self) -> str:
        """Return whose grant it will be."""
        oauth = self.server.oauth_for(self.request.user)
        return oauth.principal if oauth is not None else principal_of(self.request.user)

    def refused(self, error: MCPError) -> HttpResponse:
        """Return the page for an answer that did not count."""
        if isinstance(error, CallTimeout) or getattr(error, "transient", False) or error.__cause__:
            return self.failed(error)
        if type(error) is AuthError:
            # Another request may have been faster with the same answer.
            wrong = self.known_problem(self.request, self.alias)
            if wrong is not None:
                return wrong
        logger.warning("An answer for %s was refused: %s", self.server.alias, error)
        return self.problem(f"This answer does not count: {error}", 400, again=True)

    def forget_scopes(self, request: Any, alias: str) -> None:
        """Ask for no more the next time than is needed then."""
        scopes = request.session.get(SCOPES, {})
        if alias in scopes:
            request.session[SCOPES] = {name: each for name, each in scopes.items() if name != alias}


def token_store_of(alias: str) -> Any:
    """Return the token store of a server."""
    oauth = mcp[alias].oauth_for(None)
    return oauth.vault.store._store if oauth is not None else None


class DisconnectView(ServerView):
    """Has the tokens of the user revoked (RFC 7009), and forgets them."""

    http_method_names = ["post", "options"]

    def post(self, request: Any, alias: str) -> HttpResponse:
        """Do it."""
        oauth = self.server.oauth_for(request.user)
        assert oauth is not None
        try:
            oauth.logout(self.server.url)
        except AuthError as error:
            return self.failed(error)
        self.server.forget_client(request.user)
        return HttpResponseRedirect(self.checked_next(request.POST.get("next")))


class ClientMetadataView(View):
    """The document whose URL is the name of this application: see "Client ID Metadata Documents" in the
    authorization pages of the specification. Offered with ``CLIENT_METADATA`` and ``BASE_URL``.
    """

    def get(self, request: Any) -> HttpResponse:
        """Return it."""
        base = str(conf.get("BASE_URL") or "").rstrip("/")
        if not base or not conf.get("CLIENT_METADATA"):
            raise Http404
        uris = [address_of("callback", alias) for alias in mcp if mcp[alias].oauth_for(None) is not None]
        body = {
            "client_id": address_of("metadata"),
            "client_name": conf.get("CLIENT_NAME"),
            "client_uri": base,
            "redirect_uris": uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        return JsonResponse(body, headers={"Cache-Control": "public, max-age=3600"})
