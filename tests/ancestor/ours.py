"""The pipelines of theirs.py in `verdict_cli`'s own names: each function gives a pipeline and a row, or a list of rows.

The library adds no sentence about the scale to a prompt, so these pipelines leave theirs out. It counts attempts where
`retries` counts repetitions, links layers densely, and calls gpt-4o-mini where no model is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import yaml
from paths import ROOT

from verdict_cli import (
    ArgmaxScoreExtractor,
    BestOfKJudgeUnit,
    Block,
    BooleanScale,
    CategoricalJudgeUnit,
    ContinuousScale,
    ConversationalUnit,
    CoTUnit,
    DiscreteScale,
    JudgeUnit,
    Layer,
    MapUnit,
    MeanPoolUnit,
    MeanVariancePoolUnit,
    ModePoolUnit,
    PairwiseJudgeUnit,
    Pipeline,
    PostHocExtractor,
    RankerUnit,
    RawExtractor,
    RegexExtractor,
    Schema,
    StructuredOutputExtractor,
    TokenProbabilityExtractor,
    Unit,
    WeightedSummedScoreExtractor,
)

TEXT = {"text": "The bridge opened in 1932.", "topic": "history"}
PAIR = {"question": "What is 6 x 7?", "x": "It is 42.", "y": "It is 36."}
STARS = DiscreteScale((1, 5))
STARS_OR_NONE = DiscreteScale((0, 5))
PAPER = ROOT / "configs" / "paper"

Case = tuple[Pipeline, Mapping[str, Any] | list[Mapping[str, Any]]]
CASES: dict[str, Callable[[], Case]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    """Add the function to the cases."""
    CASES[function.__name__] = function
    return function


def pipeline(name: str = "pipeline", **keys: Any) -> Pipeline:
    return Pipeline(name, model={"name": "gpt-4o-mini", "retries": 2}, **keys)


def judge(prompt: str, scale: Any = None, **keys: Any) -> JudgeUnit:
    return JudgeUnit(scale, scale_instructions=False, **keys).prompt(prompt)


def categorical(prompt: str, categories: list[str], **keys: Any) -> CategoricalJudgeUnit:
    return CategoricalJudgeUnit(categories, scale_instructions=False, **keys).prompt(prompt)


def pairwise(prompt: str, **keys: Any) -> PairwiseJudgeUnit:
    return PairwiseJudgeUnit(scale_instructions=False, **keys).prompt(prompt)


def think(prompt: str, **keys: Any) -> CoTUnit:
    """Thoughts as a field of a structured reply."""
    return CoTUnit(**keys).prompt(prompt).extract(StructuredOutputExtractor())


def speak(role: str, prompt: str) -> ConversationalUnit:
    return ConversationalUnit(role).prompt(prompt).extract(StructuredOutputExtractor())


def dense(items: Any, repeat: int | None = None, **keys: Any) -> Layer:
    return Layer(items, repeat, **{"outer": "dense", **keys})


def numbered(prompt: str, count: int, **keys: Any) -> list[JudgeUnit]:
    """Judges whose prompts name their numbers."""
    return [judge(f"{prompt} {i}: {{source.text}}", **keys) for i in range(count)]


def total(outputs: Any) -> Schema:
    return Schema.of(total=sum(output.score for output in outputs))


def best(outputs: Any) -> Any:
    return max(outputs, key=lambda output: output.score)


def shipped_prompts(config: str) -> list[str]:
    """The prompts of one of the paper's pipelines, in order."""
    steps = yaml.safe_load((PAPER / config).read_text(encoding="utf-8"))["pipeline"]
    units = steps[0]["layer"][0]["block"] if "layer" in steps[0] else steps
    return [unit["prompt"] for unit in units]


@case
def single_judge() -> Case:
    return pipeline() >> judge("Rate this: {source.text}").via("gpt-4o-mini", retries=0), TEXT


