"""Score, information and log likelihood of a block of rows, compiled: what all links share."""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import kernel, summing, switch
from modejump.likelihoods.family import LINKS

_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to the nearest integer


@kernel
def fast_exp(x):
    """exp(x) to an ulp or two, without branches, so that loops over rows become vector instructions."""
    x = min(max(x, -708.0), 708.0)
    t = x * 1.4426950408889634 + _ROUND
    k = t - _ROUND
    r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    bits = (np.float64(t).view(np.int64) + 1023) << 52
    return p * np.int64(bits).view(np.float64)


@summing
def lowest_margin(y, eta, first, m):
    """How far the row that is classified worst lies on its right side of zero; a share of both classes has none."""
    lowest = np.inf
    for r in range(m):
        side = 2.0 * y[first + r] - 1.0
        lowest = min(lowest, side * eta[r] - (1.0 - side * side) * (1.0 + abs(eta[r])))
    return lowest


_rows_of = switch("glm, work, first, m", LINKS.cases("rows"), np.nan)
_slope_of = switch("t", LINKS.cases("information_slope"), (0.0, 0.0))


@kernel
def score_rows(glm, work, first, m):
    """Score and information of the rows of a block; returns its log likelihood."""
    return _rows_of(glm.link, glm, work, first, m)


@kernel
def information_slope(glm, t):
    """First and second derivative, by the predictor, of the log of a row's information."""
    return _slope_of(glm.link, t)
