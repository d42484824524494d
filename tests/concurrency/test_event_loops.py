"""Calls while an event loop runs: they block, and otherwise just work. The library itself knows no loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transports.http_server import ScriptedServer

from .spy_server import answer, arguments, run

pytestmark = pytest.mark.heavy

HEAD = """
import json
told = json.loads(sys.argv[1])
target = told["url"] or told["server"]

def make(**options):
    return Client(target, mode="legacy", message_handler=lambda message: None, timeout=20, **options)
"""


@pytest.fixture(params=["http", "stdio"])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return what a program is told of its server."""
    if request.param == "stdio":
        yield arguments(url="")
        return
    with ScriptedServer(answer) as server:
        yield arguments(url=server.url)


def say(script: str, target: str) -> list[str]:
    done = run(HEAD + script, target)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_coroutine_may_call_and_so_may_several_loops(target: str) -> None:
    said = say(
        """
import asyncio
client = make()

async def main(text):
    return client.call_tool("echo", {"text": text}).text

say(asyncio.run(main("first loop")))
say(asyncio.run(main("second loop")))
say(client.call_tool("echo", {"text": "no loop"}).text)
client.close()
""",
        target,
    )
    assert said == ["first loop", "second loop", "no loop"]


def test_with_and_iterators_work_inside_a_coroutine(target: str) -> None:
    said = say(
        """
import asyncio

async def main():
    seen = []
    with make() as client:
        client.call_tool("echo", {"text": "x"}, progress_callback=lambda *values: seen.append(values))
        await asyncio.sleep(0)
        say(client.call_tool("echo", {"text": "after an await"}).text)

asyncio.run(main())
""",
        target,
    )
    assert said == ["after an await"]


def test_in_threads_of_a_loop_calls_run_side_by_side_and_the_loop_goes_on(target: str) -> None:
    said = say(
        """
import asyncio
client = make()

async def main():
    loop = asyncio.get_running_loop()
    ticks = 0
    def call(number):
        return client.call_tool("echo", {"text": str(number)}).text

    done = asyncio.gather(*(loop.run_in_executor(None, call, number) for number in range(20)))
    while not done.done():
        await asyncio.sleep(0)
        ticks += 1
    say(*await done)
    say(ticks > 1)
    if hasattr(asyncio, "to_thread"):
        say((await asyncio.to_thread(client.call_tool, "echo", {"text": "to_thread"})).text)

asyncio.run(main())
client.close()
""",
        target,
    )
    assert said == [" ".join(map(str, range(20))), "True", "to_thread"]


def test_a_cell_that_is_executed_inside_a_running_loop_may_call(target: str) -> None:
    """As notebooks do: the kernel's loop runs, and executes each cell, with or without ``await`` in it."""
    said = say(
        """
import ast, asyncio, inspect

cells = [
    "client = make()",
    "text = client.call_tool('echo', {'text': 'plain cell'}).text\\nsay(text)",
    "import asyncio\\nawait asyncio.sleep(0)\\nsay(client.call_tool('echo', {'text': 'with await'}).text)",
    "client.close()",
]

async def kernel():
    space = dict(globals())
    for cell in cells:
        code = compile(cell, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        outcome = eval(code, space)
        if inspect.isawaitable(outcome):
            await outcome

asyncio.run(kernel())
""",
        target,
    )
    assert said == ["plain cell", "with await"]


def test_the_library_needs_no_asyncio(target: str) -> None:
    """What it is built on may load it, but nothing of ours may ask for a loop."""
    said = say(
        """
import builtins
usual = builtins.__import__

def watching(name, globals=None, *args, **options):
    if name.partition(".")[0] in ("asyncio", "anyio"):
        who = str((globals or {}).get("__name__"))
        assert not who.startswith("mcp_sync"), f"{who} imports {name}"
    return usual(name, globals, *args, **options)

builtins.__import__ = watching
with make() as client:
    say(client.call_tool("echo", {"text": "x"}).text)
loop = sys.modules.get("asyncio")
say(loop is None or loop.events._get_running_loop() is None)
""",
        target,
    )
    assert said == ["x", "True"]