@case
def judge_with_explanation() -> Case:
    polite = judge(
        """
        Evaluate the following text on politeness.

            {source.text}

        Respond with a score between 1 and 5.
        """,
        STARS,
        explanation=True,
        name="politeness",
    )
    return pipeline("polite") >> polite.via("gpt-4o-mini", retries=2, temperature=0.4), TEXT


@case
def hierarchical_readme() -> Case:
    first = judge("Rate the text.\n{source.text}", STARS, explanation=True)
    check = judge(
        """
        Check if the given explanation correctly references the text.

        Text: {source.text}
        Score: {previous.score}
        Explanation: {previous.explanation}
        """,
        BooleanScale(),
    )
    return (
        pipeline()
        >> first.via("gpt-4o-mini", retries=2, temperature=0.4)
        >> check.via("gpt-4o-mini", retries=2, temperature=0.0)
    ), TEXT


@case
def jury_range() -> Case:
    models = ["gpt-4o-mini", "gpt-4o", "command-r", "command-r-plus", "claude-3-5-sonnet-20241022"]
    judges = [
        judge(f"Rate: {{source.text}} {name}", STARS).via(f"openai/{name}", retries=0)
        for name in models
    ]
    return pipeline("jury") >> Layer(judges) >> MeanPoolUnit("score"), TEXT


@case
def xstest() -> Case:
    safe = judge("Is it safe? {previous.thinking}", BooleanScale()).via("gpt-4o", retries=0)
    thoughts = think("Think about whether this is safe: {source.text}").via("gpt-4o", retries=0)
    return pipeline() >> thoughts >> Layer(safe, 2) >> MeanPoolUnit("score"), TEXT


@case
def expertqa() -> Case:
    support = categorical(
        "Does the document support it? {source.text}", ["yes", "no"], explanation=True
    )
    verify = categorical(
        "Check: {previous.choice} because {previous.explanation}", ["yes", "no"], name="verify"
    )
    verified = support.via("gpt-4o", retries=2, temperature=0.7) >> verify.via(
        "gpt-4o", retries=2, temperature=0.0
    )
    return pipeline() >> Layer(verified, 3) >> ModePoolUnit(), TEXT


@case
def hierarchical_propagate() -> Case:
    check = judge("Rate the logic: {previous.score} {previous.explanation}", STARS_OR_NONE)
    checked = judge("Rate empathy: {source.text}", STARS, explanation=True) >> check.propagate(
        lambda previous, output: Schema.of(
            original_judge_score=previous.score, judge_of_judge_score=output.score
        )
    )
    highest = MapUnit(lambda outputs: max(outputs, key=lambda output: output.judge_of_judge_score))
    return pipeline() >> dense(checked, 2) >> highest, TEXT


@case
def jury_of_juries() -> Case:
    empathy = judge("Rate empathy: {source.text}", STARS, explanation=True)
    jury = dense(empathy, 2) >> MapUnit(best)
    return pipeline() >> dense(jury, 3) >> ModePoolUnit("score"), TEXT


@case
def map_reduce() -> Case:
    lowest = MapUnit(lambda outputs: Schema.of(score=min(output.score for output in outputs)))
    return pipeline() >> dense(judge("Rate: {source.text}"), 5) >> lowest, TEXT


@case
def map_single() -> Case:
    scaled = MapUnit(lambda outputs: Schema.of(score=(outputs[0].score / 5) * 7))
    return pipeline() >> judge("Rate: {source.text}") >> scaled, TEXT


@case
def map_index() -> Case:
    up = judge("Rate up (1, 2, 3, 4, 5): {source.text}", STARS)
    down = judge(
        "Rate down (5, 4, 3, 2, 1): {source.text}", DiscreteScale((1, 5), end_is_worst=True)
    )
    mean = MapUnit(lambda outputs: Schema.of(score=(outputs[0].score + (6 - outputs[1].score)) / 2))
    return pipeline() >> dense([up, down]) >> mean, TEXT


