"""Tests of `mcp_sync.tasks`."""
