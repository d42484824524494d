"""Checks structured output against the output schema of a tool, and arguments against its input schema.

The schema comes from the server, and so does what it is to match. So a check never opens a network
connection, never raises and never runs without end, whatever they hold.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Callable, Optional

from pydantic_core import SchemaError, SchemaValidator, core_schema

from .._concurrency.fork import no_fork
from .brief import brief, excerpt

MOST_STEPS = 1_000_000
_STEPS_BETWEEN_LOOKS = 500
_ERRORS_COMPARED = 50
_LONGEST_PATTERN = 5_000
_LONGEST_MATCHED = 8_192
_LONGEST_NAME = 1_000

DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_VALIDATORS = {
    "json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "json-schema.org/draft-07/schema": "Draft7Validator",
    "json-schema.org/draft-06/schema": "Draft6Validator",
    "json-schema.org/draft-04/schema": "Draft4Validator",
    "json-schema.org/draft-03/schema": "Draft3Validator",
}

Expired = Callable[[], bool]


class Schema:
    """A schema that a server gave. Threads may share it; what the first check prepares is kept.

    The dialect is that of ``$schema``: 2020-12 (the default), 2019-09, draft-07, -06, -04 or -03.

    Not asserted: ``format``, as these dialects have it by default; and a ``pattern`` that has no
    matcher of linear run time (look-around, back-references) or meets a text of more than 8192
    characters, because one hostile pattern would stop the whole process.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._validator: Any = None
        self._unusable: Optional[str] = None
        self._simple_names = False

    def check(self, value: Any, *, expired: Optional[Expired] = None) -> Optional[str]:
        """Say why a value does not match, with a JSON Pointer to the place, or ``None`` if it does.

        A schema that cannot be used gives a reason as well: it is broken, of an unknown dialect,
        refers to another document, or costs too much to evaluate.

        Args:
            value: Decoded JSON.
            expired: Asked now and then while the check runs; when it says ``True``, the check gives
                up with a reason.
        """
        try:
            return _told(self._first_error(value, expired))
        except _NoVerdict as stop:
            return str(stop)
        except RecursionError:
            return "the value or its output schema is nested too deeply to be checked"

    def certain_fault(self, value: Any) -> Optional[str]:
        """Say why a value does not match, ``None`` if it does or if that cannot be told."""
        return _told(self.certain_error(value))

    def certain_error(self, value: Any) -> Any:
        """Return what is wrong with a value, ``None`` if nothing is or if that cannot be told.

        It is a ``ValidationError`` of jsonschema, whose message may hold much of the value.
        """
        try:
            return self._first_error(value, None)
        except (_NoVerdict, RecursionError):
            return None

    def _first_error(self, value: Any, expired: Optional[Expired]) -> Any:
        budget = _Budget(expired)
        # Two threads may both prepare at first. That costs a little time and changes nothing.
        if self._validator is None and self._unusable is None:
            self._prepare(budget)
        if self._unusable is not None:
            raise _NoVerdict(self._unusable)
        budget.simple_names = self._simple_names
        return _best_error(self._validator.evolve(format_checker=budget), value)

    def _prepare(self, budget: _Budget) -> None:
        try:
            build = _validator_class(_dialect(self._schema))
            self._simple_names = all(map(_is_simple, _name_patterns(self._schema)))
            self._validator = _prepared(build, self._schema, budget)
        except _OutOfTime:
            raise
        except _NoVerdict as fault:
            self._unusable = str(fault)


class _NoVerdict(Exception):
    """The check cannot tell whether the value matches."""


class _OutOfTime(_NoVerdict):
    """Neither schema nor value are to blame for it."""


def _unusable(reason: str) -> _NoVerdict:
    return _NoVerdict(f"the output schema cannot be used: {reason}")


class _Budget:
    """The steps that a check may take.

    It travels as the ``format_checker``, the one object that jsonschema hands on from validator to
    validator.
    """

    def __init__(self, expired: Optional[Expired]) -> None:
        self.simple_names = False
        self._left = MOST_STEPS
        self._expired = expired
        self._look_at = MOST_STEPS - _STEPS_BETWEEN_LOOKS

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < self._look_at:
            self._look_at = self._left - _STEPS_BETWEEN_LOOKS
            if self._left < 0:
                raise _NoVerdict("the value was not checked to the end: that takes too many steps")
            if self._expired is not None and self._expired():
                raise _OutOfTime("the value was not checked to the end: no time is left")

    def check(self, instance: object, format: str) -> None:
        """Assert no format."""


# --- preparing -------------------------------------------------------------------------------------------


def _dialect(schema: Any) -> str:
    if not isinstance(schema, dict):
        raise _unusable("it is not an object")
    dialect = schema.get("$schema", DEFAULT_DIALECT)
    if not isinstance(dialect, str):
        raise _unusable("its $schema is not a string")
    # The official ids of the older drafts begin with http and end with "#"; many write them otherwise.
    name = _VALIDATORS.get(re.sub("^https?://", "", dialect).rstrip("#"))
    if name is None:
        raise _unusable(f"its dialect {excerpt(dialect)} is not supported")
    return name


