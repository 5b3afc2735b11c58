"""Constants of laws as a function of the law and the data, compiled.

They are found so that the whole law explains the response best, with the terms of every model and a slope of its own
beside it: first on a few rows, to see where to begin, then on at most ``BLOCK`` rows by the method of
`least_squares`. Where there are more rows, this is done on ``SAMPLE`` of them, spread evenly over the table, and a few
more steps are made on all. Which rows are chosen depends on their number alone.

A law has no constants, and so no column, where they are not finite, not identified, or so large or small that a term
vanishes beside the others. What was found is remembered by the key of the law: a search forgets features and meets them
again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from modejump.core.compilation import generic, implements, kernel
from modejump.features.laws.fitting.least_squares import identified, loss, minimise
from modejump.features.laws.fitting.program import NOWHERE, run, translate
from modejump.features.laws.fitting.signs import settle_signs
from modejump.features.laws.fitting.starts import STARTS, find_starts

# Rows on which starts are compared, rows of a sample, and steps: from each start, from the best, on all rows.
SCREENED = 128
SAMPLE = 256
FIRST_STEPS, STEPS, LAST_STEPS = 6, 40, 12
# A term of which less than this is left beside the others, or the others beside it, is none.
VANISHING = 1e-6
# What is remembered of a law: nothing; its constants; that it has none.
UNKNOWN, FITTED, NONE = range(3)


class LeastSquares(NamedTuple):
    """Constants are fitted by least squares."""

    unused: int = 0

    def at(self, rows: np.ndarray) -> LeastSquares:
        """The same for some rows."""
        return self


class Fitting(NamedTuple):
    """What constants are fitted to.

    A family that is fitted by its likelihood has least squares, around the base model, to compare starts with.
    """

    root: np.ndarray  # float64 (n,): square roots of the weights
    base: np.ndarray  # float64 (b, n): columns of every model, weighted
    target: np.ndarray  # float64 (n,): the weighted response
    likelihood: Any = LeastSquares()


def spread_rows(n: int, most: int) -> np.ndarray:
    """So many of n rows, spread evenly."""
    m = min(n, most)
    return ((np.arange(m) + 0.5) * n / m).astype(np.int64)


@kernel
def _gather(source, rows, target, count):
    """Leaves of some rows."""
    for j in range(count):
        for r in range(len(rows)):
            target[j, r] = source[j, rows[r]]


@kernel
def _spread(program, rows, k, others):
    """Range of a constant's factor, or of the other terms of its sum; zero where it is not finite."""
    factor, total = program.factor[k], program.total[k]
    low, high = np.inf, -np.inf
    for r in range(len(rows.root)):
        v = 0.0
        if others:
            v = program.value[total, r]
        elif factor != NOWHERE:
            v = rows.leaf[-1 - factor, r] if factor < 0 else program.value[factor, r]
        low, high = min(low, v), max(high, v)
    return high - low if high - low < np.inf else 0.0


@kernel
def _vanishes(program, pool, rows, constants):
    """Whether some term with a constant, or all others beside it, are too small to matter."""
    for k in range(program.constants):
        own = constants[k]
        if not abs(own) < np.inf:
            return True
        constants[k] = 0.0
        run(program, pool, constants, rows.leaf, np.int64(0), len(rows.root), False)
        constants[k] = own
        size = abs(own) * (1.0 if program.factor[k] == NOWHERE else _spread(program, rows, k, False))
        beside = 1.0 if program.total[k] < 0 else _spread(program, rows, k, True)
        # The other terms may all be constant: then this one is what varies.
        if beside > 0.0 and not VANISHING * beside < size < beside / VANISHING:
            return True
    return False


@generic
def advance(likelihood, program, pool, constants, steps, everything):
    """Improve constants by so many steps, on all rows or on the sample; returns the loss, infinity where it failed."""


@implements(advance, LeastSquares)
def _advance_by_squares(likelihood, program, pool, constants, steps, everything):
    if everything:
        return minimise(program, pool, pool.rows, constants, steps)
    return minimise(program, pool, pool.sample, constants, steps)


@kernel
def _usable(program, pool, constants):
    """Whether constants are finite and identified, and no term vanishes."""
    if _vanishes(program, pool, pool.screen, constants):
        return False
    value, _ = loss(program, pool, pool.rows, constants, True)
    return value < np.inf and identified(program, pool.rows)


@kernel
def _fit(program, pool, constants):
    """Fit the constants of the program; False where it has none."""
    k, rows = program.constants, pool.rows
    _gather(rows.leaf, pool.screened, pool.screen.leaf, program.leaves)
    sampled = len(pool.sample.root) < len(rows.root)
    if sampled:
        _gather(rows.leaf, pool.sampled, pool.sample.leaf, program.leaves)
    starts, losses = np.zeros((STARTS, k)), np.zeros(STARTS)
    find_starts(program, pool, pool.screen, starts, losses)
    for i in range(STARTS):
        if losses[i] < np.inf:
            losses[i] = advance(pool.likelihood, program, pool, starts[i], FIRST_STEPS, False)
    # A search may end where a term vanishes: then it is another one's turn, which has to do better.
    best = np.inf
    for _ in range(STARTS):
        at = np.argmin(losses)
        if not losses[at] < np.inf:
            break
        constants[:k] = starts[at]
        value = advance(pool.likelihood, program, pool, constants, STEPS, False)
        if value < best:
            best = value
            if sampled:
                advance(pool.likelihood, program, pool, constants, LAST_STEPS, True)
            settle_signs(program, pool, constants)
            if _usable(program, pool, constants):
                return True
        losses[at] = np.inf
    return False


@kernel
def settle(table, pool, f):
    """Make the program of a law and put its constants into ``pool.found``; False where it has none.

    Returns whether it has constants.
    """
    memo, found = pool.memo, pool.found
    count = table.constants[f]
    if count > len(found):
        return False
    key = table.key[f]
    for i in range(len(pool.refined_key)):
        if pool.refined_key[i] == key:
            for k in range(count):
                found[k] = pool.refined[i, k]
            return translate(pool.program, table, pool, f)
    at = np.int64(key & np.uint64(len(memo.state) - 1))
    known = memo.state[at] != UNKNOWN and memo.key[at] == key
    if known and memo.state[at] == NONE:
        return False
    if not translate(pool.program, table, pool, f):
        return False
    if known:
        for k in range(count):
            found[k] = memo.constants[at, k]
        return True
    fitted = _fit(pool.program, pool, found)
    memo.key[at] = key
    memo.state[at] = FITTED if fitted else NONE
    for k in range(count):
        memo.constants[at, k] = found[k]
    return fitted
