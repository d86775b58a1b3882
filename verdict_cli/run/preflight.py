"""Checks before the first call: models that can answer, a recording that fits, and the data itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from verdict_cli.errors import (
    DataError,
    Problem,
    Refused,
    ReplyError,
    RowError,
    SpecError,
    UsageError,
    VerdictError,
    raise_together,
)
from verdict_cli.language.conversation import (
    ConversationError,
    looks_like_conversation,
    read_conversation,
)
from verdict_cli.language.evaluations import EvaluationCheck, evaluator_of
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.fields.types import TranscriptType
from verdict_cli.llm.model_families import REPLAY_PREFIX, is_local
from verdict_cli.llm.providers.model_checks import check_model, sees_images
from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.messages import NamedValues, Usage
from verdict_cli.model import Model
from verdict_cli.plan.check_evaluations import PossibleValues, possible_values
from verdict_cli.plan.node import LiteralBrace, LLMNode, Node, Plan
from verdict_cli.plan.row_types import row_converter
from verdict_cli.plural import plural
from verdict_cli.run.column_checks import ColumnCheck
from verdict_cli.run.label_checks import check_label_values
from verdict_cli.run.label_counts import LabelCounts, count_labels
from verdict_cli.run.scores import check_judged_span
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts, missing_column
from verdict_cli.storage.datasets.read import row_identity, scan, stream_rows
from verdict_cli.storage.datasets.seen_ids import SeenIds
from verdict_cli.storage.path_policy import ALLOW_OUTSIDE, OutsideError, PathPolicy

if TYPE_CHECKING:
    from verdict_cli.llm.middleware.cache_store import CacheStore
    from verdict_cli.llm.providers.recording import Recording


def check_models(plan: Plan, *, priced: bool = False) -> None:
    """Check what is known of the plan's models before a call. Refused where one cannot answer; all are told at once.

    ``priced``: a model without a price is a UsageError, because no budget can be kept with it.
    """
    errors: dict[str, VerdictError] = {}
    for node, model, top_logprobs in models_in_use(plan):
        try:
            check_plan_model(node, model, top_logprobs, plan.fence)
            if priced and not is_local(model.name) and cost_usd(model, Usage()) is None:
                raise UsageError(
                    f"{node.id}: the price of model {model.name} is not known, so no budget can be kept",
                    hint="give it `cost: {input_per_million: …, output_per_million: …}`, or leave --budget out",
                )
        except VerdictError as error:
            # Units with the same model have the same problem, which the first of them tells.
            errors.setdefault(error.message.removeprefix(node.id), error)
    raise_together([*errors.values()])


def models_in_use(plan: Plan) -> Iterator[tuple[Node, Model, int]]:
    """Each unit with each of its models, and the alternatives that it requests of that model at each position."""
    for node, work in plan.llm_nodes:
        first_models = [model for models in node.stages for model in models]
        for model in (*first_models, *work.follow_up):
            yield node, model, work.reading.top_logprobs if model in first_models else 0


def models_of(plan: Plan) -> list[Model]:
    """Every model that the plan's calls are made with, once."""
    return list({model.endpoint_key: model for _, model, _ in models_in_use(plan)}.values())


def check_plan_model(node: Node, model: Model, top_logprobs: int, policy: PathPolicy) -> None:
    """Refused for a unit's model that is known not to answer it."""
    assert isinstance(node.work, LLMNode)
    _check_file(node, model, policy)
    _check_model(node, node.work, model, top_logprobs)


def _check_file(node: Node, model: Model, policy: PathPolicy) -> None:
    """Refused for a recording outside the pipeline file's folder: later prompts may send its replies to any host."""
    prefix, _, file = model.name.partition("/")
    if f"{prefix}/" != REPLAY_PREFIX or model.name in policy.given:
        return
    try:
        policy.path(Path(), file)
    except OutsideError as error:
        raise Refused(f"{node.id}: the recording {error}", hint=ALLOW_OUTSIDE) from None


def _check_model(node: Node, work: LLMNode, model: Model, top_logprobs: int) -> None:
    error = check_model(model, top_logprobs=top_logprobs)
    if error:
        raise Refused(
            f"{node.id}: {error}",
            hint=_without_key(node, model),
        )
    if work.prompt.shows_images and sees_images(model) is False:
        raise Refused(
            f"{node.id}: the prompt shows an image, but model {model.name} reads text only",
            hint="choose a model that takes images",
        )


