"""From the result of a tool to a value of a type that the caller names."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from ..errors import OutputInvalid, ToolFailed, UsageError

if TYPE_CHECKING:
    from .. import types


def checked_type(kind: Any) -> TypeAdapter[Any]:
    """Return what checks values of a type.

    Raises:
        UsageError: It is none that pydantic can check.
    """
    try:
        return _adapter(kind)
    except TypeError:
        return _built(kind)


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return _built(kind)


def _built(kind: Any) -> TypeAdapter[Any]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        if not getattr(adapter, "pydantic_complete", True):
            adapter.rebuild()  # Newer pydantic leaves names that it does not know for later.
        return adapter
    except (PydanticUserError, PydanticUndefinedAnnotation, NameError, TypeError) as error:
        # What comes below is where pydantic has more about it.
        raise UsageError(f"result_type cannot be {kind!r}: {str(error).partition(chr(10))[0]}") from error


def typed_result(name: str, result: types.CallToolResult, kind: Any) -> Any:
    """Return the value of a tool's result, checked.

    Structured content is taken; as it is, or, where the server had to make an object of it
    (``{"result": value}``), the value. Without any, the text of the result: itself for ``str``, else as JSON.

    Args:
        name: The tool.
        result: What it returned.
        kind: A pydantic model, a dataclass, a TypedDict, or any other type that pydantic can check.

    Raises:
        ToolFailed: The tool reported an error.
        OutputInvalid: The value is not of the type.
        UsageError: pydantic cannot check the type.
    """
    if result.is_error:
        raise ToolFailed(f"tool {name} failed: {result.text[:500]}", result=result)
    adapter = checked_type(kind)
    try:
        if result.structured_content is None:
            return _of_text(adapter, result.text, kind)
        return _of_value(adapter, result, kind)
    except ValidationError as error:
        shown = getattr(kind, "__name__", None) or str(kind)
        text = f"output of tool {name} is no {shown}: {_first_fault(error)}"
        # Not its cause: that would show the values, and whoever raises cannot be pickled.
        raise OutputInvalid(text, result=result) from None


def _of_text(adapter: TypeAdapter[Any], text: str, kind: Any) -> Any:
    return adapter.validate_python(text) if kind is str else adapter.validate_json(text)


def _of_value(adapter: TypeAdapter[Any], result: types.CallToolResult, kind: Any) -> Any:
    value = result.structured_content
    if not isinstance(value, dict) or value.keys() != {"result"}:
        return adapter.validate_python(value)
    tries = [value["result"], value]
    if _has_result(kind) and not _is_marked(result):
        tries.reverse()
    try:
        return adapter.validate_python(tries[0])
    except ValidationError:
        try:
            return adapter.validate_python(tries[1])
        except ValidationError:
            pass
        raise


def _has_result(kind: Any) -> bool:
    """Whether a type has a field of that name itself."""
    if dataclasses.is_dataclass(kind):
        return any(field.name == "result" for field in dataclasses.fields(kind))
    fields = getattr(kind, "model_fields", None) or getattr(kind, "__annotations__", None) or {}
    aliases = {getattr(field, "alias", None) for field in fields.values()}
    return "result" in fields or "result" in aliases


def _is_marked(result: types.CallToolResult) -> bool:
    """Whether fastmcp says that it wrapped the value."""
    mark = (result.meta or {}).get("fastmcp")
    return isinstance(mark, dict) and mark.get("wrap_result") is True


def _first_fault(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    where = ".".join(map(str, faults[0]["loc"]))
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{where}: {faults[0]['msg']}{more}" if where else f"{faults[0]['msg']}{more}"
