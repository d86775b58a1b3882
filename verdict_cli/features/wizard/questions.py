"""The questions of `verdict init`: on a terminal it prompts for each option that was not given, and again after an answer that does
not fit."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import typer

from verdict_cli.cli import console
from verdict_cli.cli.console import print_message
from verdict_cli.errors import UsageError, VerdictError
from verdict_cli.features.wizard.column_words import (
    ADJECTIVE_OF,
    ADJECTIVES,
    FLAWS,
    GENERIC,
    OUTCOME_WORDS,
    QUALIFYING,
    QUALITIES,
)
from verdict_cli.features.wizard.sampled_columns import SampledColumns, is_within, sampled_columns
from verdict_cli.features.wizard.scaffold import Rubric
from verdict_cli.features.wizard.scaffold_columns import head_noun, is_answer, is_judgement, judged_column
from verdict_cli.features.wizard.scaffold_labels import MAX_CATEGORIES, LabelScale, label_words, numeric
from verdict_cli.features.wizard.scaffold_pairs import Pair, pair_labels

_MOST_VALUE_CHARS = 60
_NONE = "none"
T = TypeVar("T")


def ask(question: str, parse: Callable[[str], T], default: str | None = None) -> T:
    """Prompt until `parse` takes the answer; each VerdictError that it raises is shown in a line. Enter gives the default."""
    while True:
        answer = str(typer.prompt(question, default=default, err=True)).strip()
        try:
            return parse(answer)
        except VerdictError as error:
            lines = f"{error.message}\n{error.hint}".splitlines()
            print_message("  ! " + "; ".join(line.strip() for line in lines if line.strip()))


def ask_dataset() -> SampledColumns:
    """Prompt for the dataset, and read its first rows. UsageError without a terminal."""
    if not console.is_interactive():
        raise UsageError(
            "DATA is missing: the dataset whose columns the judge reads",
            hint="verdict init answers.jsonl --question 'Is the answer right?' --columns question,answer\n"
            "    or copy a judge shipped with verdict: verdict init --from xstest",
        )
    return ask("Your dataset (JSONL, JSON, CSV, TSV, Excel or Parquet)", sampled_columns)


def missing_options(samples: SampledColumns, *, question: bool, columns: bool) -> UsageError:
    """The error without a terminal: the missing options, and the columns of the file to choose from."""
    missing = [flag for flag, is_set in (("--question", question), ("--columns", columns)) if not is_set]
    suggested = samples.suggested()
    label = samples.label(suggested)
    example = default_question(samples, suggested, label) if suggested else "Is the answer right?"
    command = ["verdict", "init", samples.data, "--question", example, "--columns", ",".join(suggested) or "COLUMN"]
    command += ["--target", label] if label else []
    return UsageError(
        f"{' and '.join(missing)} must be given, because there is no terminal to prompt on",
        hint=f"the columns are {', '.join(samples.own)}\n    for example: {shlex.join(command)}\n"
        "    or take every default: --yes",
    )


def ask_columns(samples: SampledColumns) -> tuple[str, ...]:
    """Prompt for the columns that the judge reads. The default has no labels and no ids."""
    print_message("Columns:")
    for name, values in samples.all.items():
        seen = next((value for value in values if value is not None), None)
        print_message(f"  {name:20} {_shorten(seen)}")
    suggested = ",".join(samples.default_columns()) or None
    return ask(
        "Which columns does the judge read? (not the labels)",
        lambda answer: samples.check_columns(split_words(answer), "columns"),
        suggested,
    )


def default_question(samples: SampledColumns, columns: Sequence[str], target: str | None) -> str:
    """What a judge of these columns usually decides, in the words of the labels."""
    options = samples.choices(target)
    if options:
        return "Which response is best?" if samples.are_answers(options) else "Which option is right?"
    if samples.pair(columns, target):
        return "Which response is better?"
    if samples.rubric(columns):
        return "Is the criterion met?"
    kinds = samples.types(columns)
    judged = judged_column(columns)
    talks = [name for name, kind in kinds.items() if kind.startswith("conversation")]
    scale = samples.default_scale(target)
    if talks and not is_answer(judged):
        return _quality_question("conversation", target, scale) or "Does the assistant help the user?"
    lists = [name for name, kind in kinds.items() if kind.startswith("list[") and name != judged]
    contexts = [
        name for name in lists if re.search("context|document|passage|references|source|evidence", name, re.IGNORECASE)
    ]
    thing = _words(judged)
    is_truth = (
        scale is None or scale.kind == "boolean" or (len(scale.values) == 2 and scale.kind in ("ordered", "nominal"))
    )
    is_grounding = target is None or re.search(
        "faith|ground|support|attribut|verdict|label|human", target, re.IGNORECASE
    )
    if contexts and is_truth and is_grounding:
        return f"Does every statement of the {thing} follow from the {_words(contexts[0])}?"
    alike = samples.pair(columns, None)
    if alike is not None and judged in alike:
        first, second = _words(alike[0]), _words(alike[1])
        return f"Do {first} and {second} mean the same?" if is_truth else f"How similar are {first} and {second}?"
    verb = "Are" if judged in kinds and re.search("(?<![sui])s$", thing) else "Is"
    quality_question = _quality_question(thing, target, scale, verb)
    if quality_question:
        return quality_question
    if target is not None and scale is not None and scale.kind == "nominal" and not is_judgement(scale.values, scale):
        return f"What is the {_words(target)} of the {thing}?"
    if scale is not None and (scale.kind in ("range", "continuous") or len(scale.values) > 2):
        return f"How good {verb.lower()} the {thing}?"
    return f"{verb} the {thing} good?"


def _quality_question(thing: str, target: str | None, scale: LabelScale | None, verb: str = "Is") -> str | None:
    """What the name or the words of the labels ask of the thing: is it toxic, is there a flaw in it, how relevant is it?"""
    if target is None or scale is None:
        return None
    head = head_noun(target)
    named = re.fullmatch(r"(?:is|was)[ _-]?([A-Z]?[a-z]+)", target, re.IGNORECASE)
    flaw = re.fullmatch(r"has[ _-]?([A-Z]?[a-z]+)", target, re.IGNORECASE)
    quality = ADJECTIVE_OF.get(head) or (
        re.sub("i?ness$", lambda end: "y" if end[0] == "iness" else "", head) if head.endswith("ness") else head
    )
    if scale.kind == "boolean":
        if named:
            return f"{verb} the {thing} {named[1].lower()}?"
        if flaw or head in FLAWS:
            return f"Does the {thing} have {flaw[1].lower()}?" if flaw else f"Is there {head} in the {thing}?"
        if is_answer(target):
            return "Is the answer to the question yes?"
        is_adjective = quality in ADJECTIVES or head.endswith(("ness", *QUALIFYING))
        return f"{verb} the {thing} {quality}?" if is_adjective and quality not in OUTCOME_WORDS else None
    if scale.kind in ("ordered", "nominal") and len(scale.values) == 2:
        worse, better = (word.lower() for word in scale.values)
        return f"{verb} the {thing} {better}?" if worse.endswith(better) and better in ADJECTIVES else None
    if scale.kind in ("range", "continuous") and (
        head in FLAWS or quality in ADJECTIVES or (head.endswith(QUALITIES) and head != "quality")
    ):
        return f"Rate the {_words(target)} of the {thing}."
    return None


def _words(column: str) -> str:
    *before, last = re.split(r"\.(?!$)", column)
    name = before[-1] if before and last.lower() in GENERIC else last
    return re.sub(r"\[(\d+)\]", r" \1", name).replace("_", " ")


def describe(
    samples: SampledColumns, target: str | None, pair: Pair | None, sides: Pair | None, rubric: Rubric | None
) -> None:
    """Say what kind of judge the columns give, and how it reads the labels."""
    if pair is not None:
        print_message(f"Pairs: {pair[0]} is A, {pair[1]} is B; each pair is judged in both orders.")
        meant = {} if target is None or sides else pair_labels(pair, samples.all[target], target) or {}
        if any(str(label) != choice for label, choice in meant.items()):
            read = ", ".join(f"{label} is {choice}" for label, choice in meant.items())
            print_message(f"The labels of {target} are read as choices: {read}. Correct `target` in the file if not.")
    elif rubric is not None:
        print_message(f"A rubric: each entry of {rubric.column} is judged by a call of its own.")


def ask_question(default: str) -> str:
    """Prompt for what the judge decides."""
    return ask("What should the judge decide? (one sentence)", str, default)


def ask_target(samples: SampledColumns, columns: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Prompt for the column with the human labels; None if there is none. Returns it and the columns that the judge reads,
    without the labels."""

    def parse(answer: str) -> tuple[str | None, tuple[str, ...]]:
        if answer.lower() == _NONE and _NONE not in samples.all:
            return None, columns
        others = tuple(name for name in columns if not is_within(name, answer))
        target = samples.check_target(answer, others or columns)
        samples.pair(others, target)  # labels of pairs that say nothing of A and B
        words = label_words(samples.all[target])
        if len(words) > MAX_CATEGORIES and not all(map(numeric, words)):
            raise samples.unknown_scale(target)
        if len(others) < len(columns):
            print_message(f"  {target} is left out of what the judge reads: a judge that sees the label repeats it.")
        return target, others

    label = samples.label(columns)
    return ask("Which column has the human labels? (none: no labels yet)", parse, label or _NONE)


