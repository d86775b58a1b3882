"""The facts of a run that has ended, for tests of what reads them."""

from __future__ import annotations

from typing import Any

from verdict_cli.run_facts import RunFacts


def finished_run(name: str = "run", **facts: Any) -> RunFacts:
    """The facts of a finished run, of which a test needs these."""
    texts = ("config", "dataset", "spec_fingerprint", "data_fingerprint", "version", "started")
    return RunFacts(name=name, status="finished", **dict.fromkeys(texts, ""), **facts)
