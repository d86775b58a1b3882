"""`verdict align CONFIG LABELLED --unit NAME`, and its document: old against new on the sealed rows, and everything that was tried."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Config, MetricOption, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.cli.signals import stopping
from verdict_cli.cli.variant_runs import choose_metric
from verdict_cli.errors import UsageError
from verdict_cli.features.align.search import Alignment, AlignSearch, labelled_parts
from verdict_cli.language.document.document import read_document
from verdict_cli.language.package_files import configs, file_or_named
from verdict_cli.plan.compile_llm_unit import named_columns
from verdict_cli.plan.node import LLMNode
from verdict_cli.plan.unit_locations import locate_units
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.report.document import Note, Part, ReportDocument, Section, Table
from verdict_cli.report.report import metric_json
from verdict_cli.run.job import Stop


def align_conclusion(alignment: Alignment) -> str:
    """The result in one sentence."""
    if alignment.winner == 0:
        return f"nothing that was tried is better than the pipeline as it was, on {plural(alignment.parts['select'], 'row')}"
    name = alignment.candidates[alignment.winner].name
    if alignment.sealed is None or alignment.sealed.change.value is None:
        return f"{name} was best on the rows of `select`, but could not be compared on the sealed rows"
    change = alignment.sealed.change
    test = f"{alignment.metric} {formatting.format_number(alignment.sealed.first)} to {formatting.format_number(alignment.sealed.second)}"
    gain = f"difference {formatting.format_number(change.value)} {formatting.interval(change.low, change.high)}".strip()
    p = "" if alignment.sealed.p is None else f", p {alignment.sealed.p:.3g}"
    rows = f"on {change.n:,} sealed rows"
    if alignment.better:
        return f"{name} is better {rows}: {test}, {gain}{p}"
    return f"nothing is shown to be better: {name}, the best of `select`, gives {test}, {gain}{p} {rows}"


def align_document(title: str, alignment: Alignment, facts: Mapping[str, Any]) -> ReportDocument:
    """The document of an alignment; `facts` are its files and options, as its JSON has them."""
    counted = ", ".join(f"{count:,} {name}" for name, count in alignment.parts.items())
    parts: list[Part] = [
        Note(
            f"unit {formatting.visible_text(alignment.unit)}; labelled rows by part: {counted}; cost {formatting.money(alignment.cost_usd)}"
        )
    ]
    rows = []
    for index, candidate in enumerate(alignment.candidates):
        latest = next((tried for tried in reversed(alignment.rounds) if index in tried.means), None)
        mean = "–" if latest is None else formatting.format_number(latest.means[index])
        judged = "0" if latest is None else f"{latest.rows:,}"
        rows.append((candidate.name, candidate.origin, judged, mean))
    parts.append(
        Table(("candidate", "what it is", "rows judged", "mean score"), rows, (2, 3), strong=(alignment.winner,))
    )
    parts += [Note(text, warning=True) for text in alignment.dropped]
    return ReportDocument(
        title,
        [Section("", parts, listed=False, essential=True)],
        "Verdict align",
        elsewhere="in align.html",
        data=lambda: align_json(alignment, facts),
        conclusion=align_conclusion(alignment),
    )


def align_json(alignment: Alignment, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The document of `verdict align --json`, and `align.json`."""
    sealed = alignment.sealed
    return {
        **facts,
        "better": alignment.better,
        "unit": alignment.unit,
        "metric": alignment.metric,
        "parts": dict(alignment.parts),
        "winner": alignment.candidates[alignment.winner].name,
        "sealed": None
        if sealed is None
        else {"old": sealed.first, "new": sealed.second, "difference": metric_json(sealed.change), "p": sealed.p},
        "candidates": [asdict(candidate) for candidate in alignment.candidates],
        "rounds": [
            {
                "rows": tried.rows,
                "means": {alignment.candidates[index].name: mean for index, mean in tried.means.items()},
            }
            for tried in alignment.rounds
        ],
        "dropped": list(alignment.dropped),
        "cost_usd": alignment.cost_usd,
    }


@dataclass(frozen=True, kw_only=True)
class AlignOptions:
    """What a unit is improved against, and how long the search is."""

    target: Annotated[
        str | None,
        typer.Option("--target", metavar="EXPR", help="The right answer of a row. [default: that of the evaluation]"),
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
            "--proposer", metavar="MODEL", help="The model that writes guidelines and prompts. [default: examples only]"
        ),
    ] = None
    proposals: Annotated[int, typer.Option("--proposals", min=1, max=32, help="Proposals a round.")] = 4
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=10, help="Rounds of proposals, each from the best so far.")
    ] = 2
    note: Annotated[
        str | None, typer.Option("--note", metavar="EXPR", help="What people noted on a row, for the proposer.")
    ] = None
    out: Annotated[Path | None, typer.Option("--out", help="The directory of the search. [default: align/NAME]")] = None


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
    search = _begin(config, labelled, unit, options, how)
    with stopping(stop := Stop()):
        search.stop = stop
        alignment = search.run(options.proposer, options.proposals, options.rounds, yes=yes)
    document = align_document(search.plan.name, alignment, search.facts)
    if alignment.better:
        search.write_aligned(alignment, align_conclusion(alignment))
    written = f"written: {search.folder / ('aligned.yaml' if alignment.better else 'align.html')}"
    show_study(document, search.folder, "align", as_json=as_json, message="" if how.quiet else written)


def _begin(config: Path, labelled: str, unit: str, options: AlignOptions, how: RowOptions) -> AlignSearch:
    """The search, with the parts of the rows written. UsageError for a unit or rows that cannot be aligned."""
    plan = how.plan(config)
    evaluation, figure = choose_metric([(str(config), plan)], options.metric)
    target = options.target or plan.evaluations[evaluation].target
    if plan.evaluations[evaluation].prediction is None or target is None:
        raise UsageError(
            f"the evaluation {evaluation!r} has no prediction and target", hint="give --metric EVALUATION, and --target"
        )
    how = replace(how, settings=[*(how.settings or ()), f"evaluate.{evaluation}.target={json.dumps(target)}"])
    plan = how.plan(config, warn=False)
    located = [
        location
        for location in locate_units(read_document(file_or_named(config, configs)).data)
        if location.name == unit
    ]
    works = {node.name: node.work for node in plan.nodes if isinstance(node.work, LLMNode)}
    work = works.get(unit)
    if work is None or len(located) != 1 or not isinstance(located[0].keys.get("prompt"), str):
        known = ", ".join(works) or "none"
        raise UsageError(
            f"--unit {unit}: no unit of that name with its prompt in this file", hint=f"units that ask a model: {known}"
        )
    folder = options.out or Path("align") / plan.name
    cluster = options.cluster or plan.evaluations[evaluation].cluster
    columns = named_columns(work.prompt)
    parts, sizes, digest = labelled_parts(plan, labelled, target, cluster, folder, how.seed, quiet=how.quiet)
    facts = {
        "align": str(folder), "pipeline": plan.name, "config": str(config), "dataset": labelled, "data_digest": digest,
        "target": target, "cluster": cluster, "seed": how.seed, "fingerprint": plan.fingerprint,
    }  # fmt: skip
    return AlignSearch(
        config, how, plan, unit, located[0].path, located[0].keys["prompt"], columns, evaluation, figure, target, cluster, options.note,
        folder, parts, sizes, facts,
    )  # fmt: skip
