"""Run the official conformance suite: `python -m tests.conformance.run`.

Every client scenario runs in three legs: as the suite decides, and pinned to the last two revisions. There
are no expected failures. A scenario that does not apply to a revision is listed as such, and a leg in which
nothing applied has failed. The scenarios about skills belong to no revision: they run in the first leg.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..interop import install

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
LEGS = {"default": (), "2025-11-25": ("2025-11-25",), "2026-07-28": ("2026-07-28",)}
TIMEOUT = 120


@dataclass(frozen=True)
class Outcome:
    """What a scenario came to in a leg."""

    leg: str
    scenario: str
    verdict: str
    counts: Counter[str]
    details: str


def main() -> None:
    """Install, run, print the table; exit with 1 when any check failed or a leg ran nothing."""
    options = _options()
    install.install(["node"])
    results = install.home() / "conformance-results"
    shutil.rmtree(results, ignore_errors=True)
    scenarios = [name for name in _scenarios() if not options.only or name in options.only]
    jobs = [(leg, scenario) for leg in options.legs for scenario in scenarios]
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda job: _run(*job, options.client, results), jobs))
    _print_table(outcomes, scenarios, options.legs)
    sys.exit(_report(outcomes, options.legs))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description=__doc__)
    own = shlex.join([sys.executable, str(HERE / "client.py")])
    parser.add_argument(
        "--client", default=own, metavar="COMMAND", help="another client, to check the harness with"
    )
    parser.add_argument("--only", nargs="+", metavar="SCENARIO", help="these scenarios")
    parser.add_argument("--legs", nargs="+", choices=LEGS, default=list(LEGS), metavar="LEG")
    parser.add_argument("--jobs", type=int, default=2, help="how many scenarios run at a time")
    return parser.parse_args()


def _suite(*arguments: str) -> list[str]:
    script = install.npm_script("@modelcontextprotocol/conformance", "dist", "index.js")
    return [str(install.node()), str(script), *arguments]


def _scenarios() -> list[str]:
    listing = subprocess.run(
        _suite("list", "--client"), check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    names = [line.split()[1] for line in listing.stdout.splitlines() if line.startswith("  - ")]
    assert names, f"the suite lists no scenarios: {listing.stdout}"
    return names


def _run(leg: str, scenario: str, client: str, results: Path) -> Outcome:
    folder = results / leg / scenario
    command = _suite("client", "--command", client, "--scenario", scenario, "--output-dir", str(folder))
    for version in LEGS[leg]:
        command += ["--spec-version", version]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(leg, scenario, "FAILED", Counter(), f"the suite took longer than {TIMEOUT} s")
    output = done.stdout + done.stderr
    if "SKIPPED: scenario" in done.stdout and done.returncode == 0:
        return Outcome(leg, scenario, "n/a", Counter(), "")
    checks = [check for path in sorted(folder.rglob("checks.json")) for check in json.loads(path.read_text())]
    counts = Counter(check["status"] for check in checks)
    bad = counts["FAILURE"] + counts["WARNING"]
    passed = done.returncode == 0 and not bad and counts["SUCCESS"]
    return Outcome(leg, scenario, "passed" if passed else "FAILED", counts, "" if passed else output)


def _print_table(outcomes: Sequence[Outcome], scenarios: Sequence[str], legs: Sequence[str]) -> None:
    cells = {(outcome.scenario, outcome.leg): _cell(outcome) for outcome in outcomes}
    width = max(map(len, scenarios))
    print("  ".join(["scenario".ljust(width), *(leg.ljust(22) for leg in legs)]).rstrip())
    for scenario in scenarios:
        print("  ".join([scenario.ljust(width), *(cells[scenario, leg].ljust(22) for leg in legs)]).rstrip())


def _cell(outcome: Outcome) -> str:
    if outcome.verdict == "n/a":
        return "not applicable"
    skipped = f", {outcome.counts['SKIPPED']} skipped" if outcome.counts["SKIPPED"] else ""
    failed = outcome.counts["FAILURE"] + outcome.counts["WARNING"]
    told = (
        f"{failed} of {outcome.counts['SUCCESS'] + failed} failed"
        if failed
        else f"{outcome.counts['SUCCESS']} ok"
    )
    return f"{'' if outcome.verdict == 'passed' else 'FAILED: '}{told}{skipped}"


def _report(outcomes: Sequence[Outcome], legs: Sequence[str]) -> int:
    code = 0
    for outcome in outcomes:
        if outcome.verdict == "FAILED":
            print(f"\n--- {outcome.scenario} ({outcome.leg}) failed:\n{outcome.details.strip()}")
    for leg in legs:
        ran = [outcome for outcome in outcomes if outcome.leg == leg and outcome.verdict != "n/a"]
        failed = [outcome for outcome in ran if outcome.verdict == "FAILED"]
        absent = [outcome.scenario for outcome in outcomes if outcome.leg == leg and outcome not in ran]
        checks = sum(outcome.counts["SUCCESS"] for outcome in ran)
        print(f"\n{leg}: {len(ran) - len(failed)} scenarios passed ({checks} checks), {len(failed)} failed")
        if absent:
            print(f"  not applicable: {', '.join(absent)}")
        if not ran:
            print("  nothing ran in this leg")
        if failed or not ran:
            code = 1
    return code


if __name__ == "__main__":
    main()
