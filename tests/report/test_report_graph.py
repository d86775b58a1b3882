"""The drawing of a plan."""

import re
from xml.etree import ElementTree

from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.report.plan_graph import as_svg

STEPS = """verdict: 1
name: g
model: baseline/lexical
pipeline:
  - layer:
      - {unit: CoTUnit, name: a, prompt: "{source.text}"}
      - {unit: CoTUnit, name: b, prompt: "{source.text}"}
      - {unit: CoTUnit, name: c, prompt: "{source.text}"}
    inner: chain
    outer: broadcast
  - {unit: ConversationalUnit, role_name: "<Judge>", name: j, prompt: "{source.text}"}
"""


def drawing(tmp_path):
    (tmp_path / "g.yaml").write_text(STEPS)
    return ElementTree.fromstring(as_svg(build_plan(load(tmp_path / "g.yaml")).plan))


def test_a_link_over_several_ranks_goes_around_the_boxes_between(tmp_path):
    svg = drawing(tmp_path)
    width = float(svg.get("width"))
    spans = {
        (float(box.get("x")), float(box.get("x")) + float(box.get("width")))
        for box in svg.findall(".//{*}rect")
    }
    assert len(spans) == 1
    right = spans.pop()[1]
    curves = [path.get("d") for path in svg.findall(".//{*}path") if " C" in path.get("d")]
    around = [curve for curve in curves if curve.startswith(f"M{right:g} ")]
    assert (len(curves), len(around)) == (5, 2)
    for curve in around:
        handle = float(re.findall(r"C([\d.]+) ", curve)[0])
        assert right < right + 0.75 * (handle - right) < width


def test_a_role_is_below_its_unit_and_is_text(tmp_path):
    svg = drawing(tmp_path)
    assert "<Judge> · ConversationalU…" in [text.text for text in svg.findall(".//{*}text")]
