"""The fake server with the tools that scenarios of the official conformance suite for servers ask for."""

from __future__ import annotations

from typing import Any

from mcp_sync.testing import FakeServer, RpcError, ToolContext

Message = dict[str, Any]


def form(message: str, *fields: str) -> Message:
    """Build a question with fields of text."""
    properties = {field: {"type": "string"} for field in fields}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


SAMPLING = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}],
        "maxTokens": 100,
    },
}
ROOTS: Message = {"method": "roots/list", "params": {}}


def suite_server() -> FakeServer:
    """Make the server."""
    server = FakeServer(versions="modern", ttl_ms=1000, resources={"test://static-text": "text"})
    server.add_resource("test://template/{id}/data", lambda id: f"data {id}")
    for add in (add_plain_tools, add_tasks, add_questions):
        add(server)
    server.add_skill("acme/refunds", files={"templates/mail.md": "Dear", "a.py": "1"})
    server.add_skill("git-workflow", frontmatter={"license": "MIT"})
    return server


def add_plain_tools(server: FakeServer) -> None:
    """Add tools that show what belongs to a request, and what to a subscription."""

    @server.tool()
    def test_simple_text() -> str:
        return "This is a simple text response for testing."

    @server.tool()
    def test_streaming_elicitation(context: ToolContext) -> str:
        context.progress(1)
        return str(context.elicit("Name?"))

    @server.tool()
    def test_logging_tool(context: ToolContext) -> str:
        context.log("info", "logged")
        return "logged"

    @server.tool()
    def test_missing_capability(context: ToolContext) -> str:
        return str(context.sample(SAMPLING["params"]))  # type: ignore[arg-type]

    @server.tool()
    def test_trigger_tool_change() -> str:
        server.tools_changed()
        return "changed"

    @server.tool()
    def test_trigger_prompt_change() -> str:
        server.prompts_changed()
        return "changed"


def add_tasks(server: FakeServer) -> None:
    """Add tools that run as tasks."""

    @server.tool()
    def greet(name: str = "World") -> str:
        return f"Hello, {name}!"

    @server.tool(task=True)
    def slow_compute(context: ToolContext, seconds: float = 0, label: str = "") -> str:
        context.cancelled.wait(seconds)
        return "computed"

    @server.tool(task="required")
    def failing_job() -> None:
        raise ValueError("failed")

    @server.tool(task=True)
    def protocol_error_job() -> None:
        raise RpcError(-32603, "broken")

    @server.tool(task=True)
    def confirm_delete(context: ToolContext, filename: str) -> str:
        answer = context.ask_all({"confirm": form(f"Delete {filename}?", "confirm")})["confirm"]
        return f"{filename}: {answer['action']}"

    @server.tool(task=True)
    def multi_input(context: ToolContext) -> str:
        return str(context.ask_all({"one": form("One?", "name"), "two": form("Two?", "name")}))

    @server.tool()
    def test_tool_with_task(context: ToolContext) -> Message:
        name = context.ask_all({"user_name": form("Name?", "name")})["user_name"]["content"]["name"]
        return context.start_task(lambda inside: f"Hello {name}")


def add_questions(server: FakeServer) -> None:
    """Add tools and a prompt that ask in input rounds."""

    def ask(name: str, **questions: Message) -> None:
        def asking(context: ToolContext) -> str:
            return f"state-ok {context.ask_all(questions)}"

        server.add_tool(asking, f"test_input_required_result_{name}")

    ask("elicitation", user_name=form("What is your name?", "name"))
    ask("sampling", capital_question=SAMPLING)
    ask("list_roots", client_roots=ROOTS)
    ask("request_state", confirm=form("Sure?", "ok"))
    ask("tampered_state", confirm=form("Sure?", "ok"))
    ask("capabilities", capital_question=SAMPLING)
    ask("multiple_inputs", user_name=form("Name?", "name"), greeting=SAMPLING, client_roots=ROOTS)

    @server.tool()
    def test_input_required_result_multi_round(context: ToolContext) -> str:
        first = context.ask_all({"step1": form("Step 1: What is your name?", "name")})
        second = context.ask_all({"step2": form("Step 2: What is your favorite color?", "color")})
        return f"{first} {second}"

    def prompting(context: ToolContext) -> str:
        return str(context.ask_all({"user_context": form("What context should the prompt use?", "context")}))

    server.add_prompt(prompting, "test_input_required_result_prompt")
