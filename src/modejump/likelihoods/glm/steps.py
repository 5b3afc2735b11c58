"""What links of binomial responses share: their inverse is a smooth step from 0 to 1."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from modejump.core.compilation import kernel
from modejump.likelihoods.family import Link

TINY = 1e-300


class StepLink(Link):
    """A link of binomial responses.

    Attributes
    ----------
    close : tuple of two floats, or None
        Location and scale of the normal distribution function beside which the inverse link is tabulated for
        predictions; without it they take the slower way of any link.
    reach : tuple of two floats
        Where the difference to it is tabulated: above, it is below 1e-12; below, the inverse link is the exponential
        function. Empty where there is no difference.
    """

    close: ClassVar[tuple[float, float] | None] = None
    reach: ClassVar[tuple[float, float]] = (0.0, 0.0)
    # The inverse link of one number, compiled, where it is tabulated.
    step: ClassVar[Any] = None


@kernel
def impossible(target, upper, lower):
    """Whether a row has probability zero: a side that underflows matters only to rows that are on it."""
    return not ((upper > 0.0 or target == 0.0) and (lower > 0.0 or target == 1.0))


@kernel
def add_row(work, r, w, target, density, upper, lower, bend):
    """Write down score and information of a row; returns its log likelihood.

    The information is the observed one, ``bend``, as for the other links: scoring by the expected one converges
    linearly, at a pace that may pass for that of rows which move off.
    """
    work.score[r] = w * density * (target / upper - (1.0 - target) / lower)
    work.info[r] = w * density * (density / (upper * lower)) if work.expected else w * bend
    return w * (target * math.log(upper) + (1.0 - target) * math.log(lower))
