"""The graph of a plan as a tree of lines, Mermaid, SVG, or the JSON of language.md, section 12."""

from __future__ import annotations

from html import escape
from math import prod

from verdict_cli.messages import JsonObject
from verdict_cli.plan.levels import when_text
from verdict_cli.plan.node import Node, Plan
from verdict_cli.plural import plural
from verdict_cli.report.formatting import visible_text


def as_mapping(plan: Plan) -> JsonObject:
    """`{"nodes", "edges", "roots", "leaves", "outputs"}`: ids as in result columns, edges sorted."""
    return {
        "nodes": [
            {
                "id": node.id,
                "unit": node.unit.type_name,
                "each": plan.groups[node.groups[-1]].text if node.groups else None,
                "when": when_text(plan, node),
            }
            for node in plan.nodes
        ],
        "edges": [list(edge) for edge in plan.edges],
        "roots": [node.id for node in plan.nodes if not node.parents],
        "leaves": [node.id for node in plan.nodes if not node.children],
        "outputs": [plan.nodes[index].id for index in plan.outputs],
    }


def as_tree(plan: Plan) -> str:
    """One line a node, in order of definition: its unit, output fields, parents and casts."""
    width = max(len(node.id) for node in plan.nodes)
    lines = [f"{plan.name}: {plural(len(plan.nodes), 'unit')}, {count_calls(plan)}"]
    for node, depth in zip(plan.nodes, depths(plan), strict=True):
        indent = "    " * depth
        parents = ", ".join(plan.nodes[parent].id for parent in node.parents)
        follows = f" <- {parents}" if parents else ""
        mark = "=>" if node.index in plan.outputs else "  "
        lines.append(f"{mark} {indent}{node.id:{width}}  {_description(plan, node)}{follows}")
        lines += [
            f"   {indent}{'':{width}}  cast: {cast.field} from {cast.from_field}"
            for cast in node.casts
            if cast.from_field
        ]
    return "\n".join(lines) + "\n"


