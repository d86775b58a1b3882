"""The yes/no scale."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from verdict_cli.config_model import ConfigModel, Seq
from verdict_cli.errors import ReplyError
from verdict_cli.language.scales.parse_value import folded, match_value

_YES = ("yes", "true")
_NO = ("no", "false")


class Boolean(ConfigModel):
    """Yes or no. Values are `true` and `false`; the tokens that mean them can be set."""

    type: Literal["boolean"] = "boolean"
    """The kind of scale."""
    yes: Annotated[Seq[str], Field(min_length=1)] = _YES
    """Tokens that mean true; the first one is asked for."""
    no: Annotated[Seq[str], Field(min_length=1)] = _NO
    """Tokens that mean false; the first one is asked for."""
    end_is_worst: bool = False
    """Whether true is the worse end."""

    def values(self) -> tuple[Any, ...]:
        """Both values, worst first."""
        return (True, False) if self.end_is_worst else (False, True)

    def problem(self) -> tuple[str, str, str] | None:
        """(key, what is wrong, hint) when the scale makes no sense, else None."""
        for word in (*self.yes, *self.no):
            if not word.strip():
                return (
                    "no" if word in self.no else "yes",
                    f"{word!r} is no word that a model can answer",
                    "name each token",
                )
        both = {folded(word) for word in self.yes} & {folded(word) for word in self.no}
        if both:
            return ("no", f"{min(both)!r} means both yes and no", "give each token one meaning")
        return None

    def read(self, value: Any) -> bool:
        """The value that a reply's text or JSON value names; ReplyError when it names none."""
        if isinstance(value, bool):
            return value
        found = match_value(value, self.tokens()) if isinstance(value, str) else None
        if found is None:
            raise ReplyError(f"{value!r:.200} is not on the scale {self.display()}", kind="off-scale")
        return bool(found[0])

    def number(self, value: Any) -> float:
        """1 for true, 0 for false."""
        return float(value)

    def numeric(self) -> bool:
        """True: booleans count as numbers."""
        return True

    def tokens(self) -> tuple[tuple[str, Any], ...]:
        """(token, value) pairs whose probabilities are added up; yes before no."""
        return tuple((word, True) for word in self.yes) + tuple((word, False) for word in self.no)

    def display(self) -> str:
        """The values as a prompt names them."""
        return f"{self.yes[0]}, {self.no[0]}"

    def sentence(self, field: str) -> str:
        """The sentence added to a prompt."""
        return f'Answer with "{self.yes[0]}" or "{self.no[0]}" as the {field}.'

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of a value."""
        return {"type": "boolean"}
