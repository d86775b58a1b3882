"""Every error of the program. Each says where, what, and what to do.

VerdictError                 exit
├─ UsageError                2   the command line asks for what cannot be done
├─ SpecError                 2   the pipeline's author, before a token is spent
├─ DataError                 2   the dataset's owner: file, line, column
├─ OutputError               2   a file that cannot be written
├─ FetchError                2   a download that failed, or brought something else than it should
├─ JournalError              2   this directory belongs to another run
├─ ProviderError
│  ├─ Refused                4   bad key, unknown model, no log-probabilities: stops the run
│  ├─ Retryable              -   rate limited, timeout, unavailable: asked again
│  └─ Rejected               -   this row's request: context too long, content filter
├─ BudgetError               3   the spend cap is reached: nothing new is started
├─ PinnedError               3   a unit that all rows share failed: no row can be judged
├─ WorkerError               3   a part of the rows whose workers died, each time it was tried
├─ ReplyError                -   off scale, no answer, cut off: asked again, then the row's failure
└─ RowError                  -   an expression or template fails on this row's values: not asked again
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

EXITS = {
    0: "done",
    1: "a gate failed",
    2: "usage, configuration or data error",
    3: "finished, but some rows failed",
    4: "the provider refused (key, permission, unknown model)",
    70: "internal error in verdict (please report it); the message names a file to attach",
    130: "interrupted",
    141: "what standard output was piped to has ended",
}
"""What each exit code of the program means."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a file: where it stands, what is wrong, and the cure.

    ``line`` and ``column`` count from 1; 0 means that the file as a whole is meant.
    ``code`` is a stable kebab-case name such as ``unknown-key``; ``path`` is spelled
    ``pipeline[1].layer[0].scale``.
    """

    code: str
    message: str
    hint: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        place = self.file
        if self.line:
            place += f":{self.line}:{self.column}" if self.column else f":{self.line}"
        parts = [part for part in (place, self.path, self.message) if part]
        text = ": ".join(parts)
        return f"{text}\n    {self.hint}" if self.hint else text

    def at(self, file: str, line: int, column: int, path: str) -> Problem:
        """The same problem, placed in a file."""
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

    exit_code: ClassVar[int] = 2
    kind: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n    {self.hint}" if self.hint else self.message


class UsageError(VerdictError):
    """The command line asks for something that cannot be done."""

    kind = "usage"


class SpecError(VerdictError):
    """A pipeline file that cannot be run: all of its problems at once."""

    kind = "spec"

    def __init__(self, problems: tuple[Problem, ...] | list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class DataError(VerdictError):
    """A dataset that cannot be read, or a row of it; ``problem`` says where."""

    kind = "data"

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class OutputError(VerdictError):
    """A file or directory that cannot be written."""

    kind = "output"


class FetchError(VerdictError):
    """A download that failed, or that brought something else than what is known of the file."""

    kind = "fetch"


class JournalError(VerdictError):
    """A run directory that belongs to another run, or to one that is still going on."""

    kind = "journal"


class ProviderError(VerdictError):
    """A model call that brought no reply. ``kind`` says which sort of failure it was.

    ``reply`` is what was paid for all the same (filtered, unreadable), None where nothing was; ``allowance`` what the
    provider said about its limits, None where it said nothing.
    """

    def __init__(self, message: str, *, hint: str = "", kind: str = "", status: int = 0, reply: Any = None) -> None:
        super().__init__(message, hint=hint)
        self.failure = kind or self.kind
        self.status = status
        self.reply = reply
        self.allowance: Any = None


class Refused(ProviderError):
    """Authentication, permission, an unknown model, or one that lacks what the pipeline needs of it (``no-logprobs``):
    the run stops before more is spent."""

    exit_code = 4
    kind = "refused-by-provider"


class Retryable(ProviderError):
    """A temporary failure, which is retried.

    ``retry_after_s`` is the delay that the provider asked for in seconds, None where it sent none.
    """

    kind = "unavailable"
    kinds = frozenset({"rate-limit", "timeout", "unavailable"})

    def __init__(
        self, message: str, *, hint: str = "", kind: str = "", status: int = 0, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, hint=hint, kind=kind, status=status)
        self.retry_after_s = retry_after_s


class Rejected(ProviderError):
    """This request cannot succeed.

    ``passing``: the cause may be the endpoint, which has not answered any request yet; a resumed run retries the call.
    """

    kind = "rejected"
    kinds = frozenset({"rejected", "context-too-long", "content-filter", "not-recorded"})
    passing = False


class BudgetError(VerdictError):
    """The run's spend cap is reached; what was in flight is kept, and the same command goes on."""

    exit_code = 3
    kind = "budget"


class PinnedError(VerdictError):
    """A pinned unit failed, and with it every row that would share its result."""

    exit_code = 3
    kind = "pinned"


class WorkerError(VerdictError):
    """A part of the rows that no worker could run to its end; the same command goes on with it."""

    exit_code = 3
    kind = "worker"


class ReplyError(VerdictError):
    """A reply that cannot be read as what was asked for; never a score.

    ``failure`` is one of `kinds`; ``invalid`` means that a ``validate`` rule is false. ``reply`` is the reply that was
    paid for, None where only its text is known.
    """

    kind = "unreadable"
    kinds = frozenset({"unreadable", "off-scale", "cut-off", "refused", "empty", "no-logprobs", "invalid"})

    def __init__(self, message: str, *, hint: str = "", kind: str = "", reply: Any = None) -> None:
        super().__init__(message, hint=hint)
        self.failure = kind or self.kind
        self.reply = reply


class RowError(VerdictError):
    """An expression, a template or a pool that fails on this row's values."""

    kind = "expression"

    def __init__(self, message: str, *, hint: str = "", kind: str = "") -> None:
        super().__init__(message, hint=hint)
        self.failure = kind or self.kind


def failure_class(failure: str) -> type[Retryable] | type[Rejected] | type[ReplyError] | None:
    """The class of a failed call's kind (``timeout``, ``cut-off`` …); None for a kind that no class lists."""
    classes: tuple[type[Retryable] | type[Rejected] | type[ReplyError], ...] = (Retryable, Rejected, ReplyError)
    return next((kind for kind in classes if failure in kind.kinds), None)


def recorded_error(failure: str, message: str, reply: Any = None) -> ProviderError | ReplyError:
    """The error of a failed call that was recorded. A retryable one has no delay, because nothing will be sent.

    ``reply`` is the reply that was paid for all the same.
    """
    kind = failure_class(failure) or Rejected
    error = Retryable(message, kind=failure, retry_after_s=0) if kind is Retryable else kind(message, kind=failure)
    error.reply = reply
    return error
