"""Every public name of a package: of its modules, of what is in them, of members, and of parameters.

    python names.py PACKAGE...

prints them as a JSON list. Stands alone, so that the interpreter of any environment can run it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import Any


def names_of(package: str, without: Iterable[str] = ()) -> set[str]:
    """Return the names of a package. Left out is what cannot be imported, or has a name that begins so."""
    root = importlib.import_module(package)
    found = names_in(root)
    for module in pkgutil.walk_packages(
        getattr(root, "__path__", []), f"{package}.", onerror=lambda name: None
    ):
        if not module.name.startswith(tuple(without)) and not module.name.endswith("__main__"):
            try:
                found |= names_in(importlib.import_module(module.name))
            except ImportError:
                continue
    return found


def names_in(module: ModuleType) -> set[str]:
    found = {*module.__name__.split("."), *dir(module)}
    for value in list(vars(module).values()):
        found |= parameters(value)
        if inspect.isclass(value):
            found |= {*dir(value), *fields(value)}
            for member in list(vars(value).values()):
                found |= parameters(member)
    return found


def fields(model: Any) -> set[str]:
    """Return the fields of a pydantic model, with what they are called on the wire."""
    found = getattr(model, "model_fields", None)
    if not isinstance(found, dict):
        return set()
    return {*found} | {field.alias for field in found.values() if field.alias}


def parameters(value: Any) -> set[str]:
    try:
        return set(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return set()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(sorted(set().union(*map(names_of, sys.argv[1:])))))