def _without_key(node: Node, model: Model) -> str:
    """How the pipeline is tried without this model."""
    if is_local(model.name):
        return ""
    if getattr(node.unit, "model", None) is not None:
        return "the unit names this model, and --model does not replace it: remove the unit's `model`, then --model baseline/lexical needs no key"
    return "--model baseline/lexical tries the pipeline without a key or a network"


def open_recording(replay: Path | None, plan: Plan, *, priced: bool = False) -> Recording | None:
    """The recording that answers the plan's calls; None where its models do, once each of them is checked.

    Raises what `load_recording` and `check_models` raise.
    """
    if replay is not None:
        return load_recording(replay, plan)
    check_models(plan, priced=priced)
    return None


def load_recording(path: Path, plan: Plan) -> Recording:
    """The recording at the path. UsageError where it has calls of no unit of the plan."""
    from verdict_cli.llm.providers.recording import Recording  # here, because `validate` reads none

    recording = Recording.load(path)
    units = [node.id for node, _ in plan.llm_nodes]
    recorded = recording.units()
    if units and not {_without_copy(unit) for unit in units} & {
        _without_copy(unit) for unit in recorded
    }:
        raise UsageError(
            f"{path} has no call of any unit of this pipeline: it has {', '.join(recorded[:6]) or 'none'}",
            hint=f"the pipeline's units are {', '.join(units[:6])}",
        )
    return recording


def _without_copy(unit: str) -> str:
    """`judge` and `judge[0]` are the same: a pipeline has one copy of a unit, or several."""
    return unit.removesuffix("[0]")


def may_cache(plan: Plan) -> bool:
    """Whether a model of the plan may use the reply cache."""
    return any(model.cache and not is_local(model.name) for _, model, _ in models_in_use(plan))


def open_cache(plan: Plan) -> CacheStore | None:
    """The reply cache, None where no model of the plan may use it. OutputError when it cannot be opened."""
    from verdict_cli.llm.middleware.cache_store import (
        CacheStore,  # here, because SQLite takes 10 ms to import
    )

    return CacheStore.open() if may_cache(plan) else None


def dataset_for(
    plan: Plan,
    files: Sequence[Path],
    *,
    skip_bad_rows: bool = False,
    origins: Mapping[Path, str] | None = None,
) -> Dataset:
    """The files as the dataset of the plan: its columns, types, filter and required columns. ``origins`` names what files
    are copies of."""
    keys = plan.resolved.get("dataset") or {}
    columns = keys.get("columns") or {}
    file_form = Dataset(tuple(files), delimiter=keys.get("delimiter"), origins=origins or {})
    unlabelled = _absent_labels(plan, file_form, columns)
    shown = [used.column for used in plan.columns if used.is_shown]
    optional = {used.column for used in plan.columns if not used.is_needed}.union(unlabelled)
    typed = () if plan.row_types is None else tuple(plan.row_types.fields)
    cast = None
    if plan.row_types is not None:
        cast = row_converter(
            plan.row_types, files[0].parent, plan.fence, frozenset(optional.union(shown))
        )
    return replace(
        file_form,
        columns=columns,
        id=keys.get("id"),
        is_id_optional=plan.is_shipped,
        blank=keys.get("blank", "fail"),
        blank_columns=tuple(shown),
        required=tuple(
            name
            for name in dict.fromkeys([*(used.column for used in plan.columns), *typed])
            if name not in optional
        ),
        hints={used.column: used.hint for used in plan.columns if used.hint},
        cast=cast,
        keep=_row_filter(plan.where),
        rules="|".join(
            str(keys.get(name, ""))
            for name in ("where", "schema", *(("blank",) if "blank" in keys else ()))
        ),
        skip_bad_rows=skip_bad_rows,
        unlabelled=unlabelled,
    )


