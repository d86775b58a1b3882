"""`raw`: the whole text is the unit's single string field."""

from __future__ import annotations

from typing import Literal

from verdict_cli.config_model import Issue
from verdict_cli.language.extractors.bound_extractor import BoundExtractor, Extractor
from verdict_cli.language.fields.types import TEXT, RecordType, Values
from verdict_cli.messages import Reply, Request


class RawExtractor(Extractor):
    """The whole text into the unit's single string field."""

    type: Literal["raw"] = "raw"
    """The type of extractor."""

    def validation_error(self, response: RecordType) -> Issue | None:
        if list(response.fields.values()) == [TEXT]:
            return None
        return Issue(
            "",
            f"`raw` needs a response of one `str` field, here it is {response.type_name()}",
            "use `structured` or `regex`, or leave `explanation` out",
        )

    def bind(self, response: RecordType) -> BoundExtractor:
        (name,) = response.fields

        def read(reply: Reply, _: Request) -> Values:
            return {name: reply.text}

        return BoundExtractor(response, read, thoughts="keep")
