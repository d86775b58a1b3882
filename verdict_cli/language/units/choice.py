"""Units that choose among options, which have letters in the order shown: the better of two (Zheng et al., 2023), the best of
k, all k from best to worst. Both orders of two are called against position bias (Wang et al., 2023: "Large Language Models are
not Fair Evaluators")."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from verdict_cli.config_model import Issue, KeyRule, Seq, Whole
from verdict_cli.language.expressions.paths import RowValues
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.extractors.bound_extractor import MASS_FIELD
from verdict_cli.language.fields.types import (
    TEXT,
    TRUTH,
    Fields,
    FieldType,
    RecordType,
    ScaleType,
    TextListType,
    Values,
)
from verdict_cli.language.prompts.prompt import JinjaPrompt
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.discrete import Categories
from verdict_cli.language.scales.written_number import fold_case
from verdict_cli.language.units.base import BOTH_BAD, NO_PREFERENCE, TIE, LLMUnit, OptionOrder
from verdict_cli.regex import regex

LETTERS = string.ascii_uppercase

_SHOWN = regex(r"(?<!\\)\{input\.options(?:\[(\d{1,2})\])?\}")


class ChoiceUnit(LLMUnit):
    """Keys of units with options. Option i has letter i."""

    positional: ClassVar[tuple[str, ...]] = ()
    options: Seq[str] | None = None
    """An expression for each option; the input fields `A`, `B` … by default."""
    original: bool = False
    """Whether the output also has the text of the chosen option."""

    def count(self) -> int:
        """How many options there are."""
        return 2 if self.options is None else len(self.options)

    def letters(self) -> tuple[str, ...]:
        """The options' letters."""
        return tuple(LETTERS[: self.count()])

    def validation_error(self) -> Issue | None:
        """Two to 26 options, and a letter wherever the options' order or texts are needed again."""
        if not 2 <= self.count() <= len(LETTERS):
            return Issue(
                "options",
                f"{self.count()} options, where 2 to {len(LETTERS)} are possible",
                "give an expression for each option",
            )
        if self.needs_letter() and not self.gets_letter():
            return Issue(
                "extract",
                "`original`, `shuffle` and `positions: both` need a letter, which this extractor does not read",
                "use `argmax_score`, or leave them out",
            )
        return None

    def option_texts(self) -> tuple[str, ...]:
        return self.options or ()

    def needs_letter(self) -> bool:
        return self.original or self.changes_order()

    def gets_letter(self) -> bool:
        """Whether the reply is read as a letter, not as a distribution or its expectation."""
        return resolve_extractor(self.extract_key).type not in (
            "token_probability",
            "weighted_summed_score",
        )

    def required_inputs(self) -> Fields:
        """The options' texts, where no expressions give them."""
        return {} if self.options is not None else dict.fromkeys(self.letters(), TEXT)

    def choices(self) -> tuple[str, ...]:
        """What the options are called, in the order in which they are given."""
        return self.letters()

    def scaled_field(self) -> str | None:
        return "choice"

    def output_fields(self, read: RecordType) -> RecordType:
        """What is read, and `chosen` with `original`."""
        return RecordType({**read.fields, **({"chosen": TEXT} if self.original else {})})

    def combine_responses(
        self,
        responses: Sequence[Values],
        orders: Sequence[OptionOrder],
        inputs: RowValues,
    ) -> Values:
        """The choice in terms of the options as given."""
        if not self.gets_letter():
            return responses[0]
        names = self.choices()
        choices = [response["choice"] for response in responses]
        for index, choice in enumerate(choices):
            if choice in names:
                choices[index] = names[orders[index][names.index(choice)]]
        output = dict(responses[0])
        if len(choices) > 1:
            output["consistent"] = choices[0] == choices[1]
            if MASS_FIELD in output:
                output[MASS_FIELD] = min(response[MASS_FIELD] for response in responses)
        choice = output["choice"] = choices[0] if len(set(choices)) == 1 else TIE
        if self.original:
            is_option = choice in names
            output["chosen"] = inputs[self.letters()[names.index(choice)]] if is_option else ""
        return output

    def option_orders(self, draw: int) -> tuple[OptionOrder, ...]:
        """One call, the options as given."""
        return (tuple(range(self.count())),)

    def frame_fields(self, prompt: str) -> str:
        """The prompt for a state that has the options as fields: it only names them."""
        if self._lists_options():
            placeholders = " and ".join(f"{{input.{letter}}}" for letter in self.letters())
            sentence = f"The options are {placeholders}."
            prompt = prompt.replace("{input.options}", sentence).replace(self.listed(), sentence)
        return self.frame(prompt)

    def frame(self, prompt: str) -> str:
        """The prompt with `{input.options}` and `{input.options[0]}` replaced by the options and their letters."""
        return super().frame(
            _SHOWN.sub(self._listed_at, prompt) if self._lists_options() else prompt
        )

    def _lists_options(self) -> bool:
        """Whether `{input.options}` in the prompt are the unit's options."""
        return not isinstance(self.prompt_key, JinjaPrompt) and "options" not in (self.input or {})

    def _listed_at(self, match: re.Match[str]) -> str:
        if match[1] is None:
            return self.listed()
        letters = self.letters()
        return f"{{input.{letters[int(match[1])]}}}" if int(match[1]) < len(letters) else match[0]

    def listed(self) -> str:
        """The part of a prompt that shows the options."""
        return "\n\n".join(
            f"<option_{letter}>\n{{input.{letter}}}\n</option_{letter}>"
            for letter in self.letters()
        )


