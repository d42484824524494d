"""The schemas that a form's fields may have (client/elicitation).

`ElicitRequestFormParams.requested_schema` is the plain JSON Schema; these models are for programs that
want to look at, or build, one field of it.
"""

from __future__ import annotations

from typing import Literal, Optional, Union

from mcp_sync.types._base import WireModel
from mcp_sync.types.scalars import Number

__all__ = [
    "BooleanSchema",
    "EnumItems",
    "EnumOption",
    "EnumSchema",
    "LegacyTitledEnumSchema",
    "MultiSelectEnumSchema",
    "NumberSchema",
    "PrimitiveSchemaDefinition",
    "SingleSelectEnumSchema",
    "StringSchema",
    "TitledEnumItems",
    "TitledMultiSelectEnumSchema",
    "TitledSingleSelectEnumSchema",
    "UntitledMultiSelectEnumSchema",
    "UntitledSingleSelectEnumSchema",
]


class _FieldSchema(WireModel):
    title: Optional[str] = None
    description: Optional[str] = None


class StringSchema(_FieldSchema):
    """A text field. Lengths are in characters."""

    type: Literal["string"] = "string"
    min_length: Optional[int] = None
    max_length: Optional[int] = None
    format: Optional[Literal["email", "uri", "date", "date-time"]] = None
    default: Optional[str] = None


class NumberSchema(_FieldSchema):
    """A number field."""

    type: Literal["number", "integer"] = "number"
    minimum: Optional[Number] = None
    maximum: Optional[Number] = None
    default: Optional[Number] = None


class BooleanSchema(_FieldSchema):
    """A yes-or-no field."""

    type: Literal["boolean"] = "boolean"
    default: Optional[bool] = None


class EnumOption(WireModel):
    """One choice: the value to send and the title to show."""

    const: str
    title: str


class EnumItems(WireModel):
    """Choices by their values."""

    type: Literal["string"] = "string"
    enum: list[str]


class TitledEnumItems(WireModel):
    """Choices by their values and titles."""

    any_of: list[EnumOption]


class UntitledSingleSelectEnumSchema(_FieldSchema):
    """A choice of one value."""

    type: Literal["string"] = "string"
    enum: list[str]
    default: Optional[str] = None


class TitledSingleSelectEnumSchema(_FieldSchema):
    """A choice of one value, each with a title."""

    type: Literal["string"] = "string"
    one_of: list[EnumOption]
    default: Optional[str] = None


class UntitledMultiSelectEnumSchema(_FieldSchema):
    """A choice of several values."""

    type: Literal["array"] = "array"
    min_items: Optional[int] = None
    max_items: Optional[int] = None
    items: EnumItems
    default: Optional[list[str]] = None


class TitledMultiSelectEnumSchema(_FieldSchema):
    """A choice of several values, each with a title."""

    type: Literal["array"] = "array"
    min_items: Optional[int] = None
    max_items: Optional[int] = None
    items: TitledEnumItems
    default: Optional[list[str]] = None


class LegacyTitledEnumSchema(_FieldSchema):
    """A choice of one value with titles in a list of their own, the form of 2025-06-18.

    Attributes:
        enum_names: The title of each value of `enum`, in the same order.
    """

    type: Literal["string"] = "string"
    enum: list[str]
    enum_names: Optional[list[str]] = None
    default: Optional[str] = None


SingleSelectEnumSchema = Union[UntitledSingleSelectEnumSchema, TitledSingleSelectEnumSchema]
MultiSelectEnumSchema = Union[UntitledMultiSelectEnumSchema, TitledMultiSelectEnumSchema]
EnumSchema = Union[SingleSelectEnumSchema, MultiSelectEnumSchema, LegacyTitledEnumSchema]
PrimitiveSchemaDefinition = Union[EnumSchema, StringSchema, NumberSchema, BooleanSchema]
