"""Calls to servers that fail in every way."""
