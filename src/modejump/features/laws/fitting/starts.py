"""Where the search for the constants of a law begins, compiled: a function of the law and the data alone.

Each constant has a few candidates, chosen by the scale of what it is multiplied by. Each candidate of one of them is
combined with the best ones of the others, which they choose in turn. Where there is a frequency, that would be too
many: all begin at their first candidate, and each in turn takes the best one, given the others, twice. The best points
met on the way are where the search begins.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import kernel
from modejump.features.laws.fitting.least_squares import loss
from modejump.features.laws.fitting.program import FREQUENCY, NOWHERE, RATE, run

# Points from which the search begins, and how often each constant chooses.
STARTS = 3
ROUNDS = 2
# Scales of an argument over its range; the first is where a constant starts.
RATES = (-1.0, 1.0, -3.0, 3.0, -0.3, 0.3, -10.0, 10.0)
# Frequencies are tried from one to the other in steps, in cycles over the range of the argument.
SLOWEST, FASTEST, CYCLES = 0.25, 12.0, 0.375
# Where zeros of a sum lie, over the range of the quotient of the other terms and this one: outside and inside of it.
OUTSIDE = (-1.0, -0.2, 1.2, 2.0, -0.02, 1.02, -5.0)
INSIDE = (0.47, 0.23, 0.74)
# Largest values of a term with a constant over that of the other terms, where the quotient has poles.
SHARES = (1.0, 0.3, 3.0, 0.1)
MOST_CANDIDATES = 80


@kernel
def _range_of(rows, program, k, quotient):
    """Least and largest value of what a constant is multiplied by, or of the other terms of its sum over that."""
    m = len(rows.root)
    low, high = np.inf, -np.inf
    factor, total = program.factor[k], program.total[k]
    for r in range(m):
        v = 1.0
        if factor != NOWHERE:
            v = rows.leaf[-1 - factor, r] if factor < 0 else program.value[factor, r]
        if quotient:
            v = program.value[total, r] / v
        if abs(v) < np.inf:
            low, high = min(low, v), max(high, v)
    return low, high


@kernel
def _largest_total(rows, program, k):
    """Largest absolute value of the other terms of a constant's sum."""
    most, total = 0.0, program.total[k]
    for r in range(len(rows.root)):
        v = abs(program.value[total, r])
        if v < np.inf:
            most = max(most, v)
    return most


@kernel
def _candidates(program, pool, rows, constants, k, out):
    """Write the candidates of a constant, given the others; how many there are."""
    own = constants[k]
    constants[k] = 0.0
    run(program, pool, constants, rows.leaf, np.int64(0), len(rows.root), False)
    constants[k] = own
    alone = program.total[k] < 0
    count = 0
    if program.role[k] == FREQUENCY:
        if program.factor[k] == NOWHERE:
            for i in range(4):
                out[i] = 0.25 * np.pi * i
            return 4
        low, high = _range_of(rows, program, k, False)
        cycles = SLOWEST
        while cycles <= FASTEST and count < MOST_CANDIDATES - 1:
            out[count] = 2.0 * np.pi * cycles / (high - low)
            count += 1
            if not alone and program.phase[k] < 0:
                out[count] = -out[count - 1]
                count += 1
            cycles += CYCLES
        return count
    if alone or (program.role[k] == RATE and program.factor[k] != NOWHERE):
        low, high = _range_of(rows, program, k, False)
        for s in RATES:
            out[count] = s / (high - low)
            count += 1
        return count
    if program.factor[k] != NOWHERE:
        low, high = _range_of(rows, program, k, False)
        if low < 0.0 < high:
            # Their quotient has no scale where what the constant is multiplied by may be next to nothing.
            scale = _largest_total(rows, program, k) / max(high, -low)
            for s in SHARES:
                out[count], out[count + 1] = s * scale, -s * scale
                count += 2
            return count
    low, high = _range_of(rows, program, k, True)
    if not high > low:
        out[0] = 0.0
        return 1
    inside_first = program.inside[k] == 1 or program.role[k] == RATE
    for turn in range(2):
        if (turn == 0) == inside_first:
            for s in INSIDE:
                out[count] = -(low + s * (high - low))
                count += 1
        else:
            for s in OUTSIDE:
                out[count] = -(low + s * (high - low))
                count += 1
    return count


