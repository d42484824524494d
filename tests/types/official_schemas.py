"""The official JSON Schemas and example messages, as the tests of this directory read them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

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


def subschema(revision: str, definition: str) -> dict[str, Any]:
    """Return a schema that accepts what one definition accepts."""
    key = "$defs" if "$defs" in schema(revision) else "definitions"
    whole = {name: part for name, part in schema(revision).items() if name in ("$schema", key)}
    return {**whole, "$ref": f"#/{key}/{definition}"}
