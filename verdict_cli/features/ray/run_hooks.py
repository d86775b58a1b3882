"""The options of a run on Ray."""

from __future__ import annotations

from dataclasses import dataclass

from verdict_cli.errors import UsageError
from verdict_cli.llm.tracing import Spans
from verdict_cli.run.hooks import RunHooks, run_option
from verdict_cli.run.job import RunOptions


@dataclass(frozen=True)
class RayOptions(RunHooks):
    """Where Ray is."""

    address: str | None = run_option(
        None,
        "--ray-address",
        "With --engine ray: the cluster, e.g. auto or ray-head:6379. [default: a local Ray]",
        metavar="ADDRESS",
    )

    def check(self, options: RunOptions) -> None:
        """As `RunHooks.check`."""
        if self.address is not None and options.engine != "ray":
            raise UsageError("--ray-address needs --engine ray", hint="give both, or leave --ray-address out")
        if options.engine == "ray" and type(options.spans) is not Spans:
            raise UsageError("--trace does not reach Ray's workers", hint="run it with --engine local")
