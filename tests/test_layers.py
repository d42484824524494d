"""Imports only point down: the table of layers, and what only one layer may know."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_sync._protocol.versions import TRAITS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mcp_sync"

# The first part of a module's name below mcp_sync, and its layer. The empty one is the package itself, which
# loads everything when it is used.
LAYERS = {
    "": 5,
    "errors": 0,
    "_envelope": 0,
    "_version": 0,
    "_concurrency": 0,
    "types": 1,
    "options": 1,
    "_arguments": 1,
    "_files": 1,
    "_masking": 1,
    "_unpicklable": 1,
    "cache": 1,
    "handlers": 1,
    "logs": 1,
    "otel": 1,
    "stats": 1,
    "trace": 3,
    "tracing": 1,
    "extensions": 1,
    "_protocol": 2,
    "transports": 3,
    "auth": 3,
    "_engine": 4,
    "client": 5,
    "session": 5,
    "verbs": 5,
    "_tool_verbs": 5,
    "_task_verbs": 5,
    "_future_verbs": 5,
    "_extension_verbs": 5,
    "futures": 5,
    "principals": 5,
    "streaming": 5,
    "_watch_verbs": 5,
    "_calls": 5,
    "_input_answers": 5,
    "_resuming": 5,
    "elicitation": 5,
    "_terminal": 5,
    "_given_arguments": 5,
    "subscriptions": 5,
    "tasks": 5,
    "_servers": 5,
    "config": 5,
    "registry": 5,
    "group": 5,
    "typed": 5,
    "llm": 5,
    "skills": 5,
    "apps": 5,
    "contrib": 6,
    "cli": 6,
    "testing": 6,
}
# An error shows what a server sent as models, which load when somebody looks.
UPWARDS = {
    (("errors", "_input"), "mcp_sync.types.input_required"),
    (("errors", "_remote"), "mcp_sync.types.input_required"),
}
TRANSPORT_LIBRARIES = {"requests", "urllib3", "sseclient", "websocket"}
FRAMEWORKS = {"django", "flask", "celery"}
PURE = {"threading", "socket", "subprocess", "time", "queue", "select", "selectors", "asyncio"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> tuple[str, ...]:
    """Return the parts of a module's name below mcp_sync; the package itself has none."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def layer_of(parts: tuple[str, ...]) -> int:
    return LAYERS[parts[0] if parts else ""]


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path, later: bool = True) -> Iterator[tuple[str, int]]:
    """Give every module that a module imports, but not for type checkers alone.

    With ``later`` also those that its functions import.
    """
    package = ("mcp_sync", *name_of(path))
    if path.name != "__init__.py":
        package = package[:-1]
    waiting: list[ast.AST] = [tree_of(path)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and is_for_type_checkers(node.test):
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                # ``from . import types``: the name may be a module.
                yield f"{module}.{alias.name}", node.lineno
        if later or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))


def is_for_type_checkers(test: ast.expr) -> bool:
    names = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    return isinstance(test, (ast.Name, ast.Attribute)) and ast.unparse(test) in names


def below(name: str) -> tuple[str, ...]:
    """Return the parts below mcp_sync of what is imported; what is a name of a module loses it."""
    parts = tuple(name.split(".")[1:])
    while parts and not is_module(PACKAGE.joinpath(*parts)):
        parts = parts[:-1]
    return parts


@functools.cache
def is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_every_module_has_a_layer():
    assert not [str(path) for path in MODULES if (name_of(path) or ("",))[0] not in LAYERS]


def upward(path: Path) -> Iterator[str]:
    """Tell of the imports of a module that point up."""
    own = layer_of(name_of(path))
    for name, line in imports(path):
        if name.split(".")[0] != "mcp_sync":
            continue
        parts = below(name)
        if (name_of(path), ".".join(("mcp_sync", *parts))) in UPWARDS:
            continue
        # The version is the one thing that the package itself may be asked for.
        if layer_of(parts) > own and name != "mcp_sync.__version__":
            yield f"{where(path, line)}: {name} (layer {layer_of(parts)} from {own})"


def test_a_module_imports_only_from_its_own_layer_and_those_below():
    assert not [told for path in MODULES for told in upward(path)]


def test_there_is_no_circle_of_imports():
    graph = {
        name_of(path): {
            below(name) for name, _ in imports(path, later=False) if name.split(".")[0] == "mcp_sync"
        }
        for path in MODULES
    }
    while graph:
        free = [module for module, needed in graph.items() if not (needed - {module}) & graph.keys()]
        assert free, f"each of these imports another of them: {sorted(graph)}"
        for module in free:
            del graph[module]


