"""Benchmarks against bare `requests` and the official SDK: `python -m tests.benchmarks`."""
