"""Skills and an app on fastmcp 4: `fastmcp4skills_server.py stdio|http`."""

from __future__ import annotations

from functools import partial

from common import BLOB, run
from fastmcp import FastMCP
from fastmcp.apps.config import AppConfig, ResourceCSP, ResourcePermissions
from fastmcp.skills import Skill
from fastmcp.skills.provider import SkillCatalogProvider

# What people write into front matter, each read by the YAML of the server.
WRITTEN = """---
name: refunds
description: >-
  Refund customers: by the rules,
  and kindly

  or not at all
license: 'It''s free'  # for now
allowed-tools: [Read, "Bash(git:*)"]
metadata:
  version: 1.0
  number: 010
  since: "2024-02-29"
  final: yes
  nothing:
  owners:
  - name: Ada
    mail: "ada@example.com"
  - Zoë 😀
---

# Refunds

See templates/mail.md
"""

refunds = Skill.from_files({"SKILL.md": WRITTEN, "templates/mail.md": "Dear", "all bytes.bin": BLOB})
plain = Skill(name="plain", description="Nothing more", instructions="Do it.")
provider = SkillCatalogProvider({"acme/refunds": refunds, "plain": plain})
server = FastMCP("skills", version="4.0", providers=[provider])


@server.tool(app=AppConfig(resource_uri="ui://weather/board"))
def forecast() -> str:
    """Show the weather."""
    return "sunny"


@server.tool(app=AppConfig(resource_uri="ui://weather/board", visibility=["app"]))
def refresh() -> str:
    """Show it anew."""
    return "fresh"


@server.resource(
    "ui://weather/board",
    app=AppConfig(
        csp=ResourceCSP(connect_domains=["https://api.example"], resource_domains=["https://*.cdn.example"]),
        permissions=ResourcePermissions(geolocation={}),
        prefers_border=True,
    ),
)
def board() -> str:
    """The page."""
    return "<!DOCTYPE html><p>Weather"


if __name__ == "__main__":
    run(partial(server.run_stdio_async, show_banner=False), server.http_app)
