"""The Ray that a run uses: whether it can, and the connection."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from verdict_cli.errors import UsageError
from verdict_cli.plan.node import Plan
from verdict_cli.run.run_directory import RunDirectory


def check_ray(plan: Plan, directory: RunDirectory) -> None:
    """UsageError where Ray cannot run the plan."""
    if any(node.code for node in plan.nodes):
        raise UsageError(
            "a pipeline with Python functions or unit types of --allow-code cannot be sent to Ray's workers",
            hint="run it with --engine local",
        )
    if directory.display_name.startswith("memory:"):
        raise UsageError(
            f"{directory.display_name} is this process's memory, which Ray's workers cannot reach",
            hint="give --out a path, or the URL of a store",
        )
    try:
        import ray  # noqa: F401
    except ImportError:
        raise UsageError("--engine ray needs Ray", hint="in a checkout of verdict: pip install '.[ray]'") from None


@contextmanager
def connected(address: str | None) -> Iterator[int]:
    """The number of workers of the Ray at the address, else of one on this machine: one a processor."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray
    from ray.exceptions import RayError

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ray.init(
            address=address or "local",
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            namespace="verdict",
        )
    except (ConnectionError, ValueError, RuntimeError, RayError) as error:
        raise UsageError(
            f"Ray cannot be reached{f' at {address}' if address else ''}: {error}",
            hint="start it with `ray start --head`, or leave --ray-address out; set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN for a Ray that needs a token",
        ) from None
    for number, handler in handlers.items():
        signal.signal(number, handler)
    try:
        resources: Any = ray.cluster_resources  # it has no types
        yield max(1, int(resources().get("CPU", 1)))
    finally:
        ray.shutdown()
