"""`verdict init`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli import prompts
from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.options import Quiet
from verdict_cli.errors import DataError, OutputError, Problem, UsageError

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan

EMBEDDED = "baseline/lexical"
_READ = 1_000
_TRIED = 5
_SAMPLE = re.compile(r"datasets/(\w+_sample\.jsonl)")


def init(
    data: Annotated[str | None, typer.Argument(help="The dataset whose rows are to be judged.")] = None,
    question: Annotated[
        str | None, typer.Option("--question", help="What is judged, as you would ask a person.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Columns that the judge reads, separated by commas.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The column with people's labels, where there is one.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale",
            help="boolean, 1-5, or words from worst to best: bad,fair,good. [default: the target's, or boolean]",
        ),
    ] = None,
    model: Annotated[str, typer.Option("--model", help="The model that the file names.")] = "gpt-4o-mini",
    template: Annotated[
        str | None, typer.Option("--from", help="Copy a judge that comes with verdict, such as geval.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write. [default: judge.yaml, or the template's name]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    no_try: Annotated[bool, typer.Option("--no-try", help="Do not judge five rows with the embedded model.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a first pipeline for your own data, and judge five rows with the embedded model: no key, no network.

    On a terminal it asks for what the flags leave open; anywhere else it needs --question and --columns.

    Examples:

      verdict init answers.jsonl

      verdict init answers.csv --question 'Is the answer right?' --columns question,answer --target label

      verdict init --from geval
    """
    if template is not None:
        if question or columns or target or scale:
            raise UsageError(
                "--from copies a judge as it stands", hint="leave --question, --columns, --target and --scale out"
            )
        made, chosen = _copied(template, data, out, force=force)
    else:
        chosen = data if data is not None else prompts.ask_dataset()
        made = _started(chosen, question, columns, target, scale, model, out or Path("judge.yaml"), force=force)
    _check(made, chosen, tried=not no_try, quiet=quiet)


def _started(
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
    """The file made from flags and answers."""
    from verdict_cli.language.package_files import folder
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
    )
    from verdict_cli.storage.datasets.dataset import Dataset
    from verdict_cli.storage.datasets.files import find_files
    from verdict_cli.storage.datasets.read import stream_rows

    _free([out], force=force)
    files = find_files(data)
    samples: dict[str, list[Any]] = {}
    for row in islice(stream_rows(Dataset(files)), _READ):
        for name, value in row.source.items():
            samples.setdefault(name, []).append(value)
    if not samples:
        raise DataError(Problem("empty-dataset", "the dataset holds no rows", "", data))
    key = identifier(samples)
    asked = question is None or columns is None
    if asked and not prompts.is_interactive():
        raise prompts.unanswered(data, samples, question=question is not None, columns=columns is not None)
    if asked and target is None:
        target = prompts.ask_target(samples)
    _known([target] if target else [], samples, "--target", data)
    read = prompts.split_words(columns) if columns is not None else prompts.ask_columns(samples, (key, target))
    _known(read, samples, "--columns", data)
    for name in (*read, *([target] if target else [])):
        if not nameable(name):
            raise UsageError(f"no placeholder can name the column {name!r}", hint="rename it in the file")
    if target in read:
        raise UsageError(
            f"{target!r} is both what the judge reads and what people said of it",
            hint="a judge that sees the label repeats it: leave it out of --columns",
        )
    said = question if question is not None else prompts.ask_question()
    suggested = (scale_of(samples[target]) if target else None) or "boolean"
    chosen = scale or (prompts.ask_scale(suggested) if asked else suggested)
    if target and chosen == "boolean" and (words := texts(samples[target])):
        raise UsageError(
            f"the labels of {target!r} are texts ({', '.join(words[:5])}), and the scale is yes or no",
            hint=f"name the scale's words from worst to best: --scale 'other,{words[0]}'",
        )
    start = Scaffold(
        name=plain_name(out.stem),
        question=said,
        columns=read,
        scale=_scale(chosen),
        model=model,
        id=key,
        target=target,
        numbers=number_type(samples[target]) if target else None,
    )
    _write({out: pipeline_text(start), out.parent / SCHEMA: (folder("schemas") / SCHEMA).read_text(encoding="utf-8")})
    return out


def _scale(text: str) -> str:
    if text == "likert":
        return "1-5"
    if text == "boolean" or re.fullmatch(r"\d+-\d+", text) or len(prompts.split_words(text)) > 1:
        return text
    raise UsageError(f"{text!r} is no scale", hint="boolean, 1-5, or words from worst to best: bad,fair,good")


