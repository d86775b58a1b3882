"""The built-in units (language.md, section 6.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Unpack

from verdict_cli.api.functions import MAP_NAMES, function
from verdict_cli.api.scales import Scale
from verdict_cli.api.unit import CommonKeys, CommonUnit, Unit, UnitKeys
from verdict_cli.errors import UsageError


class JudgeUnit(Unit):
    """`score` on the scale, 1 to 5 where none is given."""

    _type: ClassVar[str] = "JudgeUnit"


class CategoricalJudgeUnit(Unit):
    """`choice`, one of the categories: a list of them, or a scale."""

    _type: ClassVar[str] = "CategoricalJudgeUnit"

    def __init__(
        self, categories: Sequence[Any] | Scale | str | None = None, **keys: Unpack[UnitKeys]
    ) -> None:
        if isinstance(categories, Scale | str):
            CommonUnit.__init__(self, scale=categories, **keys)
        else:
            CommonUnit.__init__(self, categories=None if categories is None else list(categories), **keys)


class PairwiseJudgeUnit(Unit):
    """`choice`: A or B, or `tie` where `tie` allows it; `positions="both"` asks in both orders."""

    _type: ClassVar[str] = "PairwiseJudgeUnit"

    def __init__(
        self,
        *,
        options: Sequence[str] | None = None,
        original: bool = False,
        tie: bool = False,
        positions: Literal["given", "both"] = "given",
        **keys: Unpack[UnitKeys],
    ) -> None:
        order = None if positions == "given" else positions
        CommonUnit.__init__(
            self, options=options, original=original or None, tie=tie or None, positions=order, **keys
        )


class BestOfKJudgeUnit(Unit):
    """`choice`: the letter of the best of k options."""

    _type: ClassVar[str] = "BestOfKJudgeUnit"

    def __init__(
        self,
        k: int | None = None,
        *,
        options: Sequence[str] | None = None,
        original: bool = False,
        shuffle: bool = False,
        **keys: Unpack[UnitKeys],
    ) -> None:
        CommonUnit.__init__(
            self, k=k, options=options, original=original or None, shuffle=shuffle or None, **keys
        )


class RankerUnit(Unit):
    """`ranking`: the letters of the k options from best to worst."""

    _type: ClassVar[str] = "RankerUnit"

    def __init__(
        self,
        k: int | None = None,
        *,
        options: Sequence[str] | None = None,
        original: bool = False,
        **keys: Unpack[UnitKeys],
    ) -> None:
        CommonUnit.__init__(self, k=k, options=options, original=original or None, **keys)


class CoTUnit(Unit):
    """`thinking`: free reasoning."""

    _type: ClassVar[str] = "CoTUnit"

    def __init__(self, **keys: Unpack[UnitKeys]) -> None:
        CommonUnit.__init__(self, **keys)


class ConversationalUnit(Unit):
    """The next turn of a conversation: `conversation` with this turn at its end, and `response`."""

    _type: ClassVar[str] = "ConversationalUnit"

    def __init__(self, role_name: str, *, number: bool = False, **keys: Unpack[UnitKeys]) -> None:
        CommonUnit.__init__(self, role_name=role_name, number=number or None, **keys)


class DebateUnit(Unit):
    """A turn of a debate, arguing its stance."""

    _type: ClassVar[str] = "DebateUnit"

    def __init__(
        self, role_name: str, stance: str, *, number: bool = False, **keys: Unpack[UnitKeys]
    ) -> None:
        CommonUnit.__init__(self, role_name=role_name, stance=stance, number=number or None, **keys)


class ArgumentUnit(Unit):
    """`argument`: the best case for or against the target."""

    _type: ClassVar[str] = "ArgumentUnit"

    def __init__(self, stance: Literal["for", "against"], target: str, **keys: Unpack[UnitKeys]) -> None:
        CommonUnit.__init__(self, stance=stance, target=target, **keys)


class RubricUnit(Unit):
    """Without criteria: writes n of them. With criteria: `verdict` and `score` against them."""

    _type: ClassVar[str] = "RubricUnit"

    def __init__(
        self, criteria: Sequence[str] | None = None, *, n: int | None = None, **keys: Unpack[UnitKeys]
    ) -> None:
        CommonUnit.__init__(self, criteria=None if criteria is None else list(criteria), n=n, **keys)


class MapUnit(CommonUnit):
    """Fields computed from `outputs`, the outputs of the units before it: expressions by field, or a function that
    takes any of `outputs`, `input`, `previous`, `source`, `unit` by parameter name and gives a Schema or a mapping.
    `fields` names the function's fields where a trial with made-up values cannot tell them."""

    _type: ClassVar[str] = "MapUnit"

    def __init__(
        self,
        map: Callable[..., Any] | Mapping[str, str] | None = None,  # noqa: A002
        *,
        fields: Mapping[str, Any] | Sequence[str] | None = None,
        **keys: Unpack[CommonKeys],
    ) -> None:
        if map is None:
            raise UsageError(
                "MapUnit takes a function or expressions", hint="`MapUnit(lambda outputs: Schema.of(…))`"
            )
        if isinstance(map, Mapping):
            super().__init__(map=dict(map), **keys)
            return
        super().__init__(map={"value": "outputs"}, **keys)
        object.__setattr__(self, "_functions", {"map": function(map, "MapUnit", MAP_NAMES, fields)})


class PoolKeys(CommonKeys, total=False):
    """The keys of every pool."""

    field: str
    fields: Sequence[str]


class _Pool(CommonUnit):
    def __init__(self, *names: str, quorum: int | None = None, **keys: Unpack[PoolKeys]) -> None:
        super().__init__(**_pooled(type(self).__name__, names), quorum=quorum, **keys)


class _WeightedPool(_Pool):
    def __init__(
        self,
        *names: str,
        weights: Sequence[float] | None = None,
        quorum: int | None = None,
        **keys: Unpack[PoolKeys],
    ) -> None:
        CommonUnit.__init__(
            self,
            **_pooled(type(self).__name__, names),
            weights=None if weights is None else list(weights),
            quorum=quorum,
            **keys,
        )


class MeanPoolUnit(_WeightedPool):
    """The mean of each field, of all that can be pooled where none is named."""

    _type: ClassVar[str] = "MeanPoolUnit"


class MedianPoolUnit(_Pool):
    """The median."""

    _type: ClassVar[str] = "MedianPoolUnit"


class MedianFilterUnit(_Pool):
    """The median, under the paper's name."""

    _type: ClassVar[str] = "MedianFilterUnit"


class MaxPoolUnit(_Pool):
    """The maximum."""

    _type: ClassVar[str] = "MaxPoolUnit"


class MinPoolUnit(_Pool):
    """The minimum."""

    _type: ClassVar[str] = "MinPoolUnit"


class ModePoolUnit(_WeightedPool):
    """The most frequent value; the earliest unit's of several."""

    _type: ClassVar[str] = "ModePoolUnit"


class MeanVariancePoolUnit(_Pool):
    """The mean and the sample variance."""

    _type: ClassVar[str] = "MeanVariancePoolUnit"


def _pooled(kind: str, names: Sequence[Any]) -> dict[str, Any]:
    """`field`, `fields` or neither. A list of names may stand for several."""
    if len(names) == 1 and isinstance(names[0], list | tuple):
        names = names[0]
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"{kind} takes the names of the fields to pool, not {name!r:.80}")
    return {"field": names[0]} if len(names) == 1 else {"fields": list(names)} if names else {}
