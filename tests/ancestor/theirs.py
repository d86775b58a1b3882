# ruff: noqa: F403, F405
"""Pipelines as haizelabs' `verdict` 0.2.7 has them: `library` is a module with its names. ours.py has the same in `verdict_cli`.

Each function gives a pipeline and a row. Prompts differ where a unit must be recognised, so that both libraries' calls can
be compared one by one. A list of rows goes through `run_from_list`. Several pipelines follow examples of the library's documentation
(MIT licence), so that its idioms are tried as its users write them.
"""

from typing import List  # noqa: UP035 - as the library's own documentation writes it

import pandas
from library import *

TEXT = Schema.of(text="The bridge opened in 1932.", topic="history")
PAIR = Schema.of(question="What is 6 x 7?", x="It is 42.", y="It is 36.")


def single_judge():
    return Pipeline() >> JudgeUnit().prompt("Rate this: {source.text}").via("gpt-4o-mini"), TEXT


def judge_with_explanation():
    judge = JudgeUnit(DiscreteScale((1, 5)), explanation=True, name="Politeness")
    return Pipeline("Polite") >> judge.prompt("""
        Evaluate the following text on politeness.

            {source.text}

        Respond with a score between 1 and 5.
    """).via("gpt-4o-mini", retries=3, temperature=0.4), TEXT


def hierarchical_readme():
    return Pipeline() \
        >> JudgeUnit(DiscreteScale((1, 5)), explanation=True).prompt("""
            Rate the text.
            {source.text}
        """).via("gpt-4o-mini", retries=3, temperature=0.4) \
        >> JudgeUnit(BooleanScale()).prompt("""
            Check if the given explanation correctly references the text.

            Text: {source.text}
            Score: {previous.score}
            Explanation: {previous.explanation}
        """).via("gpt-4o-mini", retries=3, temperature=0.0), TEXT


def jury_range():
    models = ["gpt-4o-mini", "gpt-4o", "command-r", "command-r-plus", "claude-3-5-sonnet-20241022"]
    return Pipeline("Jury") \
        >> Layer([JudgeUnit(DiscreteScale((1, 5))).prompt("Rate: {source.text} " + name).via("openai/" + name) for name in models]) \
        >> MeanPoolUnit("score"), TEXT


def xstest():
    return Pipeline() \
        >> CoTUnit().prompt("Think about whether this is safe: {source.text}").via("gpt-4o") \
        >> Layer(JudgeUnit(BooleanScale()).prompt("Is it safe? {previous.thinking}").via("gpt-4o"), repeat=2) \
        >> MeanPoolUnit("score"), TEXT


def expertqa():
    return Pipeline() \
        >> Layer(
            CategoricalJudgeUnit(name='Judge', categories=DiscreteScale(['yes', 'no']), explanation=True)
                .prompt("Does the document support it? {source.text}").via('gpt-4o', retries=3, temperature=0.7) \
            >> CategoricalJudgeUnit(name='Verify', categories=DiscreteScale(['yes', 'no']))
                .prompt("Check: {previous.choice} because {previous.explanation}").via('gpt-4o', retries=3, temperature=0.0)
        , repeat=3) \
        >> MaxPoolUnit(), TEXT


def hierarchical_propagate():
    judge = JudgeUnit(DiscreteScale((1, 5)), explanation=True).prompt("Rate empathy: {source.text}")
    judge_of_judge = JudgeUnit(DiscreteScale((0, 5))).prompt("Rate the logic: {previous.score} {previous.explanation}")
    jury = Layer(
        judge >> judge_of_judge.propagate(lambda unit, previous, input, output: Schema.of(
            original_judge_score=previous.score,
            judge_of_judge_score=output.score
        )) \
    , 2) \
        >> MapUnit(lambda outputs: max(outputs, key=lambda output: output.judge_of_judge_score))
    return Pipeline() >> jury, TEXT


def jury_of_juries():
    judge = JudgeUnit(DiscreteScale((1, 5)), explanation=True).prompt("Rate empathy: {source.text}")
    jury = Layer(judge, 2) >> MapUnit(lambda outputs: max(outputs, key=lambda output: output.score))
    return Pipeline() >> (Layer(jury, 3) >> MaxPoolUnit("score")), TEXT


def map_reduce():
    return Pipeline() >> Layer(JudgeUnit().prompt("Rate: {source.text}"), 5) \
        >> MapUnit(lambda judges: Schema.of(score=min(judge.score for judge in judges))), TEXT


