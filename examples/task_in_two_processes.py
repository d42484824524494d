"""Begin a task in one process, and finish it in another.

    python examples/task_in_two_processes.py URL begin FILE TOOL [NAME=VALUE ...]
    python examples/task_in_two_processes.py URL finish FILE

The first one calls the tool, writes a handle of the task into the file and ends; the second one waits for the
result. It works with every server: one that answers at once gives a handle that has the result already.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Optional

from mcp_sync import CallTimeout, Client, TaskGone


def begin(client: Client, file: Path, tool: str, arguments: dict[str, str]) -> None:
    handle = client.start_task(tool, arguments)
    # Who knows the id of a task may be able to see its result: this file is as secret as that.
    file.write_text(json.dumps(handle.to_json()))
    print("Begun:", handle.tool)


def finish(client: Client, file: Path) -> None:
    def show(count: float, total: Optional[float], message: Optional[str]) -> None:
        print("The server says:", message)

    handle = client.task(file.read_text())
    try:
        result = handle.result(timeout=60, progress_callback=show)
    except CallTimeout:
        sys.exit("It goes on. Try again later.")
    except TaskGone:
        sys.exit("It is too late: the server does not know the task any more.")
    print("Finished:", result.text)


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    url, what, file = sys.argv[1:4]
    with Client(url) as client:
        if what == "begin":
            arguments = dict(each.split("=", 1) for each in sys.argv[5:])
            begin(client, Path(file), sys.argv[4], arguments)
        else:
            finish(client, Path(file))


if __name__ == "__main__":
    main()
