"""An alignment as a document: the conclusion, old against new on the sealed rows, and everything that was tried."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.console import print_json, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Config, MetricOption
from verdict_cli.errors import UsageError
from verdict_cli.features.align.search import Alignment
from verdict_cli.report import formatting
from verdict_cli.report.document import Note, Part, ReportDocument, Section, Table
from verdict_cli.report.report import metric_json

if TYPE_CHECKING:
    from verdict_cli.features.align.search import AlignSearch


def align_conclusion(found: Alignment) -> str:
    """The result in one sentence."""
    if found.winner == 0:
        return f"nothing that was tried is better than the pipeline as it was, on {found.parts['select']:,} rows"
    name = found.candidates[found.winner].name
    if found.sealed is None or found.sealed.change.value is None:
        return f"{name} was best on the rows of `select`, but could not be compared on the sealed rows"
    change = found.sealed.change
    test = f"{found.metric} {formatting.format_number(found.sealed.first)} to {formatting.format_number(found.sealed.second)}"
    gain = f"difference {formatting.format_number(change.value)} {formatting.interval(change.low, change.high)}".strip()
    p = "" if found.sealed.p is None else f", p {found.sealed.p:.3g}"
    rows = f"on {change.n:,} sealed rows"
    if found.better:
        return f"{name} is better {rows}: {test}, {gain}{p}"
    return f"nothing is shown to be better: {name}, the best of `select`, gives {test}, {gain}{p} {rows}"


def align_document(title: str, found: Alignment, facts: Mapping[str, Any]) -> ReportDocument:
    """The document of an alignment; `facts` are its files and options, as its JSON has them."""
    counted = ", ".join(f"{count:,} {name}" for name, count in found.parts.items())
    parts: list[Part] = [
        Note(
            f"unit {formatting.visible_text(found.unit)}; labelled rows by part: {counted}; cost {formatting.money(found.cost_usd)}"
        )
    ]
    rows = []
    for index, candidate in enumerate(found.candidates):
        latest = next((each for each in reversed(found.rounds) if index in each.means), None)
        mean = "–" if latest is None else formatting.format_number(latest.means[index])
        judged = "0" if latest is None else f"{latest.rows:,}"
        rows.append((candidate.name, candidate.origin, judged, mean))
    parts.append(Table(("candidate", "what it is", "rows judged", "mean score"), rows, (2, 3), strong=(found.winner,)))
    parts += [Note(text, warning=True) for text in found.dropped]
    return ReportDocument(
        title,
        [Section("", parts, listed=False, essential=True)],
        "Verdict align",
        elsewhere="in align.html",
        data=lambda: align_json(found, facts),
        conclusion=align_conclusion(found),
    )


def align_json(found: Alignment, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The document of `verdict align --json`, and `align.json`."""
    sealed = found.sealed
    return {
        **facts,
        "better": found.better,
        "unit": found.unit,
        "metric": found.metric,
        "parts": dict(found.parts),
        "winner": found.candidates[found.winner].name,
        "sealed": None
        if sealed is None
        else {"old": sealed.first, "new": sealed.second, "difference": metric_json(sealed.change), "p": sealed.p},
        "candidates": [asdict(each) for each in found.candidates],
        "rounds": [
            {"rows": each.rows, "means": {found.candidates[index].name: mean for index, mean in each.means.items()}}
            for each in found.rounds
        ],
        "dropped": list(found.dropped),
        "cost_usd": found.cost_usd,
    }