def map_single():
    return Pipeline() >> JudgeUnit().prompt("Rate: {source.text}") \
        >> MapUnit(lambda judge: Schema.of(score=(judge.score / 5) * 7)), TEXT


def map_index():
    return Pipeline() >> Layer([
        JudgeUnit(DiscreteScale((1, 5), end_is_worst=False)).prompt("Rate up ({unit.scale}): {source.text}"),
        JudgeUnit(DiscreteScale((1, 5), end_is_worst=True)).prompt("Rate down ({unit.scale}): {source.text}")]) \
        >> MapUnit(lambda judges: Schema.of(score=(judges[0].score + (6 - judges[1].score)) / 2)), TEXT


def map_plain_value():
    return Pipeline() >> Layer(JudgeUnit().prompt("Rate: {source.text}"), 3) \
        >> MapUnit(lambda judges: sum(judge.score for judge in judges)), TEXT


def map_of_the_row():
    letters = "AB"
    return Pipeline() >> MapUnit(lambda input: Schema.of(
        prompt_str='\n'.join(f"{letter}: {option}" for letter, option in zip(letters, input.options)))) \
        >> BestOfKJudgeUnit(k=2).prompt("""
            Choose the best of the following options. Respond with only 'A' or 'B'.
            {previous.map.prompt_str}
        """), Schema.of(options=["north", "south"])


def field_map():
    return Pipeline() >> Layer(JudgeUnit().prompt("Rate: {source.text}"), 3) >> FieldMapUnit(sum, "score"), TEXT


def regex_first_int():
    return Pipeline() >> JudgeUnit(DiscreteScale((1, 5))).prompt("Rate in words: {source.text}") \
        .extract(RegexExtractor(fields={"score": RegexExtractor.FIRST_INT})), TEXT


def regex_own_pattern():
    return Pipeline() >> CoTUnit().prompt("Name the year: {source.text}") \
        .extract(RegexExtractor({"thinking": r"\d{4}"})), TEXT


def raw():
    return Pipeline() >> CoTUnit().prompt("Think freely: {source.text}").extract(RawExtractor()), TEXT


def argmax():
    return Pipeline("Pairwise") >> PairwiseJudgeUnit().prompt("""
        Which answer is right?
        {source.question}
        A: {source.x}
        B: {source.y}
        Respond with only "A" or "B".
    """).extract(ArgmaxScoreExtractor()).via("gpt-4o-mini", retries=3, temperature=0.0), PAIR


def token_probability():
    return Pipeline() >> CategoricalJudgeUnit(categories=DiscreteScale(["A", "B"])) \
        .prompt("Which is right? {source.question}").extract(TokenProbabilityExtractor()), PAIR


def weighted_1_to_5():
    return Pipeline() >> JudgeUnit(DiscreteScale((1, 5))).prompt("Weigh: {source.text}") \
        .extract(WeightedSummedScoreExtractor()), TEXT


def weighted_boolean():
    return Pipeline() >> JudgeUnit(BooleanScale()).prompt("Weigh yes and no: {source.text}") \
        .extract(WeightedSummedScoreExtractor()), TEXT


def weighted_1_to_10():
    return Pipeline() >> JudgeUnit(DiscreteScale((1, 10))).prompt("Weigh to ten: {source.text}") \
        .extract(WeightedSummedScoreExtractor()), TEXT


def post_hoc():
    return Pipeline() >> JudgeUnit(DiscreteScale((1, 5))).prompt("Rate in words: {source.text}") \
        .extract(PostHocExtractor("gpt-4o")), TEXT


def judgebench_arguments():
    dataset_inputs = "<prompt>\n{{source.question}}\n</prompt>"
    debate_prompt = f"Argue why {{option}} is better.\n{dataset_inputs}"
    return Pipeline("Debate") \
        >> Layer([
            CoTUnit().prompt(debate_prompt.format(option="Response A")),
            CoTUnit().prompt(debate_prompt.format(option="Response B"))]) \
        >> MapUnit(lambda prev_units_output: Schema.of(arguments=f"""
### A:
{prev_units_output[0].thinking}
### B:
{prev_units_output[1].thinking}
""")) \
        >> PairwiseJudgeUnit(DiscreteScale(["A>B", "B>A"])).prompt("Who wins?\n{previous.map.arguments}\n{source.question}"), PAIR