def shuffle_options(count: int, draw: int) -> OptionOrder:
    """A seeded order of `count` options."""
    order = list(range(count))
    random.Random(draw).shuffle(order)
    return tuple(order)


class KChoiceUnit(ChoiceUnit):
    """Keys of units with `k` options."""

    positional = ("k",)
    key_rules = (
        KeyRule("", "", ("k", "options"), "the unit needs `k` or `options`", "write `k: 4`, or an expression for each option", at="k"),
    )  # fmt: skip

    k: Annotated[int, Field(ge=2, le=26), Whole] | None = None
    """How many options there are."""

    def count(self) -> int:
        """`k`, or as many as there are options."""
        return self.k or super().count()

    def validation_error(self) -> Issue | None:
        """`k` and `options` agree, and nothing is on a scale."""
        if broken := self.broken_rule():
            return broken
        if self.k is not None and self.options is not None and len(self.options) != self.k:
            return Issue(
                "options",
                f"k is {self.k}, but there are {len(self.options)} options",
                "give k expressions, or leave `k` out",
            )
        if self.scale is not None:
            return Issue("scale", "the unit answers with the options' letters", "leave `scale` out")
        return super().validation_error()


Label = Annotated[str, Field(pattern=r"^[^{}<>@\n]+$")]
"""The name of an option, which a prompt shows as it is."""


def label_letters(choice: FieldType) -> dict[Any, str]:
    """The letter of each label of a pairwise judge, by the type of its `choice`."""
    values = choice.scale.values() if isinstance(choice, ScaleType) else ()
    options = (value for value in values if value not in NO_PREFERENCE)
    return dict(zip(options, "AB", strict=False))


