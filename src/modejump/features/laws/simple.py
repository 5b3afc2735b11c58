"""Simple values of fitted constants: integers, fractions and multiples of pi that the data do not tell from them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

# Denominators of fractions, by the width of an interval in which one is no mere chance: about q^2/3 fractions of
# denominators up to q lie in a unit.
_MOST_PARTS: Final = 12
_MOST_PARTS_OF_PI: Final = 6
_LARGEST: Final = 1000
# Half a squared standard error is what a likelihood loses; less than one is nothing.
_ERRORS: Final = math.sqrt(2.0)
_PRECISION: Final = 1e-7


def simple_value(value: float, lower: float, upper: float) -> str:
    """The simple value that a fitted constant may have, or empty text.

    It is an integer, a fraction with a small denominator or such a multiple of pi; inside the interval, so close that
    the log likelihood loses less than one, and so rare that it is hardly there by chance.

    Parameters
    ----------
    value : float
        The estimate.
    lower, upper : float
        Its interval of 95 %.

    Examples
    --------
    >>> simple_value(1.98, 1.93, 2.03), simple_value(0.3334, 0.3325, 0.3343), simple_value(3.1414, 3.141, 3.1418)
    ('2', '1/3', 'pi')
    >>> simple_value(1.7343, 1.7340, 1.7346)
    ''
    """
    if not (math.isfinite(lower) and math.isfinite(upper) and abs(value) < _LARGEST):
        return ""
    slack = _PRECISION * max(abs(value), 1e-3)
    # An interval of 95 % is about four standard errors.
    reach = min((upper - lower) / 3.92 * _ERRORS, max(upper - value, value - lower)) + slack
    for unit, most in ((1.0, _MOST_PARTS), (math.pi, _MOST_PARTS_OF_PI)):
        width = (upper - lower) / unit
        for parts in range(1, most + 1):
            if (parts > 1 or unit != 1.0) and width * parts**2 > 0.5:
                break
            if parts == 1 and width > 2.0:
                break
            near = Fraction(round(value / unit * parts), parts)
            if near != 0 and near.denominator == parts and abs(float(near) * unit - value) <= reach:
                return str(near) if unit == 1.0 else _times_pi(near)
    return ""


def _times_pi(multiple: Fraction) -> str:
    top = {1: "pi", -1: "-pi"}.get(multiple.numerator, f"{multiple.numerator}*pi")
    return top if multiple.denominator == 1 else f"{top}/{multiple.denominator}"