@kernel
def _near(program, point, other):
    """Whether a search from both points would be one too many: signs and frequencies are the same."""
    for i in range(program.constants):
        if program.role[i] == FREQUENCY and program.factor[i] != NOWHERE:
            if abs(point[i] - other[i]) > 0.3 * (abs(point[i]) + abs(other[i])):
                return False
        elif (point[i] < 0.0) != (other[i] < 0.0):
            return False
    return True


@kernel
def _note(program, starts, losses, point, value):
    """Keep a point among the best ones; of two that are near each other the better one."""
    at = len(losses) - 1
    for i in range(len(losses)):
        if losses[i] < np.inf and _near(program, starts[i], point):
            at = i
            break
    if not value < losses[at]:
        return
    losses[at] = value
    starts[at] = point
    while at > 0 and losses[at] < losses[at - 1]:
        for i in range(program.constants):
            starts[at, i], starts[at - 1, i] = starts[at - 1, i], starts[at, i]
        losses[at], losses[at - 1] = losses[at - 1], losses[at]
        at -= 1


@kernel
def _choose(program, pool, rows, point, k, values, starts, losses):
    """Give a constant the best of its candidates; a frequency is tried with two phases where it has one."""
    count = _candidates(program, pool, rows, point, k, values)
    phase = program.phase[k]
    best, _ = loss(program, pool, rows, point, False)
    kept = point[k]
    kept_phase = point[phase] if phase >= 0 else 0.0
    for i in range(count):
        point[k] = values[i]
        for turn in range(2 if phase >= 0 else 1):
            if phase >= 0:
                point[phase] = 0.5 * np.pi * turn
            value, _ = loss(program, pool, rows, point, False)
            if value < np.inf:
                _note(program, starts, losses, point, value)
            if value < best:
                best, kept = value, values[i]
                if phase >= 0:
                    kept_phase = point[phase]
    point[k] = kept
    if phase >= 0:
        point[phase] = kept_phase


@kernel
def _leader(program):
    """The constant each of whose candidates is combined with the best ones of the others; -1 where there is a wave.

    Candidates of a rate do not depend on the other constants.
    """
    leader = program.constants - 1
    for k in range(program.constants - 1, -1, -1):
        if program.role[k] == FREQUENCY:
            return np.int64(-1)
        if program.role[k] == RATE and program.factor[k] != NOWHERE:
            leader = k
    return np.int64(leader)


@kernel
def _begin(program, pool, rows, point, values):
    """Give each constant the first of its candidates, what stands inside before what stands outside of it."""
    point[:] = 0.0
    for k in range(program.constants - 1, -1, -1):
        if _candidates(program, pool, rows, point, k, values) > 0:
            point[k] = values[0]


@kernel
def find_starts(program, pool, rows, starts, losses):
    """Write the points from which the search begins, best first; losses are infinite where there are fewer."""
    count, leader = program.constants, _leader(program)
    point, first = np.zeros(count), np.zeros(count)
    values, leading = np.zeros(MOST_CANDIDATES), np.zeros(MOST_CANDIDATES)
    losses[:] = np.inf
    _begin(program, pool, rows, first, values)
    if leader >= 0:
        for i in range(_candidates(program, pool, rows, first, leader, leading)):
            point[:] = first
            point[leader] = leading[i]
            if count == 1:
                value, _ = loss(program, pool, rows, point, False)
                if value < np.inf:
                    _note(program, starts, losses, point, value)
            for k in range(count - 1, -1, -1):
                if k != leader:
                    _choose(program, pool, rows, point, k, values, starts, losses)
        return
    point[:] = first
    only_waves = True
    for k in range(count):
        only_waves &= program.role[k] == FREQUENCY
    for _ in range(1 if only_waves else ROUNDS):
        # Without its frequency a wave explains nothing, whatever the other constants.
        for waves in range(2):
            for k in range(count - 1, -1, -1):
                if (program.role[k] == FREQUENCY) == (waves == 0):
                    _choose(program, pool, rows, point, k, values, starts, losses)
