"""Compile a unit's `examples:`: read the labelled rows, and check that each has an answer on the unit's scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verdict_cli.errors import DataError, ReplyError, RowError, SpecError, UsageError
from verdict_cli.language.examples import MOST_EXAMPLES, Examples
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.fields.types import RecordType
from verdict_cli.language.prompts.few_shot import ExamplePool, LabelledExample, shown_value
from verdict_cli.language.prompts.prompt import CompiledPrompt
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.plan.compile_context import CompileContext


def compile_examples(
    context: CompileContext, unit: LLMUnit, prompt: CompiledPrompt, response: RecordType
) -> ExamplePool | None:
    """The pool of examples; None where the unit has none, or, reported, where it cannot be made."""
    key = unit.examples
    if key is None:
        return None
    field = unit.scaled_field()
    if field is None or field not in response.fields:
        context.problem(
            "no-scaled-field",
            f"a {unit.type_name} has no answer that examples could show",
            "leave `examples` out",
            "examples",
            key=True,
        )
        return None
    columns = key.columns or named_columns(prompt)
    if not columns:
        hint = "list them: `columns: [question, answer]`"
        context.problem("no-columns", "the prompt names no column whose examples could be shown", hint, "examples")
        return None
    rows = _rows(context, key)
    expressions = _expressions(context, key)
    if rows is None or expressions is None:
        return None
    _keep_used(context, key, rows, columns, expressions)
    found = []
    for number, row in enumerate(rows[:MOST_EXAMPLES]):
        example = _example(context, number, row, columns, expressions, response, field)
        if example is None:
            return None
        found += example
    if not found:
        hint = "`target` is null everywhere: check the column"
        context.problem("no-examples", "no row of the examples has a label", hint, "examples")
        return None
    return ExamplePool(
        tuple(found),
        columns,
        field,
        key.k,
        key.choose,
        key.seed,
        expressions.get("cluster"),
        context.instance.delimited,
    )


def named_columns(prompt: CompiledPrompt) -> tuple[str, ...]:
    """The columns of the row that a prompt names."""
    return tuple(dict.fromkeys(str(path[1]) for path in prompt.paths if path[0] == "source" and len(path) > 1))


def _rows(context: CompileContext, key: Examples) -> list[Mapping[str, Any]] | None:
    """The labelled rows; None, and reported, where they cannot be read."""
    if (key.file is None) == (key.rows is None):
        context.problem(
            "bad-examples", "`examples` needs either `file` or `rows`", "name the labelled rows", "examples"
        )
        return None
    if key.rows is not None:
        return list(key.rows)
    assert key.file is not None
    names = context.instance.names
    if (key.file, "rows") in names.examples:
        return names.examples[key.file, "rows"]
    place = names.inside(key.file, (*context.instance.path, "examples", "file"))
    if place is None:
        return None
    from verdict_cli.storage.datasets.dataset import Dataset  # here, because few pipelines have examples
    from verdict_cli.storage.datasets.files import find_files
    from verdict_cli.storage.datasets.read import stream_rows

    try:
        rows = [row.source for row in stream_rows(Dataset(find_files(str(place))))]
    except (DataError, UsageError, SpecError) as error:
        message = f"the examples cannot be read: {error}".splitlines()[0]
        context.problem("bad-examples", message, "give a dataset of labelled rows", "examples", "file")
        return None
    names.examples[key.file, "rows"] = rows
    return rows


def _expressions(context: CompileContext, key: Examples) -> dict[str, Expression] | None:
    texts = {name: getattr(key, name) for name in ("target", "prediction", "explanation", "cluster")}
    if texts["target"] is None:
        targets = {
            each.target for each in context.instance.names.spec.file.evaluate.values() if each.target is not None
        }
        texts["target"] = targets.pop() if len(targets) == 1 else None
    if texts["target"] is None:
        hint = "such as `target: source.label`"
        context.problem("no-target", "nothing says which answer of an example is right", hint, "examples")
        return None
    if key.choose == "errors" and texts["prediction"] is None:
        hint = "such as `prediction: source.judged`"
        context.problem("no-prediction", "`choose: errors` needs the answers of a judge", hint, "examples")
        return None
    found: dict[str, Expression] = {}
    for name, text in texts.items():
        if text is None:
            continue
        try:
            found[name] = compile_expression(text, ("source",))
        except ExpressionError as error:
            context.problem("bad-expression", error.message, error.hint, "examples", name)
            return None
    return found


def _keep_used(
    context: CompileContext,
    key: Examples,
    rows: list[Mapping[str, Any]],
    columns: tuple[str, ...],
    expressions: Mapping[str, Expression],
) -> None:
    """Note, for the resolved pipeline, the columns of the labelled rows that count."""
    if key.file is None:
        return
    paths = [path for expression in expressions.values() for path in expression.paths]
    used = {*columns, *(str(path[1]) for path in paths if len(path) > 1)}
    kept = [{name: row[name] for name in row if name in used} for row in rows[:MOST_EXAMPLES]]
    context.instance.names.examples[key.file, "kept"] = kept


def _example(
    context: CompileContext,
    number: int,
    row: Mapping[str, Any],
    columns: tuple[str, ...],
    expressions: Mapping[str, Expression],
    response: RecordType,
    field: str,
) -> list[LabelledExample] | None:
    """The example of a row, none without a label; None, and reported, for a row that cannot be one."""
    lacks = next((name for name in columns if name not in row), None)
    if lacks is not None:
        known = ", ".join(row)
        message = f"example {number} has no column {lacks!r}"
        context.problem("no-column", message, f"it has {known}; name others with `columns`", "examples")
        return None
    try:
        values = {name: expression({"source": row}) for name, expression in expressions.items()}
    except RowError as error:
        context.problem("bad-examples", f"example {number}: {error.message}", error.hint, "examples")
        return None
    if values["target"] is None:
        return []
    try:
        answer = response.fields[field].read(values["target"])
    except ReplyError as error:
        hint = "a label must be a value of the unit's scale; convert it in `target`"
        context.problem("bad-examples", f"example {number}: the label {error.message}", hint, "examples")
        return None
    reasons = values.get("explanation")
    example = LabelledExample(
        tuple(shown_value(row.get(name)) for name in columns),
        shown_value(answer),
        "" if reasons is None else str(reasons),
        values.get("cluster"),
        "prediction" in values and values["prediction"] != values["target"],
    )
    return [example]
