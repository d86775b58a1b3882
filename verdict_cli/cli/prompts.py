"""The questions of `verdict init`: each flag that was not given is asked for, where somebody is there to answer."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from verdict_cli.cli.console import print_message
from verdict_cli.errors import UsageError

_SHOWN = 60


def is_interactive() -> bool:
    """Whether a person can answer: standard input and error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_dataset() -> str:
    """The dataset's name, asked for. UsageError where nobody can answer."""
    if not is_interactive():
        raise UsageError(
            "which dataset? its columns are what the judge reads",
            hint="verdict init answers.jsonl --question 'Is the answer right?' --columns question,answer\n"
            "    or start from a judge that comes with verdict: verdict init --from xstest",
        )
    return str(typer.prompt("Your dataset (JSONL, JSON, CSV, TSV or Parquet)", err=True))


def unanswered(data: str, samples: Mapping[str, Sequence[Any]], *, question: bool, columns: bool) -> UsageError:
    """What is told where nobody can answer: the flags that are missing, and the file's columns to choose from."""
    missing = [flag for flag, given in (("--question", question), ("--columns", columns)) if not given]
    names = ",".join([name for name, values in samples.items() if _text(values)][-2:] or list(samples)[:2])
    command = ["verdict", "init", data, "--question", "Is the answer right?", "--columns", names]
    return UsageError(
        f"without a terminal to ask on, {' and '.join(missing)} must be given",
        hint=f"the columns are {', '.join(samples)}\n    such as: {shlex.join(command)}",
    )


def ask_columns(samples: Mapping[str, Sequence[Any]], apart: Sequence[str | None]) -> tuple[str, ...]:
    """The columns that the judge reads, asked for; without an answer all texts but those that stand `apart`."""
    print_message("Its columns:")
    for name, values in samples.items():
        print_message(f"  {name:20} {_short(values[0] if values else None)}")
    texts = [name for name, values in samples.items() if name not in apart and _text(values)]
    answer = typer.prompt("Which does the judge read?", default=",".join(texts or samples), err=True)
    return split_words(str(answer))


def ask_question() -> str:
    """What is judged, asked for."""
    return str(typer.prompt("What is judged? Ask it as you would ask a person", err=True))


def ask_target(samples: Mapping[str, Sequence[Any]]) -> str | None:
    """The column of people's labels, asked for; None for none."""
    answer = str(
        typer.prompt("Which column has people's labels? (Enter: none)", default="", show_default=False, err=True)
    )
    return answer.strip() or None


def ask_scale(default: str) -> str:
    """The scale, asked for."""
    return str(typer.prompt("The scale: boolean, 1-5, or words from worst to best", default=default, err=True))


def split_words(text: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _text(values: Sequence[Any]) -> bool:
    return any(isinstance(value, str) for value in values)
