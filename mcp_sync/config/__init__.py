"""Servers from configuration files: those of the hosts that people have already, or of your own.

>>> config = load_config("mcp.json")
>>> with config["weather"].client() as client:
...     print(client.call_tool("forecast", {"city": "Oslo"}).text)

``_config`` has all servers, ``_server`` one of them. ``_reading`` reads files (``_json``: with comments, and
with the place of a mistake), ``_entries`` the entries in them by the keys of ``_keys``. ``_variables`` knows
what ``${NAME}`` stands for, ``_auth`` and ``_env_file`` make of an entry what it says, and ``_shown`` hides
the secrets in it. ``_hosts`` knows where the hosts have their files.
"""

from __future__ import annotations

from ._config import Config, load_config
from ._errors import ConfigError
from ._hosts import HostFile, host_files
from ._server import ServerConfig

__all__ = ["Config", "ConfigError", "HostFile", "ServerConfig", "host_files", "load_config"]
