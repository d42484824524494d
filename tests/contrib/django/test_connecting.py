"""A user connects to a server, uses it, and disconnects."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, connections
from django.http import HttpResponse
from django.test import AsyncClient, Client, RequestFactory, override_settings
from django.urls import include, path
from django.utils import timezone

from mcp_sync import AuthorizationRequired
from mcp_sync.contrib.django import Servers, crypto, mcp, mcp_login_required, signals
from mcp_sync.contrib.django.authorization import ConnectionRequired, WebOAuth
from mcp_sync.contrib.django.models import Grant, PendingFlow
from mcp_sync.testing import FakeAuthorizationServer, FakeServer

from .conftest import browser_of, connect
from .site import whoami


def test_a_user_connects_and_a_view_calls_a_tool_as_them(guarded, ada):
    browser = browser_of(ada)
    away = browser.get("/whoami/")
    assert away.status_code == 302
    assert away["Location"] == "/mcp/connect/guarded/?next=%2Fwhoami%2F"
    page = browser.get(away["Location"])
    assert page.status_code == 200
    assert "no-store" in page["Cache-Control"]
    assert guarded.url in page.content.decode()
    back = connect(browser, guarded.auth, "ada at the server")
    assert (back.status_code, back["Location"]) == (302, "/whoami/")
    assert browser.get("/whoami/").content == b"ada at the server"
    assert Grant.objects.get().user == ada


def test_the_tokens_are_not_readable_in_the_database(guarded, ada):
    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    browser.get("/whoami/")
    request = guarded.fake.received("tools/call")
    assert request
    row = Grant.objects.get()
    assert "access_token" not in repr(row.__dict__)
    assert "access_token" in crypto.sealer().unseal(row.data, row.key)
    assert crypto.sealer().unseal(row.data, "another row") is None


def test_two_users_never_see_each_other(guarded, ada, bob):
    one, other = browser_of(ada), browser_of(bob)
    connect(one, guarded.auth, "ada at the server")
    assert other.get("/whoami/").status_code == 302
    connect(other, guarded.auth, "bob at the server")
    assert one.get("/whoami/").content == b"ada at the server"
    assert other.get("/whoami/").content == b"bob at the server"


def test_a_program_gets_401_with_a_link(guarded, ada):
    answer = browser_of(ada).get("/whoami/", headers={"accept": "application/json"})
    assert answer.status_code == 401
    assert answer.json() == {
        "error": "authorization_required",
        "server": "guarded",
        "url": "http://localhost/mcp/connect/guarded/?next=%2Fwhoami%2F",
    }


def test_htmx_is_sent_to_the_page(guarded, ada):
    answer = browser_of(ada).get("/whoami/", headers={"HX-Request": "true"})
    assert answer.status_code == 401
    assert answer["HX-Redirect"].startswith("/mcp/connect/guarded/")


def test_who_is_not_logged_in_logs_in_at_this_site_first(guarded):
    browser = Client(SERVER_NAME="localhost")
    away = browser.get("/whoami/")
    assert away["Location"].startswith("/mcp/connect/guarded/")
    assert browser.get(away["Location"])["Location"].startswith("/login/?next=/mcp/connect/guarded/")


@pytest.mark.parametrize("place", ["/whoami/", "/connected/"])
def test_who_is_connected_and_was_not_logged_in_is_not_asked_again(place, guarded, ada):
    connect(browser_of(ada), guarded.auth, "ada at the server")
    browser = Client(SERVER_NAME="localhost")
    to_log_in = browser.get(browser.get(place)["Location"])["Location"]
    browser.force_login(ada)
    after = parse_qs(urlsplit(to_log_in).query)["next"][0]
    assert browser.get(after)["Location"] == place
    assert browser.get(place).status_code == 200
    # Where the server refuses the grant, the page comes.
    Grant.objects.all().delete()
    assert browser.get(after).status_code == 200
    assert browser.get(browser.get(place)["Location"]).status_code == 200


def test_the_decorator_keeps_out_who_is_not_connected(guarded, ada):
    browser = browser_of(ada)
    assert browser.get("/connected/")["Location"].startswith("/mcp/connect/guarded/")
    connect(browser, guarded.auth, "ada at the server")
    assert browser.get("/connected/").json() == {"ok": True}


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_the_decorator_keeps_them_out_of_async_views_too(guarded, ada, kind):
    @mcp_login_required("guarded")
    async def view(request):
        who = await sync_to_async(mcp["guarded"].for_user, thread_sensitive=False)(request.user)
        return HttpResponse((await sync_to_async(who.call_tool, thread_sensitive=False)("whoami")).text)

    urls = [path("view/", view), path("mcp/", include("mcp_sync.contrib.django.urls"))]
    with override_settings(ROOT_URLCONF=type("Urls", (), {"urlpatterns": urls})):
        browser = kind()
        browser.cookies = browser_of(ada).cookies

        @async_to_sync
        async def get_later(place):
            return await browser.get(place)

        get = browser.get if kind is Client else get_later
        assert get("/view/")["Location"] == "/mcp/connect/guarded/?next=%2Fview%2F"
        connect(browser_of(ada), guarded.auth, "ada at the server")
        assert get("/view/").content == b"ada at the server"


def test_the_decorator_says_so_where_there_is_no_page_to_connect_on(guarded, ada):
    request = RequestFactory().get("/")
    request.user = ada
    with override_settings(ROOT_URLCONF="tests.contrib.django.no_urls"), pytest.raises(ConnectionRequired):
        mcp_login_required("guarded")(whoami)(request)


def test_who_has_to_connect_is_told_where_also_outside_of_requests(guarded, ada):
    with override_settings(MCP_SYNC={"SERVERS": guarded.servers, "BASE_URL": "https://site.example/"}):
        with pytest.raises(AuthorizationRequired) as caught:
            mcp["guarded"].for_user(ada).call_tool("whoami")
        away = browser_of(ada).get("/whoami/")
    assert caught.value.url == "https://site.example/mcp/connect/guarded/"
    assert away["Location"] == "/mcp/connect/guarded/?next=%2Fwhoami%2F"


def test_the_decorator_asks_no_server(guarded, ada):
    browser_of(ada).get("/connected/")
    assert guarded.fake.received("server/discover") == []
    assert guarded.auth.asked == {}


def test_a_callback_counts_once(guarded, ada):
    browser = browser_of(ada)
    sent = browser.post("/mcp/connect/guarded/")
    back = guarded.auth.consent(sent["Location"], "ada at the server")
    assert browser.get(back).status_code == 302
    again = browser.get(back)
    assert again.status_code == 409
    assert "used already" in again.content.decode()
    assert browser.get("/whoami/").content == b"ada at the server"


def test_a_callback_says_so_where_another_request_was_faster_with_it(guarded, ada, monkeypatch):
    browser = browser_of(ada)
    back = guarded.auth.consent(browser.post("/mcp/connect/guarded/")["Location"], "ada at the server")
    finish, answers = WebOAuth.finish, []

    def is_slow(oauth, params):
        if not answers:
            answers.append(None)
            answers.append(browser.get(back).status_code)
        return finish(oauth, params)

    monkeypatch.setattr(WebOAuth, "finish", is_slow)
    late = browser.get(back)
    assert answers == [None, 302]
    assert (late.status_code, "used already" in late.content.decode()) == (409, True)


def test_a_callback_of_another_user_is_refused_and_uses_up_nothing(guarded, ada, bob):
    one, other = browser_of(ada), browser_of(bob)
    back = guarded.auth.consent(one.post("/mcp/connect/guarded/")["Location"], "ada at the server")
    refused = other.get(back)
    assert refused.status_code == 403
    assert not Grant.objects.exists()
    assert one.get(back).status_code == 302
    assert Grant.objects.get().user == ada


@pytest.mark.skipif(connection.vendor != "sqlite", reason="others lock rows")
def test_a_login_that_began_while_the_database_was_locked_is_finished(guarded, ada, bob):
    with override_settings(SESSION_ENGINE="django.contrib.sessions.backends.cache"):
        browser, other = browser_of(ada), browser_of(bob)
        locks = connections.create_connection("default")
        try:
            with locks.cursor() as cursor:
                cursor.execute("BEGIN IMMEDIATE")
            sent = browser.post("/mcp/connect/guarded/", {"next": "/whoami/"})
            answer = guarded.auth.consent(sent["Location"], "ada at the server")
            assert other.get(answer).status_code == 403
        finally:
            locks.close()
        assert other.get(answer).status_code == 403
        assert browser.get(answer).status_code == 302
        assert [browser.get(answer).status_code, other.get(answer).status_code] == [409, 403]
        assert browser.get("/whoami/").content == b"ada at the server"


def test_a_site_whose_times_have_no_zone_keeps_grants(guarded, ada):
    with override_settings(USE_TZ=False):
        browser = browser_of(ada)
        connect(browser, guarded.auth, "ada at the server")
        assert browser.get("/whoami/").content == b"ada at the server"
        left = Grant.objects.get().expires_at - timezone.now()
        assert timedelta(minutes=30) < left < timedelta(hours=2)


def test_a_forged_state_is_refused(guarded, ada):
    browser = browser_of(ada)
    browser.post("/mcp/connect/guarded/")
    answer = browser.get("/mcp/callback/guarded/?code=x&state=forged")
    assert answer.status_code == 400
    assert browser.get("/mcp/callback/guarded/").status_code == 400


def test_a_forged_issuer_is_refused_and_uses_up_nothing(guarded, ada):
    browser = browser_of(ada)
    back = guarded.auth.consent(browser.post("/mcp/connect/guarded/")["Location"], "ada at the server")
    forged = back.rpartition("iss=")[0] + "iss=https%3A%2F%2Fevil.example"
    assert browser.get(forged).status_code == 400
    assert browser.get(back).status_code == 302


def test_a_user_who_refuses_is_told_so(guarded, ada):
    browser = browser_of(ada)
    guarded.auth.denies = True
    answer = connect(browser, guarded.auth, "ada")
    assert answer.status_code == 403
    assert "Access was not granted" in answer.content.decode()
    assert not Grant.objects.exists()
    again = "/mcp/connect/guarded/?next=%2Fwhoami%2F"
    assert f'<a href="{again}">Connect to guarded again</a>' in answer.content.decode()
    assert '<a href="/whoami/">Back to where you were</a>' in answer.content.decode()
    assert 'name="next" value="/whoami/"' in browser.get(again).content.decode()


def test_who_refuses_is_led_to_no_other_site(guarded, ada):
    browser = browser_of(ada)
    guarded.auth.denies = True
    sent = browser.post("/mcp/connect/guarded/", {"next": "//evil.example/"})
    page = browser.get(guarded.auth.consent(sent["Location"], "ada")).content.decode()
    assert '<a href="/">Back to where you were</a>' in page
    assert "evil" not in page


def test_a_user_disconnects(guarded, ada):
    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    assert browser.get("/mcp/disconnect/guarded/").status_code == 405
    answer = browser.post("/mcp/disconnect/guarded/", {"next": "/connected/"})
    assert answer["Location"] == "/connected/"
    assert not Grant.objects.exists()
    assert guarded.auth.asked["/revoke"] >= 1
    assert browser.get("/whoami/").status_code == 302


def test_a_deleted_grant_leads_to_the_page_to_connect(guarded, ada):
    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    Grant.objects.all().delete()
    assert browser.get("/whoami/")["Location"].startswith("/mcp/connect/guarded/")


def test_a_grant_that_was_withdrawn_leads_to_the_page_to_connect(guarded, ada):
    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    guarded.auth.forget_grants()
    assert browser.get("/whoami/")["Location"].startswith("/mcp/connect/guarded/")


def test_posts_without_a_csrf_token_are_refused(guarded, ada):
    browser = Client(SERVER_NAME="localhost", enforce_csrf_checks=True)
    browser.force_login(ada)
    assert browser.post("/mcp/connect/guarded/").status_code == 403
    assert browser.post("/mcp/disconnect/guarded/").status_code == 403


@pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example", "javascript:alert(1)", ""])
def test_next_leads_to_no_other_site(guarded, ada, place):
    browser = browser_of(ada)
    sent = browser.post("/mcp/connect/guarded/", {"next": place})
    back = browser.get(guarded.auth.consent(sent["Location"], "ada"))
    assert back["Location"] == "/"


def test_the_page_to_connect_on_shows_no_secret_of_the_address(ada):
    server = {"URL": "https://site:s3same@example.com/mcp?api_key=s3same", "AUTH": {"KIND": "oauth"}}
    with override_settings(MCP_SYNC={"SERVERS": {"guarded": server}}):
        page = browser_of(ada).get("/mcp/connect/guarded/").content.decode()
    assert "https://example.com/mcp" in page
    assert "s3same" not in page


def test_an_unknown_server_is_404(guarded, ada):
    browser = browser_of(ada)
    assert browser.get("/mcp/connect/nobody/").status_code == 404
    assert browser.get("/mcp/callback/nobody/?state=x").status_code == 404


def test_an_authorization_server_that_is_away_is_502(guarded, ada):
    browser = browser_of(ada)
    guarded.auth.close()
    answer = browser.post("/mcp/connect/guarded/")
    assert answer.status_code == 502
    assert "did not come about" in answer.content.decode()


def test_a_refresh_is_kept_and_told(guarded, ada):
    told = []

    def hear(**values):
        told.append((values["alias"], values["user_id"]))

    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    signals.grant_refreshed.connect(hear)
    try:
        guarded.auth.expire_access_tokens()
        assert browser.get("/whoami/").content == b"ada at the server"
    finally:
        signals.grant_refreshed.disconnect(hear)
    assert told == [("guarded", ada.pk)]
    assert guarded.auth.asked["refresh_token"] == 1


def test_a_grant_goes_with_its_user(guarded, ada):
    connect(browser_of(ada), guarded.auth, "ada at the server")
    ada.delete()
    assert not Grant.objects.exists()
    assert not PendingFlow.objects.exclude(user=None).exists()


def test_the_metadata_document_names_the_callbacks(guarded):
    own = {"SERVERS": guarded.servers, "BASE_URL": "https://app.example.com", "CLIENT_METADATA": True}
    with override_settings(MCP_SYNC=own):
        body = Client().get("/mcp/client-metadata.json").json()
    assert body["client_id"] == "https://app.example.com/mcp/client-metadata.json"
    assert body["redirect_uris"] == ["https://app.example.com/mcp/callback/guarded/"]
    assert Client().get("/mcp/client-metadata.json").status_code == 404


def test_a_tool_call_is_told(guarded, ada):
    told = []

    def hear(**values):
        told.append((values["alias"], values["tool"], values["user"].pk, values["ok"]))

    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    signals.tool_called.connect(hear)
    try:
        browser.get("/whoami/")
    finally:
        signals.tool_called.disconnect(hear)
    assert told == [("guarded", "whoami", ada.pk, True)]


@contextmanager
def _another_process():
    """Give the servers of the site as another worker has them."""
    other = Servers()
    try:
        yield other
    finally:
        other.reset()


def test_a_user_has_one_session_at_an_older_server_until_they_connect_anew(ada, bob):
    with FakeAuthorizationServer(user="someone") as auth:
        tools = {"whoami": lambda context: auth.user_of(context.headers) or "nobody"}
        fake = FakeServer(tools=tools, principal=auth.user_of, versions="2025-11-25")
        with fake.serve_http(intercept=auth.guard()) as endpoint:
            servers = {"guarded": {"URL": endpoint.url, "AUTH": {"KIND": "oauth"}}}
            with override_settings(MCP_SYNC={"SERVERS": servers}):
                for user in (ada, bob):
                    browser = browser_of(user)
                    connect(browser, auth, user.username)
                    seen = [browser.get("/whoami/").content.decode() for _ in range(3)]
                    assert seen == [user.username] * 3
                assert (fake.count("initialize"), fake.count("tools/call")) == (2, 6)

                with _another_process() as other:
                    view = other["guarded"].for_user(bob)
                    assert view.call_tool("whoami").text == "bob"
                    assert other["guarded"].for_user(bob) is view
                    connect(browser, auth, "somebody else")
                    assert browser.get("/whoami/").content == b"somebody else"
                    assert other["guarded"].for_user(bob).call_tool("whoami").text == "somebody else"
                    assert other["guarded"].for_user(bob).session_id != view.session_id
                    assert fake.count("initialize") == 5
                browser.post("/mcp/disconnect/guarded/")
                assert browser.get("/whoami/").status_code == 302
                mcp.reset()


@pytest.mark.parametrize("leaves", [False, True])
def test_who_has_another_account_at_the_server_gets_no_answers_kept_for_the_first(ada, leaves):
    def mine(context):
        return f"that of {auth.user_of(context.headers)}"

    def read(servers=mcp):
        return servers["guarded"].for_user(ada).read_resource("mine://").contents[0].text

    with FakeAuthorizationServer(user="someone") as auth:
        fake = FakeServer(principal=auth.user_of, ttl_ms=60_000)
        fake.add_resource("mine://", mine)
        with fake.serve_http(intercept=auth.guard()) as endpoint:
            servers = {"guarded": {"URL": endpoint.url, "AUTH": {"KIND": "oauth"}}}
            with override_settings(MCP_SYNC={"SERVERS": servers, "RESPONSE_CACHE": "default"}):
                browser = browser_of(ada)
                connect(browser, auth, "first")
                assert [read(), read()] == ["that of first"] * 2
                with _another_process() as other:
                    assert read(other) == "that of first"
                assert len(fake.received("resources/read")) == 1
                if leaves:
                    browser.post("/mcp/disconnect/guarded/")
                connect(browser, auth, "second")
                assert [read(), read()] == ["that of second"] * 2
                with _another_process() as other:
                    assert read(other) == "that of second"
                mcp.reset()
    assert len(fake.received("resources/read")) == 2
