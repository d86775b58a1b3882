"""The key `batch` of a model, and what it says of its calls."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from verdict_cli.config_model import ConfigModel, Uncounted, Whole


class BatchSettings(ConfigModel):
    """How a model's calls are collected into batches."""

    min: Annotated[int, Field(gt=0), Whole] = 20
    """While other batches are in flight, fewer requests than this wait for more; the last ones are sent as a smaller batch."""
    max_requests: Annotated[int, Field(gt=0), Whole] | None = None
    """The most requests of one batch; by default the provider's limit."""
    wait: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,3} ?(min|h|d)$")] = "24h"
    """How long a batch may take, such as `6h`; then it is cancelled, and what it did not answer is sent again."""

    @property
    def wait_s(self) -> float:
        """`wait` in seconds."""
        unit = self.wait.lstrip("0123456789 ")
        return float(self.wait.removesuffix(unit)) * {"min": 60.0, "h": 3600.0, "d": 86400.0}[unit]


class BatchKey(ConfigModel):
    """The keys that batches add to a model."""

    batch: Annotated[
        bool | BatchSettings, Uncounted("it says how a model is called, not what it is asked")
    ] = False
    """Whether a run sends the calls through the provider's batch interface, at its batch price; a mapping changes how. `verdict run --batch` does so for all models."""


def batch_key(model: ConfigModel) -> bool | BatchSettings:
    assert isinstance(model, BatchKey)
    return model.batch


def batch_settings(model: ConfigModel) -> BatchSettings:
    """How the model's calls are collected into batches."""
    key = batch_key(model)
    return key if isinstance(key, BatchSettings) else BatchSettings()
