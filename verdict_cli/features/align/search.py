"""The search for a better prompt, and its document: old against new on the sealed rows, and everything that was tried.

The labelled rows are split into parts: candidates are made from `fit`, compared on `select`, and the winner meets the pipeline as it
was once, on `test`, which nothing has seen before. Clusters are never divided. Successive halving (Jamieson and Talwalkar, 2016)
judges few rows by all candidates and more rows by the better half, until one is left.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct, structs

from verdict_cli.cli.console import print_error
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import ask_to_spend, execute_all_or_exit
from verdict_cli.cli.open_dataset import opened_dataset
from verdict_cli.cli.progress import show_reading
from verdict_cli.cli.study import (
    Arm,
    compare_arms,
    main_metric,
    open_arms,
    requests_arm,
    silent,
)
from verdict_cli.errors import RowError, SpecError, UsageError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.load import validate_document
from verdict_cli.messages import JsonObject, NamedValues, Row, sum_usd
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.compile import named_columns
from verdict_cli.plan.resolve import as_yaml
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.report.document import Note, Part, ReportDocument, Section, Table
from verdict_cli.report.report import metric_json
from verdict_cli.run.estimate import DryRun
from verdict_cli.run.job import Stop
from verdict_cli.run.preflight import SAMPLE
from verdict_cli.stats.columns.column import Floats, Ints, key_text
from verdict_cli.stats.columns.saved_rows import saved_rows
from verdict_cli.stats.paired import Difference
from verdict_cli.stats.row_scores import RowScores, scored_rows
from verdict_cli.storage.datasets.dataset import Dataset, Selection
from verdict_cli.storage.datasets.read import scan, stream_rows
from verdict_cli.storage.tables.reader import table_rows

if TYPE_CHECKING:
    from verdict_cli.features.align.command import AlignOptions
    from verdict_cli.plan.node import Plan
    from verdict_cli.run.estimate import Line
    from verdict_cli.run.job import RunOptions
    from verdict_cli.run.load_run import RunResult


def labelled_parts(
    plan: Plan,
    labelled: str,
    target: str,
    cluster: str | None,
    folder: Path,
    how: RowOptions,
) -> tuple[dict[PartName, Path], dict[PartName, int], str]:
    """The labelled rows in three files, as they are in the dataset; their numbers; the digest of all. UsageError for too few."""
    right = compile_expression(target, ("source",))
    group = compile_expression(cluster, ("source",)) if cluster is not None else None
    with opened_dataset(plan, labelled) as dataset, show_reading(quiet=how.quiet):
        data = scan(dataset, limit=how.limit, sample=how.sample, seed=how.seed)
        keys, raw = _labelled_rows(dataset, data.selection, right, group)
    if len(keys) < LEAST_LABELS:
        raise UsageError(
            f"{plural(len(keys), 'row has|rows have')} a label; an alignment needs {LEAST_LABELS} or more",
            hint="label more rows: verdict queue RUN",
        )
    used = list(keys)
    clusters = np.unique([keys[row] for row in used], return_inverse=True)[1]
    digest = hashlib.sha256()
    folder.mkdir(parents=True, exist_ok=True)
    parts = {}
    sizes = {}
    for name, rows in split_rows(clusters, how.seed).items():
        text = "".join(
            json.dumps(raw[used[row]], ensure_ascii=False, default=str) + "\n"
            for row in rows.tolist()
        )
        digest.update(text.encode())
        parts[name], sizes[name] = folder / f"{name}.jsonl", len(rows)
        parts[name].write_text(text, encoding="utf-8")
    if min(sizes.values()) < 2:
        print_error("warning: one cluster holds most rows, so that the parts are very unequal")
        raise UsageError(
            "the clusters cannot be split into three parts",
            hint="give another --cluster, or more rows",
        )
    return parts, sizes, digest.hexdigest()


def _labelled_rows(
    dataset: Dataset, selection: Selection, right: Expression, group: Expression | None
) -> tuple[dict[int, str], dict[int, JsonObject]]:
    """The cluster of each selected row that has a label, and the row as it is in the dataset, by its index."""
    keys = {}
    for row in stream_rows(dataset, selection):
        try:
            if right({"source": row.source}) is not None:
                keys[row.index] = (
                    key_text(group({"source": row.source})) if group is not None else str(row.index)
                )
        except RowError as error:
            raise UsageError(
                f"row {row.index}: {error.message}",
                hint="--target and --cluster are expressions over `source`",
            ) from None
    return keys, {
        row.index: dict(row.source)
        for row in stream_rows(Dataset(dataset.files))
        if row.index in keys
    }


PartName = Literal["fit", "select", "test"]
PART_SHARES: dict[PartName, float] = {"fit": 0.35, "select": 0.3, "test": 0.35}
"""How the rows are divided: the test needs the power to tell a better judge, the others enough of each label."""
LEAST_ROWS_AT_FIRST = 16
"""The rows on which all candidates are compared first, where there are so many."""
LEAST_LABELS = 24
"""Fewer labelled rows leave nothing to test on."""
SIGNIFICANT = 0.05

RowScoring = Callable[[Sequence[int], int], Sequence[Floats]]
"""Gives the scores of candidates (by index) on the first so many rows of `select`, larger is better, NaN where a row failed."""


@dataclass(frozen=True, slots=True)
class HalvingRound:
    """One round: the rows that were judged, and the mean score of each candidate that was still in it."""

    rows: int
    means: dict[int, float]


def split_rows(clusters: Ints, seed: int) -> dict[PartName, Ints]:
    """The rows of each part, in a random order. Shape of `clusters`: (rows,), equal for rows that must stay together."""
    rng = np.random.default_rng(seed)
    ids = np.unique(clusters)
    parts: dict[PartName, list[int]] = {name: [] for name in PART_SHARES}
    for index in rng.permutation(len(ids)):
        short = {
            name: PART_SHARES[name] - len(rows) / len(clusters) for name, rows in parts.items()
        }
        part = max(short, key=lambda name: short[name])
        parts[part] += np.flatnonzero(clusters == ids[index]).tolist()
    return {name: rng.permutation(np.array(rows, dtype=np.int64)) for name, rows in parts.items()}


def successive_halving(
    candidates: int, rows: int, score: RowScoring
) -> tuple[int, tuple[HalvingRound, ...]]:
    """The best candidate, and the rounds. The last round has all rows; ties go to the earlier candidate, the first of all.

    A failed row counts as the lowest score of its round: a judge that does not answer is not better for it.
    """
    survivors = list(range(candidates))
    count = min(rows, LEAST_ROWS_AT_FIRST)
    rounds = []
    while True:
        if len(survivors) <= 2:
            count = rows
        columns = np.array(score(survivors, count), dtype=np.float64)
        finite = np.isfinite(columns)
        lowest = columns[finite].min() if finite.any() else 0.0
        means = np.where(finite, columns, lowest).mean(axis=1)
        rounds.append(HalvingRound(count, dict(zip(survivors, means.tolist(), strict=True))))
        order = [survivors[position] for position in np.argsort(-means, kind="stable")]
        if count >= rows:
            return order[0], tuple(rounds)
        survivors = sorted(order[: max(2, (len(order) + 1) // 2)])
        count = min(rows, 2 * count)


def halved_rows(candidates: int, rows: int) -> int:
    """The rows that `successive_halving` judges in all; those of an earlier round are not judged again."""
    counts = dict.fromkeys(range(candidates), 0)

    def score(candidate_indices: Sequence[int], count: int) -> list[Floats]:
        counts.update(dict.fromkeys(candidate_indices, count))
        return [np.zeros(count) for _ in candidate_indices]

    successive_halving(candidates, rows, score)
    return sum(counts.values())


def is_better(change: float | None, p: float | None) -> bool:
    """Whether the winner is shown to be better on the sealed rows: a gain with a two-sided p-value of at most 0.05."""
    return change is not None and p is not None and change > 0 and p <= SIGNIFICANT


FEW_SHOT = (("balanced", 4), ("nearest", 4), ("errors", 4), ("nearest", 8))
BATCH_WRONG, BATCH_RIGHT = 6, 2
"""Rows that a proposal sees: those that the judge got wrong, and some that it got right and should not lose."""
MOST_SHOWN = 2_000
"""Characters of a text that a proposal sees."""
JUDGED = "judged"
"""The column of the examples with what the judge said, for `choose: errors`."""


@dataclass(frozen=True, slots=True)
class PromptCandidate:
    """A changed unit: its name, what it comes from, and the settings (`--set`) that make it."""

    name: str
    origin: str
    settings: tuple[str, ...] = ()


class JudgedRow(Struct, frozen=True):
    """A row of `fit`: what the judge read and said, its reasons, the right answer, and people's note."""

    source: NamedValues
    judged: Any
    right: Any
    correct: bool
    explanation: str = ""
    note: str = ""


