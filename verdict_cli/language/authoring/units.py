"""The units of the language in Python: the arguments of each type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Unpack

from verdict_cli.errors import UsageError
from verdict_cli.language.authoring.arguments import LLMUnitKeys, PoolKeys, UnitKeys
from verdict_cli.language.authoring.functions import MAP_NAMES, function
from verdict_cli.language.authoring.unit_step import LLMUnitStep, UnitStep
from verdict_cli.language.scales import Scale
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.pools import OnMissing, Ties


class Unit(LLMUnitStep):
    """A unit with the response that `response` or `ResponseSchema` declares; with a `scale`, a `score` on it follows."""

    unit_type = "Unit"


class JudgeUnit(LLMUnitStep):
    """Scores on a scale: 1 to 5 by default."""

    unit_type = "JudgeUnit"


class CategoricalJudgeUnit(LLMUnitStep):
    """Chooses one of the categories, given as a list or as a scale."""

    unit_type = "CategoricalJudgeUnit"

    def __init__(
        self, categories: Sequence[Any] | Scale | str | None = None, **keys: Unpack[LLMUnitKeys]
    ) -> None:
        is_list = isinstance(categories, list | tuple)
        UnitStep.__init__(self, **{"categories" if is_list else "scale": categories}, **keys)


class PairwiseJudgeUnit(LLMUnitStep):
    """Chooses the better of two options, A or B."""

    unit_type = "PairwiseJudgeUnit"

    def __init__(
        self,
        *,
        options: Sequence[str] | None = None,
        original: bool = False,
        tie: bool = False,
        both_bad: bool = False,
        positions: Literal["given", "both"] = "given",
        labels: Sequence[str] | None = None,
        **keys: Unpack[LLMUnitKeys],
    ) -> None:
        asked = None if positions == "given" else positions
        UnitStep.__init__(
            self,
            options=options,
            original=original or None,
            tie=tie or None,
            both_bad=both_bad or None,
            positions=asked,
            labels=labels,
            **keys,
        )


class BestOfKJudgeUnit(LLMUnitStep):
    """Chooses the best of k options by its letter."""

    unit_type = "BestOfKJudgeUnit"

    def __init__(
        self,
        k: int | None = None,
        *,
        options: Sequence[str] | None = None,
        original: bool = False,
        shuffle: bool = False,
        **keys: Unpack[LLMUnitKeys],
    ) -> None:
        UnitStep.__init__(
            self, k=k, options=options, original=original or None, shuffle=shuffle or None, **keys
        )


class RankerUnit(LLMUnitStep):
    """Ranks the options from best to worst; a reply that is not a permutation is retried."""

    unit_type = "RankerUnit"

    def __init__(
        self,
        k: int | None = None,
        *,
        options: Sequence[str] | None = None,
        original: bool = False,
        **keys: Unpack[LLMUnitKeys],
    ) -> None:
        UnitStep.__init__(self, k=k, options=options, original=original or None, **keys)


class CoTUnit(LLMUnitStep):
    """Reasons in free text; the reply is its `thinking`."""

    unit_type = "CoTUnit"

    def __init__(self, **keys: Unpack[LLMUnitKeys]) -> None:
        UnitStep.__init__(self, **keys)


class ConversationalUnit(LLMUnitStep):
    """Speaks the next turn of a conversation in its role."""

    unit_type = "ConversationalUnit"

    def __init__(
        self, role_name: str, *, number: bool = False, **keys: Unpack[LLMUnitKeys]
    ) -> None:
        UnitStep.__init__(self, role_name=role_name, number=number or None, **keys)


class DebateUnit(ConversationalUnit):
    """Speaks the next turn of a debate and argues its stance."""

    unit_type = "DebateUnit"

    def __init__(
        self, role_name: str, stance: str, *, number: bool = False, **keys: Unpack[LLMUnitKeys]
    ) -> None:
        UnitStep.__init__(self, role_name=role_name, stance=stance, number=number or None, **keys)


class ArgumentUnit(LLMUnitStep):
    """Argues for or against its target."""

    unit_type = "ArgumentUnit"

    def __init__(
        self, stance: Literal["for", "against"], target: str, **keys: Unpack[LLMUnitKeys]
    ) -> None:
        UnitStep.__init__(self, stance=stance, target=target, **keys)


class RubricUnit(LLMUnitStep):
    """Without `criteria`: writes a list of them. With `criteria`: judges against them, PASS or FAIL and 0 to 10."""

    unit_type = "RubricUnit"

    def __init__(
        self,
        criteria: Sequence[str] | None = None,
        *,
        n: int | None = None,
        **keys: Unpack[LLMUnitKeys],
    ) -> None:
        UnitStep.__init__(self, criteria=criteria, n=n, **keys)


class MapUnit(UnitStep):
    """Computes its fields from `outputs`, the list of its dependencies' outputs in order of definition."""

    unit_type = "MapUnit"

    def __init__(
        self,
        map: Callable[..., Any] | Mapping[str, str] | None = None,  # noqa: A002
        *,
        fields: Mapping[str, Any] | Sequence[str] | None = None,
        **keys: Unpack[UnitKeys],
    ) -> None:
        """Take expressions by field, or a function of any of `outputs`, `input`, `previous`, `source`, `unit` by parameter
        name that returns a Schema or a mapping. A first parameter of another name takes `outputs`. `fields` declares the
        function's fields where a trial with made-up values cannot show them."""
        if map is None:
            raise UsageError(
                "MapUnit takes a function or expressions",
                hint="`MapUnit(lambda outputs: Schema.of(…))`",
            )
        if isinstance(map, Mapping):
            super().__init__(map=map, **keys)
            return
        # The function replaces this expression, which only makes the step valid.
        super().__init__(map={"value": "outputs"}, **keys)
        object.__setattr__(
            self,
            "_functions",
            {"map": function(map, "MapUnit", MAP_NAMES, fields, first="outputs")},
        )


