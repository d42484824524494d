"""The official JSON Schemas and example messages, as the tests of this directory read them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema.validators import validator_for

ROOT = Path(__file__).parent.parent / "schema"
REVISIONS = sorted(path.parent.name for path in ROOT.glob("*/schema.json"))


@cache
def schema(revision: str) -> dict[str, Any]:
    """Return the whole schema of a revision."""
    return json.loads((ROOT / revision / "schema.json").read_text(encoding="utf-8"))


def definitions(revision: str) -> dict[str, Any]:
    """Return the definitions of a revision."""
    whole = schema(revision)
    return whole.get("$defs") or whole["definitions"]


@cache
def validator(revision: str, definition: str) -> Any:
    """Return a validator of one definition."""
    whole = schema(revision)
    key = "$defs" if "$defs" in whole else "definitions"
    part = {"$schema": whole["$schema"], key: whole[key], "$ref": f"#/{key}/{definition}"}
    return validator_for(part)(part)