def _estimated(plan: Plan, sources: Sequence[NamedValues], count: int) -> tuple[Line, ...]:
    """The calls of so many rows like these."""
    rows = [Row(index, index, source) for index, source in enumerate(sources[:SAMPLE])]
    return DryRun(plan, real=False).add(rows).lines(count)


class Alignment(Struct, frozen=True):
    """A finished search: the candidates, the first of them the pipeline as it was; what each round found; the winner against the first
    on the sealed rows. `parts` counts the rows of each part, `dropped` says why proposals could not be used."""

    unit: str
    metric: str
    parts: Mapping[str, int]
    candidates: Sequence[PromptCandidate]
    rounds: Sequence[HalvingRound]
    winner: int
    sealed: Difference | None
    cost_usd: float | None
    dropped: Sequence[str] = ()

    @property
    def better(self) -> bool:
        """Whether the winner is shown to be better."""
        return (
            self.winner != 0
            and self.sealed is not None
            and is_better(self.sealed.change.value, self.sealed.p)
        )


def few_shot(
    path: str, rows: Sequence[JudgedRow], target: str, cluster: str | None
) -> list[PromptCandidate]:
    """The unit at this path with examples from the rows, chosen in several ways."""
    examples = [{**row.source, JUDGED: row.judged} for row in rows]
    shared = {"rows": examples, "target": target} | (
        {"cluster": cluster} if cluster is not None else {}
    )
    candidates = []
    for choose, k in FEW_SHOT:
        if choose == "errors" and all(row.correct for row in rows):
            continue
        key = {**shared, "k": k, "choose": choose}
        if choose == "errors":
            key["prediction"] = f"source.{JUDGED}"
        candidates.append(
            PromptCandidate(
                f"examples {choose} {k}",
                f"{k} {choose} examples",
                (f"{path}.examples={json.dumps(key)}",),
            )
        )
    return candidates