def _prepared(build: Any, schema: dict[str, Any], budget: _Budget) -> Any:
    # Imported late: most programs never check a schema.
    from referencing import Registry

    # A registry of our own knows the meta-schemas and retrieves nothing; jsonschema's default opens URLs.
    try:
        fault = _told(
            _best_error(build(build.META_SCHEMA, registry=Registry(), format_checker=budget), schema)
        )
    except RecursionError:
        # Meta-schemas take more frames a level than the schema itself will.
        fault = None
    if fault is not None:
        raise _unusable(fault)
    return build(schema, registry=Registry())


@functools.cache
def _validator_class(name: str) -> Any:
    """Derive from a class of jsonschema one that counts its steps."""
    with no_fork():
        from jsonschema import validators

    plain = getattr(validators, name)
    ours = {
        "additionalProperties": _additional_properties,
        "const": _const,
        "enum": _enum,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "unevaluatedItems": _unevaluated_items,
        "unevaluatedProperties": _unevaluated_properties,
        "uniqueItems": _unique_items,
    }
    keywords = {
        keyword: _counted(ours[keyword](function) if keyword in ours else function, keyword in _SHOWN)
        for keyword, function in plain.VALIDATORS.items()
    }
    extend: Any = validators.extend
    counting = extend(plain, validators=keywords)
    plain_evolve = counting.evolve

    def evolve(self: Any, **changes: Any) -> Any:
        # jsonschema takes the class that a ``$schema`` names, which would not count.
        if self.format_checker is not None:
            self.format_checker.spend(1)
        schema = changes.setdefault("schema", self.schema)
        if isinstance(schema, dict) and "$schema" in schema:
            changes["schema"] = {key: value for key, value in schema.items() if key != "$schema"}
        return plain_evolve(self, **changes)

    counting.evolve = evolve
    return counting


def _best_error(validator: Any, value: Any) -> Any:
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        value = brief(value, validator.format_checker.spend)
        return best_match(islice(validator.iter_errors(value), _ERRORS_COMPARED))
    except (_NoVerdict, RecursionError):
        raise
    except Unresolvable as unresolvable:
        ref = getattr(unresolvable, "ref", "?")
        raise _unusable(f"it refers to {excerpt(str(ref))}, which it does not hold") from unresolvable
    except Exception as broken:
        # What a broken schema can raise within jsonschema is nowhere listed.
        raise _unusable(f"{type(broken).__name__}: {excerpt(str(broken))}") from broken
    except BaseException as panic:
        # The tables of jsonschema, in Rust, panic where a comparison within them exceeds the recursion limit.
        if type(panic).__name__ != "PanicException":
            raise
        raise RecursionError from None


def _told(error: Any) -> Optional[str]:
    return None if error is None else f"{_pointer(error.absolute_path)}: {excerpt(error.message)}"


def _pointer(path: Any) -> str:
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in path]
    return excerpt("".join(f"/{step}" for step in steps)) or "the value"


# --- keywords --------------------------------------------------------------------------------------------

Keyword = Callable[[Any, Any, Any, Any], Any]


# What jsonschema shows of these, when they fail, may be large, too.
_SHOWN = ("const", "disallow", "enum", "not", "oneOf", "type")
_STEPS_OF_AN_ERROR = 5


