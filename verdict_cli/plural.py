"""A number with its noun, as people read it."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """`1 row`, `1,200 rows`; what is not a noun with an s has both forms: `reply|replies`, `row has|rows have`."""
    singular, _, more = noun.partition("|")
    return f"{count:,} {singular if count == 1 else more or f'{singular}s'}"
