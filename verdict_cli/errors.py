"""Every error of the program. Each says where the problem is, what it is, and what to do.

VerdictError                 exit
├─ SeveralErrors             *   several of these, told together; the exit code of the first
├─ UsageError                2   an option, an argument or a Python call that cannot work
├─ SpecError                 2   the pipeline's author, before a token is spent
├─ DataError                 2   the dataset's owner: file, line, column
├─ OutputError               2   a file that cannot be written
├─ FetchError                2   a download that failed or returned other data than expected
├─ JournalError              2   this directory belongs to another run
├─ ProviderError
│  ├─ Refused                4   bad key, unknown model, no log-probabilities, dead endpoint: stops the run
│  ├─ Retryable              -   rate limited, timeout, unavailable: retried
│  └─ Rejected               -   this row's request: context too long, content filter
├─ BudgetError               3   the spend cap is reached: nothing new is started
├─ Pending                   -   a call that is answered later: its row is run again
├─ PinnedError               3   a unit that all rows share failed: no row can be judged
├─ ReplyError                -   off scale, no answer, cut off: retried, then the row fails
└─ RowError                  -   an expression or template fails on this row's values: not retried
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

EXITS = {
    0: "done",
    1: "a gate failed",
    2: "usage, configuration or data error",
    3: "finished, but some rows failed",
    4: "the provider refused (key, permission, unknown model), its endpoint does not answer, or the workers of an engine die",
    5: "waiting for batches; the same command collects them",
    70: "internal error in verdict (please report it); the message names a file to attach",
    130: "interrupted",
    141: "the reader of standard output was closed",
}
"""What each exit code of the program means."""


T = TypeVar("T")
U = TypeVar("U")


class Problem(Struct, frozen=True):
    """One problem of a file: where it is, what is wrong, and how to fix it.

    ``line`` and ``column`` count from 1; 0 means the file as a whole.
    ``code`` is a stable kebab-case name such as ``unknown-key``; ``path`` looks like
    ``pipeline[1].layer[0].scale``. ``replacement`` is the value that the hint says to write, where the hint has one.
    """

    code: str
    message: str
    hint: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""
    replacement: Any = None

    def __str__(self) -> str:
        position = self.file
        if self.line:
            position += f":{self.line}:{self.column}" if self.column else f":{self.line}"
        parts = [part for part in (position, self.path, self.message) if part]
        text = ": ".join(parts)
        return f"{text}\n    {self.hint}" if self.hint else text

    def at(self, file: str, line: int, column: int, path: str) -> Problem:
        """The same problem at a position of a file."""
        return replace(self, file=file, line=line, column=column, path=path)

    def as_json(self) -> dict[str, Any]:
        """The mapping that ``verdict validate --json`` prints."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "path": self.path,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
        }


class VerdictError(Exception):
    """What went wrong (``message``) and what to do about it (``hint``)."""

    exit_code: int = 2
    kind: str = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n    {self.hint}" if self.hint else self.message

    def in_one_line(self) -> str:
        """The message and the hint as a part of a sentence."""
        return "; ".join(filter(None, (self.message, self.hint)))


class SeveralErrors(VerdictError):
    """Errors that have nothing to do with each other and are told together; the first decides the exit code."""

    def __init__(self, errors: Sequence[VerdictError]) -> None:
        super().__init__("\n".join(dict.fromkeys(map(str, errors))))
        self.exit_code, self.kind = errors[0].exit_code, errors[0].kind


INTERNAL = "internal error in verdict (please report it)"


def internal_fault(error: Exception) -> str:
    """What a message says of an error that should not occur."""
    return f"{INTERNAL}: {type(error).__name__}: {error}"[:500]


def raise_together(errors: Sequence[VerdictError]) -> None:
    """Raise the errors as one, the only one as it is, or nothing where there is none."""
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralErrors(errors)


