"""What every extractor has (language.md, section 5)."""

from __future__ import annotations

from verdict_cli.extractors.reading import Reading, Trouble
from verdict_cli.fields import Record
from verdict_cli.keys import Keys


class Extractor(Keys):
    """How a response is asked for and read from the reply."""

    type: str
    """The kind of extractor."""

    def problem(self, response: Record) -> Trouble | None:
        """What makes no sense about the extractor for this response, None when nothing."""
        return None

    def bind(self, response: Record) -> Reading:
        """The extractor for this response, in which it has found no problem."""
        raise AssertionError(f"{self.type} reads nothing")
