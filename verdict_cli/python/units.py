"""The built-in units (language.md, section 6.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Unpack

from verdict_cli.errors import UsageError
from verdict_cli.language.scales import Scale
from verdict_cli.python.functions import MAP_NAMES, function
from verdict_cli.python.unit import CommonKeys, CommonUnit, Unit, UnitKeys


class JudgeUnit(Unit, built_in=True):
    """`score` on the scale, 1 to 5 where none is given."""


class CategoricalJudgeUnit(Unit, built_in=True):
    """`choice`, one of the categories: a list of them, or a scale."""

    def __init__(self, categories: Sequence[Any] | Scale | str | None = None, **keys: Unpack[UnitKeys]) -> None:
        if isinstance(categories, Scale | str):
            CommonUnit.__init__(self, scale=categories, **keys)
        else:
            CommonUnit.__init__(self, categories=None if categories is None else list(categories), **keys)


class PairwiseJudgeUnit(Unit, built_in=True):
    """`choice`: A or B, or `tie` where `tie` allows it; `positions="both"` asks in both orders."""

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
        CommonUnit.__init__(self, options=options, original=original or None, tie=tie or None, positions=order, **keys)


class BestOfKJudgeUnit(Unit, built_in=True):
    """`choice`: the letter of the best of k options."""

    def __init__(
        self,
        k: int | None = None,
        *,
        options: Sequence[str] | None = None,
        original: bool = False,
        shuffle: bool = False,
        **keys: Unpack[UnitKeys],
    ) -> None:
        CommonUnit.__init__(self, k=k, options=options, original=original or None, shuffle=shuffle or None, **keys)


class RankerUnit(Unit, built_in=True):
    """`ranking`: the letters of the k options from best to worst."""

    def __init__(
        self,
        k: int | None = None,
        *,
        options: Sequence[str] | None = None,
        original: bool = False,
        **keys: Unpack[UnitKeys],
    ) -> None:
        CommonUnit.__init__(self, k=k, options=options, original=original or None, **keys)


class CoTUnit(Unit, built_in=True):
    """`thinking`: free reasoning."""

    def __init__(self, **keys: Unpack[UnitKeys]) -> None:
        CommonUnit.__init__(self, **keys)


class ConversationalUnit(Unit, built_in=True):
    """The next turn of a conversation: `conversation` with this turn at its end, and `response`."""

    def __init__(self, role_name: str, *, number: bool = False, **keys: Unpack[UnitKeys]) -> None:
        CommonUnit.__init__(self, role_name=role_name, number=number or None, **keys)


class DebateUnit(Unit, built_in=True):
    """A turn of a debate, arguing its stance."""

    def __init__(self, role_name: str, stance: str, *, number: bool = False, **keys: Unpack[UnitKeys]) -> None:
        CommonUnit.__init__(self, role_name=role_name, stance=stance, number=number or None, **keys)


class ArgumentUnit(Unit, built_in=True):
    """`argument`: the best case for or against the target."""

    def __init__(self, stance: Literal["for", "against"], target: str, **keys: Unpack[UnitKeys]) -> None:
        CommonUnit.__init__(self, stance=stance, target=target, **keys)


class RubricUnit(Unit, built_in=True):
    """Without criteria: writes n of them. With criteria: `verdict` and `score` against them."""

    def __init__(
        self, criteria: Sequence[str] | None = None, *, n: int | None = None, **keys: Unpack[UnitKeys]
    ) -> None:
        CommonUnit.__init__(self, criteria=None if criteria is None else list(criteria), n=n, **keys)


class MapUnit(CommonUnit, built_in=True):
    """Fields computed from `outputs`, the outputs of the units before it: expressions by field, or a function that
    takes any of `outputs`, `input`, `previous`, `source`, `unit` by parameter name and gives a Schema or a mapping.
    `fields` names the function's fields where a trial with made-up values cannot tell them."""

    def __init__(
        self,
        map: Callable[..., Any] | Mapping[str, str] | None = None,  # noqa: A002
        *,
        fields: Mapping[str, Any] | Sequence[str] | None = None,
        **keys: Unpack[CommonKeys],
    ) -> None:
        if map is None:
            raise UsageError("MapUnit takes a function or expressions", hint="`MapUnit(lambda outputs: Schema.of(…))`")
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
        self, *names: str, weights: Sequence[float] | None = None, quorum: int | None = None, **keys: Unpack[PoolKeys]
    ) -> None:
        CommonUnit.__init__(
            self,
            **_pooled(type(self).__name__, names),
            weights=None if weights is None else list(weights),
            quorum=quorum,
            **keys,
        )


class MeanPoolUnit(_WeightedPool, built_in=True):
    """The mean of each field, of all that can be pooled where none is named."""


class MedianPoolUnit(_Pool, built_in=True):
    """The median."""


class MedianFilterUnit(_Pool, built_in=True):
    """The median, under the paper's name."""


class MaxPoolUnit(_Pool, built_in=True):
    """The maximum."""


class MinPoolUnit(_Pool, built_in=True):
    """The minimum."""


class ModePoolUnit(_WeightedPool, built_in=True):
    """The most frequent value; the earliest unit's of several."""

    def __init__(
        self,
        *names: str,
        weights: Sequence[float] | None = None,
        quorum: int | None = None,
        agreement: bool | None = None,
        **keys: Unpack[PoolKeys],
    ) -> None:
        CommonUnit.__init__(
            self,
            **_pooled(type(self).__name__, names),
            weights=None if weights is None else list(weights),
            quorum=quorum,
            agreement=agreement,
            **keys,
        )


class MeanVariancePoolUnit(_Pool, built_in=True):
    """The mean and the sample variance."""


def _pooled(kind: str, names: Sequence[Any]) -> dict[str, Any]:
    """`field`, `fields` or neither. A list of names may stand for several."""
    if len(names) == 1 and isinstance(names[0], list | tuple):
        names = names[0]
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"{kind} takes the names of the fields to pool, not {name!r:.80}")
    return {"field": names[0]} if len(names) == 1 else {"fields": list(names)} if names else {}
