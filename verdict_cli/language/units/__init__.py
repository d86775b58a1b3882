"""Units: the building blocks of a judge (language.md, section 6; paper, section 3.1 and appendix A.1)."""

from verdict_cli.language.units.base import ABSTAIN, ANSWERED_BY, ITSELF, Escalate, LLMUnit, UnitBase, snake
from verdict_cli.language.units.choice_base import ChoiceUnit, shown
from verdict_cli.language.units.map import MapUnit
from verdict_cli.language.units.pools import Pool
from verdict_cli.registry import Registry

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
