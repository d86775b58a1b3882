"""Scales: the domain of a judge's values (paper, section 3.1)."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, ValidationError
from typing_extensions import TypeAliasType

from verdict_cli.config_model import (
    ConfigModel,
    Expected,
    Issue,
    JsonSchema,
    LazyUnion,
    MessageAndHint,
    display_value,
    python_constructor,
    subclass_of,
)
from verdict_cli.errors import ReplyError, UsageError
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.language.scales.written_number import Tokens, quote_value
from verdict_cli.messages import JsonObject
from verdict_cli.registry import Registry


def shuffled_order(words: Sequence[str], draw: int) -> tuple[str, ...]:
    """The words in the order that ``draw`` seeds."""
    return tuple(random.Random(draw).sample(words, len(words)))


Value = Annotated[str | int | float | bool, Field(union_mode="left_to_right")]


class Scale(ConfigModel):
    """The domain of a judge's values. The rest of the program asks a scale for what it needs and never for its class.

    A subclass with a finite set of values gives `values()` and `tokens()`; one without gives `bounds()`.
    """

    type: str
    """The type of scale."""
    descriptions: dict[Value, str] | None = None
    """What each value means, such as `{bad: contradicts a source, good: every claim is supported}`; some may be missing. Prompts show it."""

    @python_constructor
    def __init__(self, /, **keys: Any) -> None:
        """Raises UsageError for keys that are wrong, or that make no sense together."""
        super().__init__(**keys)
        issue = self.validation_error()
        if issue is not None:
            key, message, hint = issue
            raise UsageError(
                f"{type(self).__name__}: {key + ': ' if key else ''}{message}", hint=hint
            )

    def validation_error(self) -> Issue | None:
        """What makes no sense about the scale, None when nothing."""
        return self.broken_rule() or self.descriptions_error()

    def descriptions_error(self) -> Issue | None:
        """What makes no sense about the descriptions, None when nothing."""
        values = list(map(_typed, self.values()))
        for value in self.descriptions or ():
            if _typed(value) not in values:
                return Issue(
                    "descriptions",
                    f"{value!r} is not a value of the scale",
                    f"its values are {self.display()}",
                )
        return None

    def description(self, value: Any) -> str:
        """What a value means; "" where nothing is said of it."""
        described = {_typed(key): text for key, text in (self.descriptions or {}).items()}
        return described.get(_typed(value), "")

    def described(self) -> str:
        """The values with their descriptions, one a line, as a prompt shows them; "" without any."""
        lines = (
            f"- {token}: {text}"
            for token, value in self.anchors()
            if (text := self.description(value))
        )
        return "\n".join(lines)

    def anchors(self) -> Tokens:
        """(token, value) of the values that a decision model chooses from: the worst first where the scale is ordered."""
        tokens: dict[Any, str] = {}
        for token, value in self.tokens():
            tokens.setdefault(_typed(value), token)
        values = self.values() if self.ordered else self.token_values()
        return tuple((tokens[_typed(value)], value) for value in values)

    def read(self, value: Any) -> Any:
        """The value of the scale that a reply's text or JSON value means. ReplyError when it means none."""
        raise NotImplementedError

    def off_scale(self, value: Any) -> ReplyError:
        """The error of a reply's value that means none of the scale."""
        message = f"{quote_value(value)} is not on the scale {self.display()}"
        return ReplyError(message, kind="off-scale")

    @property
    def ordered(self) -> bool:
        """Whether the values run from a worst to a best one; those of a nominal scale do not."""
        return True

    def warning(self) -> Issue | None:
        """What makes sense but is probably not meant, None when nothing."""
        return None

    def label_warning(self) -> Issue | None:
        """What a prompt that names a worst and a best value would say of labels, None where it says nothing."""
        return None

    def values(self) -> tuple[Any, ...]:
        """All values, worst first; empty where they cannot be listed."""
        return ()

    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest number that a value can have, None where no value has a number."""
        numbers = [number for value in self.values() if (number := self.number(value)) is not None]
        return (min(numbers), max(numbers)) if numbers else None

    def best(self) -> Any:
        """The best value, None where no value is better than another."""
        return self.values()[-1] if self.ordered and self.values() else None

    def sample(self) -> Any:
        """Any value of the scale, for trials with made-up replies."""
        return self.values()[-1] if self.values() else (self.bounds() or (0.0, 1.0))[1]

    def tokens(self) -> Tokens:
        """(token, value) pairs of the token support; empty where values are not tokens."""
        return ()

    def token_values(self) -> tuple[Any, ...]:
        """The values that have tokens, in the order of these."""
        return tuple(dict.fromkeys(value for _, value in self.tokens()))

    def numbers_error(self, key: str, numbers: Mapping[Any, float], noun: str) -> Issue | None:
        """What is wrong with a number for each value, None when nothing."""
        values = self.token_values()
        for value in numbers:
            if value not in values:
                message = f"{value!r} is not a value of the scale"
                return Issue(key, message, f"its values are {self.display()}")
        for value in values:
            if value not in numbers:
                message = f"the value {value!r} has no {noun}"
                return Issue(key, message, "give every value a number")
        return None

    def number(self, value: Any) -> float | None:
        """The number of a value, None where it has none."""
        return float(value)

    def numeric(self) -> bool:
        """Whether every value has a number."""
        return True

    @property
    def has_scores(self) -> bool:
        """Whether numbers were given for the values, so that pools use these instead of the values."""
        return False

    def display(self) -> str:
        """The values as a prompt names them."""
        raise NotImplementedError

    def sentence(self, field: str) -> str:
        """The sentence about a field on this scale that is added to a prompt."""
        raise NotImplementedError

    def is_shuffled(self) -> bool:
        """Whether each row lists the values in an order of its own."""
        return False

    def shuffled_sentence(self, field: str, draw: int) -> str:
        """The sentence with the values in an order that ``draw`` seeds: for a scale that `is_shuffled`."""
        return self.sentence(field)

    def json_sentence(self, field: str, draw: int) -> str:
        """The sentence where the reply is JSON: it names the values as `json_schema` has them. ``draw`` seeds a shuffle."""
        return self.shuffled_sentence(field, draw) if self.is_shuffled() else self.sentence(field)

    def json_schema(self) -> JsonSchema:
        """The JSON Schema of a value."""
        raise NotImplementedError

    def key(self) -> JsonObject:
        """The scale as a pipeline file has it. UsageError for a class that a file cannot name."""
        registered = SCALES[self.type]
        if type(self).read is not registered.read:
            # A file can only say `type`, which would silently mean the class that this one derives from.
            hint = "declare it as an entry point of the group verdict_cli.scales, and use its name: scale='NAME'"
            raise UsageError(
                f"{type(self).__name__} is not the scale of the type {self.type!r}", hint=hint
            )
        defaults = {name: field.default for name, field in registered.model_fields.items()}
        keys = self.model_dump(
            by_alias=True,
            exclude={name for name in defaults if getattr(self, name) == defaults[name]},
        )
        return {"type": self.type} | {
            key: list(value) if isinstance(value, tuple) else value for key, value in keys.items()
        }

    def __str__(self) -> str:
        return self.display()

    def __eq__(self, other: object) -> bool:
        # By the repr, which distinguishes 1 from true and from 1.0.
        return isinstance(other, Scale) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _typed(value: Any) -> tuple[bool, Any]:
    """The value as a key in which true is not 1."""
    return isinstance(value, bool), value


SCALES: Registry[type[Scale]] = Registry(
    __name__,
    {
        "boolean": "boolean.BooleanScale",
        "discrete": "discrete.DiscreteScale",
        "continuous": "continuous.ContinuousScale",
    },
    "verdict_cli.scales",
    subclass_of(Scale),
)
"""Scales by their `type`: a new scale is a file in this folder and a line here."""

_TYPE_OF_KEY = {
    **dict.fromkeys(("yes", "no"), "boolean"),
    **dict.fromkeys(("range", "values", "scores", "ordered"), "discrete"),
    **dict.fromkeys(("min", "max"), "continuous"),
}
"""Keys that imply a type where a mapping has no `type`. All other scales need one."""

IMPLIED_TYPES = frozenset(_TYPE_OF_KEY.values())


def scale_type(value: Any) -> str | None:
    """The type of built-in scale that a mapping means: its `type`, or else the one that its keys imply."""
    if not isinstance(value, dict):
        return value.type if isinstance(value, Scale) else None
    if "type" in value:
        name = value["type"]
        return name if isinstance(name, str) and name in SCALES else None
    types = {_TYPE_OF_KEY[key] for key in value if key in _TYPE_OF_KEY}
    return types.pop() if len(types) == 1 else None


def _scale_tag(value: Any) -> str | None:
    name = scale_type(value)
    return None if name is None else f"<{name}>"


def _expected(value: Any) -> MessageAndHint:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind is not None:
        return f"unknown type of scale {display_value(kind)}", nearest_spelling(
            str(kind), SCALES.names()
        )
    values = value
    if isinstance(value, dict) and len(value) == 1:
        (values,) = value.values()
    if isinstance(values, list):
        listed = ", ".join(map(str, values))
        return f"expected a scale, found {display_value(value)}", f"write `{{values: [{listed}]}}`"
    hint = f"write a name ({', '.join(named_scales())}) or `{{type: discrete, range: [1, 5]}}`"
    return f"expected a scale, found {display_value(value)}", hint


ScaleKeys = Annotated[
    Scale,
    LazyUnion(_scale_tag, SCALES.choices("<{}>".format), registry=SCALES),
    Expected(_expected),
]
"""A scale written out as a mapping."""


def _name_or_scale(value: Any) -> str:
    return "<name>" if isinstance(value, str) else "<scale>"


ScaleKey = TypeAliasType(
    "ScaleKey",
    Annotated[
        Annotated[str, Tag("<name>")] | Annotated[ScaleKeys, Tag("<scale>")],
        Discriminator(_name_or_scale),
    ],
)
"""A scale in a pipeline: a name or a mapping."""

TypedScaleKeys = Annotated[ScaleKeys, Field(json_schema_extra={"required": ["type"]})]
"""A scale with its `type`, where other mappings are possible too."""


@cache
def named_scales() -> dict[str, Scale]:
    """The scales that every pipeline can name."""
    return {"likert": SCALES["discrete"](range=(1, 5)), "boolean": SCALES["boolean"]()}


def named_without_keys() -> list[str]:
    """The names of scales that a file need not declare."""
    return [
        *named_scales(),
        *(
            name
            for name in SCALES
            if name not in named_scales() and scale_of_type(name) is not None
        ),
    ]


def scale_of_type(name: str) -> Scale | None:
    """The scale of a registered type without keys of its own; None where it needs some."""
    try:
        scale = SCALES[name].model_validate({"type": name})
    except ValidationError:
        return None
    return scale if scale.validation_error() is None else None


WRITTEN_RANGE = r"^(-?\d{1,9})-(-?\d{1,9})$"
"""A range of whole numbers that is written as a scale's name."""


def written_range(text: str) -> Scale | None:
    """The scale of whole numbers that a text such as `1-5` names, None for any other text."""
    ends = re.fullmatch(WRITTEN_RANGE, text)
    return (
        SCALES["discrete"].model_validate(
            {"type": "discrete", "range": [int(ends[1]), int(ends[2])]}
        )
        if ends
        else None
    )
