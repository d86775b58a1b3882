from verdict_cli.errors import (
    BudgetError as BudgetError,
)
from verdict_cli.errors import (
    DataError as DataError,
)
from verdict_cli.errors import (
    JournalError as JournalError,
)
from verdict_cli.errors import (
    OutputError as OutputError,
)
from verdict_cli.errors import (
    PinnedError as PinnedError,
)
from verdict_cli.errors import (
    Problem as Problem,
)
from verdict_cli.errors import (
    ProviderError as ProviderError,
)
from verdict_cli.errors import (
    Refused as Refused,
)
from verdict_cli.errors import (
    Rejected as Rejected,
)
from verdict_cli.errors import (
    ReplyError as ReplyError,
)
from verdict_cli.errors import (
    Retryable as Retryable,
)
from verdict_cli.errors import (
    RowError as RowError,
)
from verdict_cli.errors import (
    SpecError as SpecError,
)
from verdict_cli.errors import (
    UsageError as UsageError,
)
from verdict_cli.errors import (
    VerdictError as VerdictError,
)
from verdict_cli.language.extractors.verdict import (
    build_rubric as build_rubric,
)
from verdict_cli.language.extractors.verdict import (
    parse_verdict as parse_verdict,
)
from verdict_cli.language.metric_names import (
    Metric as Metric,
)
from verdict_cli.python.extractors import (
    ArgmaxScoreExtractor as ArgmaxScoreExtractor,
)
from verdict_cli.python.extractors import (
    Extractor as Extractor,
)
from verdict_cli.python.extractors import (
    PostHocExtractor as PostHocExtractor,
)
from verdict_cli.python.extractors import (
    RawExtractor as RawExtractor,
)
from verdict_cli.python.extractors import (
    RegexExtractor as RegexExtractor,
)
from verdict_cli.python.extractors import (
    SampleScoreExtractor as SampleScoreExtractor,
)
from verdict_cli.python.extractors import (
    StructuredOutputExtractor as StructuredOutputExtractor,
)
from verdict_cli.python.extractors import (
    TokenProbabilityExtractor as TokenProbabilityExtractor,
)
from verdict_cli.python.extractors import (
    VerdictExtractor as VerdictExtractor,
)
from verdict_cli.python.extractors import (
    WeightedSummedScoreExtractor as WeightedSummedScoreExtractor,
)
from verdict_cli.python.judge import (
    Judge as Judge,
)
from verdict_cli.python.judged import (
    Judged as Judged,
)
from verdict_cli.python.pipeline import (
    Pipeline as Pipeline,
)
from verdict_cli.python.prompts import (
    Prompt as Prompt,
)
from verdict_cli.python.scales import (
    BooleanScale as BooleanScale,
)
from verdict_cli.python.scales import (
    ContinuousScale as ContinuousScale,
)
from verdict_cli.python.scales import (
    DiscreteScale as DiscreteScale,
)
from verdict_cli.python.scales import (
    LikertScale as LikertScale,
)
from verdict_cli.python.scales import (
    Scale as Scale,
)
from verdict_cli.python.schema import (
    Schema as Schema,
)
from verdict_cli.python.steps import (
    Block as Block,
)
from verdict_cli.python.steps import (
    Layer as Layer,
)
from verdict_cli.python.unit import (
    Unit as Unit,
)
from verdict_cli.python.units import (
    ArgumentUnit as ArgumentUnit,
)
from verdict_cli.python.units import (
    BestOfKJudgeUnit as BestOfKJudgeUnit,
)
from verdict_cli.python.units import (
    CategoricalJudgeUnit as CategoricalJudgeUnit,
)
from verdict_cli.python.units import (
    ConversationalUnit as ConversationalUnit,
)
from verdict_cli.python.units import (
    CoTUnit as CoTUnit,
)
from verdict_cli.python.units import (
    DebateUnit as DebateUnit,
)
from verdict_cli.python.units import (
    JudgeUnit as JudgeUnit,
)
from verdict_cli.python.units import (
    MapUnit as MapUnit,
)
from verdict_cli.python.units import (
    MaxPoolUnit as MaxPoolUnit,
)
from verdict_cli.python.units import (
    MeanPoolUnit as MeanPoolUnit,
)
from verdict_cli.python.units import (
    MeanVariancePoolUnit as MeanVariancePoolUnit,
)
from verdict_cli.python.units import (
    MedianFilterUnit as MedianFilterUnit,
)
from verdict_cli.python.units import (
    MedianPoolUnit as MedianPoolUnit,
)
from verdict_cli.python.units import (
    MinPoolUnit as MinPoolUnit,
)
from verdict_cli.python.units import (
    ModePoolUnit as ModePoolUnit,
)
from verdict_cli.python.units import (
    PairwiseJudgeUnit as PairwiseJudgeUnit,
)
from verdict_cli.python.units import (
    RankerUnit as RankerUnit,
)
from verdict_cli.python.units import (
    RubricUnit as RubricUnit,
)

__version__: str
