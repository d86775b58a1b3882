"""Judges in a test suite: the marker `verdict` names a pipeline, the fixture `verdict_judge` judges rows with it.

pytest imports this module wherever the package is installed, so it imports nothing more until a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from verdict_cli import Judge, Judged
    from verdict_cli.messages import JsonObject, NamedValues

OPTIONS = ("model", "replay", "seed", "concurrency", "budget", "cache")
_MOST = 600
"""Characters of a reply that a failure shows."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--verdict-model`, which CI sets where a developer's machine has another model."""
    group = parser.getgroup("verdict")
    group.addoption(
        "--verdict-model",
        metavar="NAME",
        help="The model of every judge, whatever its marker says.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tells pytest of the marker."""
    config.addinivalue_line(
        "markers",
        "verdict(config, *, accept=None, model=None, replay=None, seed=0, concurrency=64, budget=None, cache=False): "
        "the pipeline of the fixture verdict_judge, its file beside the test's; accept is the rule of verdict_judge.accept",
    )


@pytest.fixture(scope="session")
def _verdict_judges() -> Iterator[dict[Any, Judge]]:
    """The judges that are ready; each is made once."""
    judges: dict[Any, Judge] = {}
    yield judges
    for judge in judges.values():
        judge.close()


@pytest.fixture
def verdict_judge(request: pytest.FixtureRequest, _verdict_judges: dict[Any, Judge]) -> RowJudge:
    """Judges rows with the pipeline of the marker `verdict`; what goes wrong fails the test in one message."""
    from verdict_cli import Judge
    from verdict_cli.errors import VerdictError

    config, accept, options = _asked(request)
    key = (config, tuple(sorted((name, str(value)) for name, value in options.items())))
    try:
        if key not in _verdict_judges:
            _verdict_judges[key] = Judge.from_yaml(config, **options)
        return RowJudge(_verdict_judges[key], accept)
    except VerdictError as error:
        raise _failed(str(error)) from None


def _asked(request: pytest.FixtureRequest) -> tuple[Path, str | None, JsonObject]:
    """What the marker says: the pipeline's file, the rule, and the judge's options."""
    marker = request.node.get_closest_marker("verdict")
    if marker is None:
        raise _failed('verdict_judge needs @pytest.mark.verdict(config="pipeline.yaml")')
    keys = dict(marker.kwargs)
    if len(marker.args) == 1:
        keys["config"] = marker.args[0]
    unknown = sorted(keys.keys() - {"config", "accept", *OPTIONS})
    if "config" not in keys or unknown or len(marker.args) > 1:
        wrong = f"unknown option {', '.join(unknown)}" if unknown else "it names one pipeline"
        raise _failed(
            f"the marker verdict: {wrong}; its keys are config, accept, {', '.join(OPTIONS)}"
        )
    folder = request.path.parent
    options = {name: keys[name] for name in OPTIONS if keys.get(name) is not None}
    if "replay" in options:
        options["replay"] = folder / options["replay"]
    if chosen := request.config.getoption("--verdict-model"):
        options["model"] = chosen
    return folder / keys["config"], keys.get("accept"), options


class RowJudge:
    """`verdict_judge(row)` returns the pipeline's output; `verdict_judge.accept(row)` fails where the rule is broken."""

    def __init__(self, judge: Judge, accept: str | None) -> None:
        from verdict_cli.language.expressions.expression import compile_expression
        from verdict_cli.language.expressions.paths import ExpressionError

        self.judge = judge
        """The `Judge` itself: `acall`, `reward`."""
        self._text = accept
        try:
            self._rule = (
                None
                if accept is None
                else compile_expression(accept, ("source", "output", "nodes"))
            )
        except ExpressionError as error:
            raise _failed(f"accept `{accept}`: {error.message}") from None

    def __call__(self, row: NamedValues | None = None, /, **columns: Any) -> Judged:
        """The outcome of the row, given as a mapping, as keywords, or as both."""
        from verdict_cli.errors import VerdictError

        __tracebackhide__ = True
        try:
            return self.judge({**(row or {}), **columns})
        except VerdictError as error:
            raise _failed(f"the judge gave no verdict: {error}") from None

    def accept(self, row: NamedValues | None = None, /, **columns: Any) -> Judged:
        """The outcome of the row; fails the test, saying why, where the marker's `accept` does not hold."""
        from verdict_cli.errors import RowError
        from verdict_cli.language.authoring.schema import unwrap_views

        __tracebackhide__ = True
        if self._rule is None:
            raise _failed("the marker verdict has no accept, such as accept='output.score >= 4'")
        row_values = {**(row or {}), **columns}
        judged = self(row_values)
        output, nodes = unwrap_views(judged), unwrap_views(judged.nodes)
        try:
            holds = self._rule(
                {"source": unwrap_views(row_values), "output": output, "nodes": nodes}
            )
        except RowError as error:
            raise _failed(f"accept `{self._text}`: {error.message}") from None
        if holds is not True:
            outcome = "is false" if holds is False else f"gives {holds!r:.80}, not true or false"
            raise _failed(f"`{self._text}` {outcome}\n{_told(output, judged)}")
        return judged


def _told(output: Any, judged: Judged) -> str:
    """The output and each call's reply."""
    lines = [f"output: {output!r:.{_MOST}}"]
    for call in judged.calls:
        text = call.failure or ("" if call.reply is None else call.reply.text)
        indented = text[:_MOST].replace("\n", "\n    ") + ("…" if len(text) > _MOST else "")
        lines.append(f"{call.request.node} ({call.request.model.name}):\n    {indented}")
    return "\n".join(lines)


def _failed(message: str) -> BaseException:
    """What fails a test with these words alone; signs that steer a terminal are escaped."""
    from verdict_cli.report.formatting import visible_text

    text = "\n".join(visible_text(line) for line in message.split("\n"))
    return pytest.fail.Exception(text, pytrace=False)