def align(
    config: Config,
    labelled: Annotated[str, typer.Argument(help="The labelled rows: a dataset.")],
    unit: Annotated[str, typer.Option("--unit", metavar="NAME", help="The unit to improve.")],
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="EXPR", help="The right answer of a row. [default: that of the evaluation]"),
    ] = None,
    metric: MetricOption = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="EXPR",
            help="Rows with the same value stay in one part. [default: each row for itself]",
        ),
    ] = None,
    proposer: Annotated[
        str | None,
        typer.Option(
            "--proposer", metavar="MODEL", help="The model that writes guidelines and prompts. [default: examples only]"
        ),
    ] = None,
    proposals: Annotated[int, typer.Option("--proposals", min=1, max=32, help="Proposals a round.")] = 4,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=10, help="Rounds of proposals, each from the best so far.")
    ] = 2,
    note: Annotated[
        str | None, typer.Option("--note", metavar="EXPR", help="What people noted on a row, for the proposer.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The directory of the search. [default: align/NAME]")
    ] = None,
    *,
    how: RowOptions,
    as_json: AsJson = False,
) -> None:
    """Improve a unit's prompt against human labels, and test the result on rows that were held out.

    The rows are split into fit, select and test. Candidates are examples from the fit rows and, with --proposer, guidelines and
    prompts written from the judge's mistakes there. If the best one is significantly better on the test rows, it is written to
    aligned.yaml. Rerun the same command to resume.

    Example: verdict align xstest xstest_sample --unit judge --model baseline/lexical
    """
    from verdict_cli.cli.show_report import to_terminal
    from verdict_cli.cli.signals import stopping
    from verdict_cli.report.renderers.terminal import render_terminal
    from verdict_cli.report.study_files import write_study
    from verdict_cli.run.job import Stop
    from verdict_cli.run.run_directory import RunDirectory

    search = _begin(config, labelled, unit, target, metric, cluster, note, out, how)
    with stopping(stop := Stop()):
        search.stop = stop
        found = search.run(proposer, proposals, rounds)
    document = align_document(search.plan.name, found, search.facts)
    write_study(RunDirectory(search.folder), "align", document)
    if found.better:
        search.write_aligned(found, align_conclusion(found))
    if as_json:
        print_json(document.as_json())
        return
    to_terminal(render_terminal(document))
    if not how.quiet:
        print_message(f"written: {search.folder / ('aligned.yaml' if found.better else 'align.html')}")


def _begin(
    config: Path,
    labelled: str,
    unit: str,
    target: str | None,
    metric: str | None,
    cluster: str | None,
    note: str | None,
    out: Path | None,
    how: RowOptions,
) -> AlignSearch:
    """The search, with the parts of the rows written. UsageError for a unit or rows that cannot be aligned."""
    from verdict_cli.cli.variant_runs import choose_metric
    from verdict_cli.features.align.search import AlignSearch, labelled_parts
    from verdict_cli.language.document.document import read_document
    from verdict_cli.language.package_files import configs, file_or_named
    from verdict_cli.plan.node import LLMNode
    from verdict_cli.plan.unit_locations import locate_units

    plan = how.plan(config)
    evaluation, figure = choose_metric([(str(config), plan)], metric)
    target = target or plan.evaluations[evaluation].target
    if plan.evaluations[evaluation].prediction is None or target is None:
        raise UsageError(
            f"the evaluation {evaluation!r} has no prediction and target", hint="give --metric EVALUATION, and --target"
        )
    how = replace(how, settings=[*(how.settings or ()), f"evaluate.{evaluation}.target={json.dumps(target)}"])
    plan = how.plan(config, warn=False)
    located = [each for each in locate_units(read_document(file_or_named(config, configs)).data) if each.name == unit]
    works = {node.name: node.work for node in plan.nodes if isinstance(node.work, LLMNode)}
    work = works.get(unit)
    if work is None or len(located) != 1 or not isinstance(located[0].keys.get("prompt"), str):
        known = ", ".join(works) or "none"
        raise UsageError(
            f"--unit {unit}: no unit of that name with its prompt in this file", hint=f"units that ask a model: {known}"
        )
    from verdict_cli.plan.compile_llm_unit import named_columns

    folder = out or Path("align") / plan.name
    cluster = cluster or plan.evaluations[evaluation].cluster
    columns = named_columns(work.prompt)
    parts, sizes, digest = labelled_parts(plan, labelled, target, cluster, folder, how.seed)
    facts = {
        "align": str(folder), "pipeline": plan.name, "config": str(config), "dataset": labelled, "data_digest": digest,
        "target": target, "cluster": cluster, "seed": how.seed, "fingerprint": plan.fingerprint,
    }  # fmt: skip
    return AlignSearch(
        config, how, plan, unit, located[0].path, located[0].keys["prompt"], columns, evaluation, figure, target, cluster, note,
        folder, parts, sizes, facts,
    )  # fmt: skip
