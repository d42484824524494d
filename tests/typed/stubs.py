"""Loads generated modules, and has mypy look at them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

from mcp_sync import types
from mcp_sync.typed import generate_stubs

ROOT = Path(__file__).parents[2]


def tool(
    properties: Optional[dict[str, Any]] = None,
    required: Iterable[str] = (),
    *,
    name: str = "search",
    description: Optional[str] = None,
    output: Optional[dict[str, Any]] = None,
    **schema: Any,
) -> types.Tool:
    """Make a tool as a server would send it."""
    wire = {"type": "object", "properties": properties or {}, "required": list(required), **schema}
    whole = {"name": name, "description": description, "inputSchema": wire, "outputSchema": output}
    return types.Tool.model_validate({key: value for key, value in whole.items() if value is not None})


def load(text: str, name: str = "generated_stubs") -> ModuleType:
    """Run a generated module."""
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module


def stubs(*tools: types.Tool) -> str:
    """Return the generated module, which compiles."""
    text = generate_stubs(tools)
    compile(text, "tools.py", "exec")
    text.encode("utf-8")
    return text


def signature_of(text: str) -> str:
    """Return the signature of the first method, on one line."""
    start = text.index("    def ")
    return " ".join(text[start : text.index(":\n        ", start + 8)].split())


def mypy(folder: Path, texts: Iterable[str]) -> str:
    """Have mypy look at modules, strictly, in one run; return what it says."""
    for number, text in enumerate(texts):
        (folder / f"stub_{number:03}.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file",
            os.devnull,
            "--no-incremental",
            "--follow-imports=silent",
            str(folder),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )
    return done.stdout + done.stderr
