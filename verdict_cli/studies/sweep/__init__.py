"""Variants of a pipeline compared on the same rows."""
