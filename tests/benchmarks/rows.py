"""The rows of the table: what is measured, between whom, and the target."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import canned_answers as canned
from . import groups
from .command_line import OURS, fastmcp_python, fastmcp_server, processor_seconds
from .lab import (
    STANDS_FOR,
    ContenderFailed,
    Lab,
    Rounds,
    import_seconds,
    interleave,
    program_seconds,
    small_calls,
)

THREADS = 32
CROWD = 500
SMALL = ("bare", "sdk", "ours")


@dataclass(frozen=True)
class Target:
    """A bound on ours: on its ratio to another contender, or with `against` None on its own value."""

    bound: float
    against: str | None = None
    at_least: bool = False

    def value(self, rounds: Rounds) -> float | None:
        """Return the median of the rounds' values (or ratios), or None when somebody did not take part."""
        ours = rounds.get("ours")
        if not ours:
            return None
        if self.against is None:
            return statistics.median(ours)
        other = rounds.get(self.against)
        return statistics.median(mine / theirs for mine, theirs in zip(ours, other)) if other else None

    def met(self, value: float) -> bool:
        """Say whether a value keeps the bound."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    key: str
    title: str
    unit: str
    measure: Callable[[Lab], Rounds]
    targets: Sequence[Target]


def _http_calls(path: str, *names: str, busy: bool = False, **extra: bool) -> Callable[[Lab], Rounds]:
    def measure(lab: Lab) -> Rounds:
        with lab.running(*names, target=lab.http(path, **extra)) as workers:
            if busy:
                return small_calls(workers, lab.few(7, 3), lab.few(40, 15), busy=True)
            return small_calls(workers, lab.few(11, 5), lab.few(200, 80))

    return measure


def _legacy_sse_calls(lab: Lab) -> Rounds:
    target = lab.http("/stream", transport="sse")
    with lab.running("sdk1", "ours", target=target) as workers:
        rounds = small_calls(workers, lab.few(11, 5), lab.few(300, 100))
    lab.note("small call, legacy SSE: the SDK is 1.30, driven as 2.3 is in the other rows")
    return {STANDS_FOR.get(name, name): values for name, values in rounds.items()}


def _stdio_calls(cores: int) -> Callable[[Lab], Rounds]:
    # Left alone (no cores), as users' programs are, the system moves client and server between one core and
    # two at random, which changes the time of a call to the threefold: that takes more rounds. The other rows
    # keep each contender in one place, and say what it costs there. A tenth more or less is the luck of a
    # process (where its memory lies, how its names hash): so each contender has several.
    def measure(lab: Lab) -> Rounds:
        client, *others = lab.cores(cores) or [None]
        server = others[0] if others else client
        rounds: Rounds = {}
        for _ in range(lab.few(5, 3)):
            with lab.running(*SMALL, target={"command": lab.stdio_command(server)}, core=client) as workers:
                taken = small_calls(workers, lab.few(7, 5) * (1 if cores else 3), lab.few(300, 100))
            for name, values in taken.items():
                rounds.setdefault(name, []).extend(values)
        return rounds

    return measure


def _websocket_calls(lab: Lab) -> Rounds:
    client, server = lab.cores(2)
    with (
        lab.websocket(server) as url,
        lab.running("bare", "ours", target={"url": url}, core=client) as workers,
    ):
        return small_calls(workers, lab.few(11, 5), lab.few(300, 100))


def _imports(lab: Lab) -> Rounds:
    statements = {"sdk": "import mcp", "ours": "import mcp_sync; mcp_sync.Client"}
    takes = {
        name: (lambda n=name: import_seconds(lab.python(n), statements[n], n == "ours") * 1e3)
        for name in statements
        if name in lab.contenders
    }
    for take in takes.values():
        take()
    return interleave(lab.few(9, 5), takes)


def _programs(lab: Lab) -> Rounds:
    takes = {
        name: (
            lambda n=name: (
                program_seconds([lab.python(n), lab.script(n), lab.url + "/json"], n == "ours") * 1e3
            )
        )
        for name in ("sdk", "ours")
        if name in lab.contenders
    }
    for take in takes.values():
        take()
    return interleave(lab.few(9, 5), takes)


def _help(lab: Lab) -> Rounds:
    takes = {
        "bare": lambda: processor_seconds([sys.executable, "-c", "pass"], ours=True) * 1e3,
        "ours": lambda: processor_seconds([*OURS, "--help"], ours=True) * 1e3,
    }
    for take in takes.values():
        take()
    rounds = interleave(lab.few(15, 5), takes)
    return {"ours": [ours - bare for bare, ours in zip(rounds["bare"], rounds["ours"])]}


def _command(lab: Lab) -> Rounds:
    with fastmcp_server() as url:
        words = ["call", url, "add", "a=1", "b=2"]
        theirs = [fastmcp_python(), "-m", "fastmcp.cli", *words, "--auth", "none"]
        takes = {"ours": lambda: processor_seconds([*OURS, *words], ours=True) * 1e3}
        if "sdk" in lab.contenders:
            takes["sdk"] = lambda: processor_seconds(theirs, ours=False) * 1e3
            lab.note("call by the command line: in the column of the SDK is that of FastMCP")
        for take in takes.values():
            take()
        return interleave(lab.few(15, 5), takes)


def _big(path: str) -> Callable[[Lab], Rounds]:
    def measure(lab: Lab) -> Rounds:
        # Both forms are compared with the plain JSON body: the event's framing is ours to carry.
        with (
            lab.running("bare", target=lab.http("/big-json")) as floor,
            lab.running("ours", target=lab.http(path)) as ours,
        ):
            takes = {
                name: (lambda w=worker: w.ask("big", length=canned.BIG_BYTES) * 1e3)
                for name, worker in {**floor, **ours}.items()
            }
            for take in takes.values():
                take()
            return interleave(lab.few(9, 5), takes)

    return measure


def _big_memory(path: str) -> Callable[[Lab], Rounds]:
    def measure(lab: Lab) -> Rounds:
        values: Rounds = {}
        for _ in range(lab.few(3, 1)):
            with lab.running("bare", "ours", target=lab.http(path, event_stream="sse" in path)) as workers:
                for name, worker in workers.items():
                    grown = worker.ask("big_memory", length=canned.BIG_BYTES)
                    values.setdefault(name, []).append(grown / canned.BIG_BYTES)
        return values

    return measure


def _pages(lab: Lab) -> Rounds:
    with lab.running("bare", "sdk", "ours", target=lab.http("/pages")) as workers:
        count = canned.PAGE_COUNT * canned.PAGE_SIZE
        # Several at a time: the garbage collector looks through everything in every second or third one.
        takes = {
            name: (lambda w=worker: w.ask("pages", count=count, times=lab.few(4, 2)) * 1e3)
            for name, worker in workers.items()
        }
        for take in takes.values():
            take()
        return interleave(lab.few(9, 5), takes)


def _kept_lists(lab: Lab) -> Rounds:
    with lab.running("ours", target=lab.http("/kept")) as workers:
        rounds: Rounds = {}
        ratios = []
        for name, worker in workers.items():
            for _ in range(lab.few(9, 5)):
                kept = worker.ask("lists", count=lab.few(2000, 500), kept=True)
                asked = worker.ask("lists", count=lab.few(100, 40), kept=False)
                rounds.setdefault(name, []).append(kept * 1e6)
                ratios.append(asked / kept)
    if ratios:
        lab.note(f"kept list of tools: to ask the server takes {statistics.median(ratios):.0f} times as long")
    return rounds


def _progress(lab: Lab) -> Rounds:
    def take(name: str) -> float:
        told = workers[name].ask("progress", count=canned.PROGRESS_COUNT)
        if not told["ordered"]:
            note = (
                f"progress: {name} returned with {told['seen']} of {canned.PROGRESS_COUNT}, or out of order"
            )
            if name == "ours":
                raise ContenderFailed(note)
            lab.note(note)
        return canned.PROGRESS_COUNT / told["seconds"]

    with lab.running("sdk", "ours", target=lab.http("/progress")) as workers:
        return interleave(lab.few(7, 3), {name: (lambda n=name: take(n)) for name in workers})


def _thread_share(lab: Lab) -> Rounds:
    return _threads(lab, "share")


def _thread_connections(lab: Lab) -> Rounds:
    return _threads(lab, "connections")


def _threads(lab: Lab, wanted: str) -> Rounds:
    calls = lab.few(50, 25)
    values: Rounds = {}
    with lab.running("ours", target=lab.http("/slow")) as workers:
        for name, worker in workers.items():
            for _ in range(lab.few(5, 2)):
                lab.stats()
                seconds = worker.ask("threads", count=THREADS, calls=calls)
                ideal = calls * canned.SLOW_SECONDS
                # The connection that asks for the statistics counts too.
                told = lab.stats()["peak"] - 1
                values.setdefault(name, []).append(100 * ideal / seconds if wanted == "share" else told)
    return values


def _crowd(wanted: str, scale: float) -> Callable[[Lab], Rounds]:
    def measure(lab: Lab) -> Rounds:
        values: Rounds = {}
        for _ in range(lab.few(3, 1)):
            with lab.running("ours", target=lab.http("/json")) as workers:
                for name, worker in workers.items():
                    worker.ask("calls", count=1)
                    values.setdefault(name, []).append(worker.ask("crowd", count=CROWD)[wanted] / scale)
        return values

    return measure


def _group(lab: Lab) -> Rounds:
    with groups.over_http() as servers:
        return {"ours": groups.ratios(servers, lab.few(5, 2))}


def _group_of_processes(lab: Lab) -> Rounds:
    return {"ours": groups.ratios(groups.processes(), lab.few(5, 2))}


STDIO_TARGETS = (Target(1.4, "bare"), Target(0.23, "sdk"))

ROWS = (
    Row(
        "json",
        "small call, JSON",
        "ms",
        _http_calls("/json", *SMALL),
        (Target(0.50, "bare"), Target(0.22, "sdk")),
    ),
    Row(
        "sse",
        "small call, SSE",
        "ms",
        _http_calls("/sse", *SMALL, event_stream=True),
        (Target(0.52, "bare"), Target(0.17, "sdk")),
    ),
    Row(
        "legacy",
        "small call, legacy session",
        "ms",
        _http_calls("/legacy", *SMALL, legacy=True),
        (Target(0.50, "bare"),),
    ),
    Row("legacy-sse", "small call, legacy SSE", "ms", _legacy_sse_calls, (Target(0.50, "sdk"),)),
    Row("stdio-free", "small call, stdio, as the system places it", "ms", _stdio_calls(0), STDIO_TARGETS),
    Row("stdio", "small call, stdio, kept to one core", "ms", _stdio_calls(1), STDIO_TARGETS),
    Row("stdio-2", "small call, stdio, a core for each side", "ms", _stdio_calls(2), STDIO_TARGETS),
    Row("websocket", "small call, WebSocket", "ms", _websocket_calls, (Target(1.6, "bare"),)),
    Row(
        "busy",
        "small call, JSON, beside a busy thread",
        "ms",
        _http_calls("/json", *SMALL, busy=True),
        (Target(0.38, "sdk"),),
    ),
    Row("import", "import", "ms", _imports, (Target(0.35, "sdk"),)),
    Row("program", "whole program", "ms", _programs, (Target(0.40, "sdk"),)),
    Row("help", "processor, mcp-sync --help beyond python -c pass", "ms", _help, (Target(150),)),
    Row("command", "processor, call by the command line", "ms", _command, (Target(0.5, "sdk"),)),
    Row("big-json", "10 MB result, JSON", "ms", _big("/big-json"), (Target(1.0, "bare"),)),
    Row("big-sse", "10 MB result, one SSE event", "ms", _big("/big-sse"), (Target(1.4, "bare"),)),
    Row("mem-json", "10 MB result, JSON: peak growth", "x", _big_memory("/big-json"), (Target(8),)),
    Row("mem-sse", "10 MB result, SSE: peak growth", "x", _big_memory("/big-sse"), (Target(8),)),
    Row("pages", "5,000 tools in 10 pages", "ms", _pages, (Target(1.6, "bare"),)),
    Row("kept", "list of tools from the cache", "us", _kept_lists, (Target(15),)),
    Row("progress", "5,000 progress reports in a call", "/s", _progress, (Target(10, "sdk", at_least=True),)),
    Row("threads", "32 threads, 20 ms: share of ideal", "%", _thread_share, (Target(85, at_least=True),)),
    Row("sockets", "32 threads, 20 ms: connections", "", _thread_connections, (Target(40),)),
    Row("group", "opening of 20 servers, HTTP: to the slowest", "x", _group, (Target(1.25),)),
    Row("group-stdio", "opening of 20 processes: to the slowest", "x", _group_of_processes, (Target(1.25),)),
    Row("crowd-thr", "500 open clients: threads", "", _crowd("threads", 1), (Target(0),)),
    Row("crowd-mem", "500 open clients: each", "KiB", _crowd("bytes", 1024), (Target(50),)),
)
