"""The fake server under the clients of other makers, so that tests against it are no misreading of ours."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_sync.testing import FakeServer, ToolContext

from .harness import WAIT
from .install import node, npm_script, venv_python
from .suite_server import suite_server

CLIENTS = Path(__file__).parent / "clients"


@contextlib.contextmanager
def says(maker: str, server: FakeServer) -> Iterator[Iterator[Any]]:
    """Run another maker's client against a server over HTTP, and yield what it says."""
    script = str(CLIENTS / f"{maker}_client.py")
    with server.serve_http() as endpoint:
        command = [str(venv_python(maker)), script, endpoint.url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield (json.loads(line) for line in process.stdout)
            assert process.wait(WAIT) == 0, process.communicate()[1]
        finally:
            process.kill()
            process.communicate()
            server.tasks.end()


def ping() -> str:
    return "pong"


def test_sdk2_follows_subscriptions_and_heeds_caching_hints() -> None:
    server = FakeServer(tools=[ping], resources={"demo://x": "x"}, ttl_ms=60_000)
    with says("sdk2", server) as lines:
        assert next(lines) == {"tools": ["ping"], "ttl": 60_000, "version": "2026-07-28"}
        assert next(lines) == {
            "honored": {
                "toolsListChanged": True,
                "promptsListChanged": True,
                "resourceSubscriptions": ["demo://x"],
            }
        }
        assert (server.count("tools/list"), server.count("resources/read")) == (1, 1)
        server.add_tool(ping, "pong")
        server.tools_changed()
        assert next(lines) == {"event": "ToolsListChanged"}
        server.resource_updated("demo://x")
        assert next(lines) == {"event": "ResourceUpdated"}
        server.end_subscriptions()
        assert next(lines) == {"end": "graceful", "tools": 2}
        assert next(lines) == {"listening": True}
        server.drop_subscriptions()
        assert next(lines) == {"end": "lost"}
    assert server.count("tools/list") == 2


def greet(context: ToolContext) -> str:
    return f"Hello {context.elicit('Name?')['content']['name']}"


def wait(context: ToolContext) -> str:
    context.cancelled.wait(WAIT)
    return "late"


def test_sdk1_drives_tasks_of_the_experiment() -> None:
    server = FakeServer()
    server.tool(task=True)(greet)
    server.tool(task="required")(wait)
    with says("sdk1", server) as lines:
        assert next(lines) == {"support": {"greet": "optional", "wait": "required"}}
        assert next(lines) == {"status": "working", "ttl": 5000}
        assert next(lines) == {"text": "Hello Ann", "status": "completed"}
        assert next(lines) == {"cancelled": "cancelled"}
        assert next(lines) == {"listed": ["completed", "cancelled"]}


def test_fastmcp_reads_skills_and_finds_the_one_that_lies() -> None:
    server = FakeServer()
    server.add_skill("acme/refunds", "# Refunds", files={"templates/mail.md": "Dear"})
    server.add_skill("hidden", listed=False)
    lying = server.add_skill("lying", listed=False)
    server.add_resource(lying, "---\nname: lying\n---\n")
    with says("fastmcp4", server) as lines:
        assert next(lines) == {"skills": ["skill://acme/refunds/SKILL.md"]}
        assert next(lines) == {"read": "Skill(name='refunds', files=2)"}
        assert next(lines) == {"name": "hidden"}
        assert "the manifest promised" in next(lines)["why"]


SCENARIOS = [
    "server-stateless",
    "caching",
    "http-header-validation",
    "sep-2164-resource-not-found",
    *(
        f"tasks-{name}"
        for name in (
            "lifecycle",
            "capability-negotiation",
            "wire-fields",
            "request-state-removal",
            "mrtr-input",
            "request-headers",
            "dispatch-and-envelope",
            "required-task-error",
            "mrtr-composition",
        )
    ),
    *(f"sep-2640-skills-{name}" for name in ("directory", "enumeration", "manifest")),
    *(
        f"input-required-result-{name}"
        for name in (
            "basic-elicitation",
            "basic-sampling",
            "basic-list-roots",
            "request-state",
            "multiple-input-requests",
            "multi-round",
            "missing-input-response",
            "non-tool-request",
            "result-type",
            "unsupported-methods",
            "tampered-state",
            "capability-check",
            "ignore-extra-params",
            "validate-input",
        )
    ),
]


@pytest.fixture(scope="module")
def suite_url() -> Iterator[str]:
    """The address of a server for the conformance suite."""
    server = suite_server()
    with server.serve_http() as endpoint:
        yield endpoint.url
    server.tasks.end()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_conformance_suite_for_servers_finds_nothing(scenario: str, suite_url: str) -> None:
    suite = npm_script("@modelcontextprotocol/conformance", "dist", "index.js")
    asked = ["server", "--url", suite_url, "--scenario", scenario, "--spec-version", "2026-07-28", "--force"]
    done = subprocess.run(
        [str(node()), str(suite), *asked],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    verdict = re.search(r"Passed: ([1-9]\d*)/\1, 0 failed, 0 warnings", done.stdout)
    assert verdict, done.stdout + done.stderr
    assert done.returncode == 0
