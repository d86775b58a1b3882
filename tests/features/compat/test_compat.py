"""`verdict_cli.compat` by itself: what its code does with scripted replies, and its errors."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from verdict_cli import UsageError, compat
from verdict_cli.compat import (
    BestOfKJudgeUnit,
    Block,
    BooleanScale,
    ConversationalUnit,
    DatasetWrapper,
    DiscreteScale,
    ExperimentConfig,
    JudgeUnit,
    Layer,
    MapUnit,
    MaxPoolUnit,
    ModelSelectionPolicy,
    Pipeline,
    Prompt,
    ProviderModel,
    RateLimitPolicy,
    RegexExtractor,
    Schema,
    Unit,
    display_stats,
    ratelimit,
    vLLMModel,
)
from verdict_cli.messages import Alternative, Reply

if TYPE_CHECKING:
    from conftest import ScriptedModel

    from verdict_cli.messages import Request

ROW = Schema.of(text="A text.")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")


def score_of_prompt(request: Request) -> str:
    """The number behind the last space of the prompt."""
    return json.dumps({"score": int(request.messages[-1].content.rpartition(" ")[2])})


def judges(*scores: int) -> list[JudgeUnit]:
    return [JudgeUnit(name=f"J{score}").prompt(f"{{source.text}} Say {score}") for score in scores]


def test_units_of_layers_have_the_librarys_names_and_the_mode_is_its_maximum(
    scripted_model: ScriptedModel,
) -> None:
    scripted_model.answer = score_of_prompt
    response, leaves = (Pipeline("Jury") >> Layer(judges(3, 5, 3)) >> MaxPoolUnit()).run(ROW)
    assert leaves == ["Jury_root.block.block.unit[Map MaxPool]_score"]
    assert response[leaves[0]] == 3
    assert response["Jury_root.block.layer[1].unit[DirectScoreJudge J5]_score"] == 5
    assert [request.model.name for request in scripted_model.requests] == ["gpt-4o-mini"] * 3


def test_a_model_is_set_once_and_attempts_are_counted(scripted_model: ScriptedModel) -> None:
    scripted_model.answer = lambda _: "no number"
    one, two = judges(1, 2)
    layer = Layer([one.via("gpt-4o", retries=2), two]).via(
        ProviderModel("gpt-4.1", rate_limiter=RateLimitPolicy.of(rpm=600, tpm=9_000)),
        temperature=0.5,
        top_k=3,
    )
    first, second = (
        keys["model"] for keys in (unit.document(root=True)[0] for unit in layer.nodes())
    )
    assert first == [{"name": "gpt-4o", "retries": 1}]
    assert second == [
        {
            "name": "gpt-4.1",
            "rate_limit": {"requests_per_minute": 600, "tokens_per_minute": 9_000},
            "retries": 0,
            "temperature": 0.5,
            "params": {"top_k": 3},
        }
    ]
    response, _ = (Pipeline() >> judges(1)[0].via("gpt-4o", retries=3)).run(ROW, graceful=True)
    assert response == {} and len(scripted_model.requests) == 3
    ratelimit.disable()


def test_policies_name_several_models() -> None:
    policy = ModelSelectionPolicy.from_names(
        [("gpt-4o", 2, {"temperature": 0.0}), ("gpt-4o-mini", 1, {})]
    )
    assert [keys["name"] for keys in policy.model_keys({})] == ["gpt-4o", "gpt-4o-mini"]
    local = ModelSelectionPolicy.from_any(
        vLLMModel("llama", "http://127.0.0.1:1/v1", "EMPTY")
    ).model_keys({})
    assert local == [
        {"name": "hosted_vllm/llama", "api_base": "http://127.0.0.1:1/v1", "retries": 0}
    ]


def test_a_dataset_keeps_its_columns_and_gains_those_of_the_units(
    scripted_model: ScriptedModel,
) -> None:
    pandas = pytest.importorskip("pandas")
    scripted_model.answer = score_of_prompt
    table = pandas.DataFrame({"split": ["a", "b", "b"], "grade": [1, 4, 5]})
    parts = DatasetWrapper.from_pandas(
        table, lambda row: Schema.of(text=f"is {row['grade']}"), split_column="split"
    )
    pipeline = Pipeline() >> JudgeUnit().prompt("It {source.text}")
    found, leaves = pipeline.run_from_dataset(parts["b"], max_workers=4)
    assert list(found["grade"]) == list(found[leaves[0]]) == [4, 5]
    assert (
        len(DatasetWrapper(table.to_dict(orient="records"), columns=["grade"], max_samples=2)) == 2
    )
    with pytest.raises(UsageError, match="either"):
        DatasetWrapper(table, lambda row: Schema.of(**row), columns=["grade"])


def test_a_failed_row_of_a_dataset_has_no_outputs(scripted_model: ScriptedModel) -> None:
    pytest.importorskip("pandas")
    scripted_model.answer = lambda request: (
        "?" if "bad" in request.messages[-1].content else '{"score": 2}'
    )
    pipeline = Pipeline() >> JudgeUnit().prompt("{source.text}").via("gpt-4o-mini")
    table, (leaf,) = pipeline.run_from_list([Schema.of(text="good"), Schema.of(text="bad")])
    assert table[leaf][0] == 2 and table[leaf].isna()[1]


def test_turns_are_conversations_in_functions_and_roles_are_numbered_in_layers(
    scripted_model: ScriptedModel,
) -> None:
    scripted_model.answer = lambda request: json.dumps(
        {"response": f"turn {len(scripted_model.requests)}"}
    )
    turns = [
        ConversationalUnit(role).prompt("{unit.role_name}: {input.conversation}")
        for role in ("Pro", "Con")
    ]
    seen: list[Any] = []

    def last(output: Any) -> Schema:
        seen.append(output.conversation)
        return Schema.of(roles=output.conversation.get_roles(), conversation=output.conversation)

    response, leaves = (
        Pipeline() >> Layer(turns, inner="chain", outer="last") >> MapUnit(last)
    ).run(ROW)
    roles = response["Pipeline_root.block.block.unit[Map]_roles"]
    assert roles == ["Pro #1", "Con #2"]
    assert [turn.message for turn in seen[-1].history] == ["", "turn 1", "turn 2"]
    assert [leaf.rpartition("_")[2] for leaf in leaves] == ["conversation", "roles"]


def test_a_variable_of_the_caller_is_inserted_and_never_read_as_a_placeholder(
    scripted_model: ScriptedModel,
) -> None:
    scripted_model.answer = lambda _: '{"score": 1}'
    words = {"hint": "{source.secret} and {unit.name}"}  # noqa: F841 - named in the prompt
    (Pipeline() >> JudgeUnit().prompt("{words['hint']} {source.text}")).run(ROW)
    assert scripted_model.texts() == ["{source.secret} and {unit.name} A text."]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("Rate {criteria}", "there is no variable 'criteria'"),
        ("Rate {ROW.text.upper()}", "is an expression"),
        ("Rate {unit.colour}", "has no 'colour'"),
    ],
)
def test_a_placeholder_that_cannot_be_filled_is_an_error(prompt: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        (Pipeline() >> JudgeUnit().prompt(prompt)).run(ROW)


def test_sections_and_docstrings_are_prompts(scripted_model: ScriptedModel) -> None:
    scripted_model.answer = lambda _: '{"score": 1}'

    class Strict(Prompt):
        """
        @system
          Be strict.
        @user
            Rate {source.text}
              now
        """

    (Pipeline() >> JudgeUnit().prompt(Strict())).run(ROW)
    assert [(message.role, message.content) for message in scripted_model.requests[0].messages] == [
        ("system", "Be strict."),
        ("user", "Rate A text.\nnow"),
    ]


def test_scales_print_as_in_the_library() -> None:
    assert str(DiscreteScale((1, 5), end_is_worst=True)) == "5, 4, 3, 2, 1"
    assert DiscreteScale((1, 5), end_is_worst=True).values == [1, 2, 3, 4, 5]
    assert str(BooleanScale()) == "yes/Yes/YES,no/No/NO"
    assert BooleanScale(["ja"], ["nein"]).own.read("ja") is True


def test_an_extractor_is_a_class_or_an_instance(scripted_model: ScriptedModel) -> None:
    scripted_model.answer = lambda _: "a 4 of 5"
    judge = (
        JudgeUnit(DiscreteScale((1, 5)))
        .prompt("{source.text}")
        .extract(RegexExtractor({"score": "[0-9]"}))
    )
    assert next(iter((Pipeline() >> judge).run(ROW)[0].values())) == 4


def test_options_must_be_as_many_as_letters(scripted_model: ScriptedModel) -> None:
    scripted_model.answer = lambda _: '{"choice": "A"}'
    best = (
        BestOfKJudgeUnit(k=3, original=True).prompt("{input.options[0]}").via("gpt-4o", retries=1)
    )
    with pytest.raises(Exception, match="there are 2 options, expected 3"):
        (Pipeline() >> best).run(Schema.of(options=["x", "y"]))


def test_a_refused_response_without_words_names_the_kind_of_refusal(
    scripted_model: ScriptedModel,
) -> None:
    class PickyUnit(JudgeUnit):
        def validate(self, input: Any, response: Any) -> None:  # noqa: A002
            if response.score < 4:
                raise ValueError

    scripted_model.answer = lambda _: '{"score": 1}'
    with pytest.raises(Exception, match=r"PickyUnit\.validate: ValueError"):
        (Pipeline() >> PickyUnit().prompt("{source.text}").via("gpt-4o")).run(ROW)


def test_layers_in_blocks_in_layers_keep_their_places(scripted_model: ScriptedModel) -> None:
    scripted_model.answer = score_of_prompt
    inner = Block() >> Layer(judges(2, 4)) >> MaxPoolUnit()
    response, leaves = (
        Pipeline() >> Layer(inner, 2) >> MapUnit(lambda each: [one.score for one in each])
    ).run(ROW)
    assert response[leaves[0]] == [2, 2]
    assert (
        response["Pipeline_root.block.layer[1].block.layer[1].unit[DirectScoreJudge J4]_score"] == 4
    )


@pytest.mark.parametrize("keys", [{"outer": "wide"}, {"inner": "ring"}])
def test_an_unknown_kind_of_link_is_an_error(keys: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="expected one of"):
        Layer(judges(1), **keys)


def test_a_unit_without_a_prompt_and_a_tracer_are_errors() -> None:
    with pytest.raises(UsageError, match="has no prompt"):
        (Pipeline() >> Unit()).run(ROW)
    with pytest.raises(UsageError, match="tracer"):
        Pipeline(tracer=object())
    assert "judge" in (judges(1)[0] >> judges(2)[0]).plot()


def test_agreement_with_labels_is_printed_as_scipy_and_sklearn_compute_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pandas = pytest.importorskip("pandas")
    metrics = pytest.importorskip("sklearn.metrics")
    stats = pytest.importorskip("scipy.stats")
    truth, found = [1, 2, 3, 3, 1, 2, 2, 1], [1, 2, 3, 2, 1, 1, 2, 3]
    table = pandas.DataFrame(
        {"truth": truth, "found": found, "set": list("aaaabbbb"), "word": list("xyxyxyxy")}
    )
    ((_, _, accuracy, kappa, tau, rho),) = display_stats(
        table, ExperimentConfig(["truth"], ["found"])
    )
    assert accuracy == 5 / 8 and kappa == pytest.approx(metrics.cohen_kappa_score(truth, found))
    assert tau == pytest.approx(stats.kendalltau(truth, found).statistic)
    assert rho == pytest.approx(stats.spearmanr(truth, found).statistic)
    assert "62.50%" in capsys.readouterr().out
    rows = display_stats(
        table, ExperimentConfig(["truth", "word"], ["found", "word"], pivot_cols=["set"])
    )
    assert [row[:2] for row in rows] == [("*", 8), ("set=a", 4), ("set=b", 4)] * 2
    assert rows[3][4] == 1.0 and rows[3][6] != rows[3][6], "ranks of words are not defined"
    assert "—" in capsys.readouterr().out


def test_roles_of_a_conversation_can_be_renamed() -> None:
    from verdict_cli.compat import Conversation, Message

    turns = [
        Message("<START>", ""),
        Message("Pro", "yes"),
        Message("Con", "no"),
        Message("Pro", "still"),
    ]
    renamed = Conversation(turns).with_roles(["A", "B"])
    assert str(renamed) == "<A>\nyes\n</A>\n\n<B>\nno\n</B>\n\n<A>\nstill\n</A>"
    with pytest.raises(UsageError, match="1 roles are given"):
        renamed.with_roles(["A"])
    assert Schema.of(score=1).add(more=2).model_dump() == {"score": 1, "more": 2}


def debate(*steps: Any) -> Pipeline:
    pipeline = Pipeline("Debate") >> Layer(
        [
            ConversationalUnit("Proponent", number=False).prompt(
                "For. {unit.role_name}\n{input.conversation}"
            ),
            ConversationalUnit("Opponent", number=False).prompt(
                "Against. {unit.role_name}\n{input.conversation}"
            ),
        ],
        repeat=2,
        inner="chain",
        outer="last",
    )
    for step in steps:
        pipeline = pipeline >> step
    return pipeline.via("gpt-4o")


JUDGE = JudgeUnit(BooleanScale()).prompt("Who won?\n{previous.arguments}")


@pytest.mark.parametrize("fields", [None, ["arguments"]])
def test_a_debate_is_judged_under_other_names_of_its_roles(
    scripted_model: ScriptedModel, fields: list[str] | None
) -> None:
    """Made-up conversations have one role, so that the function raises on them."""
    scripted_model.answer = lambda request: json.dumps(
        {"score": True} if "Who" in str(request) else {"response": "word"}
    )
    renamed = MapUnit(
        lambda output: Schema.of(arguments=output.conversation.with_roles(["A", "B"])),
        fields=fields,
    )
    response, leaves = debate(renamed, JUDGE.copied()).run(ROW)
    assert (
        response[leaves[0]] is True
        and "<A>" in scripted_model.texts()[-1]
        and "Pro" not in scripted_model.texts()[-1]
    )
    response, leaves = debate(renamed).run(ROW)
    assert response[leaves[0]].get_roles() == ["A", "B"]


def test_fields_of_a_propagation_can_be_declared(scripted_model: ScriptedModel) -> None:
    scripted_model.answer = score_of_prompt
    judge = judges(3)[0].propagate(lambda output: {"half": {3: 1.5}[output.score]}, fields=["half"])
    response, leaves = (Pipeline() >> judge.via("gpt-4o")).run(ROW)
    assert response[leaves[0]] == 1.5 and leaves[0].endswith("_half")
    table, names = (
        Pipeline() >> judges(3)[0].propagate(lambda output: {"half": {3: 1.5}[output.score]})
    ).run_from_list([ROW])
    assert table[names[0]].tolist() == [1.5] and names[0].endswith("_half")


def printed(shared: Path, seed: str, fence: str) -> list[str]:
    """The code blocks with units of a seed, without their imports."""
    (path,) = (shared / "seeds").glob(f"{seed}_*.txt")
    found = re.findall(
        rf"^{fence}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return [
        re.sub(r"^from verdict.*\n", "", block, flags=re.MULTILINE)
        for block in found
        if "Unit" in block
    ]


def executed(block: str, **names: Any) -> dict[str, Any]:
    """The names that the block leaves; `made` is the value of its last expression."""
    tree = ast.parse(block)
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        tree.body[-1] = ast.copy_location(
            ast.Assign([ast.Name("made", ast.Store())], last.value), last
        )
        ast.fix_missing_locations(tree)
    space = {name: getattr(compat, name) for name in compat.__all__} | names
    exec(compile(tree, "a seed", "exec"), space)
    return space


def test_the_papers_pipelines_run_as_printed(shared: Path, scripted_model: ScriptedModel) -> None:
    debate, jury, geval = printed(shared, "001", "```")
    scripted_model.answer = lambda request: (
        json.dumps(
            {
                name: True
                if kind["type"] == "boolean"
                else 5
                if kind["type"] == "integer"
                else "text"
                for name, kind in request.json_schema["properties"].items()
            }
        )
        if request.json_schema
        else Reply("4", logprobs=((Alternative("4", 0.0),),))
    )
    response, leaves = executed(debate)["made"].run(ROW)
    assert response[leaves[0]] is True and len(scripted_model.requests) == 7
    assert (
        "Opponent #6" in scripted_model.texts()[5] and "<Proponent #5>" in scripted_model.texts()[6]
    )
    words = {
        "TASK": "Rate it.",
        "criteria_name": "Coherence",
        "criteria_description": "it hangs together",
    }
    pipeline = executed(geval, **words)["pipeline"]
    table, _ = pipeline.run_from_list(
        [Schema.of(source="A long text.", summary=f"Text {n}.") for n in range(2)]
    )
    assert list(table["GEval_root.block.block.unit[Map MeanVariancePool]_mean"]) == [4.0, 4.0]
    assert len(scripted_model.requests) == 7 + 5 + 2 * 5, "the steps are written once for both rows"
    assert executed(jury, qa_judge_prompt="Rate {source.text}")["made"].name == "Jury"


def test_a_unit_that_the_documentation_defines_runs(
    shared: Path, scripted_model: ScriptedModel
) -> None:
    _, custom = printed(shared, "003", "```python")
    scripted_model.answer = lambda _: '{"winner": "B"}'
    pair = executed(custom)["PairwiseJudgeUnit"]()
    response, leaves = (Pipeline() >> pair).run(Schema.of(A="first", B="second"))
    assert response[leaves[0]] == "second" and "A:\nfirst" in scripted_model.texts()[0]
