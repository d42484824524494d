"""See what a client does: log messages of the server, the wire, spans of OpenTelemetry, counters.

    pip install "mcp-sync-client[otel]" opentelemetry-sdk
    python examples/observing.py [URL]

Without a URL it starts the demo server that comes with mcp_sync.
"""

from __future__ import annotations

import logging
import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcp_sync import Client
from mcp_sync.logs import to_logging
from mcp_sync.otel import OpenTelemetry

DEMO_SERVER = [sys.executable, "-m", "mcp_sync.cli.demo_server"]


def main() -> None:
    logging.basicConfig(stream=sys.stdout, format="%(name)s %(levelname)s %(message)s")
    logging.getLogger("mcp_sync.server").setLevel(logging.DEBUG)
    spans = InMemorySpanExporter()  # yours sends them to a collector
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    wire: list[str] = []

    client = Client(
        sys.argv[1] if len(sys.argv) > 1 else DEMO_SERVER,
        name="demo",
        logging_callback=to_logging,
        log_level="debug",
        tracing=OpenTelemetry(provider),
        trace=wire.append,
    )
    with client:
        client.call_tool("countdown", {"steps": 1, "delay": 0.01})
        client.call_tool("fail")
        print("calls:", client.stats.calls)
    for span in spans.get_finished_spans():
        print(span.name, span.attributes["mcp.protocol.version"], span.attributes.get("error.type", "fine"))
    print("lines of the wire:", len([line for line in wire if "tools/call" in line]))


if __name__ == "__main__":
    main()