def custom_unit():
    class PreferenceUnit(Unit):
        _char: str = "Preference"

        class InputSchema(Schema):
            x: str
            y: str

        class ResponseSchema(Schema):
            winner: DiscreteScale = DiscreteScale(['A', 'B'])

        class OutputSchema(Schema):
            winner: str

        def validate(self, input, response):
            assert input.x

        def process(self, input, response):
            return self.OutputSchema(winner=input.x if response.winner == 'A' else input.y)

    return Pipeline() >> PreferenceUnit().prompt("Choose.\nA:\n{input.x}\nB:\n{input.y}"), PAIR


def custom_response_types():
    class FactsUnit(Unit):
        class ResponseSchema(Schema):
            facts: List[str]
            confidence: float

    return Pipeline() >> FactsUnit().prompt("List facts: {source.text}") \
        >> CoTUnit().prompt("How sure? {previous.confidence}"), TEXT


def validate_retries():
    class StrictJudgeUnit(JudgeUnit):
        def validate(self, input, response):
            assert response.score >= 4

    return Pipeline() >> StrictJudgeUnit().prompt("Rate strictly: {source.text}").via("gpt-4o-mini", retries=5), TEXT


def broadcast():
    return Pipeline() \
        >> Layer([JudgeUnit().prompt(f"Rate {i}: {{source.text}}") for i in range(3)], outer="broadcast") \
        >> Layer(JudgeUnit().prompt("Check the one score: {previous.score}"), 3) >> MeanPoolUnit(), TEXT


def dense_layers():
    return Pipeline() \
        >> Layer([JudgeUnit().prompt(f"Rate {i}: {{source.text}}") for i in range(3)], outer="dense") \
        >> Layer(MapUnit(lambda judges: Schema.of(total=sum(judge.score for judge in judges))), 3) >> MeanPoolUnit(), TEXT


def default_layers():
    return Pipeline() \
        >> Layer([JudgeUnit().prompt(f"Rate {i}: {{source.text}}") for i in range(3)]) \
        >> Layer(MapUnit(lambda judges: Schema.of(total=sum(judge.score for judge in judges))), 3) >> MeanPoolUnit(), TEXT


def cumulative():
    return Pipeline() \
        >> Layer([JudgeUnit().prompt(f"Rate {i}: {{source.text}}") for i in range(3)], outer="cumulative") \
        >> Layer([FieldMapUnit(len, "score"), FieldMapUnit(sum, "score"), FieldMapUnit(max, "score")]), TEXT


def broadcast_of_other_length():
    return Pipeline() \
        >> Layer([JudgeUnit().prompt(f"Rate {i}: {{source.text}}") for i in range(3)], outer="broadcast") \
        >> Layer(FieldMapUnit(sum, "score"), 2), TEXT


def system_prompt():
    return Pipeline() >> JudgeUnit().prompt("""
        @system
        You are a strict judge.

        @user
        Rate: {source.text}
    """), TEXT


def g_eval_ready():
    judge = GEvalJudge()
    return judge.pipeline, Schema.of(document="A long text.", summary="A text.")


def g_eval_repeated():
    scale = DiscreteScale((1, 5))
    return Pipeline("GEval") \
        >> Layer(
            CoTUnit().prompt(f"Write steps to rate coherence ({scale}).").via("gpt-4o", temperature=0.6) \
            >> JudgeUnit(scale).prompt("Follow {previous.thinking} for {source.text}").via("gpt-4o-mini", temperature=0.0)
        , repeat=5) \
        >> MeanVariancePoolUnit("score"), TEXT


def ensemble_verify_ready():
    judge = EnsembleVerifyJudge()
    return judge.pipeline, Schema.of(doc="The bridge opened in 1932.", claim="It is old.")


def model_ensemble_ready():
    judge = ModelEnsembleJudge(judge_prompt="Rate this joke: {source.text}", models=["gpt-4o-mini", "gpt-4o"])
    return judge.pipeline, TEXT


def max_of_distinct():
    return Pipeline() >> Layer([JudgeUnit().prompt(f"Score {i}: {{source.text}}") for i in range(5)]) >> MaxPoolUnit("score"), TEXT


def max_of_explained():
    return Pipeline() >> Layer([JudgeUnit(explanation=True).prompt(f"Explain {i}: {{source.text}}") for i in range(3)]) \
        >> MaxPoolUnit(), TEXT


def pairwise_with_explanation():
    return Pipeline() >> PairwiseJudgeUnit(explanation=True).prompt("Which?\nA: {source.x}\nB: {source.y}"), PAIR


def pairwise_original():
    return Pipeline() >> PairwiseJudgeUnit(explanation=True, original=True).prompt("""
        Choose the better answer.
        A: {input.options[0]}
        B: {input.options[1]}
    """), Schema.of(options=["It is 42.", "It is 36."])


