"""The values that flow through the program: plain and frozen.

Those that are created for each call are msgspec structs: creating a frozen dataclass takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeGuard

from msgspec import Struct, field
from msgspec.structs import astuple

from verdict_cli.model import Model

NamedValues = Mapping[str, Any]
"""Values by name: of a row, of an output, of a document."""
Output = NamedValues
"""The output of one unit: field -> value."""
JsonObject = dict[str, Any]
"""What is read from JSON or YAML, or written as JSON."""


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether the value is a number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain_text(value: Any) -> str:
    """The value as text: `true` and `false` as in JSON, everything else as Python prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


Marks = tuple[tuple[int, int], ...]
"""Positions in a prompt, each in a message by its number."""


class Entry(Struct, frozen=True, gc=False):
    """One entry of the list of an `each`: its number (``3``, inside another entry ``3.1``), the values of the names that
    units inside see, how many entries the list has, and a digest that follows its content wherever it is in the list."""

    item: str
    names: Mapping[str, Any]
    count: int
    key: str


class Row(Struct, frozen=True, gc=False):
    """One row of the dataset. ``index`` is its 0-based position; ``id`` the ``id`` column's value, else the index.

    ``key`` identifies the row by its content, wherever it is: 32 hex digits, followed by ``.n`` for its n-th copy.
    ``placed``: the dataset has no ``id`` column. ``entry`` is the entry of the row for which units inside `each` run.
    """

    index: int
    id: str | int
    source: Mapping[str, Any]
    key: str = ""
    placed: bool = False
    entry: Entry | None = None

    @property
    def item(self) -> str:
        """The number of the entry, "" for the row itself."""
        return "" if self.entry is None else self.entry.item

    @property
    def draw_id(self) -> str | int:
        """The seed of draws at this row: its id, or its content where the id is only its position."""
        return self.key if self.placed and self.key else self.id


class Message(Struct, frozen=True, gc=False):
    """One message of a request. ``role`` is ``system``, ``user`` or ``assistant``.

    ``images`` are the images within the text, in order: (index in ``content``, URL or path).
    """

    role: str
    content: str
    images: tuple[tuple[int, str], ...] = ()


class Alternative(Struct, frozen=True, array_like=True, gc=False):
    """One possible token at a position of the reply, with its natural-log probability."""

    token: str
    logprob: float


class Usage(Struct, frozen=True, array_like=True, gc=False):
    """Tokens that one call was charged for.

    Of the prompt's, ``cached_tokens`` were read from the provider's cache and ``cache_write_tokens`` written to it; of the
    completion's, ``reasoning_tokens`` are the model's thinking. Of those written, ``hour_cache_tokens`` are kept for an hour. ``note`` says how numbers of the server that contradict
    each other were read.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    hour_cache_tokens: int = 0
    note: str = ""

    def plus(self, other: Usage) -> Usage:
        """The sum of two usages."""
        pairs = zip(astuple(self)[:-1], astuple(other)[:-1], strict=True)
        return Usage(*[ours + theirs for ours, theirs in pairs])


class Option(Struct, frozen=True, gc=False):
    """One answer to a question: what a reply is read as (``token``), what the model is shown, and what it means there ("": nothing is
    said of it)."""

    token: str
    label: str
    description: str = ""


class Question(Struct, frozen=True, gc=False):
    """A question for a decision model: a ``predicate`` with the options true and false, a ``choice`` of one option, or a ``score``,
    whose options are levels, the worst first."""

    kind: Literal["predicate", "choice", "score"]
    instructions: str
    options: tuple[Option, ...]


class Request(Struct, frozen=True, gc=False):
    """One model call, complete: nothing else decides the reply.

    ``json_schema`` is the schema that the reply must satisfy (None: free text); ``top_logprobs`` the
    number of alternatives requested at each position (0: none), ``support`` the tokens for which they are
    requested, worst value first. ``inserted`` are the row's values in the messages, in order; only the baselines
    use them. ``node``, ``call`` and ``attempt`` identify the call in recordings. ``written`` is the unit's id in the graph that
    has a copy of it for every entry, "" outside `each`. ``marks`` are where what the request shares with others ends, as
    (message, position in its text), (-1, -1) for the end of the request, for providers that cache only what is marked.
    ``questions`` are those for a decision model: one, or several about one state that were put together on the way to the server.
    The first message then has their instructions and the others are the state, which is a JSON object where it ``has_fields``.
    ``most_questions`` limits how many are put together; 0: the server does.
    ``unit`` has the keys of the unit as attributes, for middleware that a key of a unit configures; None outside of a run.
    """

    row: Row
    node: str
    model: Model
    messages: tuple[Message, ...]
    call: int = 0
    attempt: int = 0
    json_schema: Mapping[str, Any] | None = None
    top_logprobs: int = 0
    support: tuple[str, ...] = ()
    inserted: tuple[str, ...] = ()
    seed: int = 0
    stream: bool = False
    written: str = ""
    marks: Marks = ()
    questions: tuple[Question, ...] = ()
    has_fields: bool = False
    most_questions: int = 0
    unit: Any = None


class Answer(Struct, frozen=True, array_like=True, gc=False):
    """A decision model's answer to one question: the most probable option's token, and the probability of each option. ``note`` says
    what in it contradicts itself; ``failure`` and ``error`` why it cannot be used."""

    token: str
    alternatives: tuple[Alternative, ...] = ()
    note: str = ""
    failure: str = ""
    error: str = ""


class Allowance(Struct, frozen=True, array_like=True, gc=False):
    """A provider's rate-limit headers: the limit of its window, what remains, and the seconds until the window is full
    again. None: not sent."""

    requests: int | None = None
    requests_left: int | None = None
    requests_reset_s: float | None = None
    tokens: int | None = None
    tokens_left: int | None = None
    tokens_reset_s: float | None = None


class Reply(Struct, frozen=True, array_like=True, gc=False):
    """The reply of a model. ``cost_usd`` is None where the price is unknown, never 0 for that.

    ``logprobs`` holds, for each position of the reply, its alternatives, the chosen token first;
    None where the model returned none. ``recalled`` is True for a reply taken from the journal of an
    earlier, interrupted run, which paid for it. ``cached`` is True for the reply to an equal request, from the
    cache or shared by a call in flight: it cost nothing here; ``shared`` says that the equal request was of the same run. ``sent`` are the parameters of the request as sent, in
    JSON, "" where nothing was sent; ``allowance`` are the provider's rate-limit headers. ``model`` is the model that
    answered, as the provider names it, ``system_fingerprint`` its version where the provider gives one; ``reasoning`` is the text of
    its thinking, ``service_tier`` the tier that served the call. ``answers`` are those of a decision model to the request's questions,
    in order; ``request`` identifies the HTTP request, which several questions may share. ``saved_usd`` is what the provider's
    cache saved, None where a price is unknown.
    """

    text: str
    finish_reason: str = "stop"
    logprobs: tuple[tuple[Alternative, ...], ...] | None = None
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    model: str = ""
    latency_s: float = 0.0
    recalled: bool = False
    cached: bool = False
    sent: str = ""
    allowance: Allowance | None = None
    system_fingerprint: str = ""
    reasoning: str = ""
    service_tier: str = ""
    shared: bool = False
    answers: tuple[Answer, ...] = ()
    request: str = ""
    saved_usd: float | None = 0.0


class Call(Struct, frozen=True, gc=False):
    """One model call as it is recorded: the request, and its reply or why there is none.

    It has both for a reply that was charged for and could not be used. ``repaired``: the reply was read although it
    deviates from the requested format. ``mass``: the probability of the scale's tokens, where the reply was read for it.
    """

    request: Request
    reply: Reply | None
    failure: str = ""
    error: str = ""
    latency_s: float = 0.0
    repaired: bool = False
    mass: float | None = None


def sum_usd(*costs: float | None) -> float | None:
    """The sum of costs in US dollars, None where one is unknown."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total