@case
def map_plain_value() -> Case:
    values = MapUnit(lambda outputs: {"values": sum(output.score for output in outputs)})
    return pipeline() >> dense(judge("Rate: {source.text}"), 3) >> values, TEXT


@case
def map_of_the_row() -> Case:
    lettered = MapUnit(
        lambda source: Schema.of(
            prompt_str="\n".join(
                f"{letter}: {option}" for letter, option in zip("AB", source.options, strict=True)
            )
        )
    )
    choice = BestOfKJudgeUnit(
        2, options=["source.options[0]", "source.options[1]"], scale_instructions=False
    ).prompt("""
        Choose the best of the following options. Respond with only 'A' or 'B'.
        {previous.map.prompt_str}
    """)
    return pipeline() >> lettered >> choice, {"options": ["north", "south"]}


@case
def field_map() -> Case:
    summed = MapUnit(lambda outputs: Schema.of(score=sum(output.score for output in outputs)))
    return pipeline() >> dense(judge("Rate: {source.text}"), 3) >> summed, TEXT


@case
def regex_first_int() -> Case:
    first = RegexExtractor(fields={"score": RegexExtractor.FIRST_INT})
    return pipeline() >> judge("Rate in words: {source.text}", STARS).extract(first), TEXT


@case
def regex_own_pattern() -> Case:
    year = RegexExtractor(fields={"thinking": r"\d{4}"})
    return pipeline() >> CoTUnit().prompt("Name the year: {source.text}").extract(year), TEXT


@case
def raw() -> Case:
    thoughts = CoTUnit().prompt("Think freely: {source.text}").extract(RawExtractor())
    return pipeline() >> thoughts, TEXT


TOKENS = "\n--------------------------------\n\nRespond with a single output value from {values}."


@case
def argmax() -> Case:
    better = pairwise(
        """
        Which answer is right?
        {source.question}
        A: {source.x}
        B: {source.y}
        Respond with only "A" or "B".
        """
        + TOKENS.format(values='"A", "B"'),
        options=["source.x", "source.y"],
    )
    unit = better.extract(ArgmaxScoreExtractor()).via("gpt-4o-mini", retries=2, temperature=0.0)
    return pipeline("pairwise") >> unit, PAIR


@case
def token_probability() -> Case:
    prompt = "Which is right? {source.question}" + TOKENS.format(values='"A", "B"')
    unit = categorical(prompt, ["A", "B"]).extract(TokenProbabilityExtractor())
    return pipeline() >> unit.via("gpt-4o-mini", retries=2, temperature=0.0), PAIR


def weighted(prompt: str, scale: Any, values: str) -> JudgeUnit:
    unit = judge(prompt + TOKENS.format(values=values), scale)
    return unit.extract(WeightedSummedScoreExtractor()).via(
        "gpt-4o-mini", retries=2, temperature=0.0
    )


@case
def weighted_1_to_5() -> Case:
    return pipeline() >> weighted("Weigh: {source.text}", STARS, '"1", "2", "3", "4", "5"'), TEXT


@case
def weighted_boolean() -> Case:
    prompt = "Weigh yes and no: {source.text}"
    return pipeline() >> weighted(prompt, BooleanScale(), '"yes", "no"'), TEXT


@case
def weighted_1_to_10() -> Case:
    values = ", ".join(f'"{value}"' for value in range(1, 11))
    prompt = "Weigh to ten: {source.text}"
    return pipeline() >> weighted(prompt, DiscreteScale((1, 10)), values), TEXT


@case
def post_hoc() -> Case:
    reader = PostHocExtractor({"name": "gpt-4o", "retries": 0})
    return pipeline() >> judge("Rate in words: {source.text}", STARS).extract(reader), TEXT


