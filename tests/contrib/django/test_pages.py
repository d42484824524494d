"""What holds for all pages: a database that is down, secrets on debug pages, views of one request, tasks."""

from __future__ import annotations

import asyncio
import sys
import threading
import timeit
from itertools import repeat

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.checks import run_checks
from django.db import OperationalError, connection
from django.http import HttpResponse
from django.test import RequestFactory, override_settings
from django.views.debug import ExceptionReporter, get_default_exception_reporter_filter

from mcp_sync.contrib.django import crypto, mcp, signals, tasks
from mcp_sync.contrib.django._connections import StoreLocked
from mcp_sync.contrib.django.authorization import ConnectionRequired
from mcp_sync.contrib.django.middleware import McpSyncMiddleware, status_of
from mcp_sync.contrib.django.models import Grant
from mcp_sync.contrib.django.stores import ModelTokenStore
from mcp_sync.contrib.django.test import fake_server
from mcp_sync.errors import AuthError, ConnectFailed
from mcp_sync.testing import FakeServer, FakeTool, Fault, FaultPlan

from .conftest import browser_of, connect


@pytest.fixture
def broken(monkeypatch):
    def fail(*args, **kwargs):
        raise OperationalError("the password is hunter2")

    monkeypatch.setattr("mcp_sync.contrib.django._connections.run", fail)


def test_a_database_that_is_down_is_503(guarded, ada, broken):
    answer = browser_of(ada).post("/mcp/connect/guarded/")
    assert answer.status_code == 503
    assert "hunter2" not in answer.content.decode()


def test_a_view_whose_token_store_is_down_is_503_and_says_so(guarded, ada, broken):
    browser = browser_of(ada)
    browser.raise_request_exception = False
    for place in ("/whoami/", "/connected/"):
        page = browser.get(place)
        assert page.status_code == 503
        assert "try again later" in page.content.decode()
        assert "hunter2" not in page.content.decode()
    told = browser.get("/whoami/", headers={"accept": "application/json"})
    assert (told.status_code, told.json()["error"]) == (503, "temporarily_unavailable")
    with override_settings(DEBUG=True):
        assert browser.get("/whoami/").status_code == 500


GONE = "http://127.0.0.1:1/mcp?key=hunter2"


@pytest.fixture
def broken_server(request):
    """Have a server that does not do what it should; give the status that a view of it deserves."""
    faults = {503: Fault.http(429, headers={"Retry-After": "7"}), 504: Fault.stall("request")}
    plan = FaultPlan({"tools/call": repeat(faults.get(request.param))})
    with FakeServer().serve_http(faults=plan) as endpoint:
        servers = {"guarded": {"URL": GONE if request.param == 502 else endpoint.url}}
        with override_settings(MCP_SYNC={"SERVERS": servers, "DEFAULT_DEADLINE": 0.5}):
            yield request.param
            mcp.reset()
            plan.release()


@pytest.mark.parametrize("broken_server", [502, 503, 504], indirect=True)
def test_a_server_that_fails_is_no_error_of_the_site(ada, broken_server, caplog):
    browser = browser_of(ada)
    page = browser.get("/whoami/?a=1")
    assert (page.status_code, "Retry-After" in page.headers) == (broken_server, broken_server == 503)
    assert "A server that this needs" in page.content.decode()
    assert '<a href="/whoami/?a=1">Try again</a>' in page.content.decode()
    assert "/whoami/: " in caplog.text
    told = browser.post("/whoami/", headers={"accept": "application/json"})
    assert (told.status_code, told.json()["error"][:7]) == (broken_server, "server_")
    assert "hunter2" not in f"{page.content.decode()}{told.content.decode()}"
    assert {each["Cache-Control"].count("no-store") for each in (page, told)} == {1}


def test_errors_of_other_libraries_are_those_of_the_site():
    class Busy(Exception):
        status, transient, retry_after = 503, True, 5

    middleware = McpSyncMiddleware(lambda request: None)
    assert middleware.process_exception(RequestFactory().get("/"), Busy()) is None
    assert status_of(Busy()) == 500


