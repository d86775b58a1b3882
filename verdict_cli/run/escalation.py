"""Units that escalate: which stage answers a row, and on audited rows whether the last one gives the same verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from verdict_cli.errors import ProviderError, ReplyError, RowError
from verdict_cli.language.units.base import ABSTAIN, ANSWERED_BY, ITSELF, VERDICT_FIELDS
from verdict_cli.messages import Call, NamedValues, Output, Row, Stage, cost_of
from verdict_cli.plan.node import Escalation, Node
from verdict_cli.run.attempts import Context, draw
from verdict_cli.run.node_run import answer_node, calls_of, fails_row


class AnsweringStage(NamedTuple):
    """The stage that answered (0 is the first), and on audited rows whether the last one gives the same verdict."""

    stage: int
    kept: bool | None = None


async def escalate_answer(
    node: Node,
    escalation: Escalation,
    row: Row,
    previous: NamedValues,
    context: Context,
    calls: list[Call],
) -> tuple[Output | None, AnsweringStage]:
    """The output of a node that escalates, None where it abstains, and the stage that answered.

    Raises what `answer_node` raises.
    """
    for stage in range(len(node.stages)):
        answered = await answer_node(node, row, previous, context, calls, stage)
        if stage == len(node.stages) - 1 and not escalation.abstains:
            break
        if not doubtful(
            escalation, answered.values | {"response": answered.response, "output": answered.output}
        ):
            break
    else:
        if escalation.abstains:
            return None, AnsweringStage(stage)
    output, model = answered.output, calls[-1].request.model.name if calls else ""
    kept = None
    if draw(context.seed, row.draw_id, f"audit {node.id}") < escalation.audit_share * 2**64:
        kept = stage == len(node.stages) - 1 or await _same_verdict(
            node, row, previous, context, calls, output
        )
    return ({**output, ANSWERED_BY: model} if escalation.stages else output), AnsweringStage(
        stage, kept
    )


async def _same_verdict(
    node: Node,
    row: Row,
    previous: NamedValues,
    context: Context,
    calls: list[Call],
    output: NamedValues,
) -> bool | None:
    """Whether the last stage gives the same choice, score or (without either) output; None if it gives none."""
    try:
        last = (await answer_node(node, row, previous, context, calls, len(node.stages) - 1)).output
    except (ReplyError, ProviderError, RowError) as error:
        if not fails_row(error):
            raise
        return None
    names = next(((name,) for name in VERDICT_FIELDS if name in output), tuple(output))
    return all(last.get(name) == output[name] for name in names if name != "explanation")


def doubtful(escalation: Escalation, values: NamedValues) -> bool:
    """Whether `escalate.when` holds for an answer. RowError where its value is not a boolean."""
    doubts = escalation.when(values)
    if not isinstance(doubts, bool):
        raise RowError(
            f"`escalate.when` gives {doubts!r:.80}, not true or false",
            hint="compare: `output.p < 0.8`",
        )
    return doubts


def stages_of(
    node: Node, answered: AnsweringStage | None, calls: Sequence[Call], *, abstained: bool
) -> tuple[Stage, ...]:
    """The counts of each stage of an escalating unit at a row, of which ``answered`` gave the output; where it may abstain,
    that is the last stage."""
    per_stage = calls_of(node)
    stages = [] if node.stages else [Stage(ITSELF, int(answered is not None), 0, 0.0)]
    for number in range(len(node.stages)):
        stage_calls = [call for call in calls if call.request.call // per_stage == number]
        here = answered if answered is not None and answered.stage == number else None
        audit = (0, 0) if here is None or here.kept is None else (1, int(here.kept))
        stages.append(
            Stage(
                node.stages[number][0].name,
                int(here is not None),
                len(stage_calls),
                cost_of(stage_calls),
                *audit,
            )
        )
    if node.escalation is not None and node.escalation.abstains:
        stages.append(Stage(ABSTAIN, int(abstained), 0, 0.0))
    return tuple(stages)
