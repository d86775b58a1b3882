"""`verdict init`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from verdict_cli.cli import console
from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import PipelineOptions, RowOptions
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import Quiet
from verdict_cli.errors import OutputError, UsageError
from verdict_cli.features.wizard import questions
from verdict_cli.features.wizard.sampled_columns import SampledColumns, sampled_columns
from verdict_cli.features.wizard.scaffold import Scaffold, pipeline_text, plain_name
from verdict_cli.features.wizard.scaffold_columns import compared_scores, identifier, label_likeness
from verdict_cli.features.wizard.scaffold_labels import BOOLEAN, LabelScale, given_labels
from verdict_cli.features.wizard.shipped_judge import EMBEDDED, shipped_judge
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.detect_models import KEYS, at_hand
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.registry import Registry
from verdict_cli.storage.paths import output_errors

_TRIED = 5


TRANSLATORS: Registry[Callable[..., Any]] = Registry("verdict_cli.features.wizard", {}, "verdict_cli.translators")
"""Functions that turn another tool's configuration into pipelines, by the tool's name (`init --from NAME`)."""


def init(
    data: Annotated[
        str | None, typer.Argument(help="The dataset to judge; with --from promptfoo or deepeval, that tool's file.")
    ] = None,
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
        str | None,
        typer.Option(
            "--from",
            help="Copy a judge shipped with verdict, such as geval; or translate the judges of a promptfoo configuration or a deepeval file.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column", metavar="ROLE=COLUMN", help="--from a shipped judge: your column for one of its columns."
        ),
    ] = None,
    outputs: Annotated[
        Path | None,
        typer.Option(
            "--outputs", metavar="FILE", help="--from promptfoo or deepeval: its results, with the outputs to judge."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write. [default: judge.yaml, or the template's name]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Take every default instead of prompting, without a terminal too.")
    ] = False,
    no_try: Annotated[
        bool, typer.Option("--no-try", help="Do not try the pipeline on five rows with the embedded baseline.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write a first pipeline for your own data, and try it on five rows with the embedded baseline (no key, no network).

    On a terminal it prompts for missing options. Elsewhere --question and --columns are required, or --yes.

    Examples:

      verdict init answers.jsonl

      verdict init answers.csv --yes

      verdict init answers.csv --question 'Is the answer right?' --columns question,answer --target label

      verdict init --from geval

      verdict init --from promptfoo promptfooconfig.yaml --outputs results.json --out rubric.yaml
    """
    if template is not None and (question or columns or target or scale):
        raise UsageError("--from copies a judge unchanged", hint="remove --question, --columns, --target and --scale")
    if column and (template is None or template in TRANSLATORS.names()):
        raise UsageError(
            "--column needs --from NAME, a judge shipped with verdict", hint="name the columns with --columns"
        )
    if outputs is not None and template not in TRANSLATORS.names():
        raise UsageError("--outputs needs --from promptfoo or --from deepeval", hint="give the dataset as DATA")
    if template in TRANSLATORS.names():
        foreign = TRANSLATORS[template](template, data, outputs, out, lambda: _model(model))
        _write(foreign.files, foreign.paths, force=force)
        foreign.report()
        for config, rows in foreign.runnable:
            _check(config, rows, try_rows=not no_try, quiet=quiet)
        return
    if template is not None:
        config, files, dataset = shipped_judge(template, data, out, column or ())
        _write(files, [config], force=force)
    else:
        config = out or Path("judge.yaml")
        _refuse_existing([config], force=force)
        samples = sampled_columns(data) if data is not None else questions.ask_dataset()
        dataset = samples.data
        given = GivenOptions(question, columns, target, scale, model)
        name = plain_name(config.stem)
        parts = _defaults(samples, name, given) if yes else _scaffold(samples, name, given)
        _write({config: pipeline_text(parts)}, [config], force=True)
    _check(config, dataset, try_rows=not no_try, quiet=quiet)


class GivenOptions(Struct, frozen=True):
    """The options of a first pipeline; None for those that were not given."""

    question: str | None
    columns: str | None
    """The columns that the judge reads, separated by commas."""
    target: str | None
    scale: str | None
    model: str | None


def _defaults(samples: SampledColumns, name: str, given: GivenOptions) -> Scaffold:
    """The parts of the pipeline from the options, and from the data where there is none; says what was chosen."""
    read = (
        tuple(samples.default_columns())
        if given.columns is None
        else samples.check_columns(questions.split_words(given.columns), "--columns")
    )
    if not any(given_labels(values) for values in samples.own.values()):
        raise UsageError(f"every column of {samples.data} is empty", hint="give rows with something to judge")
    if not read:
        raise UsageError(
            f"no column of {samples.data} can be judged",
            hint=f"rename one, with letters, digits and _; the columns are: {', '.join(samples.own)}",
        )
    target = given.target or samples.label(read)
    if given.target is not None:
        samples.check_target(given.target, read)
    question = given.question or questions.default_question(samples, read, target)
    print_message(f"The judge reads {', '.join(read)} and is asked: {question}")
    compared = " and ".join(samples.sides(read, target) or [target or ""])
    print_message(f"Its verdicts are compared with {compared}." if target else "No column looks like a human label.")
    return _parts(samples, name, question, read, target, given, defaults=True)


