"""`--where "bleu<1 and system=meena"`: a study of a part of the units."""

import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dialeval.errors import UsageError
from dialeval.studies.units import Floats, Units

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"\s*(?P<name>.+?)\s*(?P<sign><=|>=|!=|==|=|<|>)\s*(?P<value>.+?)\s*")


def where(units: Units, conditions: str, gold: Floats | None = None) -> NDArray[np.bool_]:
    """Say which units fulfil all conditions joined by `and`.

    A condition compares a column (by its label, such as `bleu` or `judge/overall`), `gold`, `turn`, `system`
    or `dialogue` with a value. A unit without a value in that column does not fulfil it. In names of systems
    and dialogues `*` stands for anything: `dialogue=uss-sgd-*`.
    """
    mask = np.ones(len(units), dtype=bool)
    for condition in re.split(r"\s+and\s+", conditions.strip()):
        mask &= _mask(units, condition, gold)
    return mask


def _mask(units: Units, condition: str, gold: Floats | None) -> NDArray[np.bool_]:
    match = _CONDITION.fullmatch(condition)
    if not match:
        raise UsageError(f"--where {condition!r}: expected for example bleu<1, system=mybot, turn>=3")
    name, value = match["name"], match["value"].strip("'\"")
    compare = _OPERATORS[match["sign"]]
    if name in ("system", "dialogue"):
        found = [key.system if name == "system" else key.dialogue_id for key in units.keys]
        pattern = re.compile(".*".join(map(re.escape, value.split("*"))), re.DOTALL)
        fits = (one is not None and compare(one, one if pattern.fullmatch(one) else value) for one in found)
        return np.fromiter(fits, dtype=bool)
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"--where {condition!r}: {value!r} is not a number") from None
    values = _values(units, condition, name, gold)
    present = ~np.isnan(values)
    fulfilled: NDArray[np.bool_] = present & compare(np.where(present, values, 0.0), number)
    return fulfilled


def _values(units: Units, condition: str, name: str, gold: Floats | None) -> Floats:
    if name == "turn":
        if units.level != "turn":
            raise UsageError(f"--where {condition!r}: a {units.level} has no turn; use --level turn")
        return np.array([key.turn for key in units.keys], dtype=float)
    known = {} if gold is None else {"gold": gold}
    known |= {label: units.columns[column] for column, label in units.labels().items()}
    full = {f"{column.source}/{column.dimension}": values for column, values in units.columns.items()}
    if name not in known and name not in full:
        raise UsageError(f"--where {condition!r}: no column {name!r}; there are: {', '.join(known)}")
    return known[name] if name in known else full[name]
