"""The yes/no scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from verdict_cli.config_model import Issue, JsonSchema, NonEmptyTuple, python_constructor
from verdict_cli.language.scales import Scale, shuffled_order
from verdict_cli.language.scales.written_number import Tokens, fold_case, match_value


class BooleanScale(Scale):
    """Yes or no. Values are `true` and `false`; the tokens that mean them can be set."""

    type: Literal["boolean"] = "boolean"
    """The type of scale."""
    yes: NonEmptyTuple[str] = ("yes", "true")
    """Tokens that mean true; prompts use the first one."""
    no: NonEmptyTuple[str] = ("no", "false")
    """Tokens that mean false; prompts use the first one."""
    end_is_worst: bool = False
    """Whether true is the worse end."""
    shuffle: bool = False
    """Whether the prompt lists the two words in an order drawn for each row and unit."""

    @python_constructor
    def __init__(
        self,
        *,
        yes: Sequence[str] | None = None,
        no: Sequence[str] | None = None,
        end_is_worst: bool = False,
        shuffle: bool = False,
        **keys: Any,
    ) -> None:
        tokens = {name: words for name, words in (("yes", yes), ("no", no)) if words is not None}
        super().__init__(**tokens, end_is_worst=end_is_worst, shuffle=shuffle, **keys)

    @property
    def ordered(self) -> bool:
        return False

    def best(self) -> bool:
        """The answer that counts as a pass, though the prompt does not call it the best."""
        return not self.end_is_worst

    def values(self) -> tuple[Any, ...]:
        return (True, False) if self.end_is_worst else (False, True)

    def validation_error(self) -> Issue | None:
        for word in (*self.yes, *self.no):
            if not word.strip():
                key = "no" if word in self.no else "yes"
                return Issue(
                    key, f"{word!r} is not a word that a model can answer", "name each token"
                )
        both = {fold_case(word) for word in self.yes} & {fold_case(word) for word in self.no}
        if both:
            return Issue(
                "no", f"{min(both)!r} means both yes and no", "give each token one meaning"
            )
        return self.descriptions_error()

    def read(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        match = match_value(value, self.tokens()) if isinstance(value, str) else None
        if match is None:
            raise self.off_scale(value)
        return bool(match[0])

    def tokens(self) -> Tokens:
        """Yes before no: where both are equally probable, `argmax_score` takes the first."""
        return tuple((word, True) for word in self.yes) + tuple((word, False) for word in self.no)

    def display(self) -> str:
        return f"{self.yes[0]}, {self.no[0]}"

    def sentence(self, field: str) -> str:
        return _sentence(field, f'"{self.yes[0]}"', f'"{self.no[0]}"')

    def json_sentence(self, field: str, draw: int) -> str:
        words = [
            token if token == word else f'{token} ("{word}")'
            for token, word in (("true", self.yes[0]), ("false", self.no[0]))
        ]
        return _sentence(field, *(shuffled_order(words, draw) if self.shuffle else words))

    def is_shuffled(self) -> bool:
        return self.shuffle

    def shuffled_sentence(self, field: str, draw: int) -> str:
        return _sentence(field, *shuffled_order((f'"{self.yes[0]}"', f'"{self.no[0]}"'), draw))

    def json_schema(self) -> JsonSchema:
        return {"type": "boolean"}


def _sentence(field: str, first: str, second: str) -> str:
    return f"Answer with {first} or {second} as the {field}."