def _scaffold(samples: SampledColumns, name: str, given: GivenOptions) -> Scaffold:
    """The parts of the pipeline from the options, and on a terminal from the answers: first what is judged, then the labels."""
    question, columns, target = given.question, given.columns, given.target
    incomplete = question is None or columns is None
    if incomplete and not console.is_interactive():
        raise questions.missing_options(samples, question=question is not None, columns=columns is not None)
    if columns is None:
        read = questions.ask_columns(samples)
    else:
        read = samples.check_columns(questions.split_words(columns), "--columns")
    judge_question = question or questions.ask_question(
        questions.default_question(samples, read, target or samples.label(read))
    )
    if target is not None:
        samples.check_target(target, read)
    elif incomplete:
        target, read = questions.ask_target(samples, read)
    for seen in read:
        if columns is not None and label_likeness(seen, samples.all[seen]) > 1:
            print_error(f"warning: {seen!r} looks like a label, and the judge reads it")
    return _parts(samples, name, judge_question, read, target, given, ask=incomplete)


def _parts(
    samples: SampledColumns,
    name: str,
    judge_question: str,
    read: tuple[str, ...],
    target: str | None,
    given: GivenOptions,
    *,
    ask: bool = False,
    defaults: bool = False,
) -> Scaffold:
    """The kind of judge, its scale and its model, once the columns are known. ``ask``: prompt for the last two; ``defaults``:
    labels of no known order are categories."""
    options = samples.choices(target) if given.scale is None else ()
    pair = samples.pair(read, target) if given.scale is None and not options else None
    sides = samples.sides(read, target) if pair is not None else None
    rubric = samples.rubric(read) if pair is None and not options else None
    if ask or pair is not None:
        questions.describe(samples, target, pair, sides, rubric)
    fixed = bool(pair or rubric or options)
    proposed = samples.default_scale(target) if defaults else samples.proposed_scale(target)
    chosen = _chosen_scale(samples, target, given.scale, proposed, ask=ask, fixed=fixed)
    detected = _model(given.model)
    if ask and given.model is None:
        answer = questions.ask_model(detected[0])
        detected = detected if answer == detected[0] else (answer, None)
    return Scaffold(
        name=name,
        question=judge_question,
        columns=read,
        scale=chosen,
        model=detected[0],
        api_base=detected[1],
        id=identifier(samples.all),
        target=target,
        labels=samples.all[target] if target else (),
        paths={**samples.paths, **samples.entry_paths},
        types=samples.types(
            tuple(dict.fromkeys((*read, *(samples.entries[name][0] for name in options if name in samples.entries))))
        ),
        absent=samples.absent,
        required=samples.incomplete(read),
        compared=compared_scores(samples.own, chosen) if target not in samples.paths and not (pair or rubric) else (),
        pair=pair,
        sides=sides,
        side_values=(samples.all[sides[0]], samples.all[sides[1]]) if sides else ((), ()),
        rubric=rubric,
        options=options,
    )


def _chosen_scale(
    samples: SampledColumns,
    target: str | None,
    scale: str | None,
    proposed: LabelScale | None,
    *,
    ask: bool,
    fixed: bool,
) -> LabelScale:
    """The scale of the option, of the answer, or of the labels. ``fixed``: the kind of judge has its own scale."""
    if scale is not None:
        return samples.check_scale(scale, target)
    if fixed:
        return proposed or BOOLEAN
    if ask:
        return questions.ask_scale(samples, target)
    if proposed is None and target is not None:
        raise samples.unknown_scale(target)
    return proposed or BOOLEAN


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
    return detected.model, detected.variables.get("OPENAI_BASE_URL")


def _write(files: dict[Path, str], own: Sequence[Path], *, force: bool) -> None:
    """Write the files. OutputError for one that exists: of ``own`` any, of the others one that differs."""
    _refuse_existing(
        [path for path, text in files.items() if path in own or (path.exists() and path.read_bytes() != text.encode())],
        force=force,
    )
    for path, text in files.items():
        with output_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
    print_message(f"written: {', '.join(str(path) for path in files)}")


def _refuse_existing(paths: Sequence[Path], *, force: bool) -> None:
    existing = [str(path) for path in paths if path.exists()]
    if existing and not force:
        raise OutputError(
            f"{', '.join(existing)} already exists", hint="choose another --out, or overwrite with --force"
        )


def _check(config: Path, data: str | None, *, try_rows: bool, quiet: bool) -> None:
    """Validate the written file, try it on a few rows with the embedded baseline, and print the next steps."""
    plan = PipelineOptions().plan(config)
    fixed = _hosted_models(PipelineOptions(model=EMBEDDED).plan(config, warn=False))
    if data is not None and (fixed or not try_rows):
        import tempfile

        with tempfile.TemporaryDirectory() as spool_to:
            check_data(plan, open_dataset(plan, data, Path(spool_to)))
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
    names = {model.name for work in llm_nodes for model in (*work.models, *work.follow_up) if not model.api_base}
    return sorted(name for name in names if not is_local(name))


def _print_next_steps(config: Path, data: str | None, models: Sequence[str]) -> None:
    arguments = shlex.join([str(config), data if data is not None else "DATA"])
    print_message("\nNext:")
    if models and at_hand(os.environ) is None:
        print_message(
            f"  set the API key of {', '.join(models)} in the environment, such as OPENAI_API_KEY, or another `model:` in {config}"
        )
    print_message(f"  verdict estimate {arguments}")
    print_message(f"  verdict run {arguments}")
    print_message("  verdict view runs    wrong rows first, in a browser")
