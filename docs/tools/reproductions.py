"""The recorded judges: docs/reproductions.csv has every value, docs/reproductions.md the counts and the values that differ.

python docs/tools/reproductions.py RECORDINGS               # writes both
python docs/tools/reproductions.py RECORDINGS --check SET…  # exits with 1 where a set has other values than the file
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from verdict_cli.features.benchmarks.bench_command import Reproduction, reproduce
from verdict_cli.features.benchmarks.recorded import FOLDERS, SETS, select_cases

DOCS = Path(__file__).resolve().parents[1]
HEADER = ("case", "value", "ours", "published", "difference", "origin")
NOT_POSSIBLE = {
    "alpacaeval, length-controlled win rates": "they come from a regression over all models and instructions, which the "
    "recordings do not hold",
    "llmbar, kappa": "the authors' code takes kappa of labels that it codes differently on the two sides",
    "expertqa": "labels alone, no judge was recorded: there is no value to reproduce",
    "halueval_general": "labels of every second line, no judge was recorded: there is no value to reproduce",
}
"""Published values that are not reproduced, and why."""


def measured(name: str, recordings: Path) -> list[Reproduction]:
    """The values of the cases of that name. What is missing is told and left out."""
    cases, skipped = select_cases(name, recordings)
    for omission, problem in skipped.items():
        sys.stderr.write(f"left out: {omission}: {problem.file} is missing\n")
    with tempfile.TemporaryDirectory(prefix="verdict-") as scratch:
        return [result for case in cases for result in reproduce(case, Path(scratch) / case.name)]


def line(result: Reproduction) -> str:
    """A line of the data file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(
        (
            result.case,
            result.name,
            result.format(result.value),
            result.format(result.published),
            result.difference,
            "recomputed" if result.recomputed else "published",
        )
    )
    return text.getvalue()


def page(results: Sequence[Reproduction]) -> str:
    """docs/reproductions.md."""
    sets = {name: [r for r in results if r.case.partition("/")[0] == name] for name in SETS}
    remade = _remade()
    rows = []
    for name, values in sets.items():
        differ = [result for result in values if result.note or not result.same]
        how = "script" if name in remade else "not public in this form"
        rows.append(f"| {name} | {len(values):,} | {len(values) - len(differ):,} | {how} |")
    differing = [
        f"| {r.case} | {r.name} | {r.format(r.value)} | {r.format(r.published)} | {r.difference} |"
        for r in results
        if r.note or not r.same
    ]
    outside = [r for name in remade for r in sets.get(name, ())]
    same = sum(result.same and not result.note for result in results)
    same_outside = sum(result.same and not result.note for result in outside)
    recomputed = ", ".join(sorted({result.case for result in results if result.recomputed}))
    parts = [
        "# Reproductions",
        "Values of judges whose replies others recorded, recomputed from those replies with the pipelines in `configs/reproductions`. "
        "[reproductions.csv](reproductions.csv) has every value; this page is generated with it by `make reproductions`.",
        f"**{same_outside:,} of {len(outside):,} values** of the sets that a script makes from public repositories are the same in "
        "every digit shown. Anybody can repeat them:",
        "```console\npython benchmarks/rebuild_recordings.py RECORDINGS  # needs git and the network\n"
        "verdict bench all --replay RECORDINGS  # needs the recordings\n```",
        f"With the sets that were collected by hand, it is {same:,} of {len(results):,}. `verdict bench` skips and counts a set that is not there.",
        "\n".join(
            ["| Set | Values | Same | Recordings made by |", "| --- | ---: | ---: | --- |", *rows]
        ),
        f"The values to reproduce are published ones; those of {recomputed} were computed by the people who collected the recordings.",
        "## Other values",
        "\n".join(
            [
                "| Case | Value | Ours | Published | Difference |",
                "| --- | --- | ---: | ---: | --- |",
                *differing,
            ]
        ),
        "## Not reproduced",
        "\n".join(f"- {name}: {why}." for name, why in NOT_POSSIBLE.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _remade() -> list[str]:
    """The sets whose every file `benchmarks/rebuild_recordings.py` makes."""
    sys.path.insert(0, str(DOCS.parent / "benchmarks"))
    from rebuild_recordings import recorded_sets

    names = {folder: name for name, folder in FOLDERS.items()}
    folders = [one.folder for one in recorded_sets() if all(file.rule for file in one.files)]
    return [names.get(folder, folder) for folder in folders]


def main() -> None:
    """Write the data and the page, or compare sets with the data."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--check", nargs="+", metavar="SET", help="compare these sets only")
    options = parser.parse_args()
    data = DOCS / "reproductions.csv"
    if not options.check:
        results = measured("all", options.recordings)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(HEADER)
        data.write_text(text.getvalue() + "".join(map(line, results)), encoding="utf-8")
        (DOCS / "reproductions.md").write_text(page(results), encoding="utf-8")
        return
    known = set(data.read_text(encoding="utf-8").splitlines(keepends=True))
    lines = [line(r) for name in options.check for r in measured(name, options.recordings)]
    other = [one for one in lines if one not in known]
    sys.stdout.writelines(other)
    if other:
        sys.exit("docs/reproductions.csv has other values: make reproductions")


if __name__ == "__main__":
    main()
