"""What every calibration file says, whatever its kind."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from verdict_cli.keys import Keys, One, Whole


class Fitted(Keys):
    """What every calibration says: of which judge it is, and what it was fitted on."""

    verdict_calibration: One
    """The version of calibration files."""
    unit: str
    """The unit that it was fitted to."""
    fingerprint: Annotated[dict[str, str], Field(min_length=1)]
    """What the judge was: a digest of its model, prompt, scale, extractor and what stands before it. Another judge refuses the calibration."""
    made: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
    """When it was fitted, in UTC."""
    run: str
    """The run whose rows it was fitted on."""
    target: str
    """The expression for what is true of a row."""
    rows: Annotated[int, Field(ge=1), Whole]
    """How many labelled rows it was fitted on."""
    held_out: dict[str, Any] = Field(default_factory=dict)
    """Figures before and after on rows that were held out by cross-validation; for the reader only."""
