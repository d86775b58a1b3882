"""Published figures of recorded judges, by the command line: `python benchmarks/reproductions.py [--only NAME]…`.

Each recorded set becomes a dataset and a recording, `verdict run --replay` judges it with a pipeline of
`configs/reproductions`, and the run's figures are set beside the published ones. Without --only, all of them are
written to `docs/reproductions.md`; with it, the rows of the cases whose names begin so are printed.
--keep DIR leaves the pipeline's inputs and results there and prints the `verdict run` command of each case.
The recordings are read from the folder `shared` beside the project, or from $VERDICT_SHARED.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recorded import NOT_POSSIBLE, SETS
from recorded.case import Case, Figure, Rows

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared")) / "data"
PAGE = ROOT / "docs" / "reproductions.md"
HEAD = "| case | figure | ours | given | difference | command |\n| --- | --- | ---: | ---: | ---: | --- |"


def main() -> int:
    """0 when every command ran; figures that differ are in the table, not in the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="a case, or the beginning of its name"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave inputs and results here")
    chosen = parser.parse_args()
    if not DATA.is_dir():
        sys.stderr.write(f"{DATA} is not there: set VERDICT_SHARED to the folder that has data/\n")
        return 2
    wanted = [
        case for case in every() if not chosen.only or any(_begins(case.name, name) for name in chosen.only)
    ]
    if not wanted:
        sys.stderr.write(f"no case begins with {' or '.join(chosen.only)}; the sets are {', '.join(SETS)}\n")
        return 2
    rows: dict[str, list[str]] = {}
    for case in wanted:
        found = reproduced(case, chosen.keep)
        rows.setdefault(case.name.partition("/")[0], []).extend(
            row(case, figure, found) for figure in case.figures
        )
    if chosen.only:
        sys.stdout.write("\n".join([HEAD, *(line for lines in rows.values() for line in lines)]) + "\n")
    else:
        PAGE.write_text(page(rows), encoding="utf-8")
    return 0


def every() -> Iterator[Case]:
    """Every case of every set."""
    for cases in SETS.values():
        yield from cases(DATA)


def reproduced(case: Case, keep: Path | None) -> dict[str, Any]:
    """The run's evaluations."""
    with contextlib.ExitStack() as stack:
        folder = keep / case.name if keep else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "configs" / "reproductions" / f"{case.pipeline}.yaml", folder / "pipeline.yaml")
        rows, replies = case.inputs()
        _write(folder / "data.jsonl", rows)
        _write(folder / "replay.jsonl", replies)
        return _verdict(case, folder, show=keep is not None)


def _write(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _verdict(case: Case, folder: Path, *, show: bool) -> dict[str, Any]:
    """Runs `verdict run` in this process and returns the evaluations that it prints."""
    from verdict_cli.cli.app import app
    from verdict_cli.errors import VerdictError

    words = [
        "run",
        str(folder / "pipeline.yaml"),
        str(folder / "data.jsonl"),
        "--replay",
        str(folder / "replay.jsonl"),
    ]
    words += ["--out", str(folder / "out"), "--fresh", "--json", "--quiet"]
    words += [word for setting in case.settings for word in ("--set", setting)]
    if show:
        sys.stderr.write(shlex.join(["verdict", *words]) + "\n")
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            code = app(words, standalone_mode=False)
    except VerdictError as error:
        raise SystemExit(f"{case.name}: {error}") from None
    if code:
        raise SystemExit(f"{case.name}: verdict run ended with exit code {code}")
    found: dict[str, Any] = json.loads(printed.getvalue())["evaluations"]
    return found


def row(case: Case, figure: Figure, evaluations: dict[str, Any]) -> str:
    """A line of the table."""
    place, _, times = figure.at.partition(" × ")
    evaluation, _, metric = place.rpartition(".")
    value = evaluations[evaluation][metric]["value"]
    given = f"{figure.given:.{figure.decimals}f}"
    command = f"`python benchmarks/reproductions.py --only {case.name}`"
    if value is None:
        return _line(case.name, figure.what, "none", given, figure.note or "no value", command)
    ours = value * float(times or 1)
    off = ours - figure.given
    difference = "0" if abs(off) <= 0.5 * 10**-figure.decimals + 1e-9 else f"{off:+.{figure.decimals}f}"
    if figure.note:
        difference += f": {figure.note}"
    return _line(case.name, figure.what, f"{ours:.{figure.decimals}f}", given, difference, command)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def page(rows: dict[str, list[str]]) -> str:
    """The document."""
    total = sum(map(len, rows.values()))
    exact = sum(" | 0 | `" in line for lines in rows.values() for line in lines)
    origins = {case.name: case.origin for case in every()}
    recomputed = sorted(name for name, origin in origins.items() if origin == "recomputed")
    parts = [
        "# Reproductions",
        "Generated by `python benchmarks/reproductions.py`; not written by hand.",
        f"{total} figures of judges whose replies were recorded by others, made anew from those replies by "
        f"`verdict run --replay` with the pipelines in `configs/reproductions`. {exact} of them are the same in every "
        "digit shown; the others say why not. Each command prints its rows of this page; with `--keep DIR` it also leaves "
        "pipeline, dataset, recording and results, and prints the `verdict run` that made them.",
        "Given figures are published ones, except in these cases, where those who collected the recordings computed them: "
        + ", ".join(recomputed)
        + ".",
    ]
    for name, lines in rows.items():
        parts += [f"## {name}", "\n".join([HEAD, *lines])]
    parts += ["## Not reproduced", "\n".join(f"- {name}: {why}." for name, why in NOT_POSSIBLE.items())]
    return "\n\n".join(parts) + "\n"


def _begins(name: str, wanted: str) -> bool:
    return name == wanted or name.startswith(f"{wanted.rstrip('/')}/")


if __name__ == "__main__":
    sys.exit(main())