def proposal_batches(rows: Sequence[JudgedRow], count: int, seed: int) -> list[list[JudgedRow]]:
    """Different rows for each of `count` proposals; none where the judge made no mistake."""
    wrong = [row for row in rows if not row.correct]
    right = [row for row in rows if row.correct]
    if not wrong:
        return []
    draw = random.Random(seed)
    return [
        draw.sample(wrong, min(BATCH_WRONG, len(wrong)))
        + draw.sample(right, min(BATCH_RIGHT, len(right)))
        for _ in range(count)
    ]


def reflection_request(prompt: str, batch: Sequence[JudgedRow], columns: Sequence[str]) -> str:
    """What the proposer is asked about one batch of rows."""
    parts = [
        "A language model judges texts by the prompt below. People judged the same texts. Find out why the judge differs from them, and "
        "write what would make it agree.",
        f"<prompt>\n{prompt}\n</prompt>",
    ]
    for number, row in enumerate(batch, 1):
        column_lines = [f"{name}: {_short(row.source.get(name))}" for name in columns]
        lines = [
            f"Row {number} ({'right' if row.correct else 'wrong'})",
            *column_lines,
            f"judge: {_short(row.judged)}",
        ]
        lines += [f"judge's reasons: {_short(row.explanation)}"] if row.explanation else []
        lines += [f"right answer: {_short(row.right)}"]
        lines += [f"people's note: {_short(row.note)}"] if row.note else []
        parts.append("\n".join(lines))
    parts.append(
        "Answer with `diagnosis` (why the judge was wrong, in a few sentences), `guidelines` (at most eight short rules to add to the prompt, "
        "general ones that hold for other texts too; never an answer to a row above), and `prompt` (the whole prompt, rewritten). The "
        "rewritten prompt must keep every placeholder in braces exactly as it is, and the same possible answers."
    )
    return "\n\n".join(parts)


