"""A run's report: built once as a value, then laid out for a terminal, Markdown, JSON, HTML and JUnit."""

from verdict_cli.report.as_json import full, summary
from verdict_cli.report.behind import Behind
from verdict_cli.report.comparison import Beside, comparison_json, comparison_terminal
from verdict_cli.report.comparison_html import comparison_html
from verdict_cli.report.html import html
from verdict_cli.report.junit import junit
from verdict_cli.report.markdown import markdown
from verdict_cli.report.report import Comparison, Report, Standing, build
from verdict_cli.report.terminal import terminal

__all__ = [
    "Behind",
    "Beside",
    "Comparison",
    "Report",
    "Standing",
    "build",
    "comparison_html",
    "comparison_json",
    "comparison_terminal",
    "full",
    "html",
    "junit",
    "markdown",
    "summary",
    "terminal",
]