def _counted(function: Keyword, is_shown: bool) -> Keyword:
    def keyword(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        spend = validator.format_checker.spend
        steps = 1
        if isinstance(value, (dict, list, str)):
            steps += len(value) >> 5
        if isinstance(instance, (dict, list)):
            steps += len(instance) >> 5
        spend(steps)
        for error in function(validator, brief(value, spend) if is_shown else value, instance, schema) or ():
            spend(_STEPS_OF_AN_ERROR)
            yield error

    return keyword


def _pattern(_: Keyword) -> Keyword:
    from jsonschema.exceptions import ValidationError

    def keyword(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "string") and _matches(validator, pattern, instance) is False:
            yield ValidationError(f"{instance!r} does not match {pattern!r}")

    return keyword


def _pattern_properties(_: Keyword) -> Keyword:
    def keyword(validator: Any, rules: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not validator.is_type(instance, "object"):
            return
        for pattern, rule in rules.items():
            for name, value in instance.items():
                if _matches(validator, pattern, name):
                    yield from validator.descend(value, rule, path=name, schema_path=pattern)

    return keyword


def _additional_properties(plain: Keyword) -> Keyword:
    from jsonschema.exceptions import ValidationError

    def among_patterns(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not validator.is_type(instance, "object"):
            return
        known = schema.get("properties", ())
        for name, value in instance.items():
            if name in known:
                continue
            patterns = schema.get("patternProperties", ())
            if any(_matches(validator, each, name) is not False for each in patterns):
                continue
            if rule is False:
                yield ValidationError(f"additional property {excerpt(name)!r} is not allowed")
            else:
                yield from validator.descend(value, rule, path=name)

    def keyword(validator: Any, rule: Any, instance: Any, schema: Any) -> Any:
        # The function of jsonschema names all of them.
        is_large = isinstance(instance, dict) and sum(map(len, instance)) > _LONGEST_MATCHED
        chosen = among_patterns if schema.get("patternProperties") or is_large else plain
        return chosen(validator, rule, instance, schema)

    return keyword


def _unevaluated_properties(plain: Keyword) -> Keyword:
    """Keep the function of jsonschema, which matches names by ``re``, to what ``re`` does quickly."""

    def keyword(validator: Any, rule: Any, instance: Any, schema: Any) -> Any:
        budget = validator.format_checker
        if validator.is_type(instance, "object"):
            # jsonschema looks each name up in a list of all.
            budget.spend((sum(map(len, instance)) + len(instance) ** 2) >> 5)
            if not budget.simple_names or any(len(name) > _LONGEST_NAME for name in instance):
                return None
        return plain(validator, rule, instance, schema)

    return keyword


def _unevaluated_items(plain: Keyword) -> Keyword:
    """Count the time of the function of jsonschema, which grows with the square of the length."""

    def keyword(validator: Any, rule: Any, instance: Any, schema: Any) -> Any:
        if validator.is_type(instance, "array"):
            validator.format_checker.spend(len(instance) ** 2 >> 5)
        return plain(validator, rule, instance, schema)

    return keyword


def _const(_: Keyword) -> Keyword:
    from jsonschema.exceptions import ValidationError

    def keyword(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not _equal(validator.format_checker, wanted, instance):
            yield ValidationError(f"{wanted!r} was expected")

    return keyword


def _enum(_: Keyword) -> Keyword:
    from jsonschema.exceptions import ValidationError

    def keyword(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not any(_equal(validator.format_checker, each, instance) for each in wanted):
            yield ValidationError(f"{instance!r} is not one of {wanted!r}")

    return keyword


def _equal(budget: _Budget, one: Any, other: Any) -> bool:
    """Compare two values, to which 1 and 1.0 are the same, but not 1 and true; each step counts."""
    budget.spend(1)
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(
            name in other and _equal(budget, value, other[name]) for name, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_equal(budget, *pair) for pair in zip(one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _unique_items(_: Keyword) -> Keyword:
    """Replace the function of jsonschema, whose time grows with the square of the length."""
    from jsonschema.exceptions import ValidationError

    def keyword(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not wanted or not validator.is_type(instance, "array"):
            return
        seen: set[str] = set()
        for index, item in enumerate(instance):
            form = json.dumps(_with_whole_numbers(validator.format_checker, item), sort_keys=True)
            validator.format_checker.spend(1 + (len(form) >> 5))
            if form in seen:
                yield ValidationError(f"item {index} repeats an earlier one")
                return
            seen.add(form)

    return keyword


def _with_whole_numbers(budget: _Budget, value: Any) -> Any:
    """Let 1 and 1.0, which are the same number to JSON Schema, look alike."""
    budget.spend(1)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_with_whole_numbers(budget, item) for item in value]
    if isinstance(value, dict):
        return {key: _with_whole_numbers(budget, item) for key, item in value.items()}
    return value


# --- regular expressions ---------------------------------------------------------------------------------


def _matches(validator: Any, pattern: str, text: str) -> Optional[bool]:
    """Search for a pattern; ``None`` if that cannot be done in linear time."""
    validator.format_checker.spend(1 + (min(len(text), _LONGEST_MATCHED) >> 3))
    if len(text) > _LONGEST_MATCHED or len(pattern) > _LONGEST_PATTERN:
        return None
    matcher = _matcher(pattern)
    return None if matcher is None else matcher(text)


@functools.lru_cache(maxsize=64)
def _matcher(pattern: str) -> Optional[Callable[[str], bool]]:
    try:
        # pydantic-core matches by the regex crate of Rust, which never backtracks.
        return SchemaValidator(core_schema.str_schema(pattern=pattern, strict=True)).isinstance_python
    except SchemaError:
        pass
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        raise _unusable(f"{excerpt(pattern)} is no regular expression: {error}") from error
    return None


_NAME_CHARACTERS = r"(?:[^()\\*+?{|]|\\[dDwWsS.\-_/])*"
_SIMPLE_PATTERN = re.compile(f"{_NAME_CHARACTERS}[*+?]?{_NAME_CHARACTERS}")


def _is_simple(pattern: str) -> bool:
    return len(pattern) <= _LONGEST_NAME and _SIMPLE_PATTERN.fullmatch(pattern) is not None


def _name_patterns(schema: Any) -> Iterator[str]:
    """Give what may be a pattern for names, wherever it stands."""
    waiting = [schema]
    for node in waiting:  # grows meanwhile
        if isinstance(node, dict):
            rules = node.get("patternProperties")
            if isinstance(rules, dict):
                yield from rules
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
