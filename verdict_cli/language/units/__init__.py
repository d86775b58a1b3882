"""Units: the building blocks of a judge (language.md, section 6; paper, section 3.1 and appendix A.1)."""

from verdict_cli.language.units.base import UnitBase
from verdict_cli.registry import Registry

TYPES: Registry[type[UnitBase]] = Registry(
    __name__,
    {
        "JudgeUnit": "judges.JudgeUnit",
        "CategoricalJudgeUnit": "judges.CategoricalJudgeUnit",
        "PairwiseJudgeUnit": "choice.PairwiseJudgeUnit",
        "BestOfKJudgeUnit": "choice.BestOfKJudgeUnit",
        "RankerUnit": "choice.RankerUnit",
        "CoTUnit": "free_text.CoTUnit",
        "ConversationalUnit": "free_text.ConversationalUnit",
        "DebateUnit": "free_text.DebateUnit",
        "ArgumentUnit": "free_text.ArgumentUnit",
        "RubricUnit": "rubric.RubricUnit",
        "Unit": "judges.Unit",
        "MapUnit": "pools.MapUnit",
        "MeanPoolUnit": "pools.MeanPoolUnit",
        "MedianPoolUnit": "pools.MedianPoolUnit",
        "MedianFilterUnit": "pools.MedianFilterUnit",
        "MaxPoolUnit": "pools.MaxPoolUnit",
        "MinPoolUnit": "pools.MinPoolUnit",
        "ModePoolUnit": "pools.ModePoolUnit",
        "MeanVariancePoolUnit": "pools.MeanVariancePoolUnit",
        "RubricPoolUnit": "pools.RubricPoolUnit",
    },
)
"""Unit classes by the names under which a pipeline writes them: a new unit is a file in this folder and a line here."""
