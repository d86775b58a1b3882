"""`MapUnit` and pools as haizelabs' library has them: units without a model call."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from verdict_cli.compat.schema import plain, shown
from verdict_cli.compat.units import Functions, Unit, wrapped
from verdict_cli.language.authoring.functions import MAP_NAMES, function


class MapUnit(Unit):
    """A function of the outputs before it: of the one output, or of their list. No model call."""

    _char = "Map"
    step_type: ClassVar[str] = "MapUnit"
    calls_model: ClassVar[bool] = False

    def __init__(self, map_func: Callable[[Any], Any], **keys: Any) -> None:
        super().__init__(**keys)
        self.map_func = map_func

    def mapped(self, values: Any) -> Any:
        """What the unit gives for these outputs."""
        made = self.map_func(values)
        return plain(made) if isinstance(made, Mapping) else {"values": plain(made)}

    def document(self, *, root: bool) -> tuple[dict[str, Any], Functions]:
        def called(**given: Any) -> Any:
            if root:
                return self.mapped(given["source"])
            outputs = [shown(output) for output in given["outputs"]]
            return self.mapped(outputs[0] if len(outputs) == 1 else outputs)

        made = wrapped(called, self.map_func, ("source",) if root else ("outputs",))
        keys = {"unit": "MapUnit", "name": self.short_name, "map": {"value": "outputs"}}
        return keys, {("map",): function(made, "MapUnit", MAP_NAMES)}


class FieldMapUnit(MapUnit):
    """A function of each field's values."""

    def __init__(self, map_func: Callable[[Any], Any], fields: str | Sequence[str] = (), **keys: Any) -> None:
        super().__init__(map_func, **keys)
        self.fields = [fields] if isinstance(fields, str) else list(fields)

    def mapped(self, values: Any) -> Any:
        outputs = values if isinstance(values, list) else [values]
        names = self.fields or list(outputs[0])
        return {name: plain(self.map_func([output[name] for output in outputs])) for name in names}


class _Pool(FieldMapUnit):
    """A pool of this project under the library's name."""

    pool_type: ClassVar[str]

    def __init__(self, fields: str | Sequence[str] = ()) -> None:
        super().__init__(statistics.mean, fields, name=type(self).__name__.removesuffix("Unit"))

    def document(self, *, root: bool) -> tuple[dict[str, Any], Functions]:
        return {"unit": self.pool_type, "name": self.short_name} | ({"fields": self.fields} if self.fields else {}), {}


class MeanPoolUnit(_Pool):
    """The mean."""

    pool_type = "MeanPoolUnit"


class MaxPoolUnit(_Pool):
    """The most frequent value: the library's maximum is `statistics.mode`."""

    pool_type = "ModePoolUnit"


class MeanVariancePoolUnit(_Pool):
    """The mean and the sample variance."""

    pool_type = "MeanVariancePoolUnit"
