"""Units: the building blocks of a judge (language.md, section 6; paper, section 3.1 and appendix A.1)."""

from typing import Any

from verdict_cli.language.units.base import LLMUnit, UnitBase, snake
from verdict_cli.language.units.choice_base import ChoiceUnit, shown
from verdict_cli.language.units.escalate import ABSTAIN, ANSWERED_BY, ITSELF, Escalate
from verdict_cli.language.units.map import MapUnit
from verdict_cli.language.units.pools import Pool
from verdict_cli.registry import Registry


def _check_unit(_: str, loaded: Any) -> type[UnitBase]:
    if not (isinstance(loaded, type) and issubclass(loaded, LLMUnit)):
        raise TypeError("is not a subclass of verdict_cli.Unit")
    return loaded


TYPES: Registry[type[UnitBase]] = Registry(
    __name__,
    {
        "JudgeUnit": "judge.JudgeUnit",
        "CategoricalJudgeUnit": "categorical.CategoricalJudgeUnit",
        "PairwiseJudgeUnit": "pairwise.PairwiseJudgeUnit",
        "BestOfKJudgeUnit": "best_of_k.BestOfKJudgeUnit",
        "RankerUnit": "ranker.RankerUnit",
        "CoTUnit": "cot.CoTUnit",
        "ConversationalUnit": "conversational.ConversationalUnit",
        "DebateUnit": "conversational.DebateUnit",
        "ArgumentUnit": "argument.ArgumentUnit",
        "RubricUnit": "rubric.RubricUnit",
        "Unit": "generic.Unit",
        "MapUnit": "map.MapUnit",
        "MeanPoolUnit": "pools.MeanPoolUnit",
        "MedianPoolUnit": "pools.MedianPoolUnit",
        "MedianFilterUnit": "pools.MedianFilterUnit",
        "MaxPoolUnit": "pools.MaxPoolUnit",
        "MinPoolUnit": "pools.MinPoolUnit",
        "ModePoolUnit": "pools.ModePoolUnit",
        "MeanVariancePoolUnit": "pools.MeanVariancePoolUnit",
        "RubricPoolUnit": "rubric_pool.RubricPoolUnit",
    },
    "verdict_cli.units",
    _check_unit,
)
"""Unit classes by the names under which a pipeline writes them: a new unit is a file in this folder and a line here."""


__all__ = [
    "ABSTAIN",
    "ANSWERED_BY",
    "ITSELF",
    "TYPES",
    "ChoiceUnit",
    "Escalate",
    "LLMUnit",
    "MapUnit",
    "Pool",
    "UnitBase",
    "shown",
    "snake",
]
