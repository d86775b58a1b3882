"""`raw`: the whole text is the unit's single string field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from verdict_cli.extractors.keys import Extractor
from verdict_cli.extractors.reading import Reading, Trouble
from verdict_cli.fields import TEXT, Record

if TYPE_CHECKING:
    from verdict_cli.values import Reply, Request


class Raw(Extractor):
    """The whole text into the unit's single string field."""

    type: Literal["raw"] = "raw"
    """The kind of extractor."""

    def problem(self, response: Record) -> Trouble | None:
        """A response schema of anything but one string field does not fit."""
        if list(response.fields.values()) == [TEXT]:
            return None
        return (
            "",
            f"`raw` needs a response of one `str` field, here it is {response.spell()}",
            "use `structured` or `regex`, or leave `explanation` out",
        )

    def bind(self, response: Record) -> Reading:
        """The text as the field's value."""
        (name,) = response.fields

        def read(reply: Reply, _: Request) -> dict[str, Any]:
            return {name: reply.text}

        return Reading(response, read)