def cost_of(calls: Sequence[Call]) -> float | None:
    """The cost of the calls in US dollars, None if any price is unknown."""
    return sum_usd(*[call.reply.cost_usd for call in calls if call.reply is not None])


class Stage(Struct, frozen=True, gc=False):
    """One stage of a unit that escalates: its (first) model, or `abstain`; the rows it answered, the calls, and their cost
    (None if any price is unknown). Of the rows it answered, the last model was called on ``audited`` (`audit_share`), and
    gave the same verdict on ``kept``."""

    model: str
    answered: int
    calls: int
    cost_usd: float | None
    audited: int = 0
    kept: int = 0

    def plus(self, other: Stage) -> Stage:
        """The sum of two stages."""
        cost = sum_usd(self.cost_usd, other.cost_usd)
        answered, calls = self.answered + other.answered, self.calls + other.calls
        return Stage(
            self.model, answered, calls, cost, self.audited + other.audited, self.kept + other.kept
        )


def add_counts(totals: dict[str, int], counts: Mapping[str, int]) -> None:
    """Add counts by name."""
    for name, count in counts.items():
        totals[name] = totals.get(name, 0) + count


def add_stages(
    totals: dict[str, tuple[Stage, ...]], stages: Mapping[str, tuple[Stage, ...]]
) -> None:
    """Add the stages of units, by the units' ids."""
    for unit, counts in stages.items():
        if unit in totals:
            pairs = zip(totals[unit], counts, strict=True)
            totals[unit] = tuple([total.plus(count) for total, count in pairs])
        else:
            totals[unit] = counts


class Failure(Struct, frozen=True, gc=False):
    """Why a row or a unit has no output: the kind (``unreadable``, ``timeout`` …), the message, the node."""

    kind: str
    message: str
    node: str


class Result(Struct, frozen=True, gc=False):
    """A row's outcome: an output for each node of the plan (None: skipped, failed or not run).

    ``failure`` is None for a row that succeeded; a failed row keeps its finished units' outputs. ``saved`` counts
    the calls that early stopping avoided, by the id of the pool; ``stages`` has the stages of the units that escalate.
    ``abstained``: the row has no verdict because a unit abstained, which is not a failure. The output of a unit inside `each`
    is a list with the output of every entry. ``skipped`` are the ids of the units that `when` skipped, then ``output`` if one of them gives it; ``entries`` has the
    names of each entry at which a unit inside `each` was run, by the unit's place in the plan, in lists like its outputs.
    """

    row: Row
    outputs: tuple[Any, ...]
    failure: Failure | None = None
    calls: tuple[Call, ...] = ()
    saved: Mapping[str, int] = field(default_factory=dict)
    stages: Mapping[str, tuple[Stage, ...]] = field(default_factory=dict)
    abstained: bool = False
    skipped: tuple[str, ...] = ()
    entries: Mapping[int, Any] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """`ok`, `failed` or `abstained`."""
        return "failed" if self.failure is not None else "abstained" if self.abstained else "ok"


Ask = Callable[[Request], Awaitable[Reply]]
"""The interface of a provider and of every middleware around one. Raises ProviderError."""