def ask_scale(samples: SampledColumns, target: str | None) -> LabelScale:
    """Prompt for the scale. The order of words is proposed only where their meaning gives it."""
    proposed = samples.proposed_scale(target)
    if target is not None:
        words = label_words(samples.all[target])
        print_message(
            f"The labels are {', '.join(words[:MAX_CATEGORIES])}{', …' if len(words) > MAX_CATEGORIES else ''}."
        )
    question = "Which scale? (boolean, 1-5, or words from worst to best: bad,fair,good)"
    if proposed is None:
        question = "Which scale? (the labels from worst to best, categories if none is better, or 1-5)"
    default = samples.default_scale(target)
    return ask(question, lambda answer: samples.check_scale(answer, target), default.option() if default else None)


def ask_model(default: str) -> str:
    """Prompt for the model."""
    return ask("Which model?", str, default)


def ask_role(column: str, names: Mapping[str, Any], default: str | None, *, optional: bool) -> str | None:
    """Prompt for the column that plays the role of a shipped judge's column; None if no column does."""

    def parse(answer: str) -> str | None:
        if optional and answer.lower() == _NONE:
            return None
        if answer not in names:
            raise UsageError(f"there is no column {answer!r}", hint=f"the columns are: {', '.join(names)}")
        return answer

    more = " (none: leave its metrics out)" if optional else ""
    return ask(f"The judge uses {column!r}. Which of your columns is it?{more}", parse, default)


def split_words(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of names."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _shorten(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _MOST_VALUE_CHARS else text[: _MOST_VALUE_CHARS - 1] + "…"
