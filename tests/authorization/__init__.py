"""Tests against authorization servers of other makes; `python -m tests.interop.install` brings them."""
