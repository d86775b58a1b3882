"""`verdict calibrate RUN --target source.label`."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.console import document, print_message, print_report, printable
from verdict_cli.cli.options import AsJson
from verdict_cli.errors import UsageError

if TYPE_CHECKING:
    from verdict_cli.studies.calibrate.fit_job import Calibrated, FitOptions


class FitChoice(StrEnum):
    """What `--fit` takes."""

    PROBABILITY = "probability"
    SCORE_WEIGHTS = "score_weights"
    POOL_WEIGHTS = "pool_weights"
    THRESHOLD = "threshold"


def calibrate(
    run: Annotated[Path, typer.Argument(help="The directory of a run with labelled rows.")],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", help="Expression for what is true of a row: source.label, or human.label of `verdict view`."
        ),
    ] = None,
    fit: Annotated[
        FitChoice | None,
        typer.Option("--fit", help="What to fit. [default: threshold with --agreement, else probability]"),
    ] = None,
    unit: Annotated[str | None, typer.Option("--unit", help="The unit. [default: the only one that fits]")] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="temperature, platt, isotonic; logistic, log_odds, least_squares, dawid_skene (needs no labels).",
        ),
    ] = "",
    agreement: Annotated[
        float | None, typer.Option("--agreement", help="Choose the bound above which this share of answers agrees.")
    ] = None,
    level: Annotated[float, typer.Option("--level", help="The probability with which --agreement holds.")] = 0.95,
    prediction: Annotated[
        str, typer.Option("--prediction", help="With --agreement: the unit's answer.")
    ] = "output.score",
    confidence: Annotated[
        str, typer.Option("--confidence", help="With --agreement: how sure the unit is, higher is surer.")
    ] = "output.p",
    where: Annotated[str | None, typer.Option("--where", help="Expression that is true of the rows to fit to.")] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, max=100, help="Parts of the cross-validation.")] = 5,
    seed: Annotated[int, typer.Option("--seed", help="Draws the parts.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file. [default: RUN/calibrations/UNIT-KIND.yaml]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a judge to labelled rows of a run, and write a file that its pipeline can name. No model is asked.

    Example: verdict calibrate runs/cascade --target source.correct --agreement 0.9
    """
    from datetime import UTC, datetime

    from verdict_cli.run.load_run import load_run
    from verdict_cli.studies.calibrate.calibrate_run import calibrate_run as fitted
    from verdict_cli.studies.calibrate.fit_job import FitOptions

    kind = fit or (FitChoice.PROBABILITY if agreement is None else FitChoice.THRESHOLD)
    wanted = FitOptions(
        unit, kind.value, target, where, method, prediction, confidence, agreement or 0.0, level, folds, seed
    )
    _check(wanted, agreement)
    directory, facts, plan = load_run(run)
    made = datetime.now(UTC).isoformat(timespec="seconds")
    found = fitted(plan, directory.results, directory.calls, wanted, made=made, run=facts.name)
    path = out or directory.path / "calibrations" / f"{found.content.unit}-{kind.value}.yaml"
    _write(path, found)
    if as_json:
        figures = {name: {key: asdict(one) for key, one in each.items()} for name, each in found.metrics.items()}
        content = found.content.model_dump(mode="json", exclude_none=True)
        document({"file": str(path), "calibration": content, "figures": figures, "notes": found.notes})
        return
    print_report(_table(found))
    print_message(f"written: {path}")


def _check(wanted: FitOptions, agreement: float | None) -> None:
    from verdict_cli.studies.calibrate.fit_job import METHODS

    known = METHODS[wanted.kind]
    if wanted.method and wanted.method not in known:
        raise UsageError(
            f"--method {wanted.method} does not fit {wanted.kind}",
            hint=f"it takes {', '.join(known)}" if known else "leave --method out",
        )
    if wanted.target is None and wanted.method != "dawid_skene":
        raise UsageError(
            "--target is missing", hint="an expression for what is true of a row: source.label, or human.label"
        )
    if (wanted.kind == "threshold") != (agreement is not None):
        raise UsageError("--agreement and --fit threshold go together", hint="such as `--agreement 0.95`")
    for name, value in (("--agreement", agreement), ("--level", wanted.level)):
        if value is not None and not 0 < value < 1:
            raise UsageError(f"{name} {value:g} is not between 0 and 1")


def _write(path: Path, found: Calibrated) -> None:
    from verdict_cli.plan.resolve import as_yaml
    from verdict_cli.run.run_directory import refusing

    content = found.content.model_dump(mode="json", exclude_none=True)
    if content.get("weights") and isinstance(content["weights"], dict):
        content["weights"] = dict(getattr(found.content, "weights"))  # noqa: B009
    with refusing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_yaml(content), encoding="utf-8")


def _table(found: Calibrated) -> str:
    from verdict_cli.report.formatting import format_number, interval

    content = found.content
    lines = [f"{content.unit}: {content.model_dump()['kind']}, fitted to {content.rows:,} rows"]
    cells = [("method", "figure", "before", "after (held out)", "difference", "95% interval")]
    for name, each in found.metrics.items():
        for key, one in each.items():
            ends = interval(one.change.low, one.change.high)
            cells.append(
                (
                    name,
                    key,
                    format_number(one.before.value),
                    format_number(one.after.value),
                    format_number(one.change.value),
                    ends,
                )
            )
    if len(cells) > 1:
        widths = [max(len(row[place]) for row in cells) for place in range(6)]
        lines += [
            "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
    return printable("\n".join([*lines, *(f"  {note}" for note in found.notes)])) + "\n"
