"""Tests of what happens at the same time."""
