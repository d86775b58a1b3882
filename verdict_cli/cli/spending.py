"""What a run will probably cost, told before it spends, with a question on a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from verdict_cli.cli.console import print_error, print_message

if TYPE_CHECKING:
    from verdict_cli.model import Model
    from verdict_cli.run.session import Session


def tell_cost(session: Session, *, yes: bool, quiet: bool) -> None:
    """Warn of what the models lack, tell the estimate, and ask on a terminal. Exits where the answer is no.

    Nothing is told of a run that is finished or replayed, or that calls free models only; nothing is asked of one that
    calls models without a price on this machine only.
    """
    from verdict_cli.llm.model_families import is_free
    from verdict_cli.report.formatting import money
    from verdict_cli.run.estimate import total
    from verdict_cli.run.model_warnings import capability_warnings, context_warnings, sampled_dry_run
    from verdict_cli.run.preflight import SAMPLE, models_of

    options = session.options
    paid = [model for model in models_of(options.plan) if not is_free(model.name)]
    if session.is_finished or options.recording is not None or not paid:
        return
    dry = sampled_dry_run(options.plan, options.dataset, options.data, options.seed)
    for warning in (*capability_warnings(options.plan), *context_warnings(options.plan, dry.longest)):
        print_error(f"warning: {warning}")
    earlier = session.earlier
    left = options.data.rows
    if earlier is not None and session.difference is None:
        left = max(0, left - earlier.done)
    if not left:  # retries of failed calls, which cannot be estimated
        return
    whole = total(dry.lines(left), "", "")
    calls = f"{whole.least:,} to {whole.calls:,}" if whole.least < whole.calls else f"{whole.calls:,}"
    cost = "cost unknown" if whole.cost_usd is None else f"some {money(whole.cost_usd)}"
    if options.deferring is not None:
        deferred = options.deferring.estimate(options.plan, dry.lines(left))
        cost = cost if deferred is None else deferred.phrase
    basis = f", estimated from {SAMPLE} of them" if options.data.rows > SAMPLE else ""
    message = f"{left:,} rows{basis}: {calls} calls of {', '.join(dict.fromkeys(model.name for model in paid))}, {cost}"
    spends = whole.cost_usd != 0 if whole.cost_usd is not None else not all(map(_is_on_this_machine, paid))
    asks = spends and not yes and sys.stdin.isatty() and sys.stderr.isatty()
    if asks or not quiet:
        print_message(message)
    if asks and not typer.confirm("Continue?", default=True, err=True):
        print_error("stopped: no call was made")
        raise typer.Exit(130)


def _is_on_this_machine(model: Model) -> bool:
    """Whether the model is served by this machine, where calls without a price cost nothing."""
    from verdict_cli.language.egress_hosts import LOOPBACK
    from verdict_cli.llm.model_families import host_called

    host = host_called(model, os.environ) or ""
    return any(host == own or host.startswith(f"{own}:") for own in LOOPBACK)
