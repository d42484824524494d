"""Tests of the engine, and the channels that a test drives step by step."""
