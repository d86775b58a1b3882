"""The order in which a prompt lists the values of a nominal scale."""

from __future__ import annotations

import random
from collections.abc import Sequence


def shuffled_order(words: Sequence[str], draw: int) -> tuple[str, ...]:
    """The words in the order that `draw` seeds."""
    return tuple(random.Random(draw).sample(words, len(words)))