def both(first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
    """What the two checks give. Where both fail, their errors are raised as one."""
    try:
        result = first()
    except VerdictError as error:
        try:
            second()
        except VerdictError as another:
            raise SeveralErrors((error, another)) from None
        raise
    return result, second()


class UsageError(VerdictError):
    """An option, an argument or a Python call that cannot work."""

    kind = "usage"


class SpecError(VerdictError):
    """A pipeline file that cannot be run, with all of its problems."""

    kind = "spec"

    def __init__(self, problems: tuple[Problem, ...] | list[Problem], repaired: Any = None) -> None:
        self.problems = tuple(problems)
        self.repaired = repaired
        """The plan of the file with its mistakes corrected, against which data can be checked; None where there is none."""
        super().__init__("\n".join(str(problem) for problem in self.problems))


class DataError(VerdictError):
    """A dataset that cannot be read, or rows of it; ``problem``, the first of its ``problems``, says where."""

    kind = "data"

    def __init__(self, problem: Problem, *more: Problem) -> None:
        self.problem = problem
        self.problems = (problem, *more)
        super().__init__("\n".join(map(str, self.problems)))


class OutputError(VerdictError):
    """A file or directory that cannot be written."""

    kind = "output"


class FetchError(VerdictError):
    """A download that failed, or whose content does not match the known checksum or shape."""

    kind = "fetch"


class JournalError(VerdictError):
    """A run directory that belongs to another run, or to one that is still running."""

    kind = "journal"


class ProviderError(VerdictError):
    """A model call without a usable reply. ``kind`` is the kind of failure.

    ``reply`` is a reply that was charged for all the same (filtered, unreadable), else None. ``allowance`` has the
    provider's rate-limit headers, None where it sent none.
    """

    def __init__(
        self, message: str, *, hint: str = "", kind: str = "", status: int = 0, reply: Any = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.failure = kind or self.kind
        self.status = status
        self.reply = reply
        self.allowance: Any = None


class Refused(ProviderError):
    """Authentication, permission, an unknown model, one that lacks what the pipeline needs (``no-logprobs``), or an
    endpoint that accepts no connection (``unreachable``): the run stops before more is spent."""

    exit_code = 4
    kind = "refused-by-provider"


class Retryable(ProviderError):
    """A temporary failure, which is retried.

    ``retry_after_s`` is the delay that the provider asked for in seconds, None where it sent none. ``unreachable``: no
    connection to the endpoint could be made. ``waited``: a rate limit was waited for as long as ``max_wait`` allows, so that
    the call is not retried.
    """

    kind = "unavailable"
    waited = False
    kinds = frozenset({"rate-limit", "timeout", "unavailable"})
    unreachable = False

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        kind: str = "",
        status: int = 0,
        retry_after_s: float | None = None,
        reply: Any = None,
    ) -> None:
        super().__init__(message, hint=hint, kind=kind, status=status, reply=reply)
        self.retry_after_s = retry_after_s


class Rejected(ProviderError):
    """This request cannot succeed.

    ``passing``: the cause may be the endpoint, which has not answered any request yet; a resumed run retries the call.
    """

    kind = "rejected"
    kinds = frozenset({"rejected", "context-too-long", "content-filter", "not-recorded"})
    passing = False


class BudgetError(VerdictError):
    """The run's spend cap is reached. Calls in flight are kept, and the same command resumes the run."""

    exit_code = 3
    kind = "budget"


class Pending(VerdictError):
    """A call that cannot be answered yet. Its row is put back, and run again when it may be answered."""

    kind = "pending"


class PinnedError(VerdictError):
    """A pinned unit failed, so no row that shares its result can be judged."""

    exit_code = 3
    kind = "pinned"


class ReplyError(VerdictError):
    """A reply that cannot be read; it never becomes a score.

    ``failure`` is one of `kinds`; ``invalid`` means that a ``validate`` rule is false. ``reply`` is the reply that was
    paid for, None where only its text is known; ``is_read`` whether it is a whole reply that the extractor cannot use; ``mass``
    the probability of the scale's tokens, where it was too low; ``default`` the response to use if the last attempt ends so.
    """

    kind = "unreadable"
    kinds = frozenset(
        {
            "unreadable",
            "off-scale",
            "cut-off",
            "refused",
            "empty",
            "no-logprobs",
            "low-mass",
            "no-verdict",
            "invalid",
        }
    )

    def __init__(self, message: str, *, hint: str = "", kind: str = "", reply: Any = None) -> None:
        super().__init__(message, hint=hint)
        self.failure = kind or self.kind
        self.reply = reply
        self.is_read = False
        self.mass: float | None = None
        self.default: dict[str, Any] | None = None


class RowError(VerdictError):
    """An expression, a template or a pool that fails on this row's values."""

    kind = "expression"

    def __init__(self, message: str, *, hint: str = "", kind: str = "") -> None:
        super().__init__(message, hint=hint)
        self.failure = kind or self.kind


def failure_class(failure: str) -> type[Retryable] | type[Rejected] | type[ReplyError] | None:
    """The class of a failed call's kind (``timeout``, ``cut-off`` …); None for a kind that no class lists."""
    classes: tuple[type[Retryable] | type[Rejected] | type[ReplyError], ...] = (
        Retryable,
        Rejected,
        ReplyError,
    )
    return next((kind for kind in classes if failure in kind.kinds), None)


def recorded_error(failure: str, message: str, reply: Any = None) -> ProviderError | ReplyError:
    """The error of a failed call that was recorded. A retryable one has no delay, because nothing will be sent.

    ``reply`` is the reply that was paid for all the same.
    """
    kind = failure_class(failure) or Rejected
    error = (
        Retryable(message, kind=failure, retry_after_s=0)
        if kind is Retryable
        else kind(message, kind=failure)
    )
    error.reply = reply
    return error