def _absent_labels(plan: Plan, dataset: Dataset, columns: Mapping[str, str]) -> tuple[str, ...]:
    """What only evaluations need whose labels the data lacks, where it is lacking, too: it is read as null, so that the rows
    are judged, and it is told that there are no labels. Nothing where the file has a gate, or a column is named alike."""
    alone = [used for used in plan.columns if used.evaluation]
    if not alone or plan.gates:
        return ()
    try:
        names = _first_columns(dataset)
    except DataError:  # the reading of the rows reports it
        return ()
    absent = [used for used in alone if columns.get(used.column, used.column) not in names]
    unlabelled = {used.evaluation for used in absent if used.is_label}
    hints = [missing_column(used.column, names).hint for used in absent]
    if not names or any(hint.startswith("did you mean") for hint in hints):
        return ()
    if any(used.evaluation not in unlabelled for used in absent):
        return ()
    return tuple([used.column for used in absent])


def _first_columns(dataset: Dataset) -> dict[str, None]:
    """The columns of the first rows, by their names in the file."""
    bare = Dataset(
        dataset.files,
        delimiter=dataset.delimiter,
        origins=dataset.origins,
        skip_bad_rows=True,
    )
    return dict.fromkeys(name for row in islice(stream_rows(bare), _PEEKED) for name in row.source)


def _row_filter(where: Expression | None) -> Callable[[NamedValues], bool] | None:
    if where is None:
        return None

    def is_selected(row: NamedValues) -> bool:
        value = where({"source": row})
        if not isinstance(value, bool):  # the text "false" would select the row
            message = f"`{where.text}` gives {value!r:.80}, not true or false"
            raise RowError(message, hint=f"compare, as in `{where.text} == {value!r:.40}`")
        return value

    return is_selected


def preflight(
    plan: Plan,
    dataset: Dataset,
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    traced: bool = False,
) -> DatasetFacts:
    """Read the dataset once and check the pipeline against it: the selected rows, with warnings.

    DataError for rows that cannot be read. SpecError where the pipeline does not fit the data, so that the run could
    only end in an error or a wrong metric.
    ``traced``: the scores go to the spans that the rows judge, whose ids are checked.
    """
    checks = _Checks(plan, dataset.id, traced=traced)
    draw = SAMPLE if sample is None else 0
    on_row = checks.add if checks.looks_at_rows else None
    try:
        facts = scan(dataset, limit=limit, sample=sample, seed=seed, on_row=on_row, draw=draw)
    except DataError as error:
        absent = absent_columns(plan, dataset)
        if not absent:
            raise
        problems = [
            problem
            for problem in error.problems
            if problem.code not in ("missing-column", "more-bad-rows")
        ]
        raise SpecError([*absent, *problems]) from None
    if facts.unseen:
        absent = absent_columns(plan, dataset)
        if absent:
            raise SpecError(absent)
    errors, warnings = checks.problems(sampled=sample is not None)
    if dataset.unlabelled:
        # That the labels are missing is told once, for all of their columns.
        warnings = [problem for problem in warnings if problem.code != "no-labels"]
    warnings = [*_blank_warnings(facts, dataset), *warnings]
    if errors:
        raise SpecError(errors)
    file = dataset.name_of(dataset.files[0])
    if checks.repeated:
        warnings.append(_repeated(checks.repeated, str(dataset.id), file))
    unsplit = [
        used for used in plan.columns if not used.is_needed and used.column not in facts.columns
    ]
    columns = [name for name in facts.columns if name not in dataset.unlabelled]
    for used in unsplit:
        message = f"there is no column {used.column!r}, so no metric is split by it"
        hint = f"the columns are: {', '.join(columns)}"
        warnings.append(Problem("missing-column", message, hint, file))
    return replace(facts, warnings=tuple(warnings))


_BLANK = {
    "fail": (
        "they fail",
        "leave them out with `dataset: {blank: skip}`, or judge an empty text with `blank: judge`",
    ),
    "skip": ("they are left out, and count as missing", ""),
    "judge": ("an empty text is judged", ""),
}


