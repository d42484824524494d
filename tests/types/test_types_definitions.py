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

CASES = [(revision, name) for revision in REVISIONS for name in definitions(revision)]


@pytest.mark.skipif(not REVISIONS, reason="the official schemas are not here")
def test_the_schemas_of_all_five_revisions_are_there() -> None:
    assert len(REVISIONS) == 5


@pytest.mark.parametrize(("revision", "name"), CASES)
def test_a_definition_has_a_model_or_alias_of_its_name(revision: str, name: str) -> None:
    assert getattr(types, name) is not None


@pytest.mark.parametrize(("revision", "name"), CASES)
def test_a_model_knows_every_property_of_its_definition(revision: str, name: str) -> None:
    model = getattr(types, name)
    if isinstance(model, type) and hasattr(model, "model_fields"):
        known = {wire_name(field) for field in model.model_fields}
        assert set(definitions(revision)[name].get("properties", ())) <= known


@pytest.mark.parametrize("name", types.__all__)
def test_every_name_of_the_package_can_be_used(name: str) -> None:
    value: Any = getattr(types, name)
    if isinstance(value, (int, str)) or name.startswith("parse_"):
        return
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


@pytest.mark.parametrize(
    "name",
    [name for name in types.__all__ if hasattr(getattr(types, name), "model_fields")],
)
def test_received_models_do_not_go_through_the_constructor(name: str) -> None:
    assert getattr(types, name).__pydantic_custom_init__ is False
