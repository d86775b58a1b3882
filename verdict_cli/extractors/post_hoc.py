"""`post_hoc`: a first call answers in free text, a second one structures it."""

from __future__ import annotations

from typing import Any, Literal

from verdict_cli.extractors.keys import Extractor
from verdict_cli.extractors.reading import FollowUp, Reading, Trouble
from verdict_cli.extractors.structured import Structured
from verdict_cli.fields import Record
from verdict_cli.models import ModelKey
from verdict_cli.templates import boundary, fenced, noted
from verdict_cli.values import Message, Reply, Request

_TASK = (
    "Below is an evaluator's answer. Copy what it says into the requested fields. Do not judge anew and do not "
    "add anything that the answer does not say."
)


class PostHoc(Extractor):
    """A first free-text call, then a second call that structures it."""

    type: Literal["post_hoc"] = "post_hoc"
    """The kind of extractor."""
    model: ModelKey | None = None
    """The model that structures the text; the unit's own where it is not given."""

    def problem(self, response: Record) -> Trouble | None:
        """None: every response schema can be asked for."""
        return None

    def bind(self, response: Record) -> Reading:
        """Call 0 is read as it is; call 1 gives the fields."""

        def keep(reply: Reply, _: Request) -> dict[str, Any]:
            return {"text": reply.text}

        def messages(text: str) -> tuple[Message, ...]:
            names = ", ".join(response.fields)
            mark = boundary((text,))
            task = f"Fields: {names}\n\n<answer>\n{fenced(text, mark)}\n</answer>"
            return noted((Message("system", _TASK), Message("user", task)), mark)

        structured = Structured().bind(response)
        return Reading(response, keep, then=FollowUp(messages, structured, self.model))