def _blank_warnings(facts: DatasetFacts, dataset: Dataset) -> list[Problem]:
    """What is told of rows with nothing to judge, and of labels that no row has."""
    file = dataset.name_of(dataset.files[0])
    warnings = []
    if facts.blanks:
        columns = " or ".join(repr(name) for name in facts.blanks if name)
        what, hint = _BLANK[dataset.blank]
        rows = facts.blanks[""]
        message = (
            f"{rows:,} of {facts.total:,} rows have no {columns}, which a prompt shows: {what}"
        )
        warnings.append(Problem("blank", message, hint, file))
    for column in dataset.unlabelled:
        message = f"there are no labels: no row has {column!r}, so the rows are scored and compared with nothing"
        warnings.append(Problem("no-labels", message, "", file))
    return warnings


def absent_columns(plan: Plan, dataset: Dataset) -> list[Problem]:
    """The columns that the pipeline needs and that none of the first rows has, each where the pipeline names it."""
    names = _first_columns(dataset)
    problems = []
    for used in plan.columns:
        column = dataset.columns.get(used.column, used.column)
        if (
            used.is_needed
            and names
            and column not in names
            and used.column not in dataset.unlabelled
        ):
            hint = missing_column(column, names, hint=used.hint).hint
            hint = hint.replace(
                "the columns are:", f"the columns of {dataset.name_of(dataset.files[0])} are:"
            )
            problem = Problem("missing-column", f"the data has no column {used.column!r}", hint)
            location = used.location
            problems.append(
                problem.at(location.file, location.line, location.column, location.path)
            )
    return problems


_PEEKED = 100
"""Rows whose columns are looked at."""
SAMPLE = 200
"""The most rows from which a run and `validate` estimate: the prompts of all of them would take long to render."""


