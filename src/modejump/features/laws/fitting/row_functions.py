"""Powers and functions of rows of numbers with their derivatives, compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from modejump.core.compilation import kernel
from modejump.features.nonlinear.builtin import RADIANS
from modejump.features.nonlinear.calls import _call_address

# Functions whose derivatives are compiled here; those of all others are differences.
INLINE = (
    "exp", "log", "sin", "cos", "tanh", "atan", "erf", "sigmoid", "gauss", "arcsinh", "sin_deg", "cos_deg", "exp_abs",
    "log1p_abs",
)  # fmt: skip
(EXP, LOG, SIN, COS, TANH, ATAN, ERF, SIGMOID, GAUSS, ARCSINH, SIN_DEG, COS_DEG, EXP_ABS, LOG1P_ABS) = range(14)
_ALIASES = {"p0": "log"}
# Relative step of central differences: about the cube root of the rounding error.
DIFFERENCE = 6e-6
ROOT_PI = math.sqrt(math.pi)


def inline_codes(names: Sequence[str]) -> np.ndarray:
    """Place of each function among those that are compiled here, -1 for others."""
    known = [_ALIASES.get(name, name) for name in names]
    return np.array([INLINE.index(name) if name in INLINE else -1 for name in known], np.int64)


@kernel
def value_of(code, u):
    """A function at a number."""
    if code == EXP:
        return math.exp(u)
    if code == LOG:
        return math.log(u) if u > 0.0 else np.nan
    if code == SIN:
        return math.sin(u)
    if code == COS:
        return math.cos(u)
    if code == TANH:
        return math.tanh(u)
    if code == ATAN:
        return math.atan(u)
    if code == ERF:
        return math.erf(u)
    if code == SIGMOID:
        small = math.exp(-abs(u))
        return (1.0 if u >= 0.0 else small) / (1.0 + small)
    if code == GAUSS:
        return math.exp(-u * u)
    if code == ARCSINH:
        return math.asinh(u)
    if code == SIN_DEG:
        return math.sin(RADIANS * u)
    if code == COS_DEG:
        return math.cos(RADIANS * u)
    if code == EXP_ABS:
        return math.exp(-abs(u))
    return math.log1p(abs(u))


@kernel
def slope_of(code, u, v):
    """Derivative of a function at a number, given its value there."""
    if code == EXP:
        return v
    if code == LOG:
        return 1.0 / u
    if code == SIN:
        return math.cos(u)
    if code == COS:
        return -math.sin(u)
    if code == TANH:
        return 1.0 - v * v
    if code == ATAN:
        return 1.0 / (1.0 + u * u)
    if code == ERF:
        return 2.0 / ROOT_PI * math.exp(-u * u)
    if code == SIGMOID:
        return v * (1.0 - v)
    if code == GAUSS:
        return -2.0 * u * v
    if code == ARCSINH:
        return 1.0 / math.sqrt(1.0 + u * u)
    if code == SIN_DEG:
        return RADIANS * math.cos(RADIANS * u)
    if code == COS_DEG:
        return -RADIANS * math.sin(RADIANS * u)
    if code == EXP_ABS:
        return -v if u >= 0.0 else v
    return (1.0 if u >= 0.0 else -1.0) / (1.0 + abs(u))


@kernel
def _values(code, u, out, m):
    for r in range(m):
        out[r] = value_of(code, u[r])


@kernel
def _slopes(code, u, v, out, m):
    for r in range(m):
        out[r] = slope_of(code, u[r], v[r])


@kernel
def _call_row(pool, code, row, m):
    """Apply the C function of a transform to a row, in place."""
    _call_address(pool.calls[code], np.int64(row.ctypes.data), np.int64(m))


@kernel
def apply_function(pool, code, u, out, m):
    """Values of a function of a row; the rows may be one and the same."""
    inline = pool.inline[code]
    if inline >= 0:
        # The compiler makes a loop of its own for each function that laws use most.
        if inline == EXP:
            _values(EXP, u, out, m)
        elif inline == LOG:
            _values(LOG, u, out, m)
        elif inline == SIN:
            _values(SIN, u, out, m)
        elif inline == COS:
            _values(COS, u, out, m)
        else:
            _values(inline, u, out, m)
        return
    for r in range(m):
        out[r] = u[r]
    _call_row(pool, code, out, m)


@kernel
def apply_slope(pool, code, u, v, out, spare, m):
    """Derivatives of a function of a row, given its values."""
    inline = pool.inline[code]
    if inline >= 0:
        if inline == EXP:
            _slopes(EXP, u, v, out, m)
        elif inline == LOG:
            _slopes(LOG, u, v, out, m)
        elif inline == SIN:
            _slopes(SIN, u, v, out, m)
        elif inline == COS:
            _slopes(COS, u, v, out, m)
        else:
            _slopes(inline, u, v, out, m)
        return
    for r in range(m):
        h = DIFFERENCE * (1.0 + abs(u[r]))
        out[r] = u[r] + h
        spare[r] = u[r] - h
    _call_row(pool, code, out, m)
    _call_row(pool, code, spare, m)
    for r in range(m):
        out[r] = (out[r] - spare[r]) / (2.0 * DIFFERENCE * (1.0 + abs(u[r])))


@kernel
def _whole_power(x, p):
    """A whole power from 1 on, by multiplication."""
    y = x * x
    if p == 2:
        return y
    if p == 1:
        return x
    if p == 3:
        return y * x
    if p == 4:
        return y * y
    return x**p


@kernel
def apply_power(u, out, p, q, m):
    """Powers p/q of a row, of absolute values where the exponent is a fraction; the rows may be one and the same."""
    whole = abs(p)
    if q == 1:
        for r in range(m):
            out[r] = _whole_power(u[r], whole)
    elif q == 2:
        for r in range(m):
            out[r] = _whole_power(math.sqrt(abs(u[r])), whole)
    elif q == 3:
        for r in range(m):
            out[r] = _whole_power(np.cbrt(abs(u[r])), whole)
    else:
        for r in range(m):
            out[r] = abs(u[r]) ** (whole / q)
    if p < 0:
        for r in range(m):
            out[r] = 1.0 / out[r]
