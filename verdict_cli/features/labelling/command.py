"""`verdict queue RUN`: rows to label, drawn by how much doubt a run has about each: the judge's uncertainty, or the disagreement of
its units.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_json, print_message
from verdict_cli.cli.options import AsJson
from verdict_cli.cli.progress import show_reading
from verdict_cli.errors import OutputError, UsageError
from verdict_cli.plural import plural
from verdict_cli.run.load_run import load_run
from verdict_cli.storage.paths import output_errors
from verdict_cli.storage.tables.label_queue import QUEUE_FILE, LabelQueue, QueueDraw


def queue(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    n: Annotated[int, typer.Option("--n", min=1, help="How many rows to draw.")] = 100,
    choose: Annotated[QueueDraw, typer.Option("--choose", help="How to draw.")] = "random",
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="EXPR",
            help="stratified: the value to draw evenly by; uncertain: a number that is larger where the judge is less sure; "
            "disagree: a field of several units, such as judge.score. [default: from the pipeline]",
        ),
    ] = None,
    annotators: Annotated[
        int, typer.Option("--annotators", min=1, max=100, help="How many people label each row.")
    ] = 1,
    blind: Annotated[
        bool,
        typer.Option(
            "--blind",
            help="Hide the verdicts in `verdict view --as` until a person's part is done.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the draw.")] = 0,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Draw again. Labels are kept; those of rows outside the new queue lose their weight.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Draw rows of a run for people to label, each with a known probability, so that metrics can be corrected for the draw.

    Example: verdict queue runs/demo/judge --n 40 --choose stratified --annotators 2 --blind
    """
    from verdict_cli.features.labelling.draw import draw_queue

    if choose == "random" and by is not None:
        raise UsageError(
            "--by has no meaning with --choose random",
            hint="add --choose stratified, uncertain or disagree",
        )
    directory, _, plan = load_run(run)
    path = run / QUEUE_FILE
    if path.exists() and not replace:
        raise OutputError(
            f"{path} already exists",
            hint=f"label its rows: verdict view {run} --as NAME; or draw again with --replace, which keeps the labels",
        )
    with show_reading():
        drawn, drawn_by = draw_queue(
            plan, directory.results, n, choose, by, annotators, blind=blind, seed=seed
        )
    with output_errors(path):
        partial = path.with_suffix(".partial")
        partial.write_bytes(drawn.file_text())
        partial.replace(path)
    if as_json:
        print_json(
            {
                "queue": str(path),
                "n": n,
                "choose": choose,
                "by": drawn_by or None,
                **_ends(drawn),
                "blind": blind,
            }
        )
        return
    ends = _ends(drawn)
    low, high = (f"{ends[key]:.3g}" for key in ("least_inclusion", "most_inclusion"))
    inclusion = f"probability {low}" if low == high else f"probabilities {low} to {high}"
    print_message(
        f"written: {path}: {plural(n, 'row')}, {choose}{f' by {drawn_by}' if drawn_by else ''}, drawn with {inclusion}"
    )
    print_message("\nNext:")
    print_message(f"  verdict view {run} --as NAME    each annotator under their own name")
    print_message("  in the pipeline, to correct the judge's metrics by the labels:")
    weight = "" if low == high else ", weight: human.inclusion"
    print_message(f"    gold: {{target: human.label{weight}}}")
    print_message(f"  verdict report {run} --labels")


def _ends(drawn: LabelQueue) -> dict[str, float]:
    shares = [row.inclusion for row in drawn.rows]
    return {"least_inclusion": min(shares), "most_inclusion": max(shares)}
