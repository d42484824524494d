"""Skills: instructions for models, with their files, that servers have (SEP-2640).

A client that was given the extension `Skills` has ``client.skills``: list, get, read, download. Each file is
verified against what the server has said about the skill (size, SHA-256, front matter), and nothing is
fetched before it is asked for.

That proves that the files belong to the entry, and nothing else: both come from the same server. Treat the
text of a skill as you treat any text of a stranger. Name the server where a model or a person sees it, let a
person approve what it may lead to, and keep with the approval the ``fingerprint`` of the skill.

Names load when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._concurrency.lazy import lazy

if TYPE_CHECKING:
    from ._entry import Skill, SkillFile
    from ._extension import Skills
    from ._reading import ServerSkills, skills_of
    from ._verifying import SkillContent

__all__ = [
    "ServerSkills",
    "Skill",
    "SkillContent",
    "SkillFile",
    "Skills",
    "skills_of",
]

_HOMES = {
    "ServerSkills": "_reading",
    "Skill": "_entry",
    "SkillContent": "_verifying",
    "SkillFile": "_entry",
    "Skills": "_extension",
    "skills_of": "_reading",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