def best_of_k_original():
    return Pipeline() >> BestOfKJudgeUnit(k=3, original=True).prompt("""
        A: {input.options[0]}
        B: {input.options[1]}
        C: {input.options[2]}
    """), Schema.of(options=["red", "green", "blue"])


def categorical_with_explanation():
    return Pipeline() >> CategoricalJudgeUnit(categories=DiscreteScale(["safe", "unsafe", "unsure"]), explanation=True) \
        .prompt("Which? {source.text}"), TEXT


def categorical_off_scale():
    return Pipeline() >> CategoricalJudgeUnit(categories=DiscreteScale(["safe", "unsafe"]), explanation=True) \
        .prompt("Safe or not? {source.text}").via("gpt-4o-mini", retries=3), TEXT


def ranker():
    return Pipeline() >> RankerUnit(k=3).prompt("Rank: {source.text}"), TEXT


def ranker_original():
    return Pipeline() >> RankerUnit(k=3, explanation=True, original=True).prompt("""
        Rank A: {input.options[0]} B: {input.options[1]} C: {input.options[2]}
    """), Schema.of(options=["red", "green", "blue"])


def debate():
    return Pipeline("Debate") \
        >> Layer([
            ConversationalUnit("Proponent").prompt("Argue for. You are {unit.role_name}.\n{input.conversation}"),
            ConversationalUnit("Opponent").prompt("Argue against. You are {unit.role_name}.\n{input.conversation}")
        ], repeat=2, inner="chain", outer="last") \
        >> JudgeUnit(BooleanScale()).prompt("Who won?\n{previous.conversation}"), TEXT


def debate_unnumbered():
    return Pipeline("Debate") \
        >> Layer([ConversationalUnit("Proponent", number=False).prompt("Argue as {unit.role_name}.\n{input.conversation}")], repeat=2,
                 inner="chain", outer="last") \
        >> MapUnit(lambda output: Schema.of(arguments=str(output.conversation))) \
        >> JudgeUnit(BooleanScale()).prompt("Who won?\n{previous.map.arguments}"), TEXT


def round_robin():
    class JudgeRoundRobinUnit(JudgeUnit):
        class InputSchema(Schema):
            explanation: str = "nothing yet"

    return Pipeline() >> Layer(
        JudgeRoundRobinUnit(explanation=True).prompt("Before: {input.explanation}\nText: {source.text}")
    , 3, inner="chain", outer="last"), TEXT


def with_leaf():
    return Pipeline() >> Layer([
        ConversationalUnit(role_name='Proponent').prompt("For. {unit.role_name}\n{input.conversation}"),
        ConversationalUnit(role_name='Opponent').prompt("Against. {unit.role_name}\n{input.conversation}")
    ], 3, inner='chain', outer='broadcast').with_leaf([1, 3, 5]) \
        >> Layer(JudgeUnit().prompt("Rate the debate: {previous.conversation}"), 3), TEXT


def continuous():
    return Pipeline() >> JudgeUnit(ContinuousScale(0, 10)).prompt("Rate from 0 to 10 ({unit.scale}): {source.text}"), TEXT


def input_of_the_row():
    return Pipeline() >> JudgeUnit().prompt("Rate: {input.text}"), TEXT


def variables_in_the_prompt():
    criteria = Schema.of(name="Coherence", about="it hangs together")
    judge = JudgeUnit().prompt("{criteria.name}: {criteria.about}\n{source.text}")
    return Pipeline() >> judge, TEXT


def models_of_a_layer():
    judges = Layer([JudgeUnit().prompt("One: {source.text}"), JudgeUnit().prompt("Two: {source.text}").via("gpt-4o")])
    return Pipeline() >> judges.via("gpt-4o-mini", temperature=0.2) >> MeanPoolUnit(), TEXT


def list_of_rows():
    return Pipeline() >> JudgeUnit().prompt("Rate: {source.text}"), [Schema.of(text="One."), Schema.of(text="Two.")]


def inferred_and_inlined():
    class GradeUnit(Unit):
        ResponseSchema = Schema.infer(grade=DiscreteScale(["low", "high"]))

    class TalkUnit(Unit):
        ResponseSchema = Schema.inline(answer=str)

    return Pipeline() >> GradeUnit().prompt("Grade: {source.text}") >> TalkUnit().prompt("Say why: {previous.grade}"), TEXT


def jury_of_figure_4():
    return Pipeline("Jury") \
        >> Layer([JudgeUnit(DiscreteScale([1, 5])).prompt(f"Rate {i}: {{source.text}}") for i in range(2)]) \
        >> MeanPoolUnit("score"), TEXT


