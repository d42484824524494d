"""The official conformance suite, run against this client: `python -m tests.conformance.run`."""
