"""`post_hoc`: a first call answers in free text, a second one structures it."""

from __future__ import annotations

from typing import Any, Literal

from verdict_cli.language.extractors.bound_extractor import BaseExtractor, BoundExtractor, ExtractorIssue, FollowUp
from verdict_cli.language.extractors.structured import Structured
from verdict_cli.language.fields.types import RecordType
from verdict_cli.language.prompts.delimit import append_data_notice, boundary, wrap_in_tags
from verdict_cli.messages import Message, Reply, Request
from verdict_cli.model import ModelKey

_TASK = (
    "Below is an evaluator's answer. Copy what it says into the requested fields. Do not judge anew and do not "
    "add anything that the answer does not say."
)


class PostHoc(BaseExtractor):
    """A first free-text call, then a second call that structures it."""

    type: Literal["post_hoc"] = "post_hoc"
    """The kind of extractor."""
    model: ModelKey | None = None
    """The model that structures the text; the unit's own where it is not given."""

    def problem(self, response: RecordType) -> ExtractorIssue | None:
        """None: every response schema can be asked for."""
        return None

    def bind(self, response: RecordType) -> BoundExtractor:
        """Call 0 is read as it is; call 1 gives the fields."""

        def keep(reply: Reply, _: Request) -> dict[str, Any]:
            return {"text": reply.text}

        def messages(text: str) -> tuple[Message, ...]:
            names = ", ".join(response.fields)
            mark = boundary((text,))
            task = f"Fields: {names}\n\n<answer>\n{wrap_in_tags(text, mark)}\n</answer>"
            return append_data_notice((Message("system", _TASK), Message("user", task)), mark)

        structured = Structured().bind(response)
        return BoundExtractor(response, keep, then=FollowUp(messages, structured, self.model))
