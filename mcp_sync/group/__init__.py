"""Many servers as one.

>>> with ClientGroup("mcp.json") as group:
...     for tool in group.tools():
...         print(tool.name)
...     group.call_tool("weather_forecast", {"city": "Oslo"})

``_members`` has the servers, ``_group`` what they have; ``_names`` gives the names, and ``_filter`` says
which tools there are, and ``_slow`` for which servers nobody waits.
"""

from __future__ import annotations

from .._servers.status import ServerStatus, StatusTable
from ._group import ClientGroup
from ._names import Origin

__all__ = ["ClientGroup", "Origin", "ServerStatus", "StatusTable"]
