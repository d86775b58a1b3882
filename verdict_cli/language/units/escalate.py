"""`escalate:` on a unit: what happens when its answer is not certain enough."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from verdict_cli.config_model import ConfigModel
from verdict_cli.language.calibrations import WhenKey
from verdict_cli.model import Model, ModelKey

ABSTAIN = "abstain"
"""In place of a model in `to`: no answer."""
ITSELF = "itself"
"""How reports name the answer of a unit that calls no model and does not abstain."""
VERDICT_FIELDS = ("choice", "score")
"""The output fields that are a verdict, of which a unit has one at most."""
ANSWERED_BY = "answered_by"
"""The output field that names the model whose answer it is."""


class Escalate(ConfigModel):
    """Calls other models, or abstains, when the answer is not certain enough."""

    when: WhenKey
    """Expression over `output`, `response`, `input` and `source` that is true when the answer is not certain enough, such as `output.p < 0.8`; or `{file: …}`, a bound that `verdict calibrate` chose."""
    to: ModelKey
    """The model to call instead, or `abstain`; of a list, each in turn while `when` is true of the previous answer."""

    audit_share: Annotated[float, Field(gt=0, le=1)] | None = None
    """A random share of rows on which the last model is called too: the report shows how often its verdict is the same."""

    def chain(self) -> tuple[str | Model, ...]:
        """What `to` names, one after another."""
        return tuple(self.to) if isinstance(self.to, list) else (self.to,)

    def validation_error(self) -> tuple[str, str, str] | None:
        """(key, message, hint) when something follows `abstain`, else None."""
        if ABSTAIN in self.chain()[:-1]:
            return ("to", "`abstain` ends the chain, nothing can follow it", "put it last")
        if self.audit_share is not None and self.chain() == (ABSTAIN,):
            return (
                "audit_share",
                "there is no model to compare with",
                "leave `audit_share` out, or name a model in `to`",
            )
        return None
