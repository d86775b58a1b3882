"""Paths, expressions and the sandbox that they run in (language.md, section 2)."""
