"""A WSGI application: ``/TOOL/TEXT`` calls a tool."""

from __future__ import annotations

import json
import os
from urllib.parse import unquote

from site_client import client


def application(environ, start_response):
    """Call a tool, and say which process did it."""
    _, tool, text = unquote(environ["PATH_INFO"]).split("/", 2)
    result = client.call_tool(tool, {"text": text})
    body = json.dumps({"text": result.text, "pid": os.getpid()}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