def proposal_pipeline(model: str) -> JsonObject:
    """The pipeline that asks the proposer: a row a batch, so that a killed search pays for no proposal twice."""
    unit = {
        "unit": "Unit",
        "name": "proposal",
        "prompt": "{source.request}",
        "response": {"diagnosis": "str", "guidelines": "str", "prompt": "str"},
    }
    return {"verdict": 1, "name": "align-proposals", "model": model, "pipeline": [unit]}


def proposed(
    path: str, prompt: str, guidelines: str, rewritten: str, name: str
) -> list[PromptCandidate]:
    """The candidates of one proposal: its guidelines behind the prompt, and its own prompt."""
    candidates = []
    if guidelines:
        text = f"{prompt.rstrip()}\n\nGuidelines:\n{literal(guidelines)}"
        candidates.append((f"guidelines {name}", "guidelines of the proposer", text))
    if rewritten and rewritten != prompt.strip():
        candidates.append((f"rewrite {name}", "a prompt of the proposer", rewritten))
    return [
        PromptCandidate(label, origin, (f"{path}.prompt={json.dumps(text)}",))
        for label, origin, text in candidates
    ]


def literal(text: str) -> str:
    """The text so that a prompt shows it as it is: braces are no placeholders, and no line begins a section."""
    escaped = text.replace("{", "\\{")
    return re.sub(r"^@", " @", escaped, flags=re.MULTILINE)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


