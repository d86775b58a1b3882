"""`verdict init`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Annotated

import typer

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import PipelineOptions, RowOptions
from verdict_cli.cli.open_dataset import check_data, opened_dataset
from verdict_cli.cli.options import Quiet
from verdict_cli.errors import OutputError, UsageError
from verdict_cli.features.wizard.answers import BOOLEAN, choice_labels, label_words
from verdict_cli.features.wizard.columns import DatasetColumn, DatasetColumns, Path, read_columns
from verdict_cli.features.wizard.pipeline_text import FirstJudge, pipeline_text, plain_name
from verdict_cli.features.wizard.questions import Answers, ask_dataset, default_question
from verdict_cli.features.wizard.shipped_judge import EMBEDDED, shipped_judge
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.detect_models import KEYS, at_hand, decision_model_at_hand
from verdict_cli.plan.node import Plan
from verdict_cli.storage.paths import output_errors

_TRIED = 5


def init(
    data: Annotated[str | None, typer.Argument(help="The dataset to judge.")] = None,
    question: Annotated[
        str | None,
        typer.Option("--question", help="What the judge should decide, in one sentence."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="The columns that the judge reads, separated by commas."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The column with the right answers, or none.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale",
            help="boolean, 1-5, 0.0-1.0, words from worst to best: bad,fair,good, or categories: the labels, of which none is better. [default: from the target, or boolean]",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="The model to write into the file. [default: that of a key or server found, or baseline/lexical]",
        ),
    ] = None,
    template: Annotated[
        str | None, typer.Option("--from", help="Copy a judge shipped with verdict, such as geval.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="ROLE=COLUMN",
            help="--from a shipped judge: your column for one of its columns.",
        ),
    ] = None,
    out: Annotated[
        FilePath | None,
        typer.Option(
            "--out", help="The file to write. [default: judge.yaml, or the template's name]"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Take the proposals instead of prompting, without a terminal too."
        ),
    ] = False,
    no_try: Annotated[
        bool,
        typer.Option(
            "--no-try", help="Do not try the pipeline on five rows with the embedded baseline."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write a first pipeline for your own data, and try it on five rows with the embedded baseline (no key, no network).

    On a terminal it asks three questions: what is judged, what is the right answer, and what may the answer be. Elsewhere
    --columns is required, or --yes, which takes the proposals and says them.

    Examples:

      verdict init answers.jsonl

      verdict init answers.csv --yes

      verdict init answers.csv --question 'Is the answer right?' --columns question,answer --target label

      verdict init --from geval
    """
    if template is not None and (question or columns or target or scale):
        raise UsageError(
            "--from copies a judge unchanged",
            hint="remove --question, --columns, --target and --scale",
        )
    if column and (template is None or data is None):
        raise UsageError(
            "--column names columns of DATA for a judge shipped with verdict",
            hint="verdict init --from xstest DATA --column prompt=request",
        )
    if template is not None:
        config, files, dataset = shipped_judge(template, data, out, column or ())
        _write(files, [config], force=force)
        if data is not None and not column:
            print_message("Where your columns have other names: --column ROLE=COLUMN --force")
    else:
        config = out or FilePath("judge.yaml")
        _refuse_existing([config], force=force)
        dataset_columns = read_columns(data) if data is not None else ask_dataset()
        dataset = dataset_columns.data
        answers = Answers(dataset_columns, columns, target, scale, yes)
        text = _first_pipeline(plain_name(config.stem), answers, question, model)
        _write({config: text}, [config], force=True)
    _check(config, dataset, try_rows=not no_try, quiet=quiet)


def _first_pipeline(name: str, answers: Answers, question: str | None, model: str | None) -> str:
    """The text of a first pipeline, from the options, the answers on a terminal, or the proposals."""
    columns = answers.data
    read = answers.judged()
    target = answers.target(read)
    read = _without_label(read, target)
    compared = columns.compared(read) if answers.scale_option is None else ()
    scale, choices = BOOLEAN, None
    if compared:
        question = question or "Which option is best?"
        choices = _choices(compared, target)
        target = target if choices else None
    else:
        question = question or default_question(read, target)
        scale = answers.scale(target)
    print_message(
        f"The judge reads {', '.join(column.name for column in read)} and is asked: {question}"
    )
    if target is None:
        _print_labels(columns, read)
    else:
        print_message(f"Its answers are compared with {target.name}.")
    model_name, api_base = _model(model)
    return pipeline_text(
        FirstJudge(
            name, columns, read, question, model_name, api_base, scale, target, compared, choices
        )
    )


def _without_label(
    read: tuple[DatasetColumn, ...], target: DatasetColumn | None
) -> tuple[DatasetColumn, ...]:
    """The columns without the one that has the label. UsageError where there is no other one."""
    if target is None:
        return read
    remaining_columns = tuple(column for column in read if not column.holds(target))
    if not remaining_columns:
        raise UsageError(
            f"{target.name!r} is both the label and all that the judge reads",
            hint="a judge that sees the label repeats it: name another column in --columns",
        )
    if len(remaining_columns) < len(read):
        print_message(
            f"  {target.name} is left out of what the judge reads: a judge that sees the label repeats it."
        )
    for column in remaining_columns:
        if column.is_label_name:
            print_error(f"warning: {column.name!r} looks like a label, and the judge reads it")
    return remaining_columns


