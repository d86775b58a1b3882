"""A scale as the question of a decision model: its kind, and the options in order."""

from __future__ import annotations

from typing import Literal, NamedTuple

from verdict_cli.language.scales import Scale, shuffled_order
from verdict_cli.messages import Option, Question

MOST_SCORE_LEVELS = 10
"""The most levels of a score; an ordered scale with more is a choice."""


class QuestionForm(NamedTuple):
    """The kind of question, its options, and what follows the instructions."""

    kind: Literal["predicate", "choice", "score"]
    options: tuple[Option, ...]
    suffix: str = ""

    def question(self, instructions: str) -> Question:
        """The question with these instructions."""
        text = f"{instructions}\n\n{self.suffix}" if self.suffix else instructions
        return Question(self.kind, text, self.options)


def question_form(scale: Scale, draw: int = 0) -> QuestionForm:
    """The question whose answer is a value of the scale; ``draw`` seeds the order of one with `shuffle: true`."""
    anchors = dict(scale.anchors())
    if {*map(type, anchors.values())} == {bool} and not scale.ordered and len(anchors) == 2:
        yes_first = sorted(anchors.items(), key=lambda pair: not pair[1])
        return QuestionForm(
            "predicate",
            tuple(Option(token, token, scale.description(value)) for token, value in yes_first),
        )
    tokens = list(anchors)
    if scale.is_shuffled():
        tokens = list(shuffled_order(tokens, draw))
    labels = dict(zip(tokens, tokens, strict=True))
    is_score = scale.ordered and len(tokens) <= MOST_SCORE_LEVELS
    if is_score and tokens:
        labels |= {tokens[0]: f"{tokens[0]} (worst)", tokens[-1]: f"{tokens[-1]} (best)"}
    options = tuple(
        Option(token, labels[token], scale.description(anchors[token])) for token in tokens
    )
    if is_score:
        return QuestionForm("score", options)
    ends = (
        f"The options run from {tokens[0]} (worst) to {tokens[-1]} (best)."
        if scale.ordered and tokens
        else ""
    )
    return QuestionForm("choice", options, ends)
