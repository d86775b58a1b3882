"""Append the report to the job summary of a GitHub Actions step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from verdict_cli.cli.console import print_error

MOST_SUMMARY_BYTES = 1 << 20
"""GitHub's limit per step. A larger summary is not shown at all."""


def append_step_summary(markdown: str, environ: Mapping[str, str] = os.environ) -> None:
    """Append the text to the file named by ``GITHUB_STEP_SUMMARY``, if all of it fits."""
    name = environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return
    path, content = Path(name), f"{markdown}\n".encode()
    try:
        size = path.stat().st_size if path.exists() else 0
        if size + len(content) > MOST_SUMMARY_BYTES:
            print_error("warning: the report does not fit into the summary of this step (GitHub allows 1 MiB)")
            return
        with path.open("ab") as file:
            file.write(content)
    except OSError as error:
        print_error(f"warning: the summary of this step cannot be written: {error.strerror or error}")
