"""report.page.table"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class PageTable:
    """Cells of text, the first of each row its head. `right` are the columns of numbers, `strong` the rows that stand out.

    `heat` is a shade from 0 to 1 for each cell behind the first, negative where the shade means something wrong;
    `folded` is the title under which the table is hidden until it is asked for.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int] = ()
    caption: str = ""
    folded: str = ""
    strong: Sequence[int] = ()
    heat: Sequence[Sequence[float]] = ()
    kind: ClassVar[str] = "table"
