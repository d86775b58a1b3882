"""`verdict serve --quiet` hides messages of progress only."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from verdict_cli.errors import UsageError
from verdict_cli.features.server import app


class FailingService:
    async def reload(self) -> tuple[str, str]:
        raise UsageError("unknown key 'promt'")


def test_a_reload_that_fails_is_a_warning_and_no_progress():
    messages: list[str] = []
    warnings: list[str] = []
    service = cast(Any, FailingService())
    asyncio.run(app._reload(service, messages.append, warnings.append))
    assert not messages
    assert "not reloaded" in warnings[0] and "promt" in warnings[0]
