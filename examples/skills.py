"""Show the skills of a server, and keep a copy of one in a folder.

python examples/skills.py https://example.com/mcp
python examples/skills.py https://example.com/mcp acme/refunds skills/refunds
"""

from __future__ import annotations

import sys

from mcp_sync import Client, FolderRefused, SkillRejected
from mcp_sync.skills import Skills


def main(url: str, name: str = "", folder: str = "") -> None:
    with Client(url, extensions=[Skills()]) as client:
        if not name:
            for skill in client.skills.list():
                files = "not verifiable"
                if skill.files is not None:
                    files = f"{len(skill.files)} files, {skill.size} bytes"
                print(f"{skill.uri} ({files}): {skill.description}")
            return
        skill = client.skills.get(name)
        try:
            print("Written:", client.skills.download(skill, folder or skill.name))
        except (SkillRejected, FolderRefused) as error:
            sys.exit(f"Nothing was written: {error}")
        # To be kept with the approval of whoever looked at it: another one means that the skill was changed.
        print("Fingerprint:", skill.fingerprint)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