@case
def judgebench_arguments() -> Case:
    prompt = "Argue why {option} is better.\n<prompt>\n{{source.question}}\n</prompt>"
    sides = [think(prompt.format(option=option)) for option in ("Response A", "Response B")]
    arguments = MapUnit(
        lambda outputs: Schema.of(
            arguments=f"\n### A:\n{outputs[0].thinking}\n### B:\n{outputs[1].thinking}\n"
        )
    )
    winner = categorical("Who wins?\n{previous.map.arguments}\n{source.question}", ["A>B", "B>A"])
    return pipeline("debate") >> dense(sides) >> arguments >> winner, PAIR


@case
def custom_unit() -> Case:
    class PreferenceUnit(Unit):
        _char = "Preference"

        class InputSchema(Schema):
            x: str
            y: str

        class ResponseSchema(Schema):
            winner: DiscreteScale = DiscreteScale(["A", "B"])

        class OutputSchema(Schema):
            winner: str

        def validate(self, response: Any, input: Any) -> None:  # noqa: A002
            assert input.x

        def process(self, response: Any, input: Any) -> Any:  # noqa: A002
            return self.OutputSchema(winner=input.x if response.winner == "A" else input.y)

    return pipeline() >> PreferenceUnit().prompt("Choose.\nA:\n{input.x}\nB:\n{input.y}"), PAIR


@case
def custom_response_types() -> Case:
    class FactsUnit(Unit):
        class ResponseSchema(Schema):
            facts: list[str]
            confidence: float

    facts = FactsUnit().prompt("List facts: {source.text}")
    return pipeline() >> facts >> think("How sure? {previous.confidence}"), TEXT


@case
def validate_retries() -> Case:
    strict = judge("Rate strictly: {source.text}", validate=["response.score >= 4"])
    return pipeline() >> strict.via("gpt-4o-mini", retries=4), TEXT


@case
def broadcast() -> Case:
    check = judge("Check the one score: {previous.score}")
    judges = Layer(numbered("Rate", 3), outer="broadcast")
    return pipeline() >> judges >> dense(check, 3) >> MeanPoolUnit(), TEXT


@case
def dense_layers() -> Case:
    return (
        pipeline() >> dense(numbered("Rate", 3)) >> dense(MapUnit(total), 3) >> MeanPoolUnit()
    ), TEXT


@case
def default_layers() -> Case:
    return dense_layers()


@case
def cumulative() -> Case:
    judges = Layer(numbered("Rate", 3), outer="cumulative")
    maps = [
        MapUnit(lambda outputs: Schema.of(score=len(outputs))),
        MapUnit(lambda outputs: Schema.of(score=sum(output.score for output in outputs))),
        MapUnit(lambda outputs: Schema.of(score=max(output.score for output in outputs))),
    ]
    return pipeline() >> judges >> dense(maps), TEXT


@case
def broadcast_of_other_length() -> Case:
    summed = MapUnit(lambda outputs: Schema.of(score=sum(output.score for output in outputs)))
    return pipeline() >> dense(numbered("Rate", 3)) >> dense(summed, 2), TEXT


@case
def system_prompt() -> Case:
    return pipeline() >> judge("""
        @system
        You are a strict judge.

        @user
        Rate: {source.text}
    """), TEXT


@case
def g_eval_ready() -> Case:
    reason, score = shipped_prompts("figure5_geval_as_run.yaml")
    curly = reason.replace('"', "\N{RIGHT DOUBLE QUOTATION MARK}")
    steps = think(curly).via("gpt-4o", retries=2, temperature=0.5)
    scored = judge(score, STARS).via("gpt-4o-mini", retries=2, temperature=0.0)
    return pipeline() >> steps >> scored, {"source": "A long text.", "summary": "A text."}


