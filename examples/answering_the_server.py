"""A server asks back: the user fills in a form, a language model writes a text.

    python examples/answering_the_server.py

The server is a `FakeServer` in this process; `Client` works in the same way with any other.
"""

from __future__ import annotations

from typing import Any, Union

from mcp_sync import CallbackContext, Client, InMemory, types
from mcp_sync.testing import FakeServer, ToolContext

# --- the client's side -------------------------------------------------------------------------------------


def fill_in(context: CallbackContext, params: Any) -> types.ElicitResult:
    """Answer a question of the server. A real program asks its user here, by ``input()`` for example."""
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult.decline()
    print("The server asks:", params.message)
    return types.ElicitResult.accept({"topic": "tides"})


def write(
    context: CallbackContext, params: types.CreateMessageRequestParams
) -> Union[types.CreateMessageResult, types.ErrorData]:
    """Write a text for the server. A real program asks a language model here."""
    prompt = params.messages[-1].content_as_list[0]
    if not isinstance(prompt, types.TextContent):
        return types.ErrorData(code=types.INVALID_PARAMS, message="text only")
    print("The server wants a text:", prompt.text)
    return types.CreateMessageResult.from_text("The sea comes and goes.", model="a-small-poet")


# --- the server's side -------------------------------------------------------------------------------------


def poem(context: ToolContext) -> str:
    """Write a poem about a topic that the user chooses."""
    form = {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]}
    answer = context.elicit("What shall the poem be about?", form)
    if answer["action"] != "accept":
        return "No poem, then."
    request = f"A poem of one line about {answer['content']['topic']}"
    message = {"role": "user", "content": {"type": "text", "text": request}}
    text: str = context.sample({"messages": [message], "maxTokens": 100})["content"]["text"]
    return text


def main() -> None:
    server = InMemory(FakeServer(tools=[poem]))
    with Client(server, elicitation_callback=fill_in, sampling_callback=write) as client:
        print("The poem:", client.call_tool("poem").text)


if __name__ == "__main__":
    main()
