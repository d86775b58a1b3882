"""Paths, expressions and the sandbox that they run in."""
