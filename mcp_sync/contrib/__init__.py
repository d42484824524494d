"""Frameworks: each package below loads with its framework only."""
