"""The client under test of the official conformance suite: `client.py URL`.

The suite says in `MCP_CONFORMANCE_SCENARIO` what to do, in `MCP_CONFORMANCE_PROTOCOL_VERSION` which revision
to speak, and in `MCP_CONFORMANCE_CONTEXT` what a scenario needs to know besides.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from mcp_sync import (
    AuthError,
    Client,
    ClientCredentials,
    InsufficientScope,
    OAuth,
    SkillRejected,
    types,
)
from mcp_sync.auth import EnterpriseManaged, LoopbackBrowser, WorkloadIdentity
from mcp_sync.skills import Skills

STATELESS = "2026-07-28"
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", STATELESS)
# A stateless server is asked which revisions it knows, as users' clients do; a handshake names the revision.
MODE = "auto" if VERSION == STATELESS else VERSION


def sample(context: Any, params: Any) -> types.CreateMessageResult:
    """Answer for the model."""
    content = types.TextContent(type="text", text="Nothing to say.")
    return types.CreateMessageResult(role="assistant", content=content, model="none")


def accept(context: Any, params: Any) -> types.ElicitResult:
    """Accept every form as it is, so that its defaults are what is sent."""
    return types.ElicitResult(action="accept", content={})


def roots(context: Any) -> types.ListRootsResult:
    """Offer no roots."""
    return types.ListRootsResult(roots=[])


def basic(url: str) -> None:
    """List the tools and call the first one."""
    with Client(url, mode=MODE) as client:
        for tool in client.list_tools().tools[:1]:
            client.call_tool(tool.name, {"a": 2, "b": 3})


def list_only(url: str) -> None:
    """List the tools."""
    with Client(url, mode=MODE) as client:
        client.list_tools()


def with_all_callbacks(url: str) -> None:
    """List the tools as a client that can do everything."""
    with Client(
        url,
        mode=MODE,
        sampling_callback=sample,
        elicitation_callback=accept,
        list_roots_callback=roots,
    ) as client:
        client.list_tools()


def elicitation_defaults(url: str) -> None:
    """Call the tool that asks with a form full of defaults."""
    with Client(url, mode=MODE, elicitation_callback=accept) as client:
        client.call_tool("test_client_elicitation_defaults")


def reconnection(url: str) -> None:
    """Call the tool whose stream ends before its answer."""
    with Client(url, mode=MODE) as client:
        client.call_tool("test_reconnection")


def input_rounds(url: str) -> None:
    """Call the tools that want input, and an unrelated one while the input is being given."""

    def confirm(context: Any, params: Any) -> types.ElicitResult:
        client.call_tool("test_mrtr_unrelated")
        return types.ElicitResult(action="accept", content={"confirmed": True})

    with Client(url, mode=MODE, elicitation_callback=confirm) as client:
        client.list_tools()
        client.call_tool("test_mrtr_echo_state")
        client.call_tool("test_mrtr_no_state")
        client.call_tool("test_mrtr_no_result_type")


def standard_headers(url: str) -> None:
    """Use every method whose name or parameter is mirrored in a header."""
    with Client(url, mode=MODE) as client:
        for tool in client.tools():
            client.call_tool(tool.name, {})
        for resource in client.resources():
            client.read_resource(str(resource.uri))
        for prompt in client.prompts():
            client.get_prompt(prompt.name)


def custom_headers(url: str) -> None:
    """Make the calls that the scenario asks for, whose arguments are mirrored in headers."""
    context = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])
    with Client(url, mode=MODE) as client:
        client.list_tools()
        for call in context["toolCalls"]:
            client.call_tool(call["name"], call["arguments"])


def valid_tools(url: str) -> None:
    """Call every tool that the listing leaves, for those with broken headers have no place in it."""
    with Client(url, mode=MODE) as client:
        for tool in client.tools():
            client.call_tool(tool.name, {"region": "us-west1"})


def echo_schema(url: str) -> None:
    """Send a tool's schema back as it was understood."""
    with Client(url, mode=MODE) as client:
        tools = {tool.name: tool for tool in client.tools()}
        schema = tools["json_schema_2020_12_tool"].input_schema
        client.call_tool("json_schema_echo", {"schema": schema})


def list_skills(url: str) -> None:
    """List the skills, and load none."""
    with Client(url, mode=MODE, extensions=[Skills()]) as client:
        assert list(client.skills.list())


def forged_skill(url: str) -> None:
    """Load all of a skill that has to be refused, file after file."""
    with Client(url, mode=MODE, extensions=[Skills()]) as client:
        for skill in client.skills.list():
            try:
                for path in skill.files or ():
                    client.skills.read(skill, path)
            except SkillRejected as error:
                print(f"refused: {error}", file=sys.stderr)
                return
    raise AssertionError("this skill was to be refused")


