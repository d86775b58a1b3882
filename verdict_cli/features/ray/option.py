"""The option `--engine ray` of `verdict run`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from verdict_cli.cli.options import CommandCall
from verdict_cli.errors import UsageError


class Engine(StrEnum):
    """What executes a run."""

    LOCAL = "local"
    RAY = "ray"


@dataclass(frozen=True, kw_only=True)
class RayOption:
    """Where the rows are judged. Raises UsageError for options that a worker elsewhere cannot obey."""

    engine: Annotated[
        Engine,
        typer.Option(
            "--engine",
            rich_help_panel="Ray",
            help="ray: judge the rows in shards, which are tasks of the Ray cluster at RAY_ADDRESS.",
        ),
    ] = Engine.LOCAL
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            min=2,
            rich_help_panel="Ray",
            help="With --engine ray: how many shards. [default: one for each CPU of the cluster]",
        ),
    ] = None

    def applied(self, call: CommandCall) -> AbstractContextManager[None]:
        if self.engine is Engine.RAY:
            _check(call)
            from verdict_cli.features.ray.tasks import run_on_ray

            call.extras["engine"] = partial(run_on_ray, self.shards)
        elif self.shards is not None:
            raise UsageError(
                "--shards needs --engine ray", hint="without Ray: --shard I/N for each shard"
            )
        return nullcontext()


def _check(call: CommandCall) -> None:
    excluded = {
        "fresh": "name a new directory by --out",
        "shard": "the cluster runs every shard",
        "trace": "leave --trace out: the spans of other machines do not come here",
        "untrusted": "leave --engine out: what is untrusted stays in one process",
    }
    for name, hint in excluded.items():
        if call.options.get(name):
            raise UsageError(f"--engine ray and --{name} exclude one another", hint=hint)
