"""Signs and phases that a law leaves open, by convention, compiled.

A function that is odd or even does not tell a sum of fitted terms from its negative: the first constant is positive.
For an odd function this holds where it is a factor of the law, whose slope then has the other sign. A phase of sin is
the one closest to zero.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import kernel
from modejump.features.laws.fitting.program import CONSTANT, FUNCTION, NOWHERE, PLUS, RAISE, SCALE, TIMES
from modejump.features.laws.fitting.row_functions import SIN


@kernel
def _is_factor(program, i):
    """Whether an instruction is a factor of the law, or a power of it is."""
    a = program.last
    while a >= 0:
        split = program.op[a] == TIMES
        b = program.b[a] if split else a
        if b == i or (b >= 0 and program.op[b] == RAISE and program.a[b] == i):
            return True
        if not split:
            break
        a = program.a[a]
    return False


@kernel
def _fitted_terms(program, a):
    """The constants of the terms of an argument, as bits; 0 where some term is without one."""
    terms = np.int64(0)
    while a >= 0:
        split = program.op[a] == PLUS
        b = program.b[a] if split else a
        if b < 0 or (program.op[b] != SCALE and program.op[b] != CONSTANT):
            return np.int64(0)
        terms |= np.int64(1) << program.b[b]
        if not split:
            return terms
        a = program.a[a]
    return np.int64(0)


@kernel
def settle_signs(program, pool, constants):
    """Give constants the sign and the phase of the convention."""
    for i in range(program.count):
        if program.op[i] != FUNCTION:
            continue
        code = program.b[i]
        parity, factor = pool.parity[code], _is_factor(program, i)
        terms = _fitted_terms(program, program.a[i]) if parity > 0 or (parity < 0 and factor) else np.int64(0)
        for k in range(program.constants):
            # The first of the terms decides, for all of them.
            if terms & (np.int64(1) << k):
                if constants[k] < 0.0:
                    for other in range(k, program.constants):
                        if terms & (np.int64(1) << other):
                            constants[other] = -constants[other]
                break
        if pool.inline[code] == SIN:
            period = np.pi if factor else 2.0 * np.pi
            for k in range(program.constants):
                if program.total[k] == program.a[i] and program.factor[k] == NOWHERE:
                    constants[k] -= period * np.round(constants[k] / period)
