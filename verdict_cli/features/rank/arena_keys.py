"""The keys of an evaluation that compares systems: by scores of their answers, or by battles of two."""

from __future__ import annotations

from collections.abc import Sequence

from verdict_cli.config_model import ConfigModel, Issue, NonEmptyText

ControlPair = tuple[NonEmptyText, NonEmptyText]

SCORE_KEYS = ("system", "score")
BATTLE_KEYS = ("a", "b", "winner")


class ArenaKeys(ConfigModel):
    """What a leaderboard is made from: `system`, `item` and `score` where each row is an answer of one system, or `a`, `b`,
    `winner` and `item` where each row is a battle of two."""

    system: NonEmptyText | None = None
    """Expression for the system whose answer the row scores, such as `source.system`."""
    item: NonEmptyText | None = None
    """Expression for the task that the systems share, such as `source.task`; its rows are one cluster."""
    score: NonEmptyText | None = None
    """Expression for the score of the system's answer, higher is better."""
    a: NonEmptyText | None = None
    """Expression for the first system of a battle, such as `source.model_a`."""
    b: NonEmptyText | None = None
    """Expression for the second system of a battle."""
    winner: NonEmptyText | None = None
    """Expression for the winner of a battle: `A`, `B` or `tie`, a system's name or `tie`, or the first system's share of the win, from 0 to 1. All rows are read in the same way; `both bad` is a tie."""
    control: tuple[NonEmptyText | ControlPair, ...] = ()
    """What the systems are compared at equal values of, such as the length of the answer: an expression for a number or a text (its length counts), in battles a pair of them. A plain name is a column, in battles `NAME_a` and `NAME_b`."""


class ArenaEvaluation(ArenaKeys):
    """The keys that leaderboards add to an evaluation."""

    arena: ArenaKeys | None = None
    """The keys of a leaderboard of systems (`system`, `item`, `score`, or `a`, `b`, `winner`, `item`), under one key instead of next to the others."""


def arena_keys(evaluation: ConfigModel) -> ArenaKeys | None:
    """What the evaluation's leaderboard is made from; None where it has none."""
    assert isinstance(evaluation, ArenaEvaluation)
    if evaluation.arena is not None:
        return evaluation.arena
    has_some = any(getattr(evaluation, key) for key in ArenaKeys.model_fields)
    return evaluation if has_some else None


def plain_control(text: str) -> bool:
    """Whether a control is the name of a column."""
    return text.isidentifier()


def control_texts(keys: ArenaKeys) -> list[tuple[str, ...]]:
    """The expressions of each control: one for a scored answer, two for a battle."""
    texts: list[tuple[str, ...]] = []
    for control in keys.control:
        if not isinstance(control, str):
            texts.append(control)
        elif plain_control(control):
            suffixes = ("_a", "_b") if keys.winner is not None else ("",)
            texts.append(tuple(f"source.{control}{suffix}" for suffix in suffixes))
        else:
            texts.append((control,))
    return texts


def control_names(keys: ArenaKeys) -> tuple[str, ...]:
    """What reports call each control."""
    return tuple(
        control if isinstance(control, str) else " − ".join(control) for control in keys.control
    )


def arena_problems(keys: ArenaKeys, metrics: Sequence[str]) -> list[Issue]:
    """What is wrong with an arena's keys: the key, the message and the hint."""
    battles = [key for key in BATTLE_KEYS if getattr(keys, key) is not None]
    scores = [key for key in SCORE_KEYS if getattr(keys, key) is not None]
    if battles and scores:
        message = f"`{scores[0]}` is of scores and `{battles[0]}` of battles: a leaderboard is made from one of them"
        return [Issue(battles[0], message, "write two evaluations")]
    wanted = BATTLE_KEYS if battles else SCORE_KEYS
    lacking = [key for key in (*wanted, "item") if getattr(keys, key) is None]
    issues = [
        Issue("", f"an arena needs `{key}`", f"such as `{key}: {_EXAMPLES[key]}`")
        for key in lacking
    ]
    for index, control in enumerate(keys.control):
        if battles and isinstance(control, str) and not plain_control(control):
            message = f"a battle has two answers, and `{control}` is one value"
            issues.append(
                Issue(
                    f"control.{index}",
                    message,
                    "give a pair: `[source.length_a, source.length_b]`",
                )
            )
        if not battles and not isinstance(control, str):
            hint = "give one expression, such as `source.length`"
            issues.append(
                Issue(
                    f"control.{index}", "a scored answer has one value of a control, not two", hint
                )
            )
    if battles and "mean_score" in metrics:
        hint = "name `bradley_terry` or `win_rate`"
        issues.append(
            Issue("metrics", "battles have no score: `mean_score` needs `system` and `score`", hint)
        )
    return issues


_EXAMPLES = {
    "system": "source.system",
    "score": "output.score",
    "item": "source.task",
    "a": "source.model_a",
    "b": "source.model_b",
    "winner": "output.choice",
}
