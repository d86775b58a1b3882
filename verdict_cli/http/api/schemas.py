"""What the endpoints take and give: the words of the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

RowBody = dict[str, Any]
Deadline = Annotated[float, Field(gt=0, description="Seconds; the server's own deadline bounds it.")]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class JudgeRequest(_Asked):
    """One row."""

    row: Annotated[RowBody, Field(description="The columns that the pipeline's units use.")]
    deadline_s: Deadline | None = None


class RowsRequest(_Asked):
    """Several rows."""

    rows: Annotated[list[RowBody], Field(min_length=1)]
    deadline_s: Deadline | None = None


class FailedRow(BaseModel):
    """Why a row has no output."""

    kind: Annotated[str, Field(description="Such as `unreadable`, `timeout`, `deadline`.")]
    message: str
    unit: Annotated[str, Field(description="The unit that failed, empty where none did.")]


class JudgeResponse(BaseModel):
    """One row's outcome."""

    status: Annotated[
        str, Field(description="`ok`, `failed`, or `abstained`: the judge was not sure enough for a verdict.")
    ]
    id: str | int
    output: Annotated[
        dict[str, Any] | None, Field(description="What the last step gives on; null for a row that failed.")
    ]
    failure: FailedRow | None
    calls: Annotated[int, Field(description="Model calls that were made.")]
    cost_usd: Annotated[float | None, Field(description="Null where a price is unknown.")]
    accepted: Annotated[
        bool | None, Field(description="Whether the outcome passes --accept; only there where that is set.")
    ] = None
    latency_s: float | None = None


class JudgeResponses(BaseModel):
    """The rows' outcomes, in their order."""

    results: list[JudgeResponse]


class Rewards(BaseModel):
    """One number a row, in the rows' order; null for a row that failed, and why."""

    rewards: list[float | None]
    failures: list[FailedRow | None]


class Batch(BaseModel):
    """How a batch stands, and once it is finished a page of its results."""

    id: str
    status: Annotated[str, Field(description="`accepted`, `running`, `finished` or `stopped`.")]
    rows: int
    done: int
    failed: int
    cost_usd: float | None
    error: Annotated[str | None, Field(description="What stopped it; a reload or a new start tries again.")] = None
    results: list[JudgeResponse] | None = None
    next_offset: int | None = None


class PipelineInfo(BaseModel):
    """The pipeline that answers."""

    name: str
    fingerprint: str
    columns: Annotated[list[str], Field(description="The columns that a row needs.")]
    floors: Annotated[list[str], Field(description="Embedded baselines that answer: floors to beat, not judges.")]
    policy: str
    reload_error: Annotated[str | None, Field(description="Why the latest reload was refused.")]


class Reloaded(BaseModel):
    """A reload that took place."""

    before: str
    after: str


class Health(BaseModel):
    """Whether the server takes rows on."""

    status: str


class ValidationIssue(BaseModel):
    """Why a request was not answered."""

    kind: str
    message: str


class Refusal(BaseModel):
    """The body of every answer that is an error and no outcome."""

    error: ValidationIssue