@dataclass
class AlignSearch:
    """One search: the pipeline, the unit's path in it, the parts of the labelled rows, and what was spent."""

    config: Path
    how: RowOptions
    plan: Plan
    unit: str
    path: str
    prompt: str
    columns: tuple[str, ...]
    evaluation: str
    metric: str | None
    target: str
    cluster: str | None
    options: AlignOptions
    folder: Path
    parts: dict[PartName, Path]
    sizes: dict[PartName, int]
    facts: JsonObject
    stop: Stop | None = None
    dropped: list[str] = field(default_factory=list)
    costs: dict[str, float | None] = field(default_factory=dict)
    before_calls: Callable[[], None] | None = None
    """Called once, before the first run that makes calls."""

    def tell_cost(self, *, yes: bool) -> None:
        """Tell the most that the search costs, and ask on a terminal."""
        options, sizes = self.options, self.sizes
        text = self.parts["fit"].read_text(encoding="utf-8")
        fit = [json.loads(line) for line in text.splitlines()]
        unjudged = [JudgedRow(source, None, None, correct=True) for source in fit]
        # Candidates are estimated by the longest prompts that are tried: those with the most examples.
        candidate = self._plan(few_shot(self.path, unjudged, self.target, self.cluster)[-1])
        proposals = 2 * options.proposals if options.proposer is not None else 0
        judged = halved_rows(1 + len(FEW_SHOT) + proposals, sizes["select"]) + 2 * sizes["test"]
        if proposals:
            again = halved_rows(2 + proposals, sizes["select"]) + sizes["fit"]
            judged += (options.rounds - 1) * again
        plans = [self.plan, candidate]
        lines = [_estimated(self.plan, fit, len(fit)), _estimated(candidate, fit, judged)]
        if options.proposer is not None:
            asking = as_yaml(proposal_pipeline(options.proposer)).encode()
            document = parse_document(asking, "proposals.yaml")
            plans.append(build_plan(validate_document(document, Path())).plan)
            batch = unjudged[: BATCH_WRONG + BATCH_RIGHT]
            request = reflection_request(self.prompt, batch, self.columns)
            requests = options.proposals * options.rounds
            lines.append(_estimated(plans[-1], [{"request": request}], requests))
        prompts = 1 + len(FEW_SHOT) + proposals * options.rounds
        purpose = f"up to {prompts} prompts on {sum(sizes.values()):,} rows"
        ask_to_spend(purpose, lines, plans, yes=yes, quiet=self.how.quiet)

    def run(self, *, yes: bool) -> Alignment:
        """Make candidates, select, and compare the winner with the pipeline as it was on the sealed rows.

        The cost is told, and asked about, before the first run that has calls left to make: none of a search that is finished or
        replayed.
        """
        if self.how.replay is None:
            self.before_calls = partial(self.tell_cost, yes=yes)
        proposer = self.options.proposer
        candidates = [PromptCandidate("as it was", "the pipeline as it was")]
        judged_at_first = self._judged(candidates[0])
        candidates += self._valid(few_shot(self.path, judged_at_first, self.target, self.cluster))
        history = []
        best = 0
        for number in range(self.options.rounds if proposer is not None else 1):
            first_new = len(candidates) if number else 0
            if proposer is not None:
                base = candidates[best]
                judged = self._judged(base) if best else judged_at_first
                candidates += self._proposed(proposer, base, judged, number)
            entered = list(dict.fromkeys([0, best, *range(first_new, len(candidates))]))
            score = partial(self._scores, [candidates[index] for index in entered])
            winner, tried = successive_halving(len(entered), self.sizes["select"], score)
            best = entered[winner]
            for round_ in tried:
                means = {entered[position]: mean for position, mean in round_.means.items()}
                history.append(HalvingRound(round_.rows, means))
        sealed = None
        metric = self.metric
        if best:
            arms = self._runs([candidates[0], candidates[best]], "test", self.sizes["test"])
            metric = metric or main_metric(arms[0], self.evaluation, self.how.seed)
            level = self.plan.interval_level
            compared = compare_arms(arms, self.evaluation, metric, seed=self.how.seed, level=level)
            sealed = None if isinstance(compared, str) else compared.differences[0]
        return Alignment(
            self.unit,
            f"{self.evaluation}.{metric or 'score'}",
            {str(part): size for part, size in self.sizes.items()},
            candidates,
            history,
            best,
            sealed,
            sum_usd(*self.costs.values()),
            self.dropped,
        )

    def write_aligned(self, alignment: Alignment, conclusion: str) -> None:
        """Write the better pipeline, with where it comes from."""
        winner = alignment.candidates[alignment.winner]
        plan = self._plan(winner)
        lines = [
            f"Made by `verdict align` from {self.config} (fingerprint {self.plan.fingerprint}) and {self.facts['dataset']}",
            f"(sha256 {self.facts['data_digest']}), seed {self.how.seed}: {winner.origin}, {plural(len(alignment.candidates), 'candidate')}.",
            f"{conclusion}.",
        ]
        head = "".join(f"# {line}\n" for line in lines)
        path = self.folder / "aligned.yaml"
        path.write_text(head + as_yaml(dict(plan.resolved)), encoding="utf-8")

    def _plan(self, candidate: PromptCandidate) -> Plan:
        return (
            replace(self.how, settings=[*(self.how.settings or ()), *candidate.settings])
            .built(self.config)
            .plan
        )

    def _valid(self, candidates: Sequence[PromptCandidate]) -> list[PromptCandidate]:
        """The candidates that can be run and still ask about the same columns; why the others were dropped is noted."""
        valid_candidates = []
        for candidate in candidates:
            try:
                plan = self._plan(candidate)
            except (SpecError, UsageError) as error:
                self.dropped.append(f"{candidate.name} was dropped: {str(error).splitlines()[0]}")
                continue
            prompt_columns = {
                name
                for node, work in plan.llm_nodes
                if node.name == self.unit
                for name in named_columns(work.prompt)
            }
            missing_columns = [name for name in self.columns if name not in prompt_columns]
            if missing_columns:
                self.dropped.append(
                    f"{candidate.name} was dropped: its prompt has lost {', '.join(missing_columns)}"
                )
            else:
                valid_candidates.append(candidate)
        return valid_candidates

    def _proposed(
        self, proposer: str, base: PromptCandidate, judged: Sequence[JudgedRow], number: int
    ) -> list[PromptCandidate]:
        """The candidates that the proposer writes in a round, from the mistakes of the best candidate so far."""
        drawn = proposal_batches(judged, self.options.proposals, self.how.seed + number)
        if not drawn:
            return []
        key = f"{self.path}.prompt="
        prompt_settings = [text for text in base.settings if text.startswith(key)]
        other_settings = [text for text in base.settings if text not in prompt_settings]
        prompt = (
            json.loads(prompt_settings[0].removeprefix(key)) if prompt_settings else self.prompt
        )
        requests = [
            {"id": index, "request": reflection_request(prompt, batch, self.columns)}
            for index, batch in enumerate(drawn)
        ]
        folder = self.folder / "proposals" / f"round-{number + 1}"
        arm, how = requests_arm(folder, proposal_pipeline(proposer), requests, self.how)
        (result,) = self._execute([arm], how)
        candidates = []
        columns = ["id", "status", "output.guidelines", "output.prompt"]
        for position, status, *texts in table_rows(result.directory.results, columns):
            if status != "ok":
                unread = f"proposal {position} of round {number + 1} could not be read"
                self.dropped.append(unread)
                continue
            guidelines, rewritten = (str(text or "").strip() for text in texts)
            name = f"{number + 1}.{int(position) + 1}"
            candidates += [
                replace(candidate, settings=(*other_settings, *candidate.settings))
                for candidate in proposed(self.path, prompt, guidelines, rewritten, name)
            ]
        return self._valid(candidates)

    def _judged(self, candidate: PromptCandidate) -> list[JudgedRow]:
        """What a candidate says of the fit rows."""
        (run,) = self._runs([candidate], "fit", self.sizes["fit"])
        scored = self._scored(run)
        answers = scored.answers
        note = compile_expression(self.options.note, ("source",)) if self.options.note else None
        indices = {int(row): index for index, row in enumerate(scored.at)}
        right = 1.0 if scored.labels else 0.0
        judged = []
        paths = [("source",), ("output",), ("nodes",)]
        for position, (_, failed, values) in enumerate(saved_rows(run.directory.results, paths)):
            if failed or position not in indices:
                continue
            index, source = indices[position], values["source"]
            parts = [values["output"], *values["nodes"].values()]
            reasons = filter(None, (part.get("explanation") for part in parts))
            remark = None if note is None else note({"source": source})
            judged.append(
                JudgedRow(
                    source,
                    answers.value(index),
                    scored.data.targets.value(index),
                    bool(scored.scores[index] == right),
                    str(next(reasons, "")),
                    "" if remark is None else str(remark),
                )
            )
        return judged

    def _scores(
        self, candidates: Sequence[PromptCandidate], indices: Sequence[int], rows: int
    ) -> list[Floats]:
        """The scores of these of the candidates on the first rows of `select`; NaN where a row failed."""
        columns = []
        for run in self._runs([candidates[index] for index in indices], "select", rows):
            scores = np.full(rows, np.nan)
            scored = self._scored(run)
            scores[scored.at] = scored.scores
            columns.append(scores)
        return columns

    def _scored(self, run: RunResult) -> RowScores:
        evaluation = {self.evaluation: run.plan.evaluations[self.evaluation]}
        return scored_rows(evaluation, run.directory.results)[0]

    def _runs(
        self, candidates: Sequence[PromptCandidate], part: PartName, rows: int
    ) -> list[RunResult]:
        """The candidates' runs over the first rows of a part."""
        arms = []
        for candidate in candidates:
            slug = hashlib.sha256("\0".join(candidate.settings).encode()).hexdigest()[:10]
            directory = self.folder / "runs" / f"{part}-{rows}-{slug}"
            data = str(self.parts[part])
            arms.append(
                Arm(candidate.name, self._plan(candidate), str(self.config), data, directory, rows)
            )
        return self._execute(arms, replace(self.how, sample=None))

    def _execute(self, arms: Sequence[Arm], how: RowOptions) -> list[RunResult]:
        """The finished runs; what they cost is taken from the budget."""
        assert self.stop is not None
        if how.budget is not None:
            spent = sum_usd(*self.costs.values()) or 0.0
            how = replace(how, budget=max(how.budget - spent, 1e-9))
        earlier = tuple(Path(run) for run in self.costs)

        def adapted(options: RunOptions) -> RunOptions:
            folder = Path(options.out or "")
            earlier_runs = tuple(run for run in earlier if run.resolve() != folder.resolve())
            return replace(options, warn=silent, reuse=earlier_runs)

        arms = [structs.replace(arm, change=adapted) for arm in arms]
        with open_arms(arms, how, silent) as sessions:
            if self.before_calls is not None and not all(
                session.is_finished for session in sessions
            ):
                self.before_calls()
                self.before_calls = None
            quiet = (
                how.quiet or not sys.stderr.isatty()
            )  # without a terminal, dozens of short runs are only noise
            results = execute_all_or_exit(
                sessions, self.folder, self.stop, replace(how, quiet=quiet)
            )
        for result in results:
            self.costs[str(result.directory.path)] = result.facts.cost_usd
        return results


