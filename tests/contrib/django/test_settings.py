"""The settings: read when they are needed, checked before users find out."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connection
from django.test import override_settings

from mcp_sync.config import ConfigError
from mcp_sync.contrib.django import mcp
from mcp_sync.contrib.django.test import fake_server
from mcp_sync.testing import FakeServer


def ids(servers=None, deploy=False, **own):
    with override_settings(MCP_SYNC={"SERVERS": servers or {}, **own}):
        found = run_checks(tags=["mcp_sync"], include_deployment_checks=deploy)
    return {each.id.rpartition(".")[2]: each.msg for each in found}


def test_good_settings_have_nothing_to_say():
    assert ids({"a": {"URL": "https://example.com/mcp", "AUTH": {"KIND": "oauth", "SCOPES": ["x"]}}}) == {}


def test_typos_are_named():
    assert "did you mean 'SERVERS'" in ids(SERVER={})["E001"]
    assert "URLL" in ids({"a": {"URLL": "https://example.com", "URL": "https://example.com"}})["E001"]
    assert "neither a command nor a URL" in ids({"a": {}})["E001"]
    assert (
        "PERUSER"
        in ids({"a": {"URL": "https://example.com", "AUTH": {"KIND": "oauth", "PERUSER": 1}}})["E001"]
    )


def test_a_missing_variable_is_named(monkeypatch):
    monkeypatch.delenv("REPORTS_KEY", raising=False)
    found = ids({"a": {"COMMAND": ["reports"], "ENV": {"KEY": "${REPORTS_KEY}"}}})
    assert "REPORTS_KEY" in found["E002"]


@pytest.mark.parametrize(
    ("own", "check"),
    [
        ({"TOKEN_STORE": "nowhere.Store"}, "E003"),
        ({"RESPONSE_CACHE": "nowhere"}, "E003"),
        ({"DATABASE": "nowhere"}, "E003"),
        ({"DATABASE": ["default"]}, "E003"),
        ({"RESPONSE_CACHE": ["default"]}, "E003"),
        ({"TOKEN_STORE": "os.path"}, "E003"),
        ({"DEFAULT_DEADLINE": None}, "E001"),
        ({"DEFAULT_DEADLINE": float("nan")}, "E001"),
        ({"INPUT_LIFE": "a week"}, "E001"),
        ({"INPUT_LIFE": -1}, "E001"),
        ({"BASE_URL": "example.com"}, "E001"),
        ({"CLIENT_METADATA": True}, "E001"),
        ({"OPTIONS": {"timout": 3}}, "E001"),
        ({"OPTIONS": {"retry": 3}}, "E001"),
        ({"ENCRYPTION_KEYS": "one"}, "E001"),
        ({"SERVERS": []}, "E001"),
        ({"SERVERS": {"a/b": {"URL": "https://example.com", "AUTH": {"KIND": "oauth"}}}}, "E001"),
        ({"SERVERS": {"a" * 101: {"URL": "https://example.com"}}}, "E001"),
        (
            {"SERVERS": {"a": {"URL": "https://example.com", "AUTH": {"KIND": "oauth", "PER_USER": "no"}}}},
            "E001",
        ),
        ({"TOKEN_STORE": "mcp_sync.auth.MemoryStore"}, "W002"),
        ({"TOKEN_STORE": "mcp_sync.auth.FileStore"}, "W003"),
    ],
)
def test_what_cannot_work_is_said(own, check):
    with override_settings(MCP_SYNC=own):
        found = {each.id for each in run_checks(tags=["mcp_sync"])}
    assert f"mcp_sync.{check}" in found


@pytest.mark.parametrize("value", [None, [], "x"])
def test_settings_that_are_no_dict_are_one_error(value):
    with override_settings(MCP_SYNC=value):
        found = run_checks(include_deployment_checks=True, databases=["default"])
    assert [each.msg for each in found if "MCP_SYNC" in each.msg] == [
        f"MCP_SYNC must be a dict, not {type(value).__name__}"
    ]


def test_a_server_in_clear_is_warned_about():
    assert "W001" in ids({"a": {"URL": "http://example.com/mcp"}})
    assert "W001" not in ids({"a": {"URL": "http://127.0.0.1:8000/mcp"}})


def test_a_deployment_is_told_of_its_keys_and_its_commands():
    found = ids({"a": {"COMMAND": ["reports"]}}, deploy=True)
    assert {"W004", "W005"} == set(found)
    assert "W005" not in ids({}, deploy=True, ENCRYPTION_KEYS=["x"])


@pytest.mark.skipif(connection.vendor != "sqlite", reason="other databases lock rows")
def test_a_deployment_with_sqlite_is_told_what_its_transactions_lock(monkeypatch):
    assert "W006" not in ids({}, deploy=True)
    monkeypatch.setitem(settings.DATABASES["default"], "ATOMIC_REQUESTS", True)
    assert "nobody else can write" in ids({}, deploy=True)["W006"]


@pytest.mark.parametrize(
    "secret",
    [
        {"URL": "https://example.com/mcp?api_key={}"},
        {"URL": "https://ada:{}@example.com/mcp"},
        {"URL": "https://example.com/mcp", "HEADERS": {"Authorization": "Bearer {}"}},
        {"URL": "https://example.com/mcp", "AUTH": "{}"},
        {
            "URL": "https://example.com/mcp",
            "AUTH": {"KIND": "oauth", "CLIENT_ID": "x", "CLIENT_SECRET": "{}"},
        },
        {"COMMAND": "reports", "ENV": {"API_KEY": "{}"}},
    ],
)
def test_a_deployment_is_told_of_secrets_in_its_settings(secret, monkeypatch):
    def written(value):
        def replaced(each):
            if isinstance(each, dict):
                return {name: replaced(inner) for name, inner in each.items()}
            return each.replace("{}", value)

        return {"a": replaced(secret)}

    monkeypatch.setenv("REPORTS_KEY", "other")
    assert "'a'" in ids(written("s3same"), deploy=True)["W009"]
    assert "W009" not in ids(written("s3same"))
    assert "W009" not in ids(written("${REPORTS_KEY}"), deploy=True)


@override_settings(ROOT_URLCONF="tests.contrib.django.no_urls")
def test_users_need_pages():
    assert "E004" in ids({"a": {"URL": "https://example.com/mcp", "AUTH": {"KIND": "oauth"}}})


def test_a_wrong_alias_lists_the_known_ones():
    own = {"SERVERS": {"reports": {"URL": "https://example.com"}}}
    with override_settings(MCP_SYNC=own), pytest.raises(ConfigError, match="reports"):
        mcp["report"]


def test_a_server_that_cannot_be_harms_no_other():
    own = {
        "fine": {"URL": "https://example.com"},
        "bad": {"COMMAND": "x", "ARGS": "secret"},
        "number": 7,
        "users": {"URL": "https://example.com", "AUTH": {"KIND": "oauth", "PER_USER": "secret"}},
    }
    with override_settings(MCP_SYNC={"SERVERS": own}):
        found = [each.msg for each in run_checks(tags=["mcp_sync"])]
        assert mcp["fine"].client.name == "fine"
        for alias, said in (
            ("bad", "'ARGS': this must be a list"),
            ("number", "not int"),
            ("users", "not a string"),
        ):
            with pytest.raises(ConfigError, match=said):
                mcp[alias]
    assert len(found) == 3
    assert "secret" not in str(found)


def test_changed_settings_count_at_once():
    with override_settings(MCP_SYNC={"SERVERS": {"a": {"URL": "https://example.com"}}}):
        assert list(mcp) == ["a"]
    assert list(mcp) == []


def test_every_call_has_a_deadline():
    with override_settings(
        MCP_SYNC={"SERVERS": {"a": {"URL": "https://example.com"}}, "DEFAULT_DEADLINE": 7}
    ):
        assert mcp["a"].client._timeout == 7
    own = {"a": {"URL": "https://example.com", "TIMEOUTS": {"CALL": 3, "TOTAL": 30}}}
    with override_settings(MCP_SYNC={"SERVERS": own}):
        assert mcp["a"].client._timeout == 3
        assert mcp["a"].client._timeouts.total == 30


def test_a_fake_server_takes_the_place_of_one_in_the_settings(ada):
    own = {"a": {"URL": "https://example.com", "AUTH": {"KIND": "oauth"}}}

    @fake_server("a", tools={"hello": lambda: "Hello"})
    def use():
        return mcp["a"].for_user(ada).call_tool("hello").text

    with override_settings(MCP_SYNC={"SERVERS": own}):
        assert use() == "Hello"
        assert mcp["a"].needs_user


def test_a_configuration_file_is_merged(tmp_path):
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"b": {"url": "https://b.example.com/mcp"}}}')
    own = {"SERVERS": {"a": {"URL": "https://example.com"}}, "CONFIG_FILE": file}
    with override_settings(MCP_SYNC=own):
        assert sorted(mcp) == ["a", "b"]
        assert mcp["b"].url == "https://b.example.com/mcp"


def test_what_all_users_share_is_sent_for_each(ada):
    fake = FakeServer(tools={"key": lambda context: context.headers.get("authorization", "none")})
    with fake.serve_http() as endpoint:
        for extra in ({"HEADERS": {"Authorization": "Bearer shared"}}, {"AUTH": "shared"}):
            with override_settings(MCP_SYNC={"SERVERS": {"a": {"URL": endpoint.url, **extra}}}):
                assert mcp["a"].for_user(ada).call_tool("key").text == "Bearer shared"
                assert mcp["a"].call_tool("key").text == "Bearer shared"


def test_answers_are_kept_in_the_cache_of_django(ada):
    fake = FakeServer(tools={"hello": lambda: "Hello"}, ttl_ms=60_000)
    with fake.serve_http() as endpoint:
        own = {"SERVERS": {"a": {"URL": endpoint.url}}, "RESPONSE_CACHE": "default"}
        with override_settings(MCP_SYNC=own):
            mcp["a"].for_user(ada).list_tools()
            mcp.reset()
            mcp["a"].for_user(ada).list_tools()
    assert len(fake.received("tools/list")) == 1


def test_the_migrations_make_the_models_as_they_are():
    call_command("makemigrations", "mcp_sync", check=True, dry_run=True, verbosity=0)
