"""Names load when they are used, and first use is safe from several threads."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_loads_no_model_and_no_heavy_library() -> None:
    loaded = run(
        """
        import sys
        import mcp_sync.types
        print(*sys.modules)
        """
    ).split()
    assert not {"pydantic", "requests", "urllib3", "jsonschema", "websocket"} & set(loaded)
    assert [name for name in loaded if name.startswith("mcp_sync.types.")] == []


def test_error_codes_load_no_models() -> None:
    loaded = run(
        """
        import sys
        from mcp_sync.types import INVALID_PARAMS
        print(INVALID_PARAMS, *sys.modules)
        """
    ).split()
    assert loaded[0] == "-32602"
    assert "pydantic" not in loaded


def test_a_result_loads_only_its_own_area() -> None:
    loaded = run(
        """
        import sys
        from mcp_sync.types import CallToolResult
        CallToolResult.model_validate({"content": [{"type": "text", "text": "a"}]})
        print(*sys.modules)
        """
    ).split()
    areas = {name.rpartition(".")[2] for name in loaded if name.startswith("mcp_sync.types.")}
    assert areas <= {
        "_base",
        "_binary",
        "_contents",
        "_lenient",
        "content",
        "messages",
        "metadata",
        "resources",
        "scalars",
        "tools",
    }
    assert not {"requests", "jsonschema", "websocket"} & set(loaded)


FIRST_USE = """
    import sys, threading
    from mcp_sync import types

    sys.setswitchinterval(1e-6)
    MESSAGES = [
        (types.CallToolResult, {"content": [{"type": "text", "text": "a"}]}),
        (types.ListToolsResult, {"tools": [{"name": "a"}]}),
        (types.InitializeResult, {"protocolVersion": "1", "capabilities": {}, "serverInfo": {"name": "a"}}),
        (types.CreateMessageRequestParams, {"messages": [], "maxTokens": 1}),
    ]
    barrier = threading.Barrier(12)
    problems = []

    def use(number):
        barrier.wait()
        try:
            for step in range(len(MESSAGES)):
                model, message = MESSAGES[(number + step) % len(MESSAGES)]
                assert model.model_validate(message).to_wire() == message
            assert types.ElicitResult(action="accept").to_wire() == {"action": "accept"}
            assert types.ErrorData(code=1, message="m").model_dump()["code"] == 1
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems
"""


@pytest.mark.parametrize("attempt", range(3))
def test_several_threads_may_use_a_model_first_at_the_same_time(attempt: int) -> None:
    run(FIRST_USE)


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_child_forked_during_a_build_can_build_too() -> None:
    run(
        """
        import os, threading
        from mcp_sync import types
        from mcp_sync.types import _base

        model = types.ListToolsResult
        held, done = threading.Event(), threading.Event()

        def hold():
            with _base._build_lock:
                held.set()
                done.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside a thread is the point here
        child = os.fork()
        if child == 0:
            os._exit(0 if model.model_validate({"tools": []}).tools == [] else 1)
        status = os.waitpid(child, 0)[1]
        done.set()
        thread.join()
        assert status == 0
        """
    )
