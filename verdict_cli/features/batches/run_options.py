"""The options that batches add to `verdict run`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated

import typer

from verdict_cli.cli.options import CommandCall
from verdict_cli.features.batches.run_hooks import BatchOptions


@dataclass(frozen=True, kw_only=True)
class BatchRunOptions:
    """Which calls are sent as batches, and how."""

    batch: Annotated[
        bool,
        typer.Option(
            "--batch",
            rich_help_panel="Batches",
            help="Send all calls through the provider's batch interface, at its batch price.",
        ),
    ] = False
    batch_fallback: Annotated[
        bool,
        typer.Option(
            "--batch-fallback",
            rich_help_panel="Batches",
            help="Send what a batch did not answer as ordinary calls, at their price.",
        ),
    ] = False
    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            rich_help_panel="Batches",
            help="Send the batches that are ready and exit with code 5. The same command collects them and continues.",
        ),
    ] = False

    def applied(self, call: CommandCall) -> AbstractContextManager[None]:
        call.extras["batches"] = BatchOptions(self.batch, self.batch_fallback, self.detach)
        return nullcontext()
