"""The report as JUnit XML: each gate a test case, and each kind of failed rows."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from verdict_cli.report import formatting
from verdict_cli.report.report import Report

_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """The document. An inconclusive gate is a failure; failed rows are only skipped where a gate on coverage passed."""
    root = ElementTree.Element("testsuites", name=_valid(report.facts.name))
    gates = _suite(root, "gates", len(report.gates), sum(not gate.passed for gate in report.gates))
    for gate in report.gates:
        case = ElementTree.SubElement(gates, "testcase", classname="gates", name=_valid(f"{gate.metric} {gate.rule}"))
        if not gate.passed:
            text = f"{gate.metric} {formatting.format_number(gate.value)}, limit {gate.rule}: {gate.reason}"
            _add(case, "failure", text, gate.verdict)
    tolerated = any(gate.metric == "run.coverage" and gate.passed for gate in report.gates)
    kinds = formatting.failures(report.facts)
    failures, skipped = (0, len(kinds)) if tolerated else (len(kinds), 0)
    rows = _suite(root, "rows", max(1, len(kinds)), failures, skipped)
    for kind, count in kinds:
        case = ElementTree.SubElement(rows, "testcase", classname="rows", name=_valid(f"no row fails: {kind}"))
        _add(case, "skipped" if tolerated else "failure", f"{count} of {report.facts.rows} rows failed: {kind}", kind)
    if not kinds:
        ElementTree.SubElement(rows, "testcase", classname="rows", name="no row fails")
    for total in ("tests", "failures", "skipped"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    root.set("errors", "0")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _suite(root: ElementTree.Element, name: str, tests: int, failures: int, skipped: int = 0) -> ElementTree.Element:
    counts = {"tests": str(tests), "failures": str(failures), "errors": "0", "skipped": str(skipped)}
    return ElementTree.SubElement(root, "testsuite", {"name": name, **counts})


def _add(case: ElementTree.Element, tag: str, message: str, kind: str) -> None:
    element = ElementTree.SubElement(case, tag, message=_valid(message))
    if tag == "failure":
        element.set("type", _valid(kind))


def _valid(text: str) -> str:
    """The text with control characters as escapes, and what else XML 1.0 does not allow as U+FFFD."""
    return _INVALID.sub("\ufffd", formatting.visible_text(text))
