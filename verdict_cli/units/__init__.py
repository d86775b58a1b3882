"""Units: the building blocks of a judge (language.md, section 6; paper, section 3.1 and appendix A.1)."""

from __future__ import annotations

from typing import Any, get_args

from verdict_cli.units.argument import ArgumentUnit
from verdict_cli.units.best_of_k import BestOfKJudgeUnit
from verdict_cli.units.categorical import CategoricalJudgeUnit
from verdict_cli.units.conversational import ConversationalUnit, DebateUnit
from verdict_cli.units.cot import CoTUnit
from verdict_cli.units.generic import Unit
from verdict_cli.units.judge import JudgeUnit
from verdict_cli.units.keys import Asking, Common, snake
from verdict_cli.units.map import MapUnit
from verdict_cli.units.options import Choosing, shown
from verdict_cli.units.pairwise import PairwiseJudgeUnit
from verdict_cli.units.pools import (
    MaxPoolUnit,
    MeanPoolUnit,
    MeanVariancePoolUnit,
    MedianPoolUnit,
    MinPoolUnit,
    ModePoolUnit,
    Pool,
)
from verdict_cli.units.ranker import RankerUnit
from verdict_cli.units.rubric import RubricUnit

AnyUnit = (
    JudgeUnit
    | CategoricalJudgeUnit
    | PairwiseJudgeUnit
    | BestOfKJudgeUnit
    | RankerUnit
    | CoTUnit
    | ConversationalUnit
    | DebateUnit
    | ArgumentUnit
    | RubricUnit
    | Unit
    | MapUnit
    | MeanPoolUnit
    | MedianPoolUnit
    | MaxPoolUnit
    | MinPoolUnit
    | ModePoolUnit
    | MeanVariancePoolUnit
)
"""The registry: a new unit is a file in this folder and a name in this line."""


def type_names(kind: type[Any]) -> tuple[str, ...]:
    """The names under which a pipeline spells a unit class."""
    return get_args(kind.model_fields["unit"].annotation)


TYPES: dict[str, type[Common]] = {name: kind for kind in get_args(AnyUnit) for name in type_names(kind)}
"""Unit classes by the names under which a pipeline spells them."""

__all__ = [
    "TYPES",
    "AnyUnit",
    "ArgumentUnit",
    "Asking",
    "BestOfKJudgeUnit",
    "CategoricalJudgeUnit",
    "Choosing",
    "CoTUnit",
    "Common",
    "ConversationalUnit",
    "DebateUnit",
    "JudgeUnit",
    "MapUnit",
    "MaxPoolUnit",
    "MeanPoolUnit",
    "MeanVariancePoolUnit",
    "MedianPoolUnit",
    "MinPoolUnit",
    "ModePoolUnit",
    "PairwiseJudgeUnit",
    "Pool",
    "RankerUnit",
    "RubricUnit",
    "Unit",
    "shown",
    "snake",
    "type_names",
]
