"""`post_hoc`: a first call answers in free text, a second one structures it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from verdict_cli.config_model import Uncounted, python_constructor
from verdict_cli.errors import UsageError
from verdict_cli.language.extractors.bound_extractor import BoundExtractor, Extractor, FollowUp
from verdict_cli.language.extractors.structured import StructuredOutputExtractor
from verdict_cli.language.fields.types import RecordType, Values
from verdict_cli.language.prompts.sections import append_data_notice, boundary, wrap_in_tags
from verdict_cli.messages import Message, NamedValues, Reply, Request
from verdict_cli.model import Model, ModelKey

_TASK = (
    "Below is an evaluator's answer. Copy what it says into the requested fields. Do not judge again and do not "
    "add anything that the answer does not say."
)


class PostHocExtractor(Extractor):
    """A first free-text call, then a second call that structures it."""

    type: Literal["post_hoc"] = "post_hoc"
    """The type of extractor."""
    model: Annotated[ModelKey | None, Uncounted("the models that are called count")] = None
    """The model that structures the text; by default the unit's own."""

    @python_constructor
    def __init__(self, model: str | NamedValues | Sequence[Any] | None = None, **keys: Any) -> None:
        """Keys of a model, such as ``temperature``, belong to the named ``model``."""
        if not isinstance(model, str | Mapping | Sequence | None):
            raise UsageError(
                f"PostHocExtractor: a model is a name, a mapping or a list of these, not {model!r:.80}"
            )
        settings = {name: keys.pop(name) for name in list(keys) if name in Model.model_fields}
        if isinstance(model, str):
            keys["model"] = {"name": model, **settings} if settings else model
        elif model is not None:
            keys["model"] = {**model, **settings} if isinstance(model, Mapping) else list(model)
        super().__init__(**keys)

    def bind(self, response: RecordType) -> BoundExtractor:
        """Call 0 keeps the text; call 1 returns the fields."""

        def keep(reply: Reply, _: Request) -> Values:
            return {"text": reply.text}

        def messages(text: str) -> tuple[Message, ...]:
            names = ", ".join(response.fields)
            mark = boundary((text,))
            task = f"Fields: {names}\n\n<answer>\n{wrap_in_tags(text, mark)}\n</answer>"
            return append_data_notice((Message("system", _TASK), Message("user", task)), mark)

        structured = StructuredOutputExtractor().bind(response)
        return BoundExtractor(response, keep, then=FollowUp(messages, structured, self.model))
