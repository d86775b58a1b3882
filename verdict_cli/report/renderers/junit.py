"""The gates and failed rows of a document as JUnit XML: a test case for each gate and for each kind of failed rows."""

from __future__ import annotations

from xml.etree import ElementTree

from verdict_cli.plural import plural
from verdict_cli.regex import regex
from verdict_cli.report import formatting
from verdict_cli.report.document import Failures, Gates, ReportDocument, parts_for
from verdict_cli.stats.gates import GateOutcome

_INVALID = regex("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render_junit(document: ReportDocument) -> str:
    """The XML document. An inconclusive gate is a failure; failed rows are only skipped if a gate on coverage passed."""
    root = ElementTree.Element("testsuites", name=_valid(document.title))
    parts = [
        part
        for section in document.sections_for("junit")
        for part in parts_for(section.parts, "junit")
    ]
    _gates_suite(
        root, [gate for part in parts if isinstance(part, Gates) for gate in part.outcomes]
    )
    for part in parts:
        if isinstance(part, Failures):
            _rows_suite(root, part)
    _add_times(root, document)
    for total in ("tests", "failures", "skipped"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    root.set("errors", "0")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _gates_suite(root: ElementTree.Element, gates: list[GateOutcome]) -> None:
    suite = _suite(root, "gates", len(gates), sum(not gate.passed for gate in gates))
    for gate in gates:
        case = ElementTree.SubElement(
            suite, "testcase", classname="gates", name=_valid(f"{gate.metric} {gate.rule}")
        )
        if not gate.passed:
            text = f"{gate.metric} {formatting.format_number(gate.value)}, limit {gate.rule}: {gate.reason}"
            _add_outcome(case, "failure", text, gate.verdict)


def _rows_suite(root: ElementTree.Element, failed: Failures) -> None:
    kinds = failed.kinds
    failures, skipped = (0, len(kinds)) if failed.tolerated else (len(kinds), 0)
    suite = _suite(root, "rows", max(1, len(kinds)), failures, skipped)
    for kind, count in kinds:
        case = ElementTree.SubElement(
            suite, "testcase", classname="rows", name=_valid(f"no row fails: {kind}")
        )
        text = f"{count} of {plural(failed.rows, 'row')} failed: {kind}"
        _add_outcome(case, "skipped" if failed.tolerated else "failure", text, kind)
    if not kinds:
        ElementTree.SubElement(suite, "testcase", classname="rows", name="no row fails")


def _add_times(root: ElementTree.Element, document: ReportDocument) -> None:
    """The run's time is that of the rows' first case: readers add the cases up, and gates take none."""
    if document.started:
        for suite in root:
            suite.set("timestamp", document.started)
    for suite in root:
        for index, case in enumerate(suite):
            is_run = suite.get("name") == "rows" and index == 0
            case.set("time", f"{document.seconds if is_run else 0:.3f}")
        suite.set("time", f"{sum(float(case.get('time', '0')) for case in suite):.3f}")
    root.set("time", f"{document.seconds:.3f}")


def _suite(
    root: ElementTree.Element, name: str, tests: int, failures: int, skipped: int = 0
) -> ElementTree.Element:
    counts = {
        "tests": str(tests),
        "failures": str(failures),
        "errors": "0",
        "skipped": str(skipped),
    }
    return ElementTree.SubElement(root, "testsuite", {"name": name, **counts})


def _add_outcome(case: ElementTree.Element, tag: str, message: str, kind: str) -> None:
    element = ElementTree.SubElement(case, tag, message=_valid(message))
    if tag == "failure":
        element.set("type", _valid(kind))


def _valid(text: str) -> str:
    """The text with control characters as escapes, and what else XML 1.0 does not allow as U+FFFD."""
    return _INVALID.sub("\ufffd", formatting.visible_text(text))
