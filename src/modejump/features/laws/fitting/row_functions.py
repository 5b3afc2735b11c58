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
ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to the nearest integer
# Beyond these, exp may overflow, and remainders of angles lose digits.
LARGE_EXPONENT, LARGE_ANGLE = 700.0, 1e5


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
def _largest(u, m):
    top = 0.0
    for r in range(m):
        top = max(top, abs(u[r]))
    return top


@kernel
def _exponentials(u, out, m):
    """exp of a row: without branches where no value is large, so that the loop becomes vector instructions."""
    if not _largest(u, m) < LARGE_EXPONENT:
        _values(EXP, u, out, m)
        return
    for r in range(m):
        t = u[r] * 1.4426950408889634 + ROUND
        k = t - ROUND
        x = (u[r] - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
        p = 1.6059043836821613e-10
        p = p * x + 2.08767569878681e-09
        p = p * x + 2.505210838544172e-08
        p = p * x + 2.755731922398589e-07
        p = p * x + 2.7557319223985893e-06
        p = p * x + 2.48015873015873e-05
        p = p * x + 0.0001984126984126984
        p = p * x + 0.001388888888888889
        p = p * x + 0.008333333333333333
        p = p * x + 0.041666666666666664
        p = p * x + 0.16666666666666666
        p = p * x + 0.5
        p = p * x + 1.0
        p = p * x + 1.0
        out[r] = p * np.int64((np.float64(t).view(np.int64) + 1023) << 52).view(np.float64)


@kernel
def _waves(u, quarter, out, m):
    """sin(u + quarter pi / 2) of a row, likewise."""
    if not _largest(u, m) < LARGE_ANGLE:
        for r in range(m):
            v = math.cos(u[r]) if quarter & 1 else math.sin(u[r])
            out[r] = -v if quarter & 2 else v
        return
    for r in range(m):
        t = u[r] * 0.6366197723675814 + ROUND
        k = t - ROUND
        # What is left after multiples of pi / 2, which is given by three numbers.
        x = ((u[r] - k * 1.57079632673412561417) - k * 6.07710050630396597660e-11) - k * 2.02226624879595063154e-21
        z = x * x
        s = 1.58962301576546568060e-10
        s = s * z - 2.50507477628578072866e-8
        s = s * z + 2.75573136213857245213e-6
        s = s * z - 1.98412698295895385996e-4
        s = s * z + 8.33333333332211858878e-3
        s = s * z - 1.66666666666666307295e-1
        s = x + x * z * s
        c = -1.13585365213876817300e-11
        c = c * z + 2.08757008419747316778e-9
        c = c * z - 2.75573141792967388112e-7
        c = c * z + 2.48015872888517045348e-5
        c = c * z - 1.38888888888730564116e-3
        c = c * z + 4.16666666666665929218e-2
        c = 1.0 - 0.5 * z + z * z * c
        turn = np.float64(t).view(np.int64) + quarter
        v = c if turn & 1 else s
        out[r] = -v if turn & 2 else v


@kernel
def _call_row(pool, code, row, m):
    """Apply the C function of a transform to a row, in place."""
    _call_address(pool.calls[code], np.int64(row.ctypes.data), np.int64(m))


@kernel
def apply_function(pool, code, u, out, m):
    """Values of a function of a row; the rows may be one and the same."""
    inline = pool.inline[code]
    if inline == EXP:
        _exponentials(u, out, m)
    elif inline == SIN:
        _waves(u, np.int64(0), out, m)
    elif inline == COS:
        _waves(u, np.int64(1), out, m)
    elif inline >= 0:
        _values(inline, u, out, m)
    else:
        for r in range(m):
            out[r] = u[r]
        _call_row(pool, code, out, m)


@kernel
def apply_slope(pool, code, u, v, out, spare, m):
    """Derivatives of a function of a row, given its values."""
    inline = pool.inline[code]
    if inline == SIN:
        _waves(u, np.int64(1), out, m)
    elif inline == COS:
        _waves(u, np.int64(2), out, m)
    elif inline >= 0:
        _slopes(inline, u, v, out, m)
    else:
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
