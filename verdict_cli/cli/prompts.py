"""The questions of `verdict init`: on a terminal it prompts for each option that was not given."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from verdict_cli.cli.console import print_message
from verdict_cli.errors import UsageError

_MOST_VALUE_CHARS = 60


def is_interactive() -> bool:
    """Whether a person can answer: standard input and standard error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_dataset() -> str:
    """Prompt for the dataset. UsageError without a terminal."""
    if not is_interactive():
        raise UsageError(
            "DATA is missing: the dataset whose columns the judge reads",
            hint="verdict init answers.jsonl --question 'Is the answer right?' --columns question,answer\n"
            "    or copy a judge shipped with verdict: verdict init --from xstest",
        )
    return str(typer.prompt("Your dataset (JSONL, JSON, CSV, TSV or Parquet)", err=True))


def missing_options(
    data: str, samples: Mapping[str, Sequence[Any]], suggested: Sequence[str], *, question: bool, columns: bool
) -> UsageError:
    """The error without a terminal: the missing options, and the columns of the file to choose from."""
    missing = [flag for flag, is_set in (("--question", question), ("--columns", columns)) if not is_set]
    names = ",".join(suggested[-2:] or list(samples)[:2])
    command = ["verdict", "init", data, "--question", "Is the answer right?", "--columns", names]
    return UsageError(
        f"{' and '.join(missing)} must be given, because there is no terminal to prompt on",
        hint=f"the columns are {', '.join(samples)}\n    for example: {shlex.join(command)}",
    )


def ask_columns(samples: Mapping[str, Sequence[Any]], suggested: Sequence[str]) -> tuple[str, ...]:
    """Prompt for the columns that the judge reads. The default is the suggested ones."""
    print_message("Columns:")
    for name, values in samples.items():
        print_message(f"  {name:20} {_shorten(values[0] if values else None)}")
    answer = typer.prompt("Which columns does the judge read?", default=",".join(suggested or samples), err=True)
    return split_words(str(answer))


def ask_question() -> str:
    return str(typer.prompt("What should the judge decide? (one sentence)", err=True))


def ask_target(samples: Mapping[str, Sequence[Any]]) -> str | None:
    """Prompt for the column with the human labels; None if there is none."""
    answer = str(
        typer.prompt("Which column has the human labels? (Enter: none)", default="", show_default=False, err=True)
    )
    return answer.strip() or None


def ask_scale(default: str) -> str:
    return str(
        typer.prompt(
            "Which scale? (boolean, 1-5, or words from worst to best: bad,fair,good)", default=default, err=True
        )
    )


def split_words(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of names."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _shorten(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _MOST_VALUE_CHARS else text[: _MOST_VALUE_CHARS - 1] + "…"