# Where the suite pretends that the metadata document of the client lies.
METADATA_URL = "https://conformance-test.local/client-metadata.json"


def browser(url: str) -> bool:
    """Be the browser of a user who agrees to everything: the servers of the suite send them back at once."""
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            response.read()
    except urllib.error.URLError as error:
        print(f"the browser got: {error}", file=sys.stderr)
    return True


def login(**options: Any) -> OAuth:
    """Return the authorization of a user at this machine."""
    return OAuth(interaction=LoopbackBrowser(open=browser, timeout=30), **options)


def use(url: str, auth: Any) -> None:
    """List the tools and call the one there is, with authorization."""
    with Client(url, mode=MODE, auth=auth) as client:
        client.list_tools()
        client.call_tool("test-tool")


def authorized(url: str) -> None:
    """Log in by the code flow."""
    use(url, login(client_metadata_url=METADATA_URL))


def bound_to_proof(url: str) -> None:
    """Log in by the code flow, and bind the tokens to a key."""
    use(url, login(dpop=True))


def registered_by_itself(url: str) -> None:
    """Log in by the code flow, as a client without a metadata document."""
    use(url, login())


def suspicious(url: str) -> None:
    """Log in at a server that has to be refused."""
    try:
        authorized(url)
    except AuthError as error:
        print(f"refused: {error}", file=sys.stderr)
        return
    raise AssertionError("this server was to be refused")


def never_enough(url: str) -> None:
    """Call a tool for which no scope is enough."""
    try:
        authorized(url)
    except InsufficientScope as error:
        print(f"given up: {error}", file=sys.stderr)
        return
    raise AssertionError("this server was to ask for more and more")


def context() -> dict[str, Any]:
    """Return what the suite says about the scenario."""
    values: dict[str, Any] = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])
    return values


def registered_by_hand(url: str) -> None:
    """Log in with a client that the server knows."""
    known = context()
    use(url, login(client_id=known["client_id"], client_secret=known["client_secret"]))


def by_secret(url: str) -> None:
    """Log in as the application itself, by its secret."""
    known = context()
    use(url, ClientCredentials(known["client_id"], known["client_secret"]))


def by_key(url: str) -> None:
    """Log in as the application itself, by its key."""
    known = context()
    algorithm = known.get("signing_algorithm", "ES256")
    key = known["private_key_pem"]
    use(url, ClientCredentials(known["client_id"], private_key=key, private_key_alg=algorithm))


def by_identity_provider(url: str) -> None:
    """Log in as a user for whom an identity provider vouches."""
    known = context()
    use(
        url,
        EnterpriseManaged(
            known["client_id"],
            known["client_secret"],
            subject_token=known["idp_id_token"],
            idp_issuer=known["idp_issuer"],
            idp_token_endpoint=known["idp_token_endpoint"],
            idp_client_id=known["idp_client_id"],
        ),
    )


def by_workload(url: str) -> None:
    """Log in as a workload, by the token of the platform."""
    known = context()
    use(url, WorkloadIdentity(known["valid_jwt"], known["client_id"]))


# Those of authorization that are not among `SCENARIOS` are logins like any other.
AUTHORIZED: dict[str, Callable[[str], None]] = {
    "auth/pre-registration": registered_by_hand,
    "auth/client-credentials-basic": by_secret,
    "auth/client-credentials-jwt": by_key,
    "auth/enterprise-managed-authorization": by_identity_provider,
    "auth/wif-jwt-bearer": by_workload,
    "auth/dpop": bound_to_proof,
    "auth/dpop-nonce": bound_to_proof,
    "auth/authorization-server-migration": registered_by_itself,
    "auth/scope-retry-limit": never_enough,
    "auth/resource-mismatch": suspicious,
    "auth/iss-supported-missing": suspicious,
    "auth/iss-wrong-issuer": suspicious,
    "auth/iss-unexpected": suspicious,
    "auth/iss-normalized": suspicious,
    "auth/metadata-issuer-mismatch": suspicious,
}

SCENARIOS: dict[str, Callable[[str], None]] = {
    "initialize": basic,
    "tools_call": basic,
    "request-metadata": with_all_callbacks,
    "elicitation-sep1034-client-defaults": elicitation_defaults,
    "sse-retry": reconnection,
    "sep-2322-client-request-state": input_rounds,
    "http-standard-headers": standard_headers,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": valid_tools,
    "json-schema-ref-no-deref": list_only,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": forged_skill,
    "sep-2640-client-verify-size": forged_skill,
    "sep-2640-client-verify-frontmatter": forged_skill,
}


if __name__ == "__main__":
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    known = {**SCENARIOS, **AUTHORIZED}
    run = known.get(name, authorized) if name.startswith("auth/") else known[name]
    run(sys.argv[-1])