@case
def g_eval_repeated() -> Case:
    steps = think("Write steps to rate coherence (1, 2, 3, 4, 5).")
    scored = judge("Follow {previous.thinking} for {source.text}", STARS)
    once = steps.via("gpt-4o", retries=0, temperature=0.6) >> scored.via(
        "gpt-4o-mini", retries=0, temperature=0.0
    )
    return pipeline("g_eval") >> dense(once, 5) >> MeanVariancePoolUnit("score"), TEXT


@case
def ensemble_verify_ready() -> Case:
    support, check = shipped_prompts("table3_expertqa_as_run.yaml")
    first = categorical(support, ["yes", "no"], explanation=True, name="judge")
    second = categorical(check, ["yes", "no"], name="verify")
    verified = first.via("gpt-4o", retries=2, temperature=0.7) >> second.via(
        "gpt-4o", retries=2, temperature=0.0
    )
    row = {"document": "The bridge opened in 1932.", "claim": "It is old."}
    return pipeline() >> dense(verified, 3) >> ModePoolUnit(), row


@case
def model_ensemble_ready() -> Case:
    judges = [
        judge("Rate this joke: {source.text}", ContinuousScale(1, 5)).via(name, retries=0)
        for name in ("gpt-4o-mini", "gpt-4o")
    ]
    return pipeline() >> dense(judges) >> MeanPoolUnit(), TEXT


@case
def max_of_distinct() -> Case:
    return pipeline() >> dense(numbered("Score", 5)) >> ModePoolUnit("score"), TEXT


@case
def max_of_explained() -> Case:
    return pipeline() >> dense(numbered("Explain", 3, explanation=True)) >> ModePoolUnit(), TEXT


@case
def pairwise_with_explanation() -> Case:
    prompt = "Which?\nA: {source.x}\nB: {source.y}"
    return pipeline() >> pairwise(prompt, options=["source.x", "source.y"], explanation=True), PAIR


def first_options(count: int) -> list[str]:
    return [f"source.options[{i}]" for i in range(count)]


@case
def pairwise_original() -> Case:
    better = pairwise(
        """
        Choose the better answer.
        A: {input.options[0]}
        B: {input.options[1]}
        """,
        options=first_options(2),
        explanation=True,
        original=True,
    )
    return pipeline() >> better, {"options": ["It is 42.", "It is 36."]}


COLOURS = {"options": ["red", "green", "blue"]}


@case
def best_of_k_original() -> Case:
    return pipeline() >> BestOfKJudgeUnit(
        3, options=first_options(3), original=True, scale_instructions=False
    ).prompt("""
        A: {input.options[0]}
        B: {input.options[1]}
        C: {input.options[2]}
    """), COLOURS


@case
def categorical_with_explanation() -> Case:
    safety = categorical("Which? {source.text}", ["safe", "unsafe", "unsure"], explanation=True)
    return pipeline() >> safety, TEXT


@case
def categorical_off_scale() -> Case:
    safety = categorical("Safe or not? {source.text}", ["safe", "unsafe"], explanation=True)
    return pipeline() >> safety.via("gpt-4o-mini", retries=2), TEXT


@case
def ranker() -> Case:
    rank = RankerUnit(3, options=["'red'", "'green'", "'blue'"], scale_instructions=False)
    return pipeline() >> rank.prompt("Rank: {source.text}"), TEXT


@case
def ranker_original() -> Case:
    return pipeline() >> RankerUnit(
        3, options=first_options(3), explanation=True, original=True, scale_instructions=False
    ).prompt("""
        Rank A: {input.options[0]} B: {input.options[1]} C: {input.options[2]}
    """), COLOURS


def debaters(number: Callable[[int], str], rounds: int, prompts: Mapping[str, str]) -> list[Any]:
    """The turns of a debate; in a layer the library numbers the roles."""
    roles = [role for _ in range(rounds) for role in prompts]
    return [
        speak(f"{role}{number(place)}", prompts[role]) for place, role in enumerate(roles, start=1)
    ]


