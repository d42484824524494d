"""Measure what a web framework adds to a call: `python -m tests.benchmarks.web [django ...]`.

- a view that calls one tool for its user beyond the same call of a bare client: at most 1 ms, and beside it
  the time of a processor that this process takes, which says more on a busy machine;
- the look-up of a server by its alias: at most 5 microseconds;
- the queries of such a view: one.

Each framework has a module of its own here, ``web_<name>``, whose ``site(url)`` is a context manager that
gives a `Site`. All is measured in one process, in turns; the server is in another one.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import mcp_sync

from .lab import Lab, interleave

ROUNDS, CALLS, LOOKUPS = 15, 200, 20_000
NAMES = sorted(path.stem[4:] for path in Path(__file__).parent.glob("web_*.py"))


class Cost(NamedTuple):
    """What a call takes, in milliseconds: by the clock, and of a processor, all threads of this process."""

    wall: float
    processor: float


class Site(NamedTuple):
    """A site of a framework, with a user who is connected.

    Attributes:
        views: What answers one request each, by a word for how: within a transaction, say.
        lookup: Looks up a server by its alias.
        queries: Counts the queries of this package that a function makes on the connection of the request.
    """

    views: dict[str, Callable[[], object]]
    lookup: Callable[[], object]
    queries: Callable[[Callable[[], object]], int]


def main() -> None:
    """Measure, and print a few lines for each; a missed target never changes the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.web", description=__doc__)
    parser.add_argument("frameworks", nargs="*", choices=[*NAMES, []])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--calls", type=int, default=CALLS)
    options = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {options.rounds} rounds of {options.calls} calls, medians")
    with Lab(["ours"], False).serving() as lab, mcp_sync.Client(f"{lab.url}/json") as bare:
        for name in options.frameworks or NAMES:
            with importlib.import_module(f"{__package__}.web_{name}").site(f"{lab.url}/json") as site:
                _measure(name, site, lambda: bare.call_tool("add", {"a": 1, "b": 2}), options)


def _measure(name: str, site: Site, call: Callable[[], object], options: argparse.Namespace) -> None:
    everything = {"bare": call, **site.views}
    for each in everything.values():
        _measured(each, 20)
    rounds = interleave(
        options.rounds,
        {word: lambda each=each: _measured(each, options.calls) for word, each in everything.items()},
    )
    bare = Cost(*map(statistics.median, zip(*rounds["bare"])))
    print(f"{name}: the bare call {bare.wall:.3f} ms, {bare.processor:.3f} ms of a processor")
    for word, view in site.views.items():
        pairs = list(zip(rounds[word], rounds["bare"]))
        wall = statistics.median(ours.wall - bare.wall for ours, bare in pairs)
        processor = statistics.median(ours.processor - bare.processor for ours, bare in pairs)
        print(
            f"  a view, {word}: {wall:+.3f} ms (at most 1), {processor:+.3f} ms of a processor, "
            f"{site.queries(view)} queries (at most 1)"
        )
    lookup = statistics.median(_mean(site.lookup, LOOKUPS) for _ in range(5))
    print(f"  the look-up of a server: {lookup * 1000:.2f} us (at most 5)")


def _measured(function: Callable[[], object], times: int) -> Cost:
    """Return what one of so many takes: the median by the clock, the mean of a processor."""
    found = []
    processor = time.process_time()
    for _ in range(times):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    processor = time.process_time() - processor
    return Cost(statistics.median(found) * 1000, processor / times * 1000)


def _mean(function: Callable[[], object], times: int) -> float:
    """Return how many milliseconds one of so many takes that are too short for a clock."""
    start = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - start) / times * 1000


if __name__ == "__main__":
    main()
