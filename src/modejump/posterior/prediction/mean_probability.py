"""The inverse link of a binomial response, averaged over a mixture of normal predictors.

A smooth step is split as ``f(t) = Phi((t - m) / c) + d(t)``. The average of the first part over a normal is known in
closed form; ``d`` is small, vanishes on both sides, and is tabulated once. The trapezoidal rule with a step h averages
it over a normal of standard deviation sigma to a relative error of about ``exp(-2 pi^2 w^2 / h^2)``, where ``1/w^2 =
1/sigma^2 + 1/delta^2`` and d is smooth on the scale delta (see :mod:`modejump.posterior.prediction.grid`). The
normal's density at equally spaced nodes follows from its neighbour's by two multiplications, so a node costs a
nanosecond and no exponential. In the lower tail, where d is positive, digits are kept: a probability of 1e-12 is right
to many of them.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special

from modejump.core.compilation import entry, kernel, switch
from modejump.likelihoods.family import LINKS, Link
from modejump.posterior.prediction.grid import SMOOTH

# How far a component reaches, in its standard deviations.
REACH = 8.0
# Steps of the tables. The widest is for the widest components, and each is used where w is at least as large.
STEPS = (0.48, 0.34, 0.24, 0.17, 0.12, 0.085)
# Narrower components are averaged over five nodes of their own.
NARROW = 0.1
# Below, both inverse links that have a table are the exponential function, and its average is known; not so where the
# component is so wide that what lies above counts.
RARE, RARE_SCALE = -30.0, 4.0
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(5)
_SHARES = _SHARES / _SHARES.sum()


class Table(NamedTuple):
    """The remainder d of an inverse link at the nodes ``first[i] * step[i]`` and on, one step after the other.

    A probit link has none.
    """

    link: int  # place among all links
    remains: int  # 0 where there is no remainder
    middle: float
    width: float
    step: np.ndarray
    first: np.ndarray
    start: np.ndarray
    value: np.ndarray
    node: np.ndarray  # five nodes of a standard normal, and their shares
    share: np.ndarray


@cache
def table_of(link: Link) -> Table:
    """The table of a link."""
    assert link.close is not None
    (middle, width), (low, high) = link.close, link.reach
    first = np.array([math.ceil(low / h) for h in STEPS], np.int64)
    nodes = [h * np.arange(f, math.floor(high / h) + 1) for h, f in zip(STEPS, first, strict=True)]
    values = [link.mean(t) - special.ndtr((t - middle) / width) for t in nodes]
    start = np.concatenate([[0], np.cumsum([len(v) for v in values])]).astype(np.int64)
    return Table(
        link.code, int(low < high), middle, width, np.array(STEPS), first, start, np.concatenate(values),
        _NODES.copy(), _SHARES.copy(),
    )  # fmt: skip


_inverse_link = switch("t", LINKS.cases("step"), math.nan)


@kernel
def _remainder(table, loc, scale):
    """Average of d over a normal that is not narrow."""
    w = scale * SMOOTH / math.sqrt(scale * scale + SMOOTH * SMOOTH)
    i = 0
    while i < len(table.step) - 1 and table.step[i] > w:
        i += 1
    h = table.step[i]
    first, begin = table.first[i], table.start[i]
    last = first + table.start[i + 1] - begin - 1
    low, high = (loc - REACH * scale) / h, (loc + REACH * scale) / h
    if high < first or low > last:
        return 0.0
    one = int(max(math.ceil(low), float(first)))
    end = int(min(math.floor(high), float(last)))
    if one > end:
        return 0.0
    # From the node nearest to the middle outwards, so that what is multiplied only falls.
    origin = int(min(max(math.floor(loc / h + 0.5), float(one)), float(end)))
    delta, z = h / scale, (origin * h - loc) / scale
    top = delta / math.sqrt(2.0 * math.pi) * math.exp(-0.5 * z * z)
    fall = math.exp(-delta * delta)
    total = 0.0
    density, ratio = top, math.exp(-delta * (z + 0.5 * delta))
    for j in range(begin + origin - first, begin + end - first + 1):
        total += density * table.value[j]
        density *= ratio
        ratio *= fall
    density, ratio = top, math.exp(delta * (z - 0.5 * delta))
    for j in range(begin + origin - first - 1, begin + one - first - 1, -1):
        density *= ratio
        ratio *= fall
        total += density * table.value[j]
    return total


@kernel
def _mean_probability(table, loc, scale):
    """Average of an inverse link over a normal."""
    if table.remains:
        # The exponential times a normal is a normal around loc + scale^2.
        if loc + scale * scale < RARE and scale < RARE_SCALE:
            return math.exp(loc + 0.5 * scale * scale)
        if scale < NARROW:
            value = 0.0
            for k in range(len(table.node)):
                value += table.share[k] * _inverse_link(table.link, loc + scale * table.node[k])
            return value
    wide = math.sqrt(table.width * table.width + scale * scale)
    value = 0.5 * math.erfc((table.middle - loc) / (wide * math.sqrt(2.0)))
    return value + _remainder(table, loc, scale) if table.remains else value


@entry
def mean_probabilities(loc, scale, weight, table, out):
    """Average of an inverse link over each row's mixture of normals, whose weights sum to one."""
    for r in range(loc.shape[0]):
        total = 0.0
        for c in range(loc.shape[1]):
            if not weight[r, c] > 0.0:
                continue
            total += weight[r, c] * _mean_probability(table, loc[r, c], scale[r, c])
        out[r] = min(max(total, 0.0), 1.0)