def test_a_path_that_is_logged_stays_on_its_line(caplog):
    middleware = McpSyncMiddleware(lambda request: None)
    request = RequestFactory().get("/a%0aWARNING all is lost/")
    assert middleware.process_exception(request, ConnectFailed("it is away")).status_code == 502
    assert "/a\\nWARNING all is lost/: ConnectFailed: it is away" in caplog.text


@pytest.mark.parametrize("is_locked", [False, True])
def test_a_path_that_looks_like_another_site_leads_to_this_one(guarded, ada, is_locked):
    connect(browser_of(ada), guarded.auth, "ada at the server")
    error = StoreLocked("a transaction is in the way") if is_locked else ConnectFailed("it is away")
    error.alias = "guarded"
    request = RequestFactory().get("/", PATH_INFO="//other.example/a")
    request.user = ada
    answer = McpSyncMiddleware(lambda request: None).process_exception(request, error)
    told = answer.headers["Location"] if is_locked else answer.content.decode()
    assert "//other.example" not in told
    assert "/%2Fother.example/a" in told


def test_a_site_without_the_page_to_connect_on_leads_nobody_around_in_a_circle():
    needed = ConnectionRequired("connect", url="https://site.example/mcp/connect/a/", alias="a")
    with override_settings(ROOT_URLCONF="tests.contrib.django.no_urls"):
        middleware = McpSyncMiddleware(lambda request: None)
        assert middleware.process_exception(RequestFactory().get("/"), needed) is None


@pytest.mark.parametrize("broken_server", [502], indirect=True)
@pytest.mark.parametrize(
    "changed", [{"DEBUG": True}, {"MCP_SYNC": {"SERVERS": {"guarded": {"URL": GONE}}, "ERROR_PAGES": False}}]
)
def test_who_wants_to_see_the_error_of_a_server_does(ada, broken_server, changed):
    with override_settings(**changed), pytest.raises(ConnectFailed):
        browser_of(ada).get("/whoami/")


def test_who_connects_to_a_server_that_never_answers_waits_for_the_deadline(ada):
    answers = threading.Event()
    with FakeServer().serve_http(intercept=lambda request: answers.wait(60) and None) as endpoint:
        servers = {"guarded": {"URL": endpoint.url, "AUTH": {"KIND": "oauth"}}}
        with override_settings(MCP_SYNC={"SERVERS": servers, "DEFAULT_DEADLINE": 0.3}):
            page = browser_of(ada).post("/mcp/connect/guarded/")
        answers.set()
    assert page.status_code == 504
    assert "did not answer in time" in page.content.decode()


def test_who_comes_back_to_a_server_that_never_answers_waits_for_the_deadline(guarded, ada, monkeypatch):
    browser, answers = browser_of(ada), threading.Event()
    back = guarded.auth.consent(browser.post("/mcp/connect/guarded/")["Location"], "ada at the server")
    usual = guarded.auth._endpoint.intercept
    wait = lambda request: answers.wait(60) and usual(request)  # noqa: E731
    monkeypatch.setattr(guarded.auth._endpoint, "intercept", wait)
    with override_settings(MCP_SYNC={"SERVERS": guarded.servers, "DEFAULT_DEADLINE": 0.3}):
        page = browser.get(back)
    answers.set()
    assert page.status_code == 504
    assert "did not answer in time" in page.content.decode()


@pytest.mark.parametrize("page", ["connect", "callback"])
def test_a_database_of_users_that_is_down_is_503(guarded, ada, monkeypatch, page):
    def fail(*args, **kwargs):
        raise OperationalError("the password is hunter2")

    browser = browser_of(ada)
    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", fail)
    answer = browser.get(f"/mcp/{page}/guarded/?state=some")
    assert answer.status_code == 503
    assert "try again later" in answer.content.decode()
    assert "hunter2" not in answer.content.decode()


def test_a_question_whose_database_is_down_is_503(ada, monkeypatch):
    def fail(*args, **kwargs):
        raise OperationalError("down")

    monkeypatch.setattr("mcp_sync.contrib.django.pending.find", fail)
    page = browser_of(ada).get("/mcp/input/00000000-0000-0000-0000-000000000000/")
    assert page.status_code == 503
    assert "try again later" in page.content.decode()


