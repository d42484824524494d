"""A Django site whose users connect to an MCP server, call its tools, and answer its questions.

python examples/django_site/run.py [PORT]

Starts everything on this machine: an MCP server, the authorization server that guards it, and the site. It
prints the address to open, and how to log in there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]


def main(port: int) -> None:
    """Run the site until Ctrl-C."""
    import servers

    with tempfile.TemporaryDirectory() as folder, servers.running() as mcp_url:
        os.environ.update(
            MCP_URL=mcp_url,
            SITE_DATABASE=str(Path(folder) / "site.sqlite3"),
            DJANGO_SETTINGS_MODULE="settings",
        )
        application = prepared()
        try:
            server = make_server("127.0.0.1", port, application, threaded(), QuietHandler)
        except OSError as error:
            sys.exit(f"Port {port} cannot be had: {error.strerror}. Give another one: run.py PORT")
        with server as site:
            print(f"http://127.0.0.1:{site.server_port}/", flush=True)
            print("Log in there as ada or as bob, both with the password: secret", flush=True)
            try:
                site.serve_forever()
            except KeyboardInterrupt:
                print("Stopped.")


def prepared() -> Any:
    """Make the tables and two users; return the application."""
    import django
    from django.core.wsgi import get_wsgi_application

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    for name in ("ada", "bob"):
        User.objects.create_user(name, password="secret")
    return get_wsgi_application()


def threaded() -> Any:
    """Return the class of a WSGI server with a thread for each request."""
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIServer

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    return Server


class QuietHandler(WSGIRequestHandler):
    """Logs no requests: the addresses of callbacks are nobody's business."""

    def log_message(self, format: str, *args: Any) -> None:
        """See the class."""


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