def late_imports(node: ast.AST, held: bool = True) -> Iterator[int]:
    """Give the lines of the imports in functions for which forks do not wait."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield from late_imports(child, False)
        elif isinstance(child, ast.With):
            waits = any(ast.unparse(item.context_expr).endswith("no_fork()") for item in child.items)
            yield from late_imports(child, held or waits)
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            if not held:
                yield child.lineno
        else:
            yield from late_imports(child, held)


# Their late imports are of what is loaded by then, or are themselves what makes forks wait.
LOADED_BY_THEN = {
    (),
    ("_concurrency", "lazy"),
    ("_protocol", "schemas"),
    ("auth", "_keyring_store"),
    ("auth", "_signing"),
    ("types", "_contents"),
}


def test_forks_wait_for_what_is_imported_late():
    # What frameworks and tests have is set up before anybody forks, and a command line never does.
    elsewhere = (("cli",), ("contrib",), ("testing",))
    paths = [
        path for path in MODULES if name_of(path)[:1] not in elsewhere and name_of(path) not in LOADED_BY_THEN
    ]
    assert not [where(path, line) for path in paths for line in late_imports(tree_of(path))]


def misplaced(path: Path) -> Iterator[str]:
    """Tell of the libraries that a module imports and should not."""
    parts = name_of(path)
    for name, line in imports(path):
        library = name.split(".")[0]
        if library in TRANSPORT_LIBRARIES and layer_of(parts) != 3:
            yield f"{where(path, line)}: {name} belongs into transports or auth"
        if library in FRAMEWORKS and parts[:1] != ("contrib",):
            yield f"{where(path, line)}: {name} belongs into contrib"
        if library == "asyncio":
            yield f"{where(path, line)}: there is no event loop anywhere"


def test_libraries_are_imported_only_where_they_belong():
    assert not [told for path in MODULES for told in misplaced(path)]


def test_the_protocol_is_pure():
    protocol = [path for path in MODULES if name_of(path)[:1] == ("_protocol",)]
    assert protocol
    found = [(path, *each) for path in protocol for each in imports(path)]
    assert not [f"{where(path, line)}: {name}" for path, name, line in found if name.split(".")[0] in PURE]


def literals(path: Path) -> Iterator[tuple[str, int]]:
    """Give every string of a module that is code: no docstring, and no string that stands by itself."""
    tree = tree_of(path)
    words = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in words:
            yield node.value, node.lineno


def test_only_one_module_names_revisions_of_the_protocol():
    home = PACKAGE / "_protocol" / "versions.py"
    assert {text for text, _ in literals(home)} >= set(TRAITS)
    known = re.compile("|".join(map(re.escape, TRAITS)))
    found = [(path, *each) for path in MODULES if path != home for each in literals(path)]
    assert not [f"{where(path, line)}: {text[:60]!r}" for path, text, line in found if known.search(text)]


# Their docstrings say what each of their modules is for.
MAPPED = ("_concurrency", "_engine", "_given_arguments", "_protocol", "_servers", "auth")
MAPPED_TRANSPORTS = ("_http", "_http/adapter", "_legacy_sse", "_stdio", "_websocket")


@pytest.mark.parametrize("package", [*MAPPED, *(f"transports/{name}" for name in MAPPED_TRANSPORTS)])
def test_the_map_of_a_package_names_its_modules_and_no_others(package):
    text = ast.get_docstring(tree_of(PACKAGE / package / "__init__.py")) or ""
    modules = {path.stem for path in (PACKAGE / package).glob("*.py")} - {"__init__"}
    assert modules <= set(re.findall(r"``(\w+)``", text))
    listed = re.findall(r"^- ``(\w+)``", text, re.MULTILINE)
    assert not [name for name in listed if not any((PACKAGE / package).glob(f"{name}*"))]


def test_the_walk_sees_what_it_should():
    seen = {name for name, _ in imports(PACKAGE / "_engine" / "lifecycle.py")}
    assert "mcp_sync.errors.ClientClosed" in seen
    assert "mcp_sync._concurrency.fork" in seen
    assert below("mcp_sync.errors.ClientClosed") == ("errors",)
    assert below("mcp_sync._concurrency.fork") == ("_concurrency", "fork")
    assert list(late_imports(ast.parse("def f():\n import a\n with no_fork():\n  import b"))) == [2]
    for_checkers = {name for name, _ in imports(PACKAGE / "_engine" / "answers.py")}
    assert "mcp_sync.session.ClientSession" not in for_checkers
