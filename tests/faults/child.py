"""A server on stdio that fails: ``python -m tests.faults.child LANE SEED FILE CALM``.

Each start goes on with other faults, and there are none any more as soon as the file CALM exists. The nonces
of the calls that run are added to FILE.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Optional

from mcp_sync.testing import Fault, FaultPlan
from tests.faults.lanes import LANES, make_server


def main(name: str, seed: str, file: str, calm: str) -> None:
    """Serve standard input and output."""
    log = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.write(log, b"start\n")
    starts = Path(file).read_text().count("start\n")

    class UntilCalm(FaultPlan):
        def meet(self, method: str) -> Optional[Fault]:
            return None if os.path.exists(calm) else super().meet(method)

    server = make_server(LANES[name], lambda nonce: os.write(log, f"{nonce}\n".encode()))
    server.serve_stdio(faults=LANES[name].plan(f"{seed} {starts}", UntilCalm))


main(*sys.argv[1:])