class PoolStep(UnitStep):
    """A pool of the fields named; a list stands for several."""

    unit_type = ""

    def __init__(self, *names: str | Sequence[str], **keys: Any) -> None:
        given: Sequence[Any] = (
            names[0] if len(names) == 1 and isinstance(names[0], list | tuple) else names
        )
        for name in given:
            if not isinstance(name, str):
                raise UsageError(
                    f"{type(self).__name__} takes the names of the fields to pool, not {name!r:.80}"
                )
        pooled = (
            {"field": given[0]} if len(given) == 1 else {"fields": list(given)} if given else {}
        )
        super().__init__(**pooled, **keys)


class MeanPoolUnit(PoolStep):
    """The mean."""

    unit_type = "MeanPoolUnit"

    def __init__(
        self,
        *names: str | Sequence[str],
        weights: Sequence[float] | None = None,
        **keys: Unpack[PoolKeys],
    ) -> None:
        super().__init__(*names, weights=weights, **keys)


class ModePoolUnit(PoolStep):
    """The most frequent value; the earliest unit's of several."""

    unit_type = "ModePoolUnit"

    def __init__(
        self,
        *names: str | Sequence[str],
        weights: Sequence[float] | None = None,
        agreement: bool | None = None,
        ties: Ties | None = None,
        **keys: Unpack[PoolKeys],
    ) -> None:
        super().__init__(*names, weights=weights, agreement=agreement, ties=ties, **keys)


class _PlainPool(PoolStep):
    unit_type = ""

    def __init__(self, *names: str | Sequence[str], **keys: Unpack[PoolKeys]) -> None:
        super().__init__(*names, **keys)


class MedianPoolUnit(_PlainPool):
    """The median."""

    unit_type = "MedianPoolUnit"


class MedianFilterUnit(_PlainPool):
    """The median, under the paper's name."""

    unit_type = "MedianFilterUnit"


class MaxPoolUnit(_PlainPool):
    """The maximum, as the paper says (the most frequent value is `ModePoolUnit`)."""

    unit_type = "MaxPoolUnit"


class MinPoolUnit(_PlainPool):
    """The minimum."""

    unit_type = "MinPoolUnit"


class MeanVariancePoolUnit(_PlainPool):
    """The mean and the sample variance: `mean`, `variance`, and both below the field's own name."""

    unit_type = "MeanVariancePoolUnit"


class RubricPoolUnit(UnitStep):
    """The share of a rubric's points that the judgements of its criteria earn: `score`, `earned`, `possible`, `count`."""

    unit_type = "RubricPoolUnit"

    def __init__(
        self,
        points: str | None = None,
        *,
        clip: Sequence[float] | None = None,
        on_missing: OnMissing | None = None,
        **keys: Unpack[PoolKeys],
    ) -> None:
        super().__init__(points=points, clip=clip, on_missing=on_missing, **keys)


def unit_class(name: str) -> type[UnitStep] | None:
    """The Python class of a type of the language, None where there is none. One that has no class of its own here takes the
    arguments of the type that it derives from."""
    if name not in TYPES:
        return None
    for kind in TYPES[name].__mro__:
        known = globals().get(kind.__name__)
        if isinstance(known, type) and issubclass(known, UnitStep) and known.unit_type:
            same = known.unit_type == TYPES[name].__name__
            return (
                known
                if same
                else type(name, (known,), {"unit_type": name, "__doc__": TYPES[name].__doc__})
            )
    return None