_ENTITIES = str.maketrans(
    {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;"}
)
"""Characters that end a Mermaid label, or are markup in it, as its own entities."""


def as_mermaid(plan: Plan) -> str:
    """A Mermaid flowchart."""
    lines = ["flowchart TD"]
    around: tuple[int, ...] = ()
    for node in plan.nodes:
        while around != node.groups[: len(around)]:
            around = around[:-1]
            lines.append("    end")
        for group in node.groups[len(around) :]:
            title = f"each {plan.groups[group].name} of {plan.groups[group].text}"
            lines.append(f'    subgraph each{group}["{visible_text(title).translate(_ENTITIES)}"]')
        around = node.groups
        shape = '{}(["{}"])' if node.index in plan.outputs else '{}["{}"]'
        lines.append(
            "    "
            + shape.format(
                f"n{node.index}", f"{node.id}<br/>{_description(plan, node).translate(_ENTITIES)}"
            )
        )
    lines += ["    end" for _ in around]
    lines += [f"    n{parent} --> n{node.index}" for node in plan.nodes for parent in node.parents]
    return "\n".join(lines) + "\n"


MOST_IN_BOX = 26
"""Characters of a line in a box."""
_WIDTH, _HEIGHT, _ACROSS, _DOWN = 190, 46, 24, 44


def as_svg(plan: Plan) -> str:
    """A drawing in ranks from top to bottom, in the colours of the page that shows it."""
    ranks: dict[int, list[Node]] = {}
    level_of = depths(plan)
    for node in plan.nodes:
        ranks.setdefault(level_of[node.index], []).append(node)
    widest = max(len(rank) for rank in ranks.values())
    gaps = {
        (parent, node.index): level_of[node.index] - level_of[parent]
        for node in plan.nodes
        for parent in node.parents
    }
    farthest = max((_reach(gap) for gap in gaps.values() if gap > 1), default=0)
    width = widest * (_WIDTH + _ACROSS) + _ACROSS + 2 * farthest
    height = len(ranks) * (_HEIGHT + _DOWN) + _DOWN // 2
    position = {}
    for level, rank in ranks.items():
        left = (width - len(rank) * (_WIDTH + _ACROSS) + _ACROSS) / 2
        for index, node in enumerate(rank):
            position[node.index] = (
                left + index * (_WIDTH + _ACROSS),
                _DOWN / 2 + level * (_HEIGHT + _DOWN),
            )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="{escape(plan.name)}">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="currentColor"/></marker></defs>',
    ]
    for node in plan.nodes:
        x, y = position[node.index]
        for parent in node.parents:
            gap = gaps[parent, node.index]
            px, py = position[parent]
            points = _down(px, py, x, y)
            if gap > 1:
                points = _around(px, py, x, y, _reach(gap), right=2 * px + _WIDTH >= width)
            curve = "M{:g} {:g} C{:g} {:g} {:g} {:g} {:g} {:g}".format(*points)
            parts.append(
                f'<path d="{curve}" fill="none" stroke="currentColor" stroke-opacity=".55" marker-end="url(#tip)"/>'
            )
    for node in plan.nodes:
        x, y = position[node.index]
        thick = 2.5 if node.index in plan.outputs else 1
        parts.append(
            f"<g><title>{escape(node.id)}: {escape(_description(plan, node))}</title>"
            f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="7" style="fill: var(--paper, Canvas)" stroke="currentColor" stroke-width="{thick}"/>'
            f'<text x="{x + _WIDTH / 2:g}" y="{y + 19:g}" text-anchor="middle" fill="currentColor" font-weight="600">{escape(visible_text(node.id, MOST_IN_BOX))}</text>'
            f'<text x="{x + _WIDTH / 2:g}" y="{y + 36:g}" text-anchor="middle" fill="currentColor" fill-opacity=".75">{escape(visible_text(_kind(plan, node), MOST_IN_BOX))}</text></g>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _down(px: float, py: float, x: float, y: float) -> tuple[float, ...]:
    """The points of a curve from the bottom of a box to the top of the next."""
    start, end, bottom = px + _WIDTH / 2, x + _WIDTH / 2, py + _HEIGHT
    middle = (bottom + y) / 2
    return start, bottom, start, middle, end, middle, end, y


def _around(
    px: float, py: float, x: float, y: float, reach: float, *, right: bool
) -> tuple[float, ...]:
    """The points of a curve from side to side, around the boxes between."""
    side, out = (_WIDTH, reach) if right else (0, -reach)
    start, end, top, bottom = px + side, x + side, py + _HEIGHT / 2, y + _HEIGHT / 2
    return start, top, start + out, top, end + out, bottom, end, bottom


def _reach(gap: int) -> int:
    """The distance of a curve over so many ranks from the boxes: longer curves run farther out, so that none hides another."""
    return 30 + 20 * gap


def depths(plan: Plan) -> list[int]:
    """The number of links on the longest path from a root to each node."""
    ranks: list[int] = []
    for node in plan.nodes:
        ranks.append(1 + max((ranks[parent] for parent in node.parents), default=-1))
    return ranks


def _kind(plan: Plan, node: Node) -> str:
    """The unit's type, after its role in a debate, and what it follows."""
    role = node.settings.get("role_name")
    follows = f" · each {plan.groups[node.groups[-1]].name}" if node.groups else ""
    follows += " · when" if when_text(plan, node) is not None else ""
    return visible_text(f"{f'{role} · ' if role else ''}{node.unit.type_name}{follows}")


def _description(plan: Plan, node: Node) -> str:
    fields = ", ".join(f"{name}: {kind.type_name()}" for name, kind in node.output.fields.items())
    pinned = ", pinned" if node.pinned else ""
    entries = "".join(
        f", each {plan.groups[group].name} of {plan.groups[group].text}" for group in node.groups
    )
    when = when_text(plan, node)
    return visible_text(
        f"{node.unit.type_name}{pinned}{entries}{'' if when is None else f', when {when}'} ({fields})"
    )


def calls_a_row(plan: Plan) -> int:
    """Model calls that one row makes at most if every first reply can be read."""
    calls = _calls_of_groups(plan).items()
    return sum(count * prod(plan.groups[group].most for group in groups) for groups, count in calls)


def count_calls(plan: Plan) -> str:
    """The model calls that one row makes: a number, and one for each list that decides about more."""
    calls = _calls_of_groups(plan)
    text = f"{plural(calls.pop((), 0), 'model call')} a row"
    for groups, count in calls.items():
        names = " and ".join(plan.groups[group].name for group in groups)
        text += f", {count} for each {names}"
    return visible_text(text)


def _calls_of_groups(plan: Plan) -> dict[tuple[int, ...], int]:
    counts: dict[tuple[int, ...], int] = {}
    for node, work in plan.llm_nodes:
        if not node.pinned:
            calls = len(work.unit.option_orders(0)) * work.reading.calls
            counts[node.groups] = counts.get(node.groups, 0) + calls
    return counts