def _known(names: Sequence[str], samples: dict[str, list[Any]], flag: str, data: str) -> None:
    from verdict_cli.storage.datasets.dataset import missing

    for name in names:
        if name not in samples:
            problem = missing(name, samples)
            whole, dot, inside = name.partition(".")
            hint = problem.hint
            if dot and whole in samples:
                hint = f"name the whole column {whole!r}; afterwards the prompt can say {{source.{whole}.{inside}}}"
            raise UsageError(f"{flag}: {data}: {problem.message}", hint=hint)


def _copied(template: str, data: str | None, out: Path | None, *, force: bool) -> tuple[Path, str | None]:
    """The template's copy and the dataset that goes with it: the given one, else the sample that it names."""
    from verdict_cli.language.document.document import read_document
    from verdict_cli.language.package_files import folder, named_config
    from verdict_cli.language.scaffold import SCHEMA, with_schema_line

    source = named_config(template)
    made = out or Path(f"{source.stem}.yaml")
    text = source.read_text(encoding="utf-8")
    files = {
        made: with_schema_line(text),
        made.parent / SCHEMA: (folder("schemas") / SCHEMA).read_text(encoding="utf-8"),
    }
    for evaluation in (read_document(source).data.get("evaluate") or {}).values():
        if "published" in evaluation:
            table = source.parent / evaluation["published"]
            files[made.parent / evaluation["published"]] = table.read_text(encoding="utf-8")
    chosen, sample = data, _SAMPLE.search(text)
    if data is None and sample is not None:
        copy = made.parent / sample[1]
        files[copy] = (folder("datasets") / sample[1]).read_text(encoding="utf-8")
        chosen = str(copy)
    _free([path for path, content in files.items() if path == made or not _same(path, content)], force=force)
    _write(files)
    return made, chosen


def _same(path: Path, content: str) -> bool:
    return not path.exists() or path.read_bytes() == content.encode()


def _free(paths: Sequence[Path], *, force: bool) -> None:
    there = [str(path) for path in paths if path.exists()]
    if there and not force:
        raise OutputError(
            f"{', '.join(there)} is there already", hint="choose another --out, or replace it with --force"
        )


def _write(files: dict[Path, str]) -> None:
    from verdict_cli.run.run_directory import refusing

    for path, text in files.items():
        with refusing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
    print_message(f"written: {', '.join(str(path) for path in files)}")


def _check(config: Path, data: str | None, *, tried: bool, quiet: bool) -> None:
    """Plans what was written, judges a few rows with the embedded model, and says what comes next."""
    from verdict_cli.cli.load_pipeline import load_plan_for_command

    plan = load_plan_for_command(config, [], None).plan
    own = _others(load_plan_for_command(config, [], EMBEDDED, warn=False).plan)
    if tried and own:
        print_error(f"not tried with {EMBEDDED}: units of {config} name their own models ({', '.join(own)})")
    elif tried and data is not None:
        from verdict_cli.cli.model_options import RowOptions
        from verdict_cli.cli.run import judged_dataset
        from verdict_cli.cli.write_report import show_report

        out = Path("runs") / f"{plan.name}-first"
        report = judged_dataset(config, data, RowOptions(model=EMBEDDED, limit=_TRIED, fresh=True, quiet=True), out=out)
        show_report(report, as_json=False)
        print_message(f"each call of these rows: {out / 'report.html'}")
    if not quiet:
        _next(config, data, _others(plan))


def _others(plan: Plan) -> list[str]:
    """The models of a plan that are not embedded."""
    from verdict_cli.llm.model_families import is_local
    from verdict_cli.plan.node import LLMNode

    asked = [node.work for node in plan.nodes if isinstance(node.work, LLMNode)]
    names = {model.name for work in asked for model in (*work.models, *work.follow_up)}
    return sorted(name for name in names if not is_local(name))


def _next(config: Path, data: str | None, models: Sequence[str]) -> None:
    arguments = shlex.join([str(config), data if data is not None else "DATA"])
    print_message("\nnext:")
    if models:
        print_message(
            f"  the key of {', '.join(models)} in the environment, such as OPENAI_API_KEY, or another `model:` in {config}"
        )
    print_message(f"  verdict estimate {arguments}")
    print_message(f"  verdict run {arguments}")