def mean_of_explained():
    return Pipeline() >> Layer([JudgeUnit(explanation=True).prompt(f"Explain {i}: {{source.text}}") for i in range(3)]) \
        >> MeanPoolUnit(), TEXT


def propagate_output_alone():
    return Pipeline() >> JudgeUnit().prompt("""
        Rate: {source.text}
    """).propagate(lambda output: Schema.of(score=output.score / 5)), TEXT


def pinned():
    steps = CoTUnit().prompt("Write steps.").pin()
    return Pipeline() >> steps >> JudgeUnit().prompt("Follow {previous.thinking}: {source.text}"), [TEXT, TEXT]


def image():
    picture = Image(mime="image/png", blob="iVBORw0KGgo=")
    return Pipeline() >> JudgeUnit().prompt("Rate the drawing. {source.drawing}").via("gpt-4o"), Schema.of(drawing=picture)


def failing_server():
    return Pipeline() >> JudgeUnit().prompt("Rate: {source.text}").via("gpt-4o-mini", retries=3), TEXT


def policy_of_two_models():
    policy = ModelSelectionPolicy.from_names([("gpt-4o", 1, {"temperature": 0.3}), ("gpt-4o-mini", 2, {})])
    return Pipeline() >> JudgeUnit().prompt("Rate: {source.text}").via(policy), TEXT


def dataset_of_pandas():
    table = pandas.DataFrame({"part": ["a", "b", "b"], "text": ["One.", "Two.", "Three."], "label": [1, 2, 3]})
    parts = DatasetWrapper.from_pandas(table, lambda row: Schema.of(passage=row["text"]), split_column="part")
    return Pipeline() >> JudgeUnit().prompt("Rate: {source.passage}"), parts["b"]


def with_root():
    return Pipeline() >> JudgeUnit().prompt("First: {source.text}") \
        >> Layer([CoTUnit().prompt("Linked: {previous.score}"), CoTUnit().prompt("Free: {source.text}")]).with_root(0) \
        >> MapUnit(lambda thoughts: Schema.of(count=len(thoughts))), TEXT


def last_without_chain():
    return Pipeline() >> Layer([CoTUnit().prompt(f"Think {i}: {{source.text}}") for i in range(3)], outer="last") \
        >> JudgeUnit().prompt("Rate the last thought: {previous.thinking}"), TEXT


def chain_of_blocks():
    step = CoTUnit().prompt("Think: {source.text}") >> JudgeUnit().prompt("Rate: {previous.thinking}")
    return Pipeline() >> Layer(step, 2, inner="chain", outer="last") >> MapUnit(lambda judge: Schema.of(score=judge.score)), TEXT


def layer_in_a_block_in_a_layer():
    jury = Layer([JudgeUnit(name=f"J{i}").prompt(f"Rate {i}: {{source.text}}") for i in range(2)]) >> MeanPoolUnit("score")
    return Pipeline("Outer") >> Layer([jury, Block() >> JudgeUnit().prompt("Alone: {source.text}")]) >> MeanPoolUnit("score"), TEXT


def no_format():
    return Pipeline() >> JudgeUnit().prompt("""
        @no_format
        @user
        Rate:
            {source.text}
    """), TEXT


def propagate_of_a_layer():
    judges = Layer([JudgeUnit().prompt(f"Rate {i}: {{source.text}}") for i in range(2)])
    return Pipeline() >> judges.extract(StructuredOutputExtractor()) >> MapUnit(lambda outputs: Schema.of(
        best=max(output.score for output in outputs), all=[output.score for output in outputs])), TEXT


def process_with_other_names():
    class EchoUnit(Unit):
        class ResponseSchema(Schema):
            answer: str

        class OutputSchema(Schema):
            answer: str

        def process(self, given, said):
            return self.OutputSchema(answer=said.answer.upper())

    return Pipeline() >> EchoUnit().prompt("Say: {source.text}"), TEXT


def subclass_with_settings():
    class CriterionJudgeUnit(JudgeUnit):
        def __init__(self, criterion, **keys):
            super().__init__(scale=DiscreteScale((1, 3)), **keys)
            self.criterion = criterion

    return Pipeline() >> CriterionJudgeUnit("clarity").prompt("Rate {unit.criterion} on {unit.scale}: {source.text}"), TEXT


def previous_by_the_class_name():
    return Pipeline() >> CoTUnit().prompt("Think: {source.text}") >> JudgeUnit().prompt("Rate: {previous.cot.thinking}"), TEXT
