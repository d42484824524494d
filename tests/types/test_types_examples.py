"""The official example messages go in and come out the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from official_schemas import ROOT
from pydantic import TypeAdapter

from mcp_sync import types
from mcp_sync.types import WireModel

EXAMPLES = sorted(ROOT.glob("*/examples/*/*.json"))


def to_wire(value: Any) -> Any:
    if isinstance(value, dict):  # InputRequests and InputResponses are dicts of models
        return {key: to_wire(item) for key, item in value.items()}
    assert isinstance(value, WireModel)
    return value.to_wire()


def load(path: Path) -> tuple[Any, Any]:
    return getattr(types, path.parent.name), json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.skipif(not ROOT.exists(), reason="the official schemas are not here")
def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 100


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_official_example_round_trips(path: Path) -> None:
    model, message = load(path)
    parsed = TypeAdapter(model).validate_python(message)
    assert json.loads(json.dumps(to_wire(parsed))) == message


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_official_example_leaves_nothing_to_unknown_fields(path: Path) -> None:
    model, message = load(path)
    for part in walk(TypeAdapter(model).validate_python(message)):
        assert not part.__pydantic_extra__, type(part).__name__


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_pydantic_dumps_an_official_example_as_we_do(path: Path) -> None:
    model, message = load(path)
    parsed = TypeAdapter(model).validate_python(message)
    assert TypeAdapter(model).dump_python(parsed, mode="json", by_alias=True, exclude_unset=True) == message


def walk(value: Any) -> list[WireModel]:
    if isinstance(value, WireModel):
        return [value, *(part for item in value.__dict__.values() for part in walk(item))]
    if isinstance(value, dict):
        return [part for item in value.values() for part in walk(item)]
    if isinstance(value, list):
        return [part for item in value for part in walk(item)]
    return []
