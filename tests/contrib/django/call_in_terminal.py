"""``manage.py mcp_call`` of a site with a tool that asks for a name, for a test that has a terminal."""

from __future__ import annotations

from typing import Any

from tests.contrib.django import site

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def greet(context: Any) -> str:
    """Ask, and greet."""
    return f"Hello, {context.elicit('Who are you?', SCHEMA)['content']['name']}!"


def main() -> None:
    """Run."""
    site.configure(site.SQLITE)
    from django.core.management import call_command

    from mcp_sync.contrib.django.test import fake_server

    with fake_server("desk", tools=[greet]):
        call_command("mcp_call", "desk", "greet")


if __name__ == "__main__":
    main()
