"""What a unit does where its answer is not sure enough: `escalate:`, checked and compiled."""

from __future__ import annotations

from verdict_cli.models import Model
from verdict_cli.plan.bench import PROMPT_ROOTS, Bench
from verdict_cli.plan.node import Escalation
from verdict_cli.plan.scope import Scope
from verdict_cli.units import ABSTAIN, ANSWERED_BY, Asking

_ROOTS = (*PROMPT_ROOTS, "response", "output")


def escalated(bench: Bench, scope: Scope) -> Escalation | None:
    """The unit's escalation, None where it has none, or, told, where it makes no sense.

    ``scope`` knows the response and the output as it is passed on.
    """
    unit = bench.seat.unit
    if unit.escalate is None:
        return None
    asks = isinstance(unit, Asking)
    trouble = unit.escalate.problem()
    chain = [one for one in unit.escalate.chain() if one != ABSTAIN]
    if not trouble and chain and not asks:
        message = f"a {unit.type_name} asks no model that another could stand in for"
        trouble = ("to", message, "only `to: abstain` is possible here")
    if not trouble and bench.seat.pinned:
        trouble = ("", "a pinned unit is asked once for all rows", "leave `pin` or `escalate` out")
    if not trouble and chain and ANSWERED_BY in scope.fixed["output"].fields:
        trouble = ("", f"the output has a field {ANSWERED_BY!r} of its own", "give it another name")
    if trouble:
        key, message, hint = trouble
        bench.problem("bad-escalate", message, hint, "escalate", *([key] if key else []))
        return None
    text = unit.escalate.when
    if not isinstance(text, str):
        from verdict_cli.calibrations.kinds import Threshold  # here, because few bounds are fitted

        fitted = bench.fitted(text, Threshold, "escalate", "when")
        if fitted is None:
            return None
        text = fitted.when()
    when = bench.expression(text, _ROOTS if asks else (*_ROOTS, "outputs"), scope, "escalate", "when")
    stages: list[tuple[Model, ...] | None] = [
        bench.seat.names.policy(one, (*bench.seat.path, "escalate", "to")) for one in chain
    ]
    found = tuple(models for models in stages if models)
    if when is None or len(found) < len(chain):
        return None
    return Escalation(when, found, unit.escalate.chain()[-1] == ABSTAIN)