class _Checks:
    """The checks of one reading of the rows."""

    def __init__(self, plan: Plan, identity: str | None, *, traced: bool) -> None:
        self._traced_plan = plan if traced and plan.trace is not None else None
        self._ids = SeenIds() if identity is not None else None
        self._identity = identity
        self.repeated: Counter[str | int] = Counter()
        """The ids that were seen more than once, and how often again: the first `_MOST_REPEATED` of them."""
        self._braces = plan.braces
        self._named: dict[LiteralBrace, None] = {}
        self._labels: list[tuple[LabelCounts, Problem]] = []
        typed = () if plan.row_types is None else tuple(plan.row_types.fields)
        self._columns = [used.column for used in plan.columns if used.column not in typed]
        self._unread: dict[str, tuple[int, str]] = {}
        self._conversations = {
            str(cast.path[1]): node.id
            for node in plan.nodes
            for cast in node.casts
            if isinstance(cast.type, TranscriptType)
            and cast.path is not None
            and cast.path[:-1] == ("source",)
        }
        """The columns with which units begin their conversations."""
        self._lists = {
            str(group.entries.path[1]): group.name
            for group in plan.groups
            if group.entries.path is not None and group.entries.path[:-1] == ("source",)
        }
        """The columns whose entries a step takes one by one, and the name that it gives an entry."""
        self._not_lists: dict[str, tuple[int, int]] = {}
        self._not_conversations: dict[Any, int] = {}
        self._evaluations: list[tuple[EvaluationCheck, Problem]] = []
        for name, evaluation in plan.studies.items():
            if (evaluator := evaluator_of(evaluation)) is not None:
                self._evaluations.append(
                    (evaluator.row_check(name, evaluation), plan.evaluation_locations[name])
                )
        for name, evaluation in plan.evaluations.items():
            self._evaluations.append(
                (ColumnCheck(name, evaluation), plan.evaluation_locations[name])
            )
            if evaluation.items is not None:
                continue  # labels of entries, which units may make
            text = evaluation.prediction
            predictions = (
                PossibleValues(None, None)
                if text is None
                else possible_values(plan.nodes, plan.outputs, text)
            )
            counted = count_labels(evaluation, predictions)
            if counted is not None:
                self._labels.append((counted, plan.evaluation_locations[name]))

    @property
    def looks_at_rows(self) -> bool:
        """Whether anything of a row is checked beyond that it can be read."""
        checked = (
            self._conversations,
            self._lists,
            self._columns,
            self._braces,
            self._labels,
            self._evaluations,
        )
        return self._ids is not None or self._traced_plan is not None or any(checked)

    def add(self, index: int, source: NamedValues) -> None:
        """Check a row."""
        self._note_identity(source)
        for brace in self._braces:
            if brace.column in source:
                self._named[brace] = None
        for counted, _ in self._labels:
            counted.add(index, source)
        for check, _ in self._evaluations:
            check.add(index, source)
        self._note_forms(index, source)
        for column in self._columns:
            self._read_messages(index, column, source.get(column))
        if self._traced_plan is not None and (
            reason := check_judged_span(self._traced_plan, source)
        ):
            hint = "leave --trace out; `verdict export` takes ids of any form"
            raise DataError(Problem("trace-id", f"row {index}: {reason}", hint))

    def _note_forms(self, index: int, source: NamedValues) -> None:
        """Note the columns whose values have another form than the pipeline needs."""
        for column in self._conversations:
            if column in source and not _is_conversation(source[column]):
                self._not_conversations.setdefault(column, index)
        for column in self._lists:
            if isinstance(source.get(column), str | int | float):
                count, first = self._not_lists.get(column, (0, index))
                self._not_lists[column] = (count + 1, first)

    def _note_identity(self, source: NamedValues) -> None:
        if self._ids is None or self._identity is None:
            return
        identity = row_identity(self._identity, source)
        # A shipped pipeline does without the column.
        is_new = identity is None or self._ids.add(identity)
        if not is_new and (identity in self.repeated or len(self.repeated) < _MOST_REPEATED):
            self.repeated[identity] += 1

    def _read_messages(self, index: int, column: str, value: Any) -> None:
        if not isinstance(value, list) or not looks_like_conversation(value):
            return
        try:
            read_conversation(value)
        except ConversationError as error:
            count, first = self._unread.get(column, (0, f"row {index}: {error}"))
            self._unread[column] = (count + 1, first)

    def _no_list(self, column: str) -> Problem:
        count, first = self._not_lists[column]
        message = f"`each: source.{column}`: the column has no list in {plural(count, 'row')}, such as row {first}"
        hint = f"name a column of lists, or leave `each` out and show {{source.{column}}}"
        return Problem("bad-each", message, hint)

    def problems(self, *, sampled: bool) -> tuple[list[Problem], list[Problem]]:
        """The errors and the warnings."""
        errors = [brace.problem for brace in self._named]
        for column, index in self._not_conversations.items():
            message = (
                f"{self._conversations[column]} continues the conversation in the column {column!r}, which has none "
                f"in row {index}"
            )
            hint = f"to begin a new one, give the column another name: `dataset: {{columns: {{{column}_text: {column}}}}}`"
            errors.append(Problem("not-a-conversation", message, hint))
        warnings: list[Problem] = []
        for counted, location in self._labels:
            label_errors, label_warnings = check_label_values(counted, location, sampled=sampled)
            errors += label_errors
            warnings += label_warnings
        for column, (count, first) in self._unread.items():
            has, fails = ("has", "fails") if count == 1 else ("have", "fail")
            message = (
                f"{plural(count, 'row')} {has} messages in {column!r} that are not read and {fails} without a call, "
                f"such as {first}"
            )
            warnings.append(
                Problem(
                    "messages",
                    message,
                    "the forms of OpenAI, Anthropic, Gemini, Bedrock, LangChain, ShareGPT and OpenTelemetry are read",
                )
            )
        warnings += [self._no_list(column) for column in self._not_lists]
        named = [at for counted, at in self._labels if counted.bad is not None]
        for check, location in self._evaluations:
            if location in named:
                continue
            if (problem := check.problem()) is not None:
                (warnings if sampled else errors).append(
                    problem.at(location.file, location.line, location.column, problem.path)
                )
        return errors, warnings


def _is_conversation(value: Any) -> bool:
    try:
        TranscriptType().read(value)
    except ReplyError:
        return False
    return True


_MOST_REPEATED = 10_000


def _repeated(again: Counter[str | int], column: str, file: str) -> Problem:
    first, times = next(iter(again.items()))
    verb = "are" if len(again) > 1 else "is"
    message = (
        f"{plural(len(again), 'id')} of the column {column!r} {verb} in several rows, "
        f"such as {first!r} in {times + 1:,}"
    )
    hint = "make ids unique: `verdict compare` refuses runs whose ids repeat"
    return Problem("duplicate-id", message, hint, file)
