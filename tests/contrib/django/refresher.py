"""A worker process of a site: its threads use a server as a user whose token has to be refreshed.

Arguments: the settings of the database as JSON, the URL of the server, the key of the user, threads, calls.
"""

from __future__ import annotations

import json
import sys
import threading

from tests.contrib.django import site


def main() -> None:
    """Run, and print what went wrong as a JSON list."""
    database, url, pk, threads, calls = sys.argv[1:]
    site.configure(json.loads(database), {"guarded": {"URL": url, "AUTH": {"KIND": "oauth"}}})

    from django.contrib.auth import get_user_model
    from django.db import connection, transaction

    from mcp_sync.contrib.django import mcp

    user = get_user_model().objects.get(pk=pk)
    connection.close()
    wrong: list[str] = []

    def work() -> None:
        try:
            for _ in range(int(calls)):
                # As with ATOMIC_REQUESTS.
                with transaction.atomic():
                    get_user_model().objects.get(pk=pk)
                    text = mcp["guarded"].for_user(user).call_tool("whoami").text
                if text not in ("ada at the server", "expired meanwhile"):
                    wrong.append(text)
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")
        finally:
            connection.close()

    workers = [threading.Thread(target=work) for _ in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(json.dumps(wrong))


if __name__ == "__main__":
    main()
