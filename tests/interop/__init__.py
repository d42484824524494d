"""Tests against servers of other makers; `python -m tests.interop.install` brings them."""
