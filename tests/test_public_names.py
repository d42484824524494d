"""The public names: complete, documented where they live, and loaded when they are used."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import types as python_types
from pathlib import Path

import pytest

import mcp_sync
from mcp_sync import errors

PACKAGE = Path(mcp_sync.__file__).parent
FACADES = [
    *("mcp_sync", "mcp_sync.transports", "mcp_sync.types", "mcp_sync.testing", "mcp_sync.auth"),
    "mcp_sync.tasks",
]
HEAVY = [
    "pydantic",
    "pydantic_core",
    "requests",
    "urllib3",
    "websocket",
    "sseclient",
    "jsonschema",
    "asyncio",
]

# What the design promises and is there; names of parts to come are added with them.
# fmt: off
PROMISED = [
    "Client", "ClientSession", "InMemory", "Stdio", "StreamableHTTP", "stdio_client", "streamablehttp_client",
    "CancelToken", "Timeouts", "Limits", "Retry", "UNSET", "CallbackContext", "progress", "types", "errors",
    "transports", "testing", "MCPError", "UsageError", "ClientClosed", "NotSupported", "Forked",
    "TransportError", "ConnectFailed", "ConnectionLost", "HTTPStatusError", "SessionExpired",
    "MessageTooLarge", "CallTimeout", "CallCancelled", "ProtocolError", "InvalidMessage", "InvalidResult",
    "NegotiationFailed", "InputRoundsExceeded", "RemoteError", "MethodNotFound", "InvalidParams",
    "InternalError", "HeaderMismatch", "UnsupportedProtocolVersion", "MissingClientCapability",
    "UrlElicitationRequired", "ResourceNotFound", "InputRequired", "ToolFailed", "OutputInvalid", "AuthError",
    "AuthorizationRequired", "AccessDenied", "RegistrationFailed", "TokenRequestFailed", "IssuerMismatch",
    "InsufficientScope",
    "WebSocket", "websocket_client", "LegacySSE", "sse_client",
    "OAuth", "ClientCredentials", "BearerToken", "auth", "CacheOptions", "cache",
    "tasks", "TaskHandle", "TaskState", "TaskGone", "InvalidHandle",
]
# fmt: on


def python(code: str) -> str:
    """Run code in an interpreter of its own and return what it prints."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", PROMISED)
def test_what_the_design_promises_can_be_imported_from_the_package(name):
    assert name in mcp_sync.__all__
    assert getattr(mcp_sync, name) is not None


@pytest.mark.parametrize("facade", FACADES)
def test_every_listed_name_exists_and_is_listed_once(facade):
    module = importlib.import_module(facade)
    assert len(module.__all__) == len(set(module.__all__))
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize(
    "facade", ["mcp_sync", "mcp_sync.transports", "mcp_sync.types", "mcp_sync.auth", "mcp_sync.tasks"]
)
def test_dir_shows_every_listed_name(facade):
    module = importlib.import_module(facade)
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("facade", FACADES)
def test_a_name_that_does_not_exist_is_an_attribute_error_that_names_both(facade):
    module = importlib.import_module(facade)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name


def test_every_error_is_public():
    classes = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value)
        and issubclass(value, errors.MCPError)
        and value.__module__ == errors.__name__
    }
    assert classes <= set(mcp_sync.__all__)


def test_what_type_checkers_see_is_what_there_is():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen | {"__version__"} == set(mcp_sync.__all__)


def test_importing_the_package_loads_nothing_heavy():
    loaded = python(f"import mcp_sync, sys; print([name for name in {HEAVY} if name in sys.modules])")
    assert loaded == "[]"


@pytest.mark.parametrize("name", ["CallTimeout", "Timeouts", "CancelToken", "errors", "progress", "UNSET"])
def test_names_that_need_nothing_heavy_load_nothing_heavy(name):
    loaded = python(f"import mcp_sync, sys; mcp_sync.{name}; print([m for m in {HEAVY} if m in sys.modules])")
    assert loaded == "[]"


def test_making_a_client_loads_no_http_library():
    libraries = ["requests", "urllib3", "websocket", "sseclient", "jsonschema", "asyncio"]
    loaded = python(
        "import sys; from mcp_sync import Client\n"
        f"Client(['server']); print([name for name in {libraries} if name in sys.modules])"
    )
    assert loaded == "[]"


def test_importing_everything_starts_no_thread_and_opens_nothing():
    told = python(
        "import sys, threading, mcp_sync\n"
        "for name in mcp_sync.__all__: getattr(mcp_sync, name)\n"
        "print(threading.active_count(), 'asyncio' in sys.modules)"
    )
    assert told.split()[0] == "1"


@pytest.mark.parametrize("name", [name for name in mcp_sync.__all__ if name not in ("UNSET", "__version__")])
def test_every_public_name_has_a_docstring_of_its_own(name):
    value = getattr(mcp_sync, name)
    text = value.__doc__ or ""
    assert text.strip()
    if not isinstance(value, python_types.ModuleType):
        inherited = [getattr(base, "__doc__", None) for base in getattr(value, "__mro__", [])[1:]]
        assert text not in inherited


def test_the_version_is_that_of_the_distribution():
    assert mcp_sync.__version__.split(".")[0].isdigit()


def test_what_does_the_work_of_tasks_loads_with_the_first_one():
    loaded = python(
        "import sys; from mcp_sync import Client\n"
        "Client(['server'])\n"
        "print(sorted(name for name in sys.modules if name.startswith('mcp_sync.tasks')))"
    )
    assert loaded == "['mcp_sync.tasks', 'mcp_sync.tasks._extension']"
