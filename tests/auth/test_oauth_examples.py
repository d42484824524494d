"""The examples of authorization as somebody calls them who has not read them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_sync.testing import FakeServer

from .oauth_server import OAuthServer, protected

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
SCRIPTS = ["oauth_browser.py", "oauth_service.py", "oauth_web.py"]
VISITOR = f"{sys.executable} -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1]).read()' %s"


def run(folder: Path, script: str, *words: str, **more: str) -> tuple[int, str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / script), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **more},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_explains_itself(tmp_path, script) -> None:
    code, out, _ = run(tmp_path, script, "--help")
    assert code == 0
    assert "the MCP server" in out
    code, _, err = run(tmp_path, script)
    assert code == 2
    assert "usage:" in err
    assert "Traceback" not in err


def test_a_flag_is_not_taken_for_the_folder(tmp_path) -> None:
    with OAuthServer() as server, protected(server) as endpoint:
        assert run(tmp_path, "oauth_browser.py", endpoint.url, BROWSER=VISITOR)[0] == 0
        assert run(tmp_path, "oauth_browser.py", endpoint.url, "--logout")[1] == "Revoked: True\n"
        assert run(tmp_path, "oauth_browser.py", endpoint.url, "--paste")[0] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["grants"]


def test_what_is_missing_is_said_without_a_traceback(tmp_path) -> None:
    with FakeServer().serve_http() as endpoint:
        for name in ("MCP_CLIENT_ID", "MCP_CLIENT_SECRET"):
            os.environ.pop(name, None)
        code, _, err = run(tmp_path, "oauth_service.py", endpoint.url)
    assert (code, err) == (2, "Set MCP_CLIENT_ID and MCP_CLIENT_SECRET\n")
    for script in SCRIPTS[:1]:
        code, out, err = run(tmp_path, script, "no-url")
        assert code == 1
        assert "Traceback" not in out + err