def align_conclusion(alignment: Alignment) -> str:
    """The result in one sentence."""
    if alignment.winner == 0:
        return f"nothing that was tried is better than the pipeline as it was, on {plural(alignment.parts['select'], 'row')}"
    name = alignment.candidates[alignment.winner].name
    if alignment.sealed is None or alignment.sealed.change.value is None:
        return (
            f"{name} was best on the rows of `select`, but could not be compared on the sealed rows"
        )
    change = alignment.sealed.change
    test = f"{alignment.metric} {formatting.format_number(alignment.sealed.first)} to {formatting.format_number(alignment.sealed.second)}"
    gain = f"difference {formatting.number_with_interval(change)}"
    p = "" if alignment.sealed.p is None else f", p {alignment.sealed.p:.3g}"
    rows = f"on {change.n:,} sealed rows"
    if alignment.better:
        return f"{name} is better {rows}: {test}, {gain}{p}"
    return f"nothing is shown to be better: {name}, the best of `select`, gives {test}, {gain}{p} {rows}"


def align_document(title: str, alignment: Alignment, facts: NamedValues) -> ReportDocument:
    """The document of an alignment; `facts` are its files and options, as its JSON has them."""
    counted = ", ".join(f"{count:,} {name}" for name, count in alignment.parts.items())
    parts: list[Part] = [
        Note(
            f"unit {formatting.visible_text(alignment.unit)}; labelled rows by part: {counted}; cost {formatting.money(alignment.cost_usd)}"
        )
    ]
    rows = []
    for index, candidate in enumerate(alignment.candidates):
        latest = next((tried for tried in reversed(alignment.rounds) if index in tried.means), None)
        mean = "–" if latest is None else formatting.format_number(latest.means[index])
        judged = "0" if latest is None else f"{latest.rows:,}"
        rows.append((candidate.name, candidate.origin, judged, mean))
    parts.append(
        Table(
            ("candidate", "what it is", "rows judged", "mean score"),
            rows,
            (2, 3),
            strong=(alignment.winner,),
        )
    )
    parts += [Note(text, warning=True) for text in alignment.dropped]
    return ReportDocument(
        title,
        [Section("", parts, essential=True)],
        "Verdict align",
        elsewhere="in align.html",
        data=lambda: align_json(alignment, facts),
        conclusion=align_conclusion(alignment),
    )


def align_json(alignment: Alignment, facts: NamedValues) -> JsonObject:
    """The document of `verdict align --json`, and `align.json`."""
    sealed = alignment.sealed
    return {
        **facts,
        "better": alignment.better,
        "unit": alignment.unit,
        "metric": alignment.metric,
        "parts": dict(alignment.parts),
        "winner": alignment.candidates[alignment.winner].name,
        "sealed": None
        if sealed is None
        else {
            "old": sealed.first,
            "new": sealed.second,
            "difference": metric_json(sealed.change),
            "p": sealed.p,
        },
        "candidates": [asdict(candidate) for candidate in alignment.candidates],
        "rounds": [
            {
                "rows": tried.rows,
                "means": {
                    alignment.candidates[index].name: mean for index, mean in tried.means.items()
                },
            }
            for tried in alignment.rounds
        ],
        "dropped": list(alignment.dropped),
        "cost_usd": alignment.cost_usd,
    }
