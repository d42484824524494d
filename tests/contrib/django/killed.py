"""A process that changes a record, and is killed at one of its steps in the files beside a SQLite database.

Arguments: the settings of the database as JSON, ``put`` or ``get``, and the number of the step.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from tests.contrib.django import site

WRITES = os.O_WRONLY | os.O_RDWR


def main() -> None:
    """Do it; say so if all was done before that step."""
    database, what, step = sys.argv[1:]
    site.configure(json.loads(database))

    from mcp_sync.contrib.django.stores import ModelTokenStore

    from .test_store import KEY

    store, left = ModelTokenStore("a"), int(step)
    stored = store.get(KEY) if what == "put" else None

    def count(event: str, args: Any) -> None:
        nonlocal left
        opens = event == "open" and "-mcp-" in str(args[0]) and args[2] & WRITES
        if opens or event in ("os.rename", "os.remove", "os.mkdir"):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    if stored is not None:
        assert store.put(KEY, {"n": stored.value["n"] + 1}, stored.version)
    else:
        store.get(KEY)
    print("done")


if __name__ == "__main__":
    main()
