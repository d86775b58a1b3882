"""A judge that answers by a rule, and counts nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from verdict_cli.messages import Failure, Result, Row


class RuleJudge:
    """Judges rows by a function of the row; None stands for a failed row. `rows` are those it has seen."""

    def __init__(self, rule: Callable[[Mapping[str, Any]], Any]) -> None:
        self.rule = rule
        self.rows: list[Mapping[str, Any]] = []

    async def judge(self, rows: Sequence[Mapping[str, Any]]) -> list[Result]:
        self.rows += rows
        return [self.result(index, row) for index, row in enumerate(rows)]

    def result(self, index: int, row: Mapping[str, Any]) -> Result:
        outcome = self.rule(row)
        failure = Failure("timeout", "judge", "no reply") if outcome is None else None
        return Result(Row(index, index, row), ({"value": outcome},), failure)


@pytest.fixture
def rule_judge() -> type[RuleJudge]:
    return RuleJudge
