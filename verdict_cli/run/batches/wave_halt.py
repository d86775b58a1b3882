"""What stops the waves of a run, and how they ended."""

from __future__ import annotations

from dataclasses import dataclass

from verdict_cli.errors import VerdictError
from verdict_cli.llm.middleware.budget import HaltedError
from verdict_cli.run.job import Halt
from verdict_cli.run_facts import BatchFacts


class WaveHalt:
    """Whether the waves are to stop: because the run is, or because of an error that leaves its tables to be written."""

    def __init__(self, halt: Halt) -> None:
        self.run = halt
        self.error: VerdictError | None = None

    def is_set(self) -> bool:
        return self.error is not None or self.run.is_set()

    def fail(self, error: VerdictError) -> None:
        """Stop because of the error, the first of which is kept."""
        if self.error is None and not isinstance(error, HaltedError):
            self.error = error


@dataclass
class WaveOutcome:
    """How the waves ended: ``waiting`` for batches, ``interrupted`` by the user, or because of ``error``; and the batches."""

    waiting: bool = False
    interrupted: bool = False
    error: VerdictError | None = None
    batches: tuple[BatchFacts, ...] = ()
