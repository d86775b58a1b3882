"""Text for numbers, intervals, costs and labels, as commands and all report formats show them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Protocol

from verdict_cli.plural import plural
from verdict_cli.regex import regex

if TYPE_CHECKING:
    # `verdict run` tells its estimate by this module before the first call: numpy must not be imported for it.
    from verdict_cli.stats.intervals.interval_methods import MetricValue

_HIDDEN_SIGNS = (
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_HIDDEN = regex(_HIDDEN_SIGNS)
_HIDDEN_IN_LINES = regex(rf"(?![\n\t]){_HIDDEN_SIGNS}")


class Interval(Protocol):
    """What has the ends of an interval."""

    @property
    def low(self) -> float | None: ...

    @property
    def high(self) -> float | None: ...


class Estimate(Interval, Protocol):
    """A value with the ends of its interval."""

    @property
    def value(self) -> Any: ...


def visible_text(text: str, most: int = 0) -> str:
    """The text with control, direction and unpaired surrogate characters as escapes; cut at `most` characters."""
    shown = _HIDDEN.sub(_escape, text)
    return f"{shown[: most - 1]}…" if most and len(shown) > most else shown


def visible_lines(text: str) -> str:
    """The text with the same escapes, but for its line ends and tabs."""
    return _HIDDEN_IN_LINES.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")


def message_lines(text: str) -> list[str]:
    """A message and its hint, each on a line of its own."""
    return [visible_text(line.strip(), 300) for line in text.split("\n") if line.strip()][
        :_MOST_LINES
    ]


_MOST_LINES = 6
ROUNDING = 1e-12
"""A smaller number is what rounding left of 0."""


def format_number(value: float | None) -> str:
    """Integers with thousands separators, else three decimals; a number just above 0 or just under 1 never becomes 0 or 1;
    a dash for None. `page/data.js` has the same."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) < ROUNDING:
        value = 0.0
    size = abs(value)
    if 0.9995 <= size < 1:  # 4,999 of 5,000 are not all
        value = math.copysign(min(round(size, 4), 0.9999), value)
        return f"{value:.4f}"
    if 0 < size < 0.001:
        return f"{value:.4f}" if size >= 0.00005 else f"{value:.1g}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.3f}"


def p_value(p: float | None) -> str:
    """`0.012`, `< 0.001`, `1`; a dash for None."""
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def percent(share: float) -> str:
    """`28%`, `1.2%`; a share above 0 is never 0%."""
    return f"{share:.0%}" if share >= 0.1 else f"{max(share, 0.001):.1%}"


def signed(value: float | None) -> str:
    """A difference with its sign: `+0.050`."""
    return f"{'+' if value is not None and value > 0 else ''}{format_number(value)}"


def interval(ends: Interval) -> str:
    """`[0.730, 0.808]`, empty if there is none."""
    if ends.low is None or ends.high is None:
        return ""
    return f"[{format_number(ends.low)}, {format_number(ends.high)}]"


def number_cells(estimate: Estimate) -> tuple[str, str]:
    """Value and interval, as cells of a table."""
    return format_number(estimate.value), interval(estimate)


def number_with_interval(estimate: Estimate) -> str:
    """`0.771 [0.730, 0.808]`, without the interval where there is none."""
    return " ".join(number_cells(estimate)).strip()


def interval_header(level: float, note: str = "") -> str:
    """`95% interval`, or `95% interval (together)`."""
    return f"{100 * level:g}% interval" + (f" ({note})" if note else "")


def metric_text(metric: MetricValue) -> str:
    """`0.771 [0.730, 0.808] n=450`."""
    return f"{number_with_interval(metric)} n={metric.n}{_clusters(metric)}"


def metric_cells(metric: MetricValue) -> tuple[str, str, str]:
    """Value, interval and sample size, as cells of a table."""
    return *number_cells(metric), f"{metric.n:,}{_clusters(metric)}"


def _clusters(metric: MetricValue) -> str:
    return "" if metric.clusters is None else f" in {plural(metric.clusters, 'cluster')}"


def label(value: Any) -> str:
    """A label of the data; the label None stands for "no prediction"."""
    return "(none)" if value is None else visible_text(str(value), 40)


def money(cost_usd: float | None) -> str:
    """US dollars: cents from one dollar on, else up to four decimals; `unknown` for None."""
    if cost_usd is None:
        return "unknown"
    if 0 < cost_usd < 0.00005:
        return "< $0.0001"
    cents = f"{cost_usd:.2f}"
    if cost_usd >= 1:
        return f"${cents}"
    return f"${max(cents, f'{cost_usd:.4f}'.rstrip('0'), key=len)}"


def format_duration(seconds: float) -> str:
    """`4.2 s`, `3 min 20 s`, `1 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def kind_text(kind: str) -> str:
    """The kind of an evaluation for a reader who does not know the levels of measurement."""
    return "ordered labels" if kind == "ordinal" else kind
