"""A real IPython kernel: its event loop runs while the cells are executed."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interop.install import venv_python

from .spied import environment, gone, told_stdio

# The kernel's own client runs in the venv that has it, and speaks with the test by lines of JSON.
NOTEBOOK = """
import json, sys
from jupyter_client.manager import KernelManager
manager = KernelManager(kernel_name="python3")
manager.start_kernel(cwd=sys.argv[1])
kernel = manager.client()
kernel.start_channels()
kernel.wait_for_ready(timeout=40)

def execute(code, interrupt_at=None):
    said, error = [], None
    asked = kernel.execute(code)
    while True:
        message = kernel.get_iopub_msg(timeout=30)
        if message["parent_header"].get("msg_id") != asked:
            continue
        content = message["content"]
        if message["msg_type"] == "stream":
            said.append(content["text"])
            if interrupt_at is not None and interrupt_at in content["text"]:
                manager.interrupt_kernel()
        elif message["msg_type"] == "error":
            error = content["ename"]
        elif message["msg_type"] == "status" and content["execution_state"] == "idle":
            return {"said": "".join(said), "error": error}

try:
    for line in sys.stdin:
        print(json.dumps(execute(**json.loads(line))), flush=True)
finally:
    kernel.stop_channels()
    manager.shutdown_kernel()
"""


class Notebook:
    """Executes cells, one after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name="notebook")
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._answers.put(line)

    def execute(self, code: str, **options: Any) -> tuple[str, Any]:
        """Execute a cell; return what it printed, and the name of its error."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"code": code, **options}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._answers.get(timeout=50))
        return answer["said"], answer["error"]

    def end(self) -> int:
        """Shut the kernel down."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(20)
        finally:
            self._process.kill()
            self._reader.join(5)


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    """Run a kernel."""
    told = environment(
        HOME=str(tmp_path), IPYTHONDIR=str(tmp_path), JUPYTER_RUNTIME_DIR=str(tmp_path), **told_stdio()
    )
    python = venv_python("deployment")
    told["PATH"] = f"{python.parent}{os.pathsep}{told['PATH']}"
    process = subprocess.Popen(
        [str(python), "-c", NOTEBOOK, str(tmp_path)],
        env=told,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    running = Notebook(process)
    yield running
    running.end()


def test_cells_call_are_interrupted_and_go_on(notebook: Notebook) -> None:
    def print_of(expression: str) -> str:
        said, error = notebook.execute(f"print({expression})")
        assert error is None, said
        return said.strip()

    assert notebook.execute("from site_client import client") == ("", None)
    server = print_of("client.call_tool('whoami').text")
    assert print_of("client.call_tool('echo', {'text': 'a cell'}).text") == "a cell"
    with_await = "import asyncio\nawait asyncio.sleep(0)\n"
    with_await += "print(client.call_tool('echo', {'text': 'await'}).text)"
    assert notebook.execute(with_await) == ("await\n", None)
    in_thread = "print((await asyncio.to_thread(client.call_tool, 'echo', {'text': 'thread'})).text)"
    assert notebook.execute(in_thread) == ("thread\n", None)
    # The button "interrupt": the call ends at once, and neither the client nor its server suffers.
    waiting = "print('waiting', flush=True)\nclient.call_tool('hang')"
    said, error = notebook.execute(waiting, interrupt_at="waiting")
    assert (said.strip(), error) == ("waiting", "KeyboardInterrupt")
    assert print_of("client.call_tool('whoami').text") == server
    assert notebook.end() == 0
    assert gone({int(server)}), "the server has outlived the kernel"
