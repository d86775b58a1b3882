from verdict_cli.api.extractors import (
    ArgmaxScoreExtractor as ArgmaxScoreExtractor,
)
from verdict_cli.api.extractors import (
    Extractor as Extractor,
)
from verdict_cli.api.extractors import (
    PostHocExtractor as PostHocExtractor,
)
from verdict_cli.api.extractors import (
    RawExtractor as RawExtractor,
)
from verdict_cli.api.extractors import (
    RegexExtractor as RegexExtractor,
)
from verdict_cli.api.extractors import (
    SampleScoreExtractor as SampleScoreExtractor,
)
from verdict_cli.api.extractors import (
    StructuredOutputExtractor as StructuredOutputExtractor,
)
from verdict_cli.api.extractors import (
    TokenProbabilityExtractor as TokenProbabilityExtractor,
)
from verdict_cli.api.extractors import (
    VerdictExtractor as VerdictExtractor,
)
from verdict_cli.api.extractors import (
    WeightedSummedScoreExtractor as WeightedSummedScoreExtractor,
)
from verdict_cli.api.judge import (
    Judge as Judge,
)
from verdict_cli.api.judged import (
    Judged as Judged,
)
from verdict_cli.api.pipeline import (
    Pipeline as Pipeline,
)
from verdict_cli.api.prompts import (
    Prompt as Prompt,
)
from verdict_cli.api.scales import (
    BooleanScale as BooleanScale,
)
from verdict_cli.api.scales import (
    ContinuousScale as ContinuousScale,
)
from verdict_cli.api.scales import (
    DiscreteScale as DiscreteScale,
)
from verdict_cli.api.scales import (
    LikertScale as LikertScale,
)
from verdict_cli.api.scales import (
    Scale as Scale,
)
from verdict_cli.api.schema import (
    Schema as Schema,
)
from verdict_cli.api.steps import (
    Block as Block,
)
from verdict_cli.api.steps import (
    Layer as Layer,
)
from verdict_cli.api.unit import (
    Unit as Unit,
)
from verdict_cli.api.units import (
    ArgumentUnit as ArgumentUnit,
)
from verdict_cli.api.units import (
    BestOfKJudgeUnit as BestOfKJudgeUnit,
)
from verdict_cli.api.units import (
    CategoricalJudgeUnit as CategoricalJudgeUnit,
)
from verdict_cli.api.units import (
    ConversationalUnit as ConversationalUnit,
)
from verdict_cli.api.units import (
    CoTUnit as CoTUnit,
)
from verdict_cli.api.units import (
    DebateUnit as DebateUnit,
)
from verdict_cli.api.units import (
    JudgeUnit as JudgeUnit,
)
from verdict_cli.api.units import (
    MapUnit as MapUnit,
)
from verdict_cli.api.units import (
    MaxPoolUnit as MaxPoolUnit,
)
from verdict_cli.api.units import (
    MeanPoolUnit as MeanPoolUnit,
)
from verdict_cli.api.units import (
    MeanVariancePoolUnit as MeanVariancePoolUnit,
)
from verdict_cli.api.units import (
    MedianFilterUnit as MedianFilterUnit,
)
from verdict_cli.api.units import (
    MedianPoolUnit as MedianPoolUnit,
)
from verdict_cli.api.units import (
    MinPoolUnit as MinPoolUnit,
)
from verdict_cli.api.units import (
    ModePoolUnit as ModePoolUnit,
)
from verdict_cli.api.units import (
    PairwiseJudgeUnit as PairwiseJudgeUnit,
)
from verdict_cli.api.units import (
    RankerUnit as RankerUnit,
)
from verdict_cli.api.units import (
    RubricUnit as RubricUnit,
)
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
from verdict_cli.extractors.verdict import (
    build_rubric as build_rubric,
)
from verdict_cli.extractors.verdict import (
    parse_verdict as parse_verdict,
)
from verdict_cli.spec.metric import (
    Metric as Metric,
)

__version__: str
