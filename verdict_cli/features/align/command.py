"""`verdict align CONFIG LABELLED --unit NAME`."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import stopping
from verdict_cli.cli.options import AsJson, Config, MetricOption, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.errors import UsageError
from verdict_cli.language.document.document import read_document
from verdict_cli.language.package_files import configs, file_or_named
from verdict_cli.plan.compile import named_columns
from verdict_cli.plan.unit_locations import locate_units
from verdict_cli.run.job import Stop

if TYPE_CHECKING:
    from verdict_cli.features.align.search import AlignSearch


@dataclass(frozen=True, kw_only=True)
class AlignOptions:
    """What a unit is improved against, and how long the search is."""

    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="EXPR",
            help="The right answer of a row. [default: that of the evaluation]",
        ),
    ] = None
    metric: MetricOption = None
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="EXPR",
            help="Rows with the same value stay in one part. [default: each row for itself]",
        ),
    ] = None
    proposer: Annotated[
        str | None,
        typer.Option(
            "--proposer",
            metavar="MODEL",
            help="The model that writes guidelines and prompts. [default: examples only]",
        ),
    ] = None
    proposals: Annotated[
        int, typer.Option("--proposals", min=1, max=32, help="Proposals a round.")
    ] = 4
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds", min=1, max=10, help="Rounds of proposals, each from the best so far."
        ),
    ] = 2
    note: Annotated[
        str | None,
        typer.Option(
            "--note", metavar="EXPR", help="What people noted on a row, for the proposer."
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The directory of the search. [default: align/NAME]"),
    ] = None


def align(
    config: Config,
    labelled: Annotated[str, typer.Argument(help="The labelled rows: a dataset.")],
    unit: Annotated[str, typer.Option("--unit", metavar="NAME", help="The unit to improve.")],
    options: AlignOptions,
    *,
    how: RowOptions,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Improve a unit's prompt against human labels, and test the result on rows that were held out.

    The rows are split into fit, select and test. Candidates are examples from the fit rows and, with --proposer, guidelines and
    prompts written from the judge's mistakes there. If the best one is significantly better on the test rows, it is written to
    aligned.yaml. Rerun the same command to resume.

    Example: verdict align xstest xstest_sample --unit judge --model baseline/lexical
    """
    from verdict_cli.features.align.search import align_conclusion, align_document

    search = _begin(config, labelled, unit, options, how)
    with stopping(stop := Stop()):
        search.stop = stop
        alignment = search.run(yes=yes)
    document = align_document(search.plan.name, alignment, search.facts)
    if alignment.better:
        search.write_aligned(alignment, align_conclusion(alignment))
    message = f"written: {search.folder / ('aligned.yaml' if alignment.better else 'align.html')}"
    show_study(
        document, search.folder, "align", as_json=as_json, message="" if how.quiet else message
    )


def _begin(
    config: Path, labelled: str, unit: str, options: AlignOptions, how: RowOptions
) -> AlignSearch:
    """The search, with the parts of the rows written. UsageError for a unit or rows that cannot be aligned."""
    from verdict_cli.cli.study import choose_metric
    from verdict_cli.features.align.search import AlignSearch, labelled_parts

    plan = how.plan(config)
    evaluation, metric = choose_metric([(str(config), plan)], options.metric)
    target = options.target or plan.evaluations[evaluation].target
    if plan.evaluations[evaluation].prediction is None or target is None:
        raise UsageError(
            f"the evaluation {evaluation!r} has no prediction and target",
            hint="give --metric EVALUATION, and --target",
        )
    how = replace(
        how, settings=[*(how.settings or ()), f"evaluate.{evaluation}.target={json.dumps(target)}"]
    )
    plan = how.plan(config, warn=False)
    located = [
        location
        for location in locate_units(read_document(file_or_named(config, configs)).data)
        if location.name == unit
    ]
    works = {node.name: work for node, work in plan.llm_nodes}
    work = works.get(unit)
    if work is None or len(located) != 1 or not isinstance(located[0].keys.get("prompt"), str):
        names = ", ".join(works) or "none"
        raise UsageError(
            f"--unit {unit}: no unit of that name with its prompt in this file",
            hint=f"units that ask a model: {names}",
        )
    folder = options.out or Path("align") / plan.name
    cluster = options.cluster or plan.evaluations[evaluation].cluster
    columns = named_columns(work.prompt)
    parts, sizes, digest = labelled_parts(plan, labelled, target, cluster, folder, how)
    facts = {
        "align": str(folder), "pipeline": plan.name, "config": str(config), "dataset": labelled, "data_digest": digest,
        "target": target, "cluster": cluster, "seed": how.seed, "fingerprint": plan.fingerprint,
    }  # fmt: skip
    return AlignSearch(
        config, how, plan, unit, located[0].path, located[0].keys["prompt"], columns, evaluation, metric, target, cluster, options,
        folder, parts, sizes, facts,
    )  # fmt: skip
