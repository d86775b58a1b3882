"""`escalate:` on a unit: what is done where its answer is not sure enough."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from verdict_cli.keys import Keys
from verdict_cli.models import Model, ModelKey

ABSTAIN = "abstain"
"""Stands for no answer at all, wherever a model may stand in `to`."""
ANSWERED_BY = "answered_by"
"""The output field that names the model whose answer it is."""


class Escalate(Keys):
    """Asks further models, or gives no answer, where the answer is not sure enough."""

    when: Annotated[str, Field(min_length=1)]
    """Expression over `output`, `response`, `input` and `source` that is true where the answer is not sure enough, such as `output.p < 0.8`."""
    to: ModelKey
    """The model that is asked instead, or `abstain`; of a list, each in turn as long as `when` is true of the answer before it."""

    def chain(self) -> tuple[str | Model, ...]:
        """What `to` names, one after another."""
        return tuple(self.to) if isinstance(self.to, list) else (self.to,)

    def problem(self) -> tuple[str, str, str] | None:
        """(key, what is wrong, hint) when nothing can come behind what stands there, else None."""
        if ABSTAIN in self.chain()[:-1]:
            return ("to", "`abstain` ends the chain, nothing comes behind it", "put it last")
        return None