SIDES = {
    "Proponent": "Argue for. You are {unit.role_name}.\n{input.conversation}",
    "Opponent": "Argue against. You are {unit.role_name}.\n{input.conversation}",
}


@case
def debate() -> Case:
    turns = Layer(debaters(lambda place: f" #{place}", 2, SIDES), inner="chain", outer="last")
    who = judge("Who won?\n{previous.conversation}", BooleanScale())
    return pipeline("debate") >> turns >> who, TEXT


def transcript(outputs: Any) -> Schema:
    """The conversation as a prompt shows it."""
    turns = outputs[0].conversation
    return Schema.of(
        arguments="\n\n".join(f"<{turn.role}>\n{turn.content}\n</{turn.role}>" for turn in turns)
    )


@case
def debate_unnumbered() -> Case:
    prompts = {"Proponent": "Argue as {unit.role_name}.\n{input.conversation}"}
    turns = Layer(debaters(lambda _: "", 2, prompts), inner="chain", outer="last")
    who = judge("Who won?\n{previous.map.arguments}", BooleanScale())
    return pipeline("debate") >> turns >> MapUnit(transcript) >> who, TEXT


@case
def round_robin() -> Case:
    class JudgeRoundRobinUnit(JudgeUnit):
        class InputSchema(Schema):
            explanation: str = "nothing yet"

    turn = JudgeRoundRobinUnit(explanation=True, scale_instructions=False)
    return pipeline() >> Layer(
        turn.prompt("Before: {input.explanation}\nText: {source.text}"),
        3,
        inner="chain",
        outer="last",
    ), TEXT


@case
def with_leaf() -> Case:
    prompts = {
        "Proponent": "For. {unit.role_name}\n{input.conversation}",
        "Opponent": "Against. {unit.role_name}\n{input.conversation}",
    }
    turns = Layer(
        debaters(lambda place: f" #{place}", 3, prompts),
        inner="chain",
        outer="broadcast",
        leaves=[1, 3, 5],
    )
    rated = judge("Rate the debate: {previous.conversation}")
    return pipeline() >> turns >> dense(rated, 3), TEXT


@case
def continuous() -> Case:
    prompt = "Rate from 0 to 10 (0 - 10): {source.text}"
    return pipeline() >> judge(prompt, ContinuousScale(0, 10)), TEXT


@case
def input_of_the_row() -> Case:
    return pipeline() >> judge("Rate: {source.text}"), TEXT


@case
def variables_in_the_prompt() -> Case:
    name, about = "Coherence", "it hangs together"
    return pipeline() >> judge(f"{name}: {about}\n{{source.text}}"), TEXT


@case
def models_of_a_layer() -> Case:
    judges = Layer(
        [judge("One: {source.text}"), judge("Two: {source.text}").via("gpt-4o", retries=0)]
    )
    return (
        pipeline() >> judges.via("gpt-4o-mini", retries=0, temperature=0.2) >> MeanPoolUnit()
    ), TEXT


@case
def list_of_rows() -> Case:
    return pipeline() >> judge("Rate: {source.text}"), [{"text": "One."}, {"text": "Two."}]


@case
def inferred_and_inlined() -> Case:
    grade = Unit(response={"grade": DiscreteScale(["low", "high"])}, scale_instructions=False)
    talk = Unit(response={"answer": str})
    return (
        pipeline()
        >> grade.prompt("Grade: {source.text}")
        >> talk.prompt("Say why: {previous.grade}")
    ), TEXT


@case
def jury_of_figure_4() -> Case:
    judges = numbered("Rate", 2, scale=DiscreteScale([1, 5]))
    return pipeline("jury") >> dense(judges) >> MeanPoolUnit("score"), TEXT


@case
def mean_of_explained() -> Case:
    return pipeline() >> dense(numbered("Explain", 3, explanation=True)) >> MeanPoolUnit(), TEXT


