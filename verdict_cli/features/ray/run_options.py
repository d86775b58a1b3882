"""The options that Ray adds to `verdict run`, and what they mean for a run."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.extensions import CommandCall
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
        """As `RunHooks.check`."""
        if self.address is not None and options.engine != "ray":
            raise UsageError("--ray-address needs --engine ray", hint="give both, or leave --ray-address out")
        if options.engine == "ray" and type(options.observer) is not RunObserver:
            raise UsageError("--trace does not reach Ray's workers", hint="run it with --engine local")


@dataclass(frozen=True, kw_only=True)
class RayRunOptions:
    """Where Ray is."""

    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            metavar="ADDRESS",
            rich_help_panel="Calls and hosts",
            help="With --engine ray: the cluster, e.g. auto or ray-head:6379. [default: a local Ray]",
        ),
    ] = None

    def applied(self, call: CommandCall) -> AbstractContextManager[None]:
        """As `Extension.applied`."""
        call.extras["ray"] = RayOptions(self.ray_address)
        return nullcontext()
