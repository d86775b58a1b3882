"""`verdict init`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import asdict, replace

from verdict_cli.cli import console
from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import PipelineOptions, RowOptions
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import Quiet
from verdict_cli.errors import OutputError, UsageError
from verdict_cli.features.wizard import questions
from verdict_cli.features.wizard.answers import (
    AnswerScale,
    label_words,
    option_labels,
    pair_labels,
)
from verdict_cli.features.wizard.columns import (
    DatasetColumns,
    Pair,
    looks_like_label,
    numeric,
    read_columns,
    without_blanks,
)
from verdict_cli.features.wizard.pipeline_text import (
    FirstJudge,
    JudgeShape,
    pipeline_text,
    plain_name,
)
from verdict_cli.features.wizard.shipped_judge import EMBEDDED, shipped_judge
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.detect_models import KEYS, at_hand, decision_model_at_hand
from verdict_cli.plan.node import LLMNode, Plan
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
    if column and template is None:
        raise UsageError(
            "--column needs --from NAME, a judge shipped with verdict",
            hint="name the columns with --columns",
        )
    if template is not None:
        config, files, dataset = shipped_judge(template, data, out, column or ())
        _write(files, [config], force=force)
    else:
        config = out or FilePath("judge.yaml")
        _refuse_existing([config], force=force)
        samples = read_columns(data) if data is not None else questions.ask_dataset()
        dataset = samples.data
        read, shape = _shape(samples, Answers(columns, target, scale, yes))
        if question:
            shape = replace(shape, question=question)
        model_name, api_base = _model(model)
        _print_shape(read, shape)
        judge = FirstJudge(
            **asdict(shape),
            name=plain_name(config.stem),
            columns=samples,
            read=read,
            model=model_name,
            api_base=api_base,
        )
        _write({config: pipeline_text(judge)}, [config], force=True)
    _check(config, dataset, try_rows=not no_try, quiet=quiet)


class Answers(Struct, frozen=True):
    """What the options say of a first pipeline, and how what they do not say is found."""

    columns: str | None
    """The columns that the judge reads, separated by commas."""
    target: str | None
    """The column with the right answers; `none` for none."""
    scale: str | None
    yes: bool
    """Whether the proposals are taken, and said."""

    @property
    def ask(self) -> bool:
        """Whether the user is asked."""
        return not self.yes and self.columns is None


def _shape(columns: DatasetColumns, given: Answers) -> tuple[tuple[str, ...], JudgeShape]:
    """The columns that the judge reads, and what kind of judge it is: from the options, the answers on a terminal, or the
    proposals."""
    if given.ask and not console.is_interactive():
        raise questions.missing_options(columns)
    read = _read(columns, given)
    target = _target(columns, read, given)
    if target is not None:
        read = _without_label(read, target)
    shape = _compared_shape(columns, read, target) if given.scale is None else None
    if shape is None:
        question = questions.default_question(columns, read, target)
        shape = JudgeShape(question, scale=_scale(columns, target, given), target=target)
    if target is None:
        _print_labels(columns, read)
    return read, shape


def _read(columns: DatasetColumns, given: Answers) -> tuple[str, ...]:
    if given.columns is not None:
        read = columns.check(questions.split_words(given.columns), "--columns")
        for name in read:
            if looks_like_label(name) and name != given.target:
                print_error(f"warning: {name!r} looks like a label, and the judge reads it")
        return read
    if given.ask:
        return questions.ask_judged(columns)
    read = tuple(columns.judged())
    if not read or not any(without_blanks(columns.values[name]) for name in read):
        raise UsageError(
            f"no column of {columns.data} can be judged",
            hint=f"name those that the judge reads: --columns COLUMN; the columns are: {', '.join(columns.names)}",
        )
    return read


def _target(columns: DatasetColumns, read: tuple[str, ...], given: Answers) -> str | None:
    if given.target is not None:
        is_none = given.target.lower() == questions.NONE and given.target not in columns.values
        return None if is_none else columns.check_label(given.target, read)
    if given.ask:
        return questions.ask_target(columns, read)
    return next(iter(columns.labels(read)), None) if given.yes else None


def _without_label(read: tuple[str, ...], target: str) -> tuple[str, ...]:
    """The columns without the one that has the label: a judge that sees the label repeats it."""
    others = tuple(name for name in read if name != target and not target.startswith(f"{name}."))
    if len(others) < len(read):
        print_message(
            f"  {target} is left out of what the judge reads: a judge that sees the label repeats it."
        )
    return others or read


def _compared_shape(
    columns: DatasetColumns, read: tuple[str, ...], target: str | None
) -> JudgeShape | None:
    """A judge of pairs, of options, or of criteria; None for a judge on a scale."""
    labels = columns.values[target] if target else ()
    options = columns.options()
    names = [str(path[0]) for path in options]
    choices = option_labels(len(options), names, labels)
    if options and (target is None or choices):
        return JudgeShape("Which option is best?", target=target, choices=choices, options=options)
    pair = columns.pair(read)
    if pair is not None and not options:
        return _pair_shape(pair, target, labels)
    rubric = columns.rubric(read)
    if rubric is None:
        return None
    is_number = target is not None and all(map(numeric, without_blanks(labels)))
    return JudgeShape("Is the criterion met?", target=target if is_number else None, rubric=rubric)


def _pair_shape(pair: Pair, target: str | None, labels: Sequence[Any]) -> JudgeShape:
    question = "Which response is better?"
    choices = pair_labels(pair, target, labels) if target else None
    if target is not None and choices is None:
        words = ", ".join(label_words(labels)[:5])
        print_error(
            f"warning: the labels of {target!r} ({words}) do not say which of {pair.first} and {pair.second} "
            "is better, so nothing is compared with them; write A, B and tie, or the columns' names"
        )
    return JudgeShape(question, target=target if choices else None, choices=choices, pair=pair)


def _scale(columns: DatasetColumns, target: str | None, given: Answers) -> AnswerScale:
    if given.scale is not None:
        return questions.checked_scale(given.scale, columns.values[target] if target else ())
    if given.ask:
        return questions.ask_scale(columns, target)
    return questions.scale_of_labels(columns, target, take_categories=given.yes)


def _print_labels(columns: DatasetColumns, read: Sequence[str]) -> None:
    """Say that nothing is compared, and which columns could be labels."""
    others = [name for name in columns.values if columns.kind(name) == "label" and name not in read]
    more = f"; if one of {', '.join(others[:6])} is, name it: --target" if others else ""
    print_message(f"No column is taken for the right answers{more}.")


def _print_shape(read: Sequence[str], judge: JudgeShape) -> None:
    """Say what is judged, what the answers are compared with, and how labels are read."""
    print_message(f"The judge reads {', '.join(read)} and is asked: {judge.question}")
    if judge.pair is not None:
        print_message(
            f"Pairs: {judge.pair.first} is A, {judge.pair.second} is B; each is judged in both orders."
        )
    if judge.target is not None:
        print_message(f"Its answers are compared with {judge.target}.")
    choices = judge.choices or {}
    if any(str(label) != choice for label, choice in choices.items()):
        words = ", ".join(f"{label} is {choice}" for label, choice in choices.items())
        print_message(
            f"The labels of {judge.target} are read as choices: {words}. Correct `target` in the file if not."
        )


def _model(given: str | None) -> tuple[str, str | None]:
    """The model and its server: the given one, else one that can be called right now, else the embedded baseline."""
    if given is not None:
        return given, None
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


def _write(files: dict[FilePath, str], own: Sequence[FilePath], *, force: bool) -> None:
    """Write the files. OutputError for one that exists: of ``own`` any, of the others one that differs."""
    _refuse_existing(
        [
            path
            for path, text in files.items()
            if path in own or (path.exists() and path.read_bytes() != text.encode())
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
        import tempfile

        with tempfile.TemporaryDirectory() as spool_to:
            check_data(plan, open_dataset(plan, data, FilePath(spool_to)))
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
    llm_nodes = [node.work for node in plan.nodes if isinstance(node.work, LLMNode)]
    names = {
        model.name
        for work in llm_nodes
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