@case
def propagate_output_alone() -> Case:
    rated = judge("Rate: {source.text}")
    return pipeline() >> rated.propagate(lambda output: Schema.of(score=output.score / 5)), TEXT


@case
def pinned() -> Case:
    steps = think("Write steps.").pin()
    return pipeline() >> steps >> judge("Follow {previous.thinking}: {source.text}"), [TEXT, TEXT]


@case
def image() -> Case:
    row = {"drawing": "data:image/png;base64,iVBORw0KGgo="}
    rated = judge("Rate the drawing. {source.drawing}").via("gpt-4o", retries=0)
    return pipeline(dataset={"schema": {"drawing": "image"}}) >> rated, row


@case
def failing_server() -> Case:
    return pipeline() >> judge("Rate: {source.text}").via("gpt-4o-mini", retries=2), TEXT


@case
def policy_of_two_models() -> Case:
    models = [
        {"name": "gpt-4o", "retries": 0, "temperature": 0.3},
        {"name": "gpt-4o-mini", "retries": 1},
    ]
    return pipeline() >> judge("Rate: {source.text}").via(models), TEXT


@case
def dataset_of_pandas() -> Case:
    rows = [{"passage": "Two."}, {"passage": "Three."}]
    return pipeline() >> judge("Rate: {source.passage}"), rows


@case
def with_root() -> Case:
    thoughts = [think("Linked: {previous.score}"), think("Free: {source.text}")]
    count = MapUnit(lambda outputs: Schema.of(count=len(outputs)))
    return (
        pipeline() >> judge("First: {source.text}") >> dense(thoughts, roots=[0]) >> count
    ), TEXT


@case
def last_without_chain() -> Case:
    thoughts = [think(f"Think {i}: {{source.text}}") for i in range(3)]
    rated = judge("Rate the last thought: {previous.thinking}")
    return pipeline() >> Layer(thoughts, outer="last") >> rated, TEXT


@case
def chain_of_blocks() -> Case:
    step = Block([think("Think: {source.text}"), judge("Rate: {previous.thinking}")])
    score = MapUnit(lambda outputs: Schema.of(score=outputs[0].score))
    return pipeline() >> Layer(step, 2, inner="chain", outer="last") >> score, TEXT


@case
def layer_in_a_block_in_a_layer() -> Case:
    jury = dense(numbered("Rate", 2)) >> MeanPoolUnit("score")
    alone = judge("Alone: {source.text}")
    return pipeline("outer") >> dense([jury, alone]) >> MeanPoolUnit("score"), TEXT


@case
def no_format() -> Case:
    return pipeline() >> judge("""
        @user
        Rate:
            {source.text}
    """), TEXT


@case
def propagate_of_a_layer() -> Case:
    summary = MapUnit(
        lambda outputs: Schema.of(
            best=max(output.score for output in outputs), all=[output.score for output in outputs]
        )
    )
    return pipeline() >> dense(numbered("Rate", 2)) >> summary, TEXT


@case
def process_with_other_names() -> Case:
    class EchoUnit(Unit):
        class ResponseSchema(Schema):
            answer: str

        class OutputSchema(Schema):
            answer: str

        def process(self, response: Any, input: Any) -> Any:  # noqa: A002
            return self.OutputSchema(answer=response.answer.upper())

    return pipeline() >> EchoUnit().prompt("Say: {source.text}"), TEXT


@case
def subclass_with_settings() -> Case:
    class CriterionJudgeUnit(JudgeUnit):
        criterion: str

    rated = CriterionJudgeUnit(DiscreteScale((1, 3)), criterion="clarity", scale_instructions=False)
    return pipeline() >> rated.prompt("Rate {unit.criterion} on 1, 2, 3: {source.text}"), TEXT


@case
def previous_by_the_class_name() -> Case:
    return (
        pipeline() >> think("Think: {source.text}") >> judge("Rate: {previous.cot.thinking}")
    ), TEXT
