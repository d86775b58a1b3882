"""Prompts and how they are filled (language.md, section 2)."""