@pytest.mark.parametrize(
    "server",
    [
        {"URL": "https://mcp.example/mcp", "AUTH": {"KIND": "oauth", "SCOPES": ["${NO_SUCH_VARIABLE}"]}},
        {"URL": "${NO_SUCH_VARIABLE}/mcp", "AUTH": {"KIND": "oauth"}},
    ],
)
def test_a_server_that_is_not_set_up_is_no_unknown_one(ada, server, caplog):
    with override_settings(MCP_SYNC={"SERVERS": {"guarded": server}}):
        page = browser_of(ada).get("/mcp/connect/guarded/")
        assert browser_of(ada).get("/mcp/connect/other/").status_code == 404
    assert page.status_code == 500
    assert "not set up" in page.content.decode()
    assert "NO_SUCH_VARIABLE" not in page.content.decode()
    assert "NO_SUCH_VARIABLE" in caplog.text


def test_a_database_that_is_down_loses_no_answer(guarded, ada):
    browser = browser_of(ada)
    back = guarded.auth.consent(browser.post("/mcp/connect/guarded/")["Location"], "ada at the server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelTokenStore, "put", _down)
        assert browser.get(back).status_code == 503
    assert browser.get(back).status_code == 302
    assert Grant.objects.get().user == ada


def _down(self, key, value, expected):
    raise OperationalError("down")


@pytest.mark.parametrize("debug", [True, False])
def test_debug_pages_show_no_secret(guarded, ada, debug):
    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    row = Grant.objects.get()
    token = crypto.sealer().unseal(row.data, row.key)["access_token"]
    guarded.auth.close()
    browser.raise_request_exception = False
    guarded.auth.expire_access_tokens()
    with override_settings(DEBUG=debug, ALLOWED_HOSTS=["localhost"]):
        page = browser.get("/whoami/")
    assert page.status_code == (500 if debug else 503)
    assert token not in page.content.decode()
    assert not debug or "TokenRequestFailed" in page.content.decode()


@pytest.fixture(params=[False, True])
def has_request(request):
    """Whether the report of an error is about a request, or the site has our filter for all reports."""
    own = "mcp_sync.contrib.django.debug.ReporterFilter"
    usual = settings.DEFAULT_EXCEPTION_REPORTER_FILTER
    get_default_exception_reporter_filter.cache_clear()
    with override_settings(DEFAULT_EXCEPTION_REPORTER_FILTER=usual if request.param else own):
        yield request.param
    get_default_exception_reporter_filter.cache_clear()


@pytest.mark.parametrize("debug", [True, False])
def test_reports_of_errors_show_no_secret_of_the_settings(debug, has_request):
    secret = "-".join(["not", "to", "be", "seen"])  # Reports show lines of the source, too.
    servers = {
        "address": {"URL": f"https://example.com/mcp?api_key={secret}"},
        "command": {"COMMAND": ["reports", "--api-key", secret], "ENV": {"WORD": secret}},
    }
    site = "https://site.example.com"

    def view(request):
        known = [mcp[alias] for alias in mcp]
        clients = [(each.client, each.client._engine.plan.target) for each in known]
        raise LookupError(f"{known} {clients} {mcp.entries()} {mcp.registry}")

    request = RequestFactory().get("/")
    with override_settings(DEBUG=debug, MCP_SYNC={"SERVERS": servers, "BASE_URL": site}):
        try:
            view(request)
        except LookupError as error:
            if has_request:
                McpSyncMiddleware(view).process_exception(request, error)
            reporter = ExceptionReporter(request if has_request else None, *sys.exc_info())
        # The variables of the test itself are none of the site's.
        reporter.tb = reporter.tb.tb_next
        told = reporter.get_traceback_html() + reporter.get_traceback_text()
    assert secret not in told
    assert "'address'" in told
    assert site in told


def test_a_user_has_one_view_of_a_server_and_others_have_another(ada, bob):
    seen = []

    def view(request):
        seen.append((mcp["a"].for_user(ada), mcp["a"].for_user(bob)))
        return HttpResponse()

    with fake_server("a", tools={}):
        for _ in range(2):
            McpSyncMiddleware(view)(RequestFactory().get("/"))
    assert seen[0] == seen[1]
    assert seen[0][0] is not seen[0][1]


def test_a_user_of_an_async_site_has_one_view_too(ada):
    seen = []

    async def view(request):
        seen.append(mcp["a"].for_user(ada))
        seen.append(mcp["a"].for_user(ada))
        return HttpResponse()

    with fake_server("a", tools={}):
        for _ in range(2):
            asyncio.run(McpSyncMiddleware(view)(RequestFactory().get("/")))
    assert len(set(map(id, seen))) == 1


def test_a_token_is_refreshed_before_the_transaction_of_a_view(guarded, ada):
    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    first = Grant.objects.get().version
    _expire(Grant.objects.get())
    assert browser.get("/atomic/").content == b"ada at the server"
    assert guarded.auth.asked["refresh_token"] == 1
    assert Grant.objects.get().version != first
    assert browser.get("/whoami/").content == b"ada at the server"


def _expire(row):
    value = crypto.sealer().unseal(row.data, row.key)
    row.data = crypto.sealer().seal({**value, "expires_at": 1.0}, row.key)
    row.save()


def test_a_task_is_followed_from_row_to_row(ada, bob):
    told = []

    def hear(**values):
        told.append(values["task"].status)

    def build(context):
        return "built"

    signals.task_finished.connect(hear)
    try:
        with fake_server("a", FakeServer(tools=[FakeTool(build, name="build", task=True)])):
            row = tasks.start("a", ada, "build")
            for _ in range(500):
                if tasks.refresh(row, ada).status in tasks.FINAL:
                    break
    finally:
        signals.task_finished.disconnect(hear)
    assert row.status == "completed"
    assert row.read_result().text == "built"
    assert told == ["completed"]
    assert [each.pk for each in tasks.of_user(ada)] == [row.pk]
    assert not tasks.of_user(bob)
    with fake_server("a", FakeServer(tools=[FakeTool(build, name="build", task=True)])):
        tasks.start("a", AnonymousUser(), "build")
    assert not tasks.of_user(AnonymousUser())


def test_to_look_a_server_up_takes_microseconds():
    with override_settings(MCP_SYNC={"SERVERS": {"a": {"URL": "https://example.com"}}}):
        mcp["a"]
        each = min(timeit.repeat(lambda: mcp["a"], number=1000, repeat=5)) / 1000
    assert each < 100e-6


def test_a_token_store_without_tables_says_how_to_make_them(guarded, ada):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE mcp_sync_servermetadata RENAME TO away")
    try:
        with pytest.raises(AuthError, match=r"'default': .*Error; .* manage.py migrate"):
            mcp["guarded"].for_user(ada).call_tool("whoami")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE away RENAME TO mcp_sync_servermetadata")


def test_a_grant_that_no_key_decrypts_is_told_once_and_its_user_connects_again(guarded, ada, caplog):
    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    browser.get("/whoami/")
    assert run_checks(databases=["default"]) == run_checks()
    mcp.reset()
    with override_settings(MCP_SYNC={"SERVERS": guarded.servers, "ENCRYPTION_KEYS": ["another"]}):
        for _ in range(2):
            assert browser.get("/connected/")["Location"].startswith("/mcp/connect/guarded/")
        told = [each.getMessage() for each in caplog.records if "decrypted" in each.getMessage()]
        assert len(told) == 1
        assert f"user:{ada.pk}" in told[0]
        assert "mcp_rotate" in told[0]
        warnings = [each for each in run_checks(databases=["default"]) if each.id == "mcp_sync.W007"]
        assert "1 grants 1 cannot" in str(warnings)
        connect(browser, guarded.auth, "ada at the server")
        assert browser.get("/whoami/").content == b"ada at the server"
        assert run_checks(databases=["default"]) == run_checks()


def test_a_store_that_fails_names_no_password(guarded, ada, broken):
    with pytest.raises(AuthError) as caught:
        mcp["guarded"].for_user(ada).call_tool("whoami")
    assert "hunter2" not in str(caught.value)
