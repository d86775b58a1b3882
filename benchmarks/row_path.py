"""The path of one row through the code: Python calls, functions, files, and changes of package.

    python benchmarks/row_path.py

Profiles `verdict run` with one `JudgeUnit` on the embedded model `baseline/lexical` at two numbers of rows, in one
process. The difference is what a row costs, without the start of the run. Prints a Markdown table. The counts do not
depend on the machine's load. The report is made when all rows are done, and its page shows the details of 1,000 rows at most.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from typer.testing import CliRunner

import verdict_cli
from verdict_cli.cli.app import app

PACKAGE = str(Path(verdict_cli.__file__).parent) + os.sep
PIPELINE = """verdict: 1
name: row
model: {name: baseline/lexical}
pipeline:
  - {unit: JudgeUnit, prompt: "Question: {source.question}\\nAnswer: {source.answer}\\nRate the answer."}
"""
FEW, MANY = 200, 1200
"""Both are below 5,000 rows, one row group of the tables, and above the rows that warm up caches."""


class Profile:
    """Counts calls of the package's functions on this thread."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.switches = 0
        self._package = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """A hook for `sys.setprofile`."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        file = code.co_filename.removeprefix(PACKAGE)
        package = file.partition(os.sep)[0]
        self.calls[file, code.co_qualname] += 1
        self.switches += package != self._package
        self._package = package


def profiled(folder: Path, rows: int) -> Profile:
    """The profile of a run of so many rows."""
    config, data = folder / "row.yaml", folder / f"{rows}.jsonl"
    config.write_text(PIPELINE)
    data.write_text(
        "".join(
            f'{{"question": "What is {n} + 1?", "answer": "It is {n}."}}\n' for n in range(rows)
        )
    )
    profile = Profile()
    out = str(folder / f"out-{rows}")
    sys.setprofile(profile)
    try:
        result = CliRunner().invoke(
            app, ["run", str(config), str(data), "--out", out, "--quiet", "--json"]
        )
    finally:
        sys.setprofile(None)
    if result.exit_code:
        raise SystemExit(result.output)
    return profile


def main() -> None:
    """Print the table; with `--calls`, also every function of the path and its calls a row."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profiled(folder, 10)  # imports, compiled templates
        few, many = profiled(folder, FEW), profiled(folder, MANY)
    rows = MANY - FEW
    each = {key: (count - few.calls[key]) / rows for key, count in many.calls.items()}
    path = {key: count for key, count in each.items() if count > 0.5}
    print("| calls a row | of these, by the report | functions | files | changes of package |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    files = {file for file, _ in path}
    report = sum(count for (file, _), count in each.items() if file.startswith(f"report{os.sep}"))
    switches = (many.switches - few.switches) / rows
    print(
        f"| {sum(each.values()):.1f} | {report:.1f} | {len(path)} | {len(files)} | {switches:.1f} |"
    )
    if "--calls" in sys.argv[1:]:
        for (file, function), count in sorted(path.items(), key=lambda item: -item[1]):
            print(f"{count:6.2f}  {file}  {function}")


if __name__ == "__main__":
    main()
