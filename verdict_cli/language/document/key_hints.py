"""What people mean by keys that the language does not have: those of other tools and of models' APIs."""

from __future__ import annotations

from collections.abc import Container

_MEANT = (
    (("a", "b", "candidates", "responses"), "options", "write `options: [source.a, source.b]`"),
    (("both_orders", "swap", "swap_positions"), "positions", "write `positions: both`"),
    (("temperature", "top_p", "max_tokens", "stop"), "model", "write `model: {name: …, temperature: …}`"),
    (("system", "system_prompt"), "prompt", "write a line `@system` in the prompt, and `@user` before the rest"),
    (("choices", "classes", "labels"), "categories", "write `categories: [a, b]`"),
    (
        ("choices", "labels", "values", "range"),
        "scale",
        "write `scale: {values: [bad, good]}` or `scale: {range: [1, 5]}`",
    ),
    (
        ("hedge",),
        "timeout",
        "hedged requests were removed: lower `timeout`, so that a slow call ends and `retries` makes it again",
    ),
    (("n", "votes", "repeat", "times"), "unit", "write `layer: [{unit: …}]` with `repeat: 3` beside it"),
)
"""Keys that newcomers write, the key that is meant, and how that is written."""


def meant_key(key: str, keys: Container[str]) -> str:
    """How the key that is meant is written, if it is among ``keys``; else an empty text."""
    return next((hint for names, target, hint in _MEANT if key in names and target in keys), "")
