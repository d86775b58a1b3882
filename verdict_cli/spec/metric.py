"""A figure that an installed package offers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Of = Literal["labels", "numbers", "value", "probability"]

_NEEDS: dict[str, tuple[str, ...]] = {
    "labels": ("prediction", "target"),
    "numbers": ("prediction", "target"),
    "value": ("value",),
    "probability": ("probability", "target"),
}


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that an evaluation can ask for by the name of its entry point (group `verdict_cli.metrics`).

    ``figure`` takes arrays of one length, one item for each distinct observation, and last `weight`, how often each stands
    in the sample; its interval comes from other weights of the same items. ``of`` says which arrays:

    - `labels`: prediction and target as texts (None: no prediction, under `missing: wrong`);
    - `numbers`: prediction and target as floats;
    - `value`: the value as floats, booleans as 1 and 0;
    - `probability`: the probability, and 1 where the target is `positive`, else 0.

    It gives a float, NaN where the figure is undefined. ``least`` and ``most`` are the ends of its range.
    """

    meaning: str
    of: Of
    figure: Callable[..., float]
    lower_is_better: bool = False
    least: float = -math.inf
    most: float = math.inf

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of an evaluation without which there is no figure."""
        return _NEEDS[self.of]


def metric(name: str, loaded: Any) -> Metric:
    """What an entry point holds, which must be a Metric; TypeError says so where it is something else."""
    if not isinstance(loaded, Metric) or loaded.of not in _NEEDS:
        raise TypeError(f"is no verdict_cli.Metric of {', '.join(_NEEDS)}")
    return loaded