class PairwiseJudgeUnit(ChoiceUnit):
    """Chooses the better of two options, A or B, or by the words of its `scale`."""

    scale_names_options = True

    unit: Literal["PairwiseJudgeUnit"] = "PairwiseJudgeUnit"
    """The unit's type."""
    tie: bool = False
    """Whether `tie` may be chosen too."""
    both_bad: bool = False
    """Whether `both_bad` may be chosen too: neither option is acceptable. Metrics of preferences leave it out, as they do ties."""
    positions: Literal["given", "both"] = "given"
    """`both` asks in both orders; where the answers disagree the choice is `tie`."""
    labels: Annotated[Seq[Label], Field(min_length=2, max_length=2)] | None = None
    """What the options are called in the prompt, the answer and `choice`, instead of A and B. Metrics of preferences need A and B."""

    def option_labels(self) -> tuple[str, ...]:
        return self.labels or ()

    def validation_error(self) -> Issue | None:
        """Exactly two options; the choices are the unit's own."""
        if self.options is not None and len(self.options) != 2:
            return Issue(
                "options",
                f"a pairwise judge compares 2 options, here are {len(self.options)}",
                "use BestOfKJudgeUnit for more",
            )
        if self.scale is not None and (len(self._scale_names()) != 2 or self.labels is not None):
            hint = "such as `scale: {type: discrete, values: [first, second]}`, `tie` and `both_bad` added where they may be chosen"
            return Issue("scale", "a pairwise judge has a scale of two words, one an option", hint)
        names = {fold_case(name) for name in (*self.choices(), *NO_PREFERENCE)}
        if len(names) < 4 or "" in names:
            return Issue(
                "labels",
                "the labels are not two words, or one of them is `tie` or `both_bad`",
                "give each option a name of its own",
            )
        return super().validation_error()

    def default_scale(self) -> Scale:
        """A and B, and `tie` and `both_bad` where they may be chosen."""
        scale_values = self.scale.values() if isinstance(self.scale, Scale) else ()
        may_be = {
            TIE: self.tie or TIE in scale_values,
            BOTH_BAD: self.both_bad or BOTH_BAD in scale_values,
        }
        extras = [choice for choice, is_allowed in may_be.items() if is_allowed]
        return Categories(values=(*self.choices(), *extras))

    def choices(self) -> tuple[str, ...]:
        """What the options are called: the labels, the words of the scale, or A and B."""
        return self.labels or self._scale_names() or self.letters()

    def _scale_names(self) -> tuple[str, ...]:
        """The words of the scale that are options; none where it has other values, or is one of the file's `scales`."""
        values = self.scale.values() if isinstance(self.scale, Scale) else []
        names = [value for value in values if value not in NO_PREFERENCE]
        return tuple(names) if all(isinstance(name, str) for name in names) else ()

    def listed(self) -> str:
        if self.choices() == self.letters():
            return super().listed()
        return "\n\n".join(
            f"{label}:\n<option>\n{{input.{letter}}}\n</option>"
            for label, letter in zip(self.choices(), self.letters(), strict=True)
        )

    def default_prompt(self) -> str:
        """Asks for the better option, order and length aside."""
        return (
            "Two options answer the same request. Decide which one is better. Neither the order in which they "
            "stand nor their length may count."
            + (f" Where neither is acceptable, answer {BOTH_BAD}." if self.both_bad else "")
            + "\n\n"
            + self.listed()
        )

    def output_fields(self, read: RecordType) -> RecordType:
        """`choice`, and `consistent` where both orders are queried, and `chosen` with `original`."""
        fields = dict(read.fields)
        if self.positions == "both":
            values = self.default_scale().values()
            either = values if TIE in values else (*values, TIE)
            fields["choice"] = ScaleType(Categories(values=tuple(either)))
            fields["consistent"] = TRUTH
        return super().output_fields(RecordType(fields))

    def changes_order(self) -> bool:
        """With `positions: both`."""
        return self.positions == "both"

    def option_orders(self, draw: int) -> tuple[OptionOrder, ...]:
        """As given, and swapped where both orders are queried."""
        return ((0, 1), (1, 0)) if self.positions == "both" else ((0, 1),)


class BestOfKJudgeUnit(KChoiceUnit):
    """Chooses the best of k options by its letter."""

    unit: Literal["BestOfKJudgeUnit"] = "BestOfKJudgeUnit"
    """The unit's type."""
    shuffle: bool = False
    """Shows the options in a seeded order of each row's own, against position bias."""

    def default_scale(self) -> Scale:
        return Categories(values=self.letters())

    def default_prompt(self) -> str:
        """Asks for the best option, order and length aside."""
        return (
            f"{self.count()} options answer the same request. Decide which one is best. Neither the order in which "
            "they stand nor their length may count.\n\n" + self.listed()
        )

    def changes_order(self) -> bool:
        """With `shuffle`."""
        return self.shuffle

    def option_orders(self, draw: int) -> tuple[OptionOrder, ...]:
        """One call, the options as given or in a seeded order."""
        return (
            (shuffle_options(self.count(), draw),) if self.shuffle else super().option_orders(draw)
        )


class RankerUnit(KChoiceUnit):
    """Ranks the options from best to worst; a reply that is not a permutation is retried."""

    unit: Literal["RankerUnit"] = "RankerUnit"
    """The unit's type."""

    def scaled_field(self) -> None:
        return None

    def own_fields(self, scale: Scale | None) -> Fields:
        return {"ranking": TextListType(self.letters())}

    def default_prompt(self) -> str:
        return (
            f"Rank the {self.count()} options from best to worst. The ranking lists each of the letters "
            f"{', '.join(self.letters())} exactly once.\n\n" + self.listed()
        )

    def output_fields(self, read: RecordType) -> RecordType:
        """`ranking`, and `ranked` (the texts in that order) with `original`."""
        return RecordType({**read.fields, **({"ranked": TextListType()} if self.original else {})})

    def combine_responses(
        self,
        responses: Sequence[Values],
        orders: Sequence[OptionOrder],
        inputs: RowValues,
    ) -> Values:
        """The ranking's letters, and the texts in that order with `original`."""
        if not self.original:
            return responses[0]
        return {**responses[0], "ranked": [inputs[letter] for letter in responses[0]["ranking"]]}
