"""The options that Ray adds to `verdict run`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated

import typer

from verdict_cli.cli.options import CommandCall
from verdict_cli.features.ray.run_hooks import RayOptions


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
        call.extras["ray"] = RayOptions(self.ray_address)
        return nullcontext()
