"""Numbers that users give, checked."""

import math
import numbers
from typing import Any

from modejump.core.errors import InputError


def real_number(value: Any, what: str, above: float = -math.inf, below: float = math.inf) -> float:
    """Return value as a float strictly between the limits, or raise `InputError` naming what it is."""
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        number = float(value)
        if math.isfinite(number) and above < number < below:
            return number
    limits = [f"above {above:g}"] if above > -math.inf else []
    limits += [f"below {below:g}"] if below < math.inf else []
    raise InputError(f"{what} must be a finite number {' and '.join(limits)}; got {value!r}.")


def whole_number(value: Any, what: str, least: int = 0) -> int:
    """Return value as an int that is at least `least`, or raise `InputError` naming what it is."""
    if not isinstance(value, bool) and isinstance(value, numbers.Integral) and int(value) >= least:
        return int(value)
    raise InputError(f"{what} must be a whole number of at least {least}; got {value!r}.")
