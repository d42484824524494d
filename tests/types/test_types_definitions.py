"""Every definition of every revision has its model, with its fields."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from official_schemas import REVISIONS, definitions
from pydantic import TypeAdapter

from mcp_sync import types
from mcp_sync.types import WireModel
from mcp_sync.types._base import wire_name


@pytest.mark.skipif(not REVISIONS, reason="the official schemas are not here")
def test_the_schemas_of_all_five_revisions_are_there() -> None:
    assert len(REVISIONS) == 5


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_definition_has_a_model_or_alias_of_its_name(revision: str) -> None:
    assert [name for name in definitions(revision) if not hasattr(types, name)] == []


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_model_knows_every_property_of_its_definition(revision: str) -> None:
    unknown = {}
    for name, definition in definitions(revision).items():
        fields = getattr(getattr(types, name), "model_fields", None)
        if fields is not None:
            unknown[name] = set(definition.get("properties", ())) - {wire_name(field) for field in fields}
    assert {name: properties for name, properties in unknown.items() if properties} == {}


def test_every_model_and_alias_can_be_built() -> None:
    for name in types.__all__:
        value: Any = getattr(types, name)
        if not isinstance(value, (int, str)) and not name.startswith("parse_"):
            TypeAdapter(value).json_schema()


def test_the_table_of_names_agrees_with_the_submodules() -> None:
    for submodule, names in types._NAMES.items():
        if submodule != "_base":
            assert sorted(import_module(f"mcp_sync.types.{submodule}").__all__) == sorted(names.split())


def test_no_name_has_two_homes() -> None:
    names = " ".join(types._NAMES.values()).split()
    assert len(names) == len(set(names))


def test_a_star_import_does_not_replace_the_annotated_of_typing() -> None:
    assert "Annotated" not in types.__all__
    assert issubclass(types.Annotated, WireModel)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="NoSuchThing"):
        types.NoSuchThing  # noqa: B018
    assert "Tool" in dir(types)


def test_received_models_do_not_go_through_the_constructor() -> None:
    models = [getattr(types, name) for name in types.__all__ if hasattr(getattr(types, name), "model_fields")]
    assert [model for model in models if model.__pydantic_custom_init__] == []
