"""Write docs/errors.md: every message of the program with its fix, read from the code that raises it.

`python docs/tools/errors_page.py` prints the page; `make errors` runs it, and a test checks that the page is current.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "verdict_cli"

RAISED = {
    "UsageError": ("The command line", "`verdict COMMAND --help` shows what it takes"),
    "OutputError": ("Files that are written", "free some space, or choose another path"),
    "FetchError": ("Downloads", "try again, or download the file manually and pass its path"),
    "JournalError": ("Resuming runs", "choose another `--out`, or discard the run with `--fresh`"),
    "Refused": (
        "Provider refusals",
        "check the key, the model's name and its settings; then rerun the same command to resume",
    ),
    "Retryable": (
        "Transient failures",
        "retried automatically; if it persists, rerun the same command with `--retry-failed`",
    ),
    "Rejected": (
        "Rejected calls",
        "fix the row or the prompt; then rerun the same command with `--retry-failed`",
    ),
    "BudgetError": ("Budgets", "raise `--budget` and rerun the same command to resume"),
    "PinnedError": ("Pinned units", "fix the pinned unit and rerun the same command to resume"),
    "ReplyError": (
        "Unreadable replies",
        "retried automatically; if it persists, check the raw reply in the report, then adjust the prompt or the extractor",
    ),
    "RowError": ("Failed rows", "fix the expression, the template or the row's values"),
    "ExpressionError": ("Expressions", "see [the expression language](language.md)"),
}
"""Error classes: the section of their messages, and the fix for messages without a hint of their own."""

SECTIONS = (
    (
        "Pipeline files",
        "fix the reported line; `verdict explain KEY` describes the values of a key",
    ),
    ("Datasets", "fix the reported line, or skip bad rows with `--skip-bad-rows`"),
)
OF_DATA = ("storage", "features", "llm/providers", "python", "run", "stats")
"""Folders whose messages are about datasets and other tables, not about pipeline files."""

OF_PARTS = {
    "language/units": "bad-unit",
    "language/scales": "bad-scale",
    "language/extractors": "bad-extractor",
    "language/document/document": "yaml-syntax",
    "language/gate_rules": "bad-gate",
    "language/document/error_messages": "missing-feature",
    "language": "bad-evaluation",
    "features/rank/arena_keys": "bad-evaluation",
    "features/rank/evaluator": "bad-evaluation",
}
"""Folders and modules whose checks return an `Issue`, and the code under which these are reported. The first match
wins, so the narrower path comes first."""

TELLERS = {"Problem", "problem", "_problem", "_CannotStopError"}
CODE = re.compile(r"[a-z]+(-[a-z0-9]+)*")


@dataclass(frozen=True, order=True)
class Message:
    """One message: its section, its code, the text with `…` for what varies, and the fix."""

    section: str
    code: str
    text: str
    fix: str


def messages() -> list[Message]:
    """Every message of the package, each once."""
    found = {message for path in sorted(PACKAGE.rglob("*.py")) for message in _of_file(path)}
    return sorted(found, key=lambda one: (_order(one.section), one.code, one.text, one.fix))


def _order(section: str) -> int:
    names = [name for name, _ in SECTIONS] + [name for name, _ in RAISED.values()]
    return names.index(section)


def _of_file(path: Path) -> Iterator[Message]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = path.relative_to(PACKAGE).with_suffix("").as_posix()
    texts = _Texts(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _called(node, module, texts)
        elif isinstance(node, ast.Tuple):
            yield from _tupled(node, module, texts)


def _within(module: str, paths: Iterable[str]) -> str | None:
    """The first of the paths that the module is or is in."""
    return next((path for path in paths if module == path or module.startswith(f"{path}/")), None)


def _called(call: ast.Call, module: str, texts: _Texts) -> Iterator[Message]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    keywords = {one.arg: one.value for one in call.keywords}
    if name in RAISED and call.args:
        section, fix = RAISED[name]
        kind = texts.of(keywords.get("kind")) or ""
        hint = keywords.get("hint") or (call.args[1] if len(call.args) > 1 else None)
        yield from _message(section, kind, texts.of(call.args[0]), texts.of(hint), fix)
    elif name == "KeyRule":
        section, fix = SECTIONS[0]
        words = [word for given in call.args[3:] for word in texts.parts(given)]
        code = OF_PARTS[_within(module, OF_PARTS) or "language"]
        yield from _message(section, code, *map(texts.of, words), fix)
    elif name == "Issue" and len(call.args) == 3:
        section, fix = SECTIONS[0]
        code = OF_PARTS[_within(module, OF_PARTS) or "language"]
        yield from _message(section, code, texts.of(call.args[1]), texts.of(call.args[2]), fix)
    elif name in TELLERS and len(call.args) > 1:
        code = call.args[0]
        if (
            isinstance(code, ast.Constant)
            and isinstance(code.value, str)
            and CODE.fullmatch(code.value)
        ):
            section, fix = SECTIONS[_within(module, OF_DATA) is not None]
            hint = keywords.get("hint") or (call.args[2] if len(call.args) > 2 else None)
            yield from _message(section, code.value, texts.of(call.args[1]), texts.of(hint), fix)
        elif name == "_CannotStopError":
            section, fix = SECTIONS[0]
            yield from _message(section, "bad-until", texts.of(code), texts.of(call.args[1]), fix)


def _tupled(made: ast.Tuple, module: str, texts: _Texts) -> Iterator[Message]:
    """The messages of checks that return (code, message, fix, …), and those of the YAML reader: (its words, message, fix)."""
    if len(made.elts) not in (3, 4) or _within(module, OF_PARTS) is None:
        return
    first, message, hint = made.elts[:3]
    section, fix = SECTIONS[0]
    is_coded = isinstance(first, ast.Constant) and CODE.fullmatch(str(first.value))
    if len(made.elts) == 4 and is_coded:
        yield from _message(section, str(first.value), texts.of(message), texts.of(hint), fix)  # type: ignore[attr-defined]
    elif len(made.elts) == 3 and module == "language/document/document":
        yield from _message(section, OF_PARTS[module], texts.of(message), texts.of(hint), fix)


def _message(
    section: str, code: str, text: str | None, hint: str | None, fix: str
) -> Iterator[Message]:
    if code or (text and re.search(r"[a-z]{2}", text)):
        yield Message(
            section, code, text or "…", hint if hint and re.search(r"[a-z]{2}", hint) else fix
        )


def _varying(part: ast.expr) -> str:
    """`…`; of a number with its noun `… rows`."""
    match part:
        case ast.FormattedValue(
            value=ast.Call(func=ast.Name(id="plural"), args=[_, ast.Constant(value=str(noun))])
        ):
            one, _, more = noun.partition("|")
            return f"… {more or f'{one}s'}"
    return "…"


class _Texts:
    """The texts of a module's expressions, with `…` for what varies."""

    def __init__(self, tree: ast.Module) -> None:
        self._within: dict[int, ast.AST] = {}
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                self._within |= {
                    id(node): function for node in ast.walk(function) if node is not function
                }
        self._named: dict[tuple[int, str], list[tuple[int, ast.expr]]] = {}
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._name(node, name, value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self._name(node, name, value)
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                    for each, value in zip(names, values, strict=False):
                        self._name(node, getattr(each, "id", ""), value)

    def _name(self, node: ast.Assign | ast.AnnAssign, name: str, value: ast.expr) -> None:
        scope = self._within.get(id(node))
        self._named.setdefault((id(scope), name), []).append((node.lineno, value))

    def _meant(self, name: ast.Name) -> ast.expr | None:
        """What the name was last set to before: in its own function, else in the module."""
        own = self._named.get((id(self._within.get(id(name))), name.id), [])
        before = sorted(
            (place for place in own if place[0] <= name.lineno), key=lambda place: place[0]
        )
        known = before or self._named.get((id(None), name.id), [])
        return known[-1][1] if known else None

    def parts(self, node: ast.expr) -> list[ast.expr]:
        """The expression itself, or those of a tuple that is unpacked there."""
        meant = (
            self._meant(node.value)
            if isinstance(node, ast.Starred) and isinstance(node.value, ast.Name)
            else node
        )
        return meant.elts if isinstance(meant, ast.Tuple) else [node]

    def of(self, node: ast.expr | None, depth: int = 4) -> str | None:
        """The text; None where it is not known at all."""
        if node is None or depth == 0:
            return None
        match node:
            case ast.Constant(value=str(text)):
                return " ".join(
                    re.sub(r"(?<!\{)\{\w+\}", "…", text)
                    .replace("{{", "{")
                    .replace("}}", "}")
                    .split()
                )
            case ast.JoinedStr(values=parts):
                return self._joined(parts)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                both = (self.of(left, depth - 1), self.of(right, depth - 1))
                return " ".join(part or "…" for part in both) if any(both) else None
            case ast.IfExp(body=body, orelse=other):
                return (
                    " / ".join(filter(None, (self.of(body, depth - 1), self.of(other, depth - 1))))
                    or None
                )
            case ast.Name():
                return self.of(self._meant(node), depth - 1)
            case ast.Call(func=ast.Name(id="did_you_mean"), args=[_, _, otherwise]):
                return f"did you mean `…`? / {self.of(otherwise, depth - 1) or '…'}"
            case ast.BoolOp(values=values):
                return (
                    " / ".join(filter(None, (self.of(value, depth - 1) for value in values)))
                    or None
                )
        return None

    def _joined(self, parts: list[ast.expr]) -> str:
        text = "".join(
            str(part.value) if isinstance(part, ast.Constant) else _varying(part) for part in parts
        )
        return " ".join(text.split())


def page() -> str:
    """The page."""
    lines = [
        "# Error reference",
        "",
        "Every message of the program, generated by `make errors` from the code; `…` replaces the variable parts. A message starts",
        "with its location, if it has one: file, line, column and key. `verdict validate --json` prints the codes. For the exit codes,",
        "see [the language](language.md#running).",
        "",
        "Each part unfolds into its messages. The arrow points to the fix.",
    ]
    # Folded lists: as open tables, the page is some 60 screens of a phone long, in columns of a few letters.
    for section, group in groupby(messages(), lambda one: one.section):
        listed = list(group)
        lines += [
            "",
            f"## {section}",
            "",
            f'<details markdown="1"><summary>{len(listed)} messages</summary>',
            "",
        ]
        for one in listed:
            code = f" (`{one.code}`)" if one.code else ""
            lines += [f"- {_escaped(one.text)}{code}", f"    <br>→ {_escaped(one.fix)}"]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """The text of a list's item; what Markdown or a template would read otherwise is escaped."""
    return (
        re.sub(r"([<>*_\[\]])(?![^`]*`(?:[^`]*`[^`]*`)*[^`]*$)", r"\\\1", text)
        if "](" not in text
        else text
    )


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write(page())
