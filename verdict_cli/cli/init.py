"""`verdict init`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from verdict_cli.cli import prompts
from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import PipelineOptions, RowOptions
from verdict_cli.cli.open_dataset import dataset_files
from verdict_cli.cli.options import Quiet
from verdict_cli.errors import DataError, OutputError, Problem, UsageError
from verdict_cli.language.document.document import read_document
from verdict_cli.language.package_files import folder, named_config
from verdict_cli.language.scaffold import (
    SCHEMA,
    Scaffold,
    identifier,
    nameable,
    number_type,
    pipeline_text,
    plain_name,
    scale_of,
    texts,
    with_schema_line,
)
from verdict_cli.language.scaffold_columns import column_type, compared_scores, nested_columns, suggested_columns
from verdict_cli.llm.model_families import is_local
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.run.run_directory import output_errors
from verdict_cli.storage.datasets.dataset import Dataset, missing_column
from verdict_cli.storage.datasets.read import stream_rows

EMBEDDED = "baseline/lexical"
_READ = 1_000
_TRIED = 5
_SAMPLE = re.compile(r"datasets/(\w+_sample\.jsonl)")


def init(
    data: Annotated[str | None, typer.Argument(help="The dataset to judge.")] = None,
    question: Annotated[
        str | None, typer.Option("--question", help="What the judge should decide, in one sentence.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="The columns that the judge reads, separated by commas.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The column with the human labels, if there is one.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale",
            help="boolean, 1-5, or words from worst to best: bad,fair,good. [default: from the target, or boolean]",
        ),
    ] = None,
    model: Annotated[str, typer.Option("--model", help="The model to write into the file.")] = "gpt-4o-mini",
    template: Annotated[
        str | None, typer.Option("--from", help="Copy a judge shipped with verdict, such as geval.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write. [default: judge.yaml, or the template's name]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    no_try: Annotated[
        bool, typer.Option("--no-try", help="Do not try the pipeline on five rows with the embedded baseline.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write a first pipeline for your own data, and try it on five rows with the embedded baseline (no key, no network).

    On a terminal it prompts for missing options. Elsewhere --question and --columns are required.

    Examples:

      verdict init answers.jsonl

      verdict init answers.csv --question 'Is the answer right?' --columns question,answer --target label

      verdict init --from geval
    """
    if template is not None:
        if question or columns or target or scale:
            raise UsageError(
                "--from copies a judge unchanged", hint="remove --question, --columns, --target and --scale"
            )
        config, dataset = _copy_template(template, data, out, force=force)
    else:
        dataset = data if data is not None else prompts.ask_dataset()
        config = _write_pipeline(
            dataset, question, columns, target, scale, model, out or Path("judge.yaml"), force=force
        )
    _check(config, dataset, try_rows=not no_try, quiet=quiet)


def _write_pipeline(
    data: str,
    question: str | None,
    columns: str | None,
    target: str | None,
    scale: str | None,
    model: str,
    out: Path,
    *,
    force: bool,
) -> Path:
    """Write a pipeline file from the options and the answers."""
    _refuse_existing([out], force=force)
    files = dataset_files(data)
    samples: dict[str, list[Any]] = {}
    for row in islice(stream_rows(Dataset(files)), _READ):
        for name, value in row.source.items():
            samples.setdefault(name, []).append(value)
    if not samples:
        raise DataError(Problem("empty-dataset", "the dataset holds no rows", "", data))
    key = identifier(samples)
    inside = nested_columns(samples)
    own, samples = samples, {**samples, **{name: values for name, (_, values) in inside.items()}}
    incomplete = question is None or columns is None
    if incomplete and not prompts.is_interactive():
        raise prompts.missing_options(
            data, samples, suggested_columns(own, ()), question=question is not None, columns=columns is not None
        )
    if incomplete and target is None:
        target = prompts.ask_target(samples)
    _check_columns([target] if target else [], samples, "--target", data)
    judged_columns = (
        prompts.split_words(columns)
        if columns is not None
        else prompts.ask_columns(samples, suggested_columns(own, (key, target)))
    )
    _check_columns(judged_columns, samples, "--columns", data)
    for name in (*judged_columns, *([target] if target else [])):
        if not nameable(name):
            raise UsageError(
                f"a placeholder cannot refer to the column {name!r}", hint="rename the column: letters, digits and _"
            )
    if target in judged_columns:
        raise UsageError(
            f"{target!r} is both the label and a column that the judge reads",
            hint="a judge that sees the label repeats it: remove it from --columns",
        )
    judge_question = question if question is not None else prompts.ask_question()
    suggested = (scale_of(samples[target]) if target else None) or "boolean"
    scale_text = scale or (prompts.ask_scale(suggested) if incomplete else suggested)
    if target and scale_text == "boolean" and (words := texts(samples[target])):
        raise UsageError(
            f"the labels of {target!r} are texts ({', '.join(words[:5])}), but the scale is boolean",
            hint=f"give the words of the scale from worst to best: --scale 'other,{words[0]}'",
        )
    scaffold = Scaffold(
        name=plain_name(out.stem),
        question=judge_question,
        columns=judged_columns,
        scale=_scale(scale_text),
        model=model,
        id=key,
        target=target,
        numbers=number_type(samples[target]) if target else None,
        paths={name: path for name, (path, _) in inside.items()},
        types={name: kind for name in judged_columns if name in own and (kind := column_type(own[name]))},
        compared=compared_scores(own, scale_text) if target not in inside else (),
    )
    _write(
        {out: pipeline_text(scaffold), out.parent / SCHEMA: (folder("schemas") / SCHEMA).read_text(encoding="utf-8")}
    )
    return out