def _choices(compared: Sequence[Path], target: DatasetColumn | None) -> dict[str, str] | None:
    """Label -> the letter of the text that it names. A warning where the labels do not say that."""
    names = [".".join(map(str, path)) for path in compared]
    letters = [f"{name} is {letter}" for name, letter in zip(names, "ABCDEFGHI", strict=False)]
    both = "; each pair is judged in both orders" if len(names) == 2 else ""
    print_message(f"Compared: {', '.join(letters)}{both}.")
    if target is None:
        return None
    choices = choice_labels(names, target)
    if choices is None:
        words = ", ".join(label_words(target.values)[:5])
        print_error(
            f"warning: the labels of {target.name!r} ({words}) do not say which of {' and '.join(names)} "
            "is better, so nothing is compared with them; write A, B and tie, or the columns' names"
        )
    elif any(str(label) != choice for label, choice in choices.items()):
        words = ", ".join(f"{label} is {choice}" for label, choice in choices.items())
        print_message(
            f"The labels of {target.name} are read as choices: {words}. Correct `target` in the file if not."
        )
    return choices


def _print_labels(columns: DatasetColumns, read: Sequence[DatasetColumn]) -> None:
    """Say that nothing is compared, and which columns could be labels."""
    labels = [column for column in columns.by_name.values() if column.kind == "label"]
    other_names = [column.name for column in labels if column not in read]
    more = f"; if one of {', '.join(other_names[:6])} is, name it: --target" if other_names else ""
    print_message(f"No column is taken for the right answers{more}.")


def _model(option: str | None) -> tuple[str, str | None]:
    """The model and its server: the given one, else one that can be called right now, else the embedded baseline."""
    if option is not None:
        return option, None
    detected = at_hand(os.environ)
    if detected is None:
        print_message(
            f"No API key and no local server was found, so the file names {EMBEDDED}: it counts shared words, and is a "
            f"baseline, not an LLM judge. Set {' or '.join(KEYS)}, or start Ollama, then write another `model:`."
        )
        return EMBEDDED, None
    print_message(f"Model: {detected.model} ({detected.reason})")
    _offer_decision_model()
    return detected.model, detected.variables.get("OPENAI_BASE_URL")


def _offer_decision_model() -> None:
    """Name the decision model that could judge instead, where there is one."""
    offered = decision_model_at_hand(os.environ)
    if offered is not None:
        print_message(
            f"A decision model could judge instead, with a probability and without an explanation: --model {offered.model} "
            f"({offered.reason}). See docs/decisions.md."
        )


def _write(files: dict[FilePath, str], replaceable: Sequence[FilePath], *, force: bool) -> None:
    """Write the files. OutputError for one that exists: of ``replaceable`` any, of the others one that differs."""
    _refuse_existing(
        [
            path
            for path, text in files.items()
            if path in replaceable or (path.exists() and path.read_bytes() != text.encode())
        ],
        force=force,
    )
    for path, text in files.items():
        with output_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
    print_message(f"written: {', '.join(str(path) for path in files)}")


def _refuse_existing(paths: Sequence[FilePath], *, force: bool) -> None:
    existing = [str(path) for path in paths if path.exists()]
    if existing and not force:
        raise OutputError(
            f"{', '.join(existing)} already exists",
            hint="choose another --out, or overwrite with --force",
        )


def _check(config: FilePath, data: str | None, *, try_rows: bool, quiet: bool) -> None:
    """Validate the written file, try it on a few rows with the embedded baseline, and print the next steps."""
    plan = PipelineOptions().plan(config)
    fixed = _hosted_models(PipelineOptions(model=EMBEDDED).plan(config, warn=False))
    if data is not None and (fixed or not try_rows):
        with opened_dataset(plan, data) as dataset:
            check_data(plan, dataset)
    if try_rows and fixed:
        print_error(
            f"not tried with {EMBEDDED}: units of {config} set their own models ({', '.join(fixed)})"
        )
    elif try_rows and data is not None:
        from verdict_cli.cli.run import judged_dataset
        from verdict_cli.cli.show_report import show_report

        out = FilePath("runs") / f"{plan.name}-first"
        report = judged_dataset(
            config, data, RowOptions(model=EMBEDDED, limit=_TRIED, fresh=True, quiet=True), out=out
        )
        show_report(report, as_json=False)
        print_message(f"all calls for these rows: {out / 'report.html'}")
    if not quiet:
        _print_next_steps(config, data, _hosted_models(plan))


def _hosted_models(plan: Plan) -> list[str]:
    """The models of a plan that are not embedded baselines."""
    names = {
        model.name
        for _, work in plan.llm_nodes
        for model in (*work.models, *work.follow_up)
        if not model.api_base
    }
    return sorted(name for name in names if not is_local(name))


def _print_next_steps(config: FilePath, data: str | None, models: Sequence[str]) -> None:
    arguments = shlex.join([str(config), data if data is not None else "DATA"])
    print_message("\nNext:")
    if models and at_hand(os.environ) is None:
        print_message(
            f"  set the API key of {', '.join(models)} in the environment, such as OPENAI_API_KEY, or another `model:` in {config}"
        )
    print_message(f"  verdict estimate {arguments}")
    print_message(f"  verdict run {arguments}")
    print_message("  verdict view runs    wrong rows first, in a browser")
