"""A call that waits for the user: one process asks, another one answers, whenever that is.

    python examples/waiting_for_input.py ask http://127.0.0.1:8000/mcp waiting.json
    python examples/waiting_for_input.py answer http://127.0.0.1:8000/mcp waiting.json name=Ada

The first command calls the tool ``greet``. The server wants to know a name first, so the call pauses, and all
that is needed to go on is written to a file: a web application would put it into its database, show the form
on a page, and end the request. The second command goes on with what the user has typed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from mcp_sync import AnswerInvalid, Client, EnvelopeRejected, InputRequired, types
from mcp_sync.elicitation import accept, check_url, form_fields, validate_answer

# Whoever does not know it can neither change an envelope nor make one.
KEY = os.environ.get("WAITING_KEY", "a secret of your application")


def keep(waiting: InputRequired, path: Path) -> None:
    """Keep what is needed to go on, and show what the user is asked."""
    path.write_text(json.dumps(waiting.to_json(key=KEY)), encoding="utf-8")
    for request in waiting.requests.values():
        if not isinstance(request, types.ElicitRequest):
            continue
        print("The server asks:", request.params.message)
        if isinstance(request.params, types.ElicitRequestURLParams):
            print("  Please visit", check_url(request).url)
            continue
        for field in form_fields(request):
            needed = "needed" if field.required else "optional"
            print(f"  {field.name}: {field.title} ({field.type}, {needed})")


def ask(url: str, path: Path) -> None:
    """Call the tool."""
    with Client(url) as client:
        try:
            print(client.call_tool("greet", on_input="raise").text)
        except InputRequired as waiting:
            keep(waiting, path)


def answer(url: str, path: Path, typed: dict[str, str]) -> None:
    """Go on with the call that waits."""
    stored = path.read_text(encoding="utf-8")
    try:
        waiting = InputRequired.from_json(stored, key=KEY)
        answers = {key: accept(validate_answer(form, typed)) for key, form in waiting.requests.items()}
        with Client(url) as client:
            print(client.resume(stored, answers, key=KEY, max_age=7 * 24 * 3600).text)
    except AnswerInvalid as wrong:
        for name, fault in wrong.faults.items():
            print(f"{name}: {fault}")
    except EnvelopeRejected as refusal:
        print(refusal)
    except InputRequired as again:
        keep(again, path)


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    command, url, path, *words = sys.argv[1:]
    if command == "ask":
        ask(url, Path(path))
    else:
        answer(url, Path(path), dict(word.split("=", 1) for word in words))


if __name__ == "__main__":
    main()
