"""How a server is described, and what is shown of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from stdio_support import settings

from mcp_sync.errors import UsageError
from mcp_sync.transports import Stdio
from mcp_sync.transports._stdio.masking import shown_command


def test_arguments_become_a_tuple_and_paths_strings():
    target = Stdio(Path("/bin/server"), ["-v", Path("/data")], cwd=Path("/tmp"))
    assert (target.command, target.args, target.cwd) == ("/bin/server", ("-v", "/data"), "/tmp")
    assert target == Stdio("/bin/server", ("-v", "/data"), cwd="/tmp")
    assert hash(target) == hash(Stdio("/bin/server", ("-v", "/data"), cwd="/tmp", env={"A": "b"}))


def test_a_target_does_not_change_with_what_it_was_made_from():
    args, env = ["a"], {"A": "1"}
    target = Stdio("server", args, env=env)
    args.append("b")
    env["A"] = "2"
    assert target.args == ("a",)
    assert target.env == {"A": "1"}


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([b"server"], {}),
        ([""], {}),
        ([None], {}),
        ([["server", "arg"]], {}),
        (["ser\0ver"], {}),
        (["server", "one two"], {}),
        (["server", [1]], {}),
        (["server", [b"x"]], {}),
        (["server", ["a\0b"]], {}),
        (["server", {"a": "b"}], {}),
        (["server"], {"env": {"PORT": 80}}),
        (["server"], {"env": {"A=B": "x"}}),
        (["server"], {"env": {"": "x"}}),
        (["server"], {"env": {"A": "x\0"}}),
        (["server"], {"env": ["A=B"]}),
        (["server"], {"cwd": 7}),
        (["server"], {"inherit_env": True}),
        (["server"], {"inherit_env": "some"}),
        (["server"], {"inherit_env": ["all"]}),
        (["server"], {"stderr": 2}),
    ],
)
def test_what_cannot_work_is_refused_at_once(arguments, options):
    with pytest.raises(UsageError, match="Stdio: "):
        Stdio(*arguments, **options)


def test_a_refusal_shows_no_value_of_the_environment():
    with pytest.raises(UsageError) as caught:
        Stdio("server", env={"TOKEN": b"hunter2"})
    assert "TOKEN" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_its_repr_shows_names_but_no_values_of_variables():
    target = Stdio(
        "npx", ["-y", "--key", "hunter2"], env={"TOKEN": "hunter2"}, cwd="/data", inherit_env="all"
    )
    assert repr(target) == (
        "Stdio('npx', ['-y', '--key', '***'], env={'TOKEN': '***'}, cwd='/data', inherit_env='all')"
    )
    assert repr(Stdio("server")) == "Stdio('server')"


def test_its_identity_tells_servers_apart_without_their_secrets():
    def identity(*arguments, **options):
        return Stdio(*arguments, **options).identity()

    assert identity("server", ["a"]) == identity("server", ("a",))
    different = [
        identity("server", ["a"]),
        identity("server", ["a", "b"]),
        identity("server", ["a b"]),
        identity("server", ["a"], env={"TOKEN": "hunter2"}),
        identity("server", ["a"], env={"TOKEN": "hunter3"}),
        identity("server", ["a"], cwd="/"),
        identity("server", ["a"], inherit_env="all"),
    ]
    assert len(set(different)) == len(different)
    assert "hunter" not in repr(different)


def test_the_peer_is_named_by_a_short_command_line():
    channel = Stdio("server", ["--token", "hunter2", "x" * 500]).channel(settings())
    assert channel.peer.startswith("server --token *** xxx")
    assert len(channel.peer) == 80
    assert channel.duplex
    assert not channel.is_http
    assert channel.session_id is None


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["server", "--api-key", "hunter2", "run"], "server --api-key *** run"),
        (["server", "--api-key=hunter2"], "server '--api-key=***'"),
        (["docker", "run", "-e", "GITHUB_TOKEN=hunter2", "image"], "docker run -e 'GITHUB_TOKEN=***' image"),
        (["remote", "--header", "Authorization: Bearer hunter2"], "remote --header 'Authorization: ***'"),
        (["server", "postgres://me:hunter2@db/x"], "server 'postgres://me:***@db/x'"),
        (["remote", "https://h:1/sse?api_key=hunter2&b=c"], "remote 'https://h:1/sse?***'"),
        (["remote", "--url=https://me:hunter2@h/mcp"], "remote --url=https://h/mcp"),
        (["remote", "https://h/s/0hunter2f4a7c9d1e3b58/mcp"], "remote 'https://h/s/0hun***/mcp'"),
        (["server", "--password", "--verbose"], "server --password --verbose"),
        (["server", "a b", "c\nd"], "server 'a b' 'c d'"),
        (["python", "-c", "print('monkey: ' + turkey)"], None),
        (["server", "--monkey", "--path=/a/keys.txt"], "server --monkey --path=/a/keys.txt"),
    ],
)
def test_secrets_in_arguments_are_masked(command, shown):
    text = shown_command(command)
    assert "hunter2" not in text
    if shown is not None:
        assert text == shown
