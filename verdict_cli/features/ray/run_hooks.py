"""The options of a run on Ray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from verdict_cli.errors import UsageError
from verdict_cli.run.hooks import RunHooks
from verdict_cli.run.observer import RunObserver

if TYPE_CHECKING:
    from verdict_cli.run.job import RunOptions


@dataclass(frozen=True)
class RayOptions(RunHooks):
    """Where Ray is."""

    address: str | None = None
    """None: one on this machine, which ends with the run."""

    def check(self, options: RunOptions) -> None:
        if self.address is not None and options.engine != "ray":
            raise UsageError("--ray-address needs --engine ray", hint="give both, or leave --ray-address out")
        if options.engine == "ray" and type(options.observer) is not RunObserver:
            raise UsageError("--trace does not reach Ray's workers", hint="run it with --engine local")
