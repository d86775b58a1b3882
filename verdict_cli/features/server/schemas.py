"""The request and response bodies of the endpoints, as in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

RowBody = dict[str, Any]
Deadline = Annotated[float, Field(gt=0, description="Seconds, at most the deadline of the server.")]


class _RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


class JudgeRequest(_RequestBody):
    """One row."""

    row: Annotated[RowBody, Field(description="The columns that the pipeline's units use.")]
    deadline_s: Deadline | None = None


class RowsRequest(_RequestBody):
    """Several rows."""

    rows: Annotated[list[RowBody], Field(min_length=1)]
    deadline_s: Deadline | None = None


class FailedRow(BaseModel):
    """The failure of a row."""

    kind: Annotated[str, Field(description="The kind of failure, such as `unreadable`, `timeout` or `deadline`.")]
    message: str
    unit: Annotated[str, Field(description="The unit that failed; empty if the failure is not of a unit.")]


class JudgeResponse(BaseModel):
    """The outcome of a row."""

    status: Annotated[
        str, Field(description="`ok`, `failed`, or `abstained` (the judge returned no verdict on purpose).")
    ]
    id: str | int
    output: Annotated[dict[str, Any] | None, Field(description="The output of the last step; null for a failed row.")]
    failure: FailedRow | None
    calls: Annotated[int, Field(description="The number of model calls.")]
    cost_usd: Annotated[float | None, Field(description="Null if a price is unknown.")]
    accepted: Annotated[
        bool | None, Field(description="Whether the outcome meets --accept; absent without that option.")
    ] = None
    latency_s: float | None = None


class JudgeResponses(BaseModel):
    """The outcomes, in the order of the rows."""

    results: list[JudgeResponse]


class Rewards(BaseModel):
    """One reward per row, in the order of the rows. A failed row has null, and its failure."""

    rewards: list[float | None]
    failures: list[FailedRow | None]


class Batch(BaseModel):
    """The state of a batch and, once it is finished, a page of its results."""

    id: str
    status: Annotated[str, Field(description="`accepted`, `running`, `finished` or `stopped`.")]
    rows: int
    done: int
    failed: int
    cost_usd: float | None
    error: Annotated[
        str | None, Field(description="The error that stopped the batch. It is retried after a reload or a restart.")
    ] = None
    results: list[JudgeResponse] | None = None
    next_offset: int | None = None


class PipelineInfo(BaseModel):
    """The active pipeline."""

    name: str
    fingerprint: str
    columns: Annotated[list[str], Field(description="The columns that a row must have.")]
    floors: Annotated[list[str], Field(description="The embedded baselines of the pipeline, which are not LLM judges.")]
    policy: str
    reload_error: Annotated[str | None, Field(description="Why the latest reload failed.")]


class Reloaded(BaseModel):
    """A successful reload: the fingerprints before and after it."""

    before: str
    after: str


class Health(BaseModel):
    """Whether the server accepts rows."""

    status: str


class ErrorDetail(BaseModel):
    """Why a request failed."""

    kind: str
    message: str


class ErrorResponse(BaseModel):
    """The body of every error response."""

    error: ErrorDetail