def _scale(text: str) -> str:
    if text == "likert":
        return "1-5"
    if text == "boolean" or re.fullmatch(r"\d+-\d+", text) or len(prompts.split_words(text)) > 1:
        return text
    raise UsageError(f"{text!r} is not a scale", hint="give boolean, 1-5, or words from worst to best: bad,fair,good")


def _check_columns(names: Sequence[str], samples: dict[str, list[Any]], flag: str, data: str) -> None:
    for name in names:
        if name not in samples:
            problem = missing_column(name, samples)
            raise UsageError(f"{flag}: {data}: {problem.message}", hint=problem.hint)


def _copy_template(template: str, data: str | None, out: Path | None, *, force: bool) -> tuple[Path, str | None]:
    """Copy a template. Return the copy and its dataset: the given one, or the sample that the template names."""
    source = named_config(template)
    target = out or Path(f"{source.stem}.yaml")
    text = source.read_text(encoding="utf-8")
    files = {
        target: with_schema_line(text),
        target.parent / SCHEMA: (folder("schemas") / SCHEMA).read_text(encoding="utf-8"),
    }
    for evaluation in (read_document(source).data.get("evaluate") or {}).values():
        if "published" in evaluation:
            table = source.parent / evaluation["published"]
            files[target.parent / evaluation["published"]] = table.read_text(encoding="utf-8")
    dataset, sample = data, _SAMPLE.search(text)
    if data is None and sample is not None:
        copy = target.parent / sample[1]
        files[copy] = (folder("datasets") / sample[1]).read_text(encoding="utf-8")
        dataset = str(copy)
    _refuse_existing(
        [path for path, content in files.items() if path == target or not _is_same(path, content)], force=force
    )
    _write(files)
    return target, dataset


def _is_same(path: Path, content: str) -> bool:
    return not path.exists() or path.read_bytes() == content.encode()


def _refuse_existing(paths: Sequence[Path], *, force: bool) -> None:
    existing = [str(path) for path in paths if path.exists()]
    if existing and not force:
        raise OutputError(
            f"{', '.join(existing)} already exists", hint="choose another --out, or overwrite with --force"
        )


def _write(files: dict[Path, str]) -> None:
    for path, text in files.items():
        with output_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
    print_message(f"written: {', '.join(str(path) for path in files)}")


def _check(config: Path, data: str | None, *, try_rows: bool, quiet: bool) -> None:
    """Validate the written file, try it on a few rows with the embedded baseline, and print the next steps."""
    plan = PipelineOptions().plan(config)
    fixed = _hosted_models(PipelineOptions(model=EMBEDDED).plan(config, warn=False))
    if try_rows and fixed:
        print_error(f"not tried with {EMBEDDED}: units of {config} set their own models ({', '.join(fixed)})")
    elif try_rows and data is not None:
        from verdict_cli.cli.run import judged_dataset
        from verdict_cli.cli.show_report import show_report

        out = Path("runs") / f"{plan.name}-first"
        report = judged_dataset(config, data, RowOptions(model=EMBEDDED, limit=_TRIED, fresh=True, quiet=True), out=out)
        show_report(report, as_json=False)
        print_message(f"all calls for these rows: {out / 'report.html'}")
    if not quiet:
        _print_next_steps(config, data, _hosted_models(plan))


def _hosted_models(plan: Plan) -> list[str]:
    """The models of a plan that are not embedded baselines."""
    llm_nodes = [node.work for node in plan.nodes if isinstance(node.work, LLMNode)]
    names = {model.name for work in llm_nodes for model in (*work.models, *work.follow_up)}
    return sorted(name for name in names if not is_local(name))


def _print_next_steps(config: Path, data: str | None, models: Sequence[str]) -> None:
    arguments = shlex.join([str(config), data if data is not None else "DATA"])
    print_message("\nNext:")
    if models:
        print_message(
            f"  set the API key of {', '.join(models)} in the environment, such as OPENAI_API_KEY, or another `model:` in {config}"
        )
    print_message(f"  verdict estimate {arguments}")
    print_message(f"  verdict run {arguments}")
