"""`escalate:` on a unit: what is done where its answer is not sure enough."""

from __future__ import annotations

from verdict_cli.config_model import ConfigModel
from verdict_cli.language.calibrations import WhenKey
from verdict_cli.model import Model, ModelKey

ABSTAIN = "abstain"
"""Stands for no answer at all, wherever a model may stand in `to`."""
ITSELF = "itself"
"""Stands in reports for a unit that asks no model and does not abstain."""
ANSWERED_BY = "answered_by"
"""The output field that names the model whose answer it is."""


class Escalate(ConfigModel):
    """Asks further models, or gives no answer, where the answer is not sure enough."""

    when: WhenKey
    """Expression over `output`, `response`, `input` and `source` that is true where the answer is not sure enough, such as `output.p < 0.8`; or `{file: …}`, a bound that `verdict calibrate` chose."""
    to: ModelKey
    """The model that is asked instead, or `abstain`; of a list, each in turn as long as `when` is true of the answer before it."""

    def chain(self) -> tuple[str | Model, ...]:
        """What `to` names, one after another."""
        return tuple(self.to) if isinstance(self.to, list) else (self.to,)

    def validation_error(self) -> tuple[str, str, str] | None:
        """(key, what is wrong, hint) when nothing can come behind what stands there, else None."""
        if ABSTAIN in self.chain()[:-1]:
            return ("to", "`abstain` ends the chain, nothing comes behind it", "put it last")
        return None
