"""A client on fastmcp 4 that reads skills, and says in JSON lines what came of it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.skills.client import SkillsClientExtension


def say(**facts: Any) -> None:
    """Print one line."""
    print(json.dumps(facts), flush=True)


async def main(url: str) -> None:
    """List skills, read one and a file of it; both are verified on the way. Then read one that lies."""
    async with Client(url, extensions=[SkillsClientExtension()]) as client:
        skills = await client.list_skills()
        say(skills=[str(skill.uri) for skill in skills])
        say(read=str(await client.read_skill(skills[0].uri)))
        say(name=(await client.get_skill("skill://hidden/SKILL.md")).frontmatter.name)
        try:
            await client.read_skill("skill://lying/SKILL.md")
        except Exception as error:
            say(error=type(error).__name__, why=str(error))


asyncio.run(main(sys.argv[1]))
