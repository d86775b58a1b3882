"""`verdict calibrate RUN --target source.label`: from a run's labelled rows to a calibration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec import to_builtins

from verdict_cli.cli.console import print_message
from verdict_cli.cli.options import AsJson
from verdict_cli.cli.show_report import print_document
from verdict_cli.errors import UsageError
from verdict_cli.plan.resolve import as_yaml
from verdict_cli.plural import plural
from verdict_cli.report.formatting import format_number, interval
from verdict_cli.run.load_run import load_run
from verdict_cli.storage.paths import output_errors

if TYPE_CHECKING:
    from verdict_cli.features.calibrate.fit_job import Calibrated
    from verdict_cli.report.document import ReportDocument

FitKind = Literal["probability", "score_weights", "pool_weights", "threshold"]
"""What `--fit` takes."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What to fit, to which unit (its name, for all its copies), with which expressions."""

    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="The expression of the true label: source.label, or human.label for labels given in `verdict view`.",
        ),
    ] = None
    fit: Annotated[
        FitKind | None,
        typer.Option(
            "--fit", help="What to fit. [default: threshold with --agreement, else probability]"
        ),
    ] = None
    unit: Annotated[
        str | None, typer.Option("--unit", help="The unit to fit. [default: the only one possible]")
    ] = None
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="temperature, platt, isotonic; logistic, log_odds, least_squares, dawid_skene (needs no labels).",
        ),
    ] = ""
    agreement: Annotated[
        float | None,
        typer.Option(
            "--agreement",
            help="Choose the confidence threshold above which this share of answers is right.",
        ),
    ] = None
    level: Annotated[
        float, typer.Option("--level", help="The confidence level of --agreement.")
    ] = 0.95
    prediction: Annotated[
        str,
        typer.Option("--prediction", help="With --agreement: the expression of the unit's answer."),
    ] = "output.score"
    confidence: Annotated[
        str,
        typer.Option(
            "--confidence",
            help="With --agreement: the expression of the unit's confidence; higher is more confident.",
        ),
    ] = "output.p"
    where: Annotated[
        str | None,
        typer.Option("--where", help="Fit only to rows for which this expression is true."),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            help="The expression that is equal for rows with correlated errors: they count once, and stay in one fold.",
        ),
    ] = None
    folds: Annotated[
        int, typer.Option("--folds", min=2, max=100, help="Folds of the cross-validation.")
    ] = 5
    seed: Annotated[int, typer.Option("--seed", help="Seed of the folds.")] = 0

    @property
    def kind(self) -> FitKind:
        """What is fitted."""
        return self.fit or ("probability" if self.agreement is None else "threshold")


def calibrate(
    run: Annotated[Path, typer.Argument(help="The directory of a run with labelled rows.")],
    options: FitOptions,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The file to write. [default: RUN/calibrations/UNIT-KIND.yaml]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a judge to the labelled rows of a run, and write a calibration file for its pipeline. No model is called.

    Example: verdict calibrate runs/cascade --target source.correct --agreement 0.9
    """
    from verdict_cli.features.calibrate.fit_job import TooFewRows, calibrate_run

    _check(options)
    directory, facts, plan = load_run(run)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        result = calibrate_run(
            plan, directory.results, directory.calls, options, created=created, run=facts.name
        )
    except TooFewRows as error:
        if not facts.failed:
            raise
        raise UsageError(
            f"{error.message}; {plural(facts.failed, 'row')} of {run} failed",
            hint="judge those again: the command of the run with --retry-failed",
        ) from None
    path = out or directory.path / "calibrations" / f"{result.content.unit}-{options.kind}.yaml"
    _write(path, result)
    print_document(_document(result, path), as_json=as_json)
    if not as_json:
        print_message(f"written: {path}")


def _check(options: FitOptions) -> None:
    from verdict_cli.features.calibrate.fit_job import FIT_KINDS

    methods = FIT_KINDS[options.kind].methods
    if options.method and options.method not in methods:
        raise UsageError(
            f"--method {options.method} does not fit {options.kind}",
            hint=f"--method takes {', '.join(methods)}" if methods else "remove --method",
        )
    if options.target is None and options.method != "dawid_skene":
        raise UsageError(
            "--target is missing",
            hint="give the expression of the true label: source.label, or human.label",
        )
    if (options.kind == "threshold") != (options.agreement is not None):
        raise UsageError(
            "--agreement and --fit threshold go together", hint="such as `--agreement 0.95`"
        )
    for name, value in (("--agreement", options.agreement), ("--level", options.level)):
        if value is not None and not 0 < value < 1:
            raise UsageError(f"{name} {value:g} is not between 0 and 1")


def _write(path: Path, result: Calibrated) -> None:
    content = result.content.model_dump(mode="json", exclude_none=True)
    if content.get("weights") and isinstance(content["weights"], dict):
        content["weights"] = dict(getattr(result.content, "weights"))  # noqa: B009
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_yaml(content), encoding="utf-8")


def _document(result: Calibrated, path: Path) -> ReportDocument:
    from verdict_cli.report.document import Note, ReportDocument, Section, Table

    content = result.content
    rows = []
    for method, metrics in result.metrics.items():
        for metric, change in metrics.items():
            values = [
                format_number(value.value) for value in (change.before, change.after, change.change)
            ]
            rows.append((method, metric, *values, interval(change.change)))
    headers = ("method", "metric", "before", "after (held out)", "difference", "95% interval")
    parts = [Table(headers, rows, (2, 3, 4))] if rows else []
    changes = {
        method: {metric: to_builtins(change) for metric, change in metrics.items()}
        for method, metrics in result.metrics.items()
    }
    return ReportDocument(
        f"{content.unit}: {content.model_dump()['kind']}, fitted to {plural(content.rows, 'row')}",
        [Section("", [*parts, *map(Note, result.notes)])],
        "Verdict calibration",
        data=lambda: {
            "file": str(path),
            "calibration": content.model_dump(mode="json", exclude_none=True),
            "figures": changes,
            "notes": result.notes,
        },
    )
