"""Transforms of long columns by vector instructions; the plain twins are the functions in `modejump.features.nonlinear.builtin`.

The functions of the C library take one number at a time. Those here are arithmetic without branches, of which the
compiler makes vector instructions: they take a fifth of the time, and differ in the last digits. Where a column has
values for which they do not hold (infinite, very large or very small ones), it goes the way of
`modejump.features.nonlinear.functions`.
"""

import math
from typing import Any

import numpy as np
from numba.core import types
from numba.core.cgutils import ir
from numba.extending import intrinsic

from modejump.core.compilation import entry, fused
from modejump.features.nonlinear.builtin import RADIANS, Code
from modejump.features.nonlinear.functions import THIRD, apply

# Adding it rounds a number to a whole one, which is then in the last bits.
_MAGIC = 1.5 * 2.0**52
_MAGIC_BITS = 0x4338000000000000
_LOG2_E = 1.0 / math.log(2.0)
# Parts of constants whose first ones have few digits: products with small whole numbers are exact.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_HALF_PI_HIGH = 1.57079632673412561417
_HALF_PI_MIDDLE = 6.07710050630396597660e-11
_HALF_PI_LOW = 2.02226624879595063154e-21
_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
# Below, an exponential is taken as zero: it is not a normal number any more.
_LEAST_EXPONENT = -708.0
# Beyond, fewer digits of an angle than those kept here are left.
_LARGEST_ANGLE = 1e5
# Powers of numbers between these are normal numbers.
_LEAST_BASE, _LARGEST_BASE = 1e-80, 1e80
_LEAST_LOG, _LARGEST_LOG = 1e-300, 1e300


@intrinsic
def _bits_of(typing_context: Any, x: types.Type) -> Any:
    """The bits of a number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def _number_of(typing_context: Any, bits: types.Type) -> Any:
    """The number that has these bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


_bits: Any = _bits_of
_number: Any = _number_of


@fused
def _whole(x):
    """The nearest whole number, and a number whose last bits it is."""
    t = x + _MAGIC
    return t - _MAGIC, t


@fused
def _exp_less_one(r):
    """exp(r) - 1 for |r| at most log(2)/2, by its series."""
    q = 1.0 / 6227020800.0
    q = q * r + 1.0 / 479001600.0
    q = q * r + 1.0 / 39916800.0
    q = q * r + 1.0 / 3628800.0
    q = q * r + 1.0 / 362880.0
    q = q * r + 1.0 / 40320.0
    q = q * r + 1.0 / 5040.0
    q = q * r + 1.0 / 720.0
    q = q * r + 1.0 / 120.0
    q = q * r + 1.0 / 24.0
    q = q * r + 1.0 / 6.0
    q = q * r + 0.5
    return r + (r * r) * q


@fused
def _reduced(x):
    """Whole k and small r with x = k log(2) + r, and 2^k."""
    k, t = _whole(x * _LOG2_E)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    return r, _number((_bits(t) + np.int64(1023)) << np.int64(52))


@fused
def _exp(x):
    """exp(x) for x of at most 709; zero where it is not a normal number."""
    inside = _LEAST_EXPONENT if x < _LEAST_EXPONENT else x
    r, scale = _reduced(inside)
    value = scale + scale * _exp_less_one(r)
    return 0.0 if x < _LEAST_EXPONENT else value


@fused
def _tanh(x):
    a = abs(x)
    r, scale = _reduced(44.0 if a > 22.0 else 2.0 * a)
    less_one = scale * _exp_less_one(r) + (scale - 1.0)
    return math.copysign(less_one / (less_one + 2.0), x)


@fused
def _sigmoid(x):
    small = _exp(-abs(x))
    return (small if x < 0.0 else 1.0) / (1.0 + small)


@fused
def _log_parts(x):
    """Whole e and log(m) with x = 2^e m and m near one, for normal positive x."""
    bits = _bits(x)
    e = (bits - np.int64(_ROOT_HALF_BITS)) >> np.int64(52)
    f = _number(bits - (e << np.int64(52))) - 1.0
    s = f / (2.0 + f)
    z = s * s
    q = 2.0 / 23.0
    q = q * z + 2.0 / 21.0
    q = q * z + 2.0 / 19.0
    q = q * z + 2.0 / 17.0
    q = q * z + 2.0 / 15.0
    q = q * z + 2.0 / 13.0
    q = q * z + 2.0 / 11.0
    q = q * z + 2.0 / 9.0
    q = q * z + 2.0 / 7.0
    q = q * z + 0.4
    q = q * z + 2.0 / 3.0
    # log(1 + f) = 2 s + s z q, of which 2 s is f - s f: so most of it is the exact f.
    return _number(e + np.int64(_MAGIC_BITS)) - _MAGIC, f - s * (f - z * q)


@fused
def _log(x):
    e, part = _log_parts(x)
    return e * _LN2_HIGH + (part + e * _LN2_LOW)


@fused
def _log1p(a):
    """log(1 + a) for a of at least zero, with what the sum loses."""
    u = 1.0 + a
    e, part = _log_parts(u)
    return e * _LN2_HIGH + (part + (e * _LN2_LOW + (a - (u - 1.0)) / u))


@fused
def _power(a, high, low):
    """The power high + low of a positive number; products of high with exponents are exact."""
    e, part = _log_parts(a)
    w = e * high
    k, t = _whole(w)
    r, scale = _reduced(((w - k) + e * low) * (_LN2_HIGH + _LN2_LOW) + (high + low) * part)
    value = scale + scale * _exp_less_one(r)
    return value * _number((_bits(t) + np.int64(1023)) << np.int64(52))


@fused
def _sine(x, quarter):
    """sin(x + quarter pi/2) for |x| of at most 1e5."""
    k, t = _whole(x * (2.0 / math.pi))
    r = ((x - k * _HALF_PI_HIGH) - k * _HALF_PI_MIDDLE) - k * _HALF_PI_LOW
    z = r * r
    s = 1.0 / 355687428096000.0
    s = s * z - 1.0 / 1307674368000.0
    s = s * z + 1.0 / 6227020800.0
    s = s * z - 1.0 / 39916800.0
    s = s * z + 1.0 / 362880.0
    s = s * z - 1.0 / 5040.0
    s = s * z + 1.0 / 120.0
    s = s * z - 1.0 / 6.0
    c = 1.0 / 20922789888000.0
    c = c * z - 1.0 / 87178291200.0
    c = c * z + 1.0 / 479001600.0
    c = c * z - 1.0 / 3628800.0
    c = c * z + 1.0 / 40320.0
    c = c * z - 1.0 / 720.0
    c = c * z + 1.0 / 24.0
    c = c * z - 0.5
    turns = _bits(t) + np.int64(quarter)
    value = (1.0 + z * c) if turns & np.int64(1) else (r + (r * z) * s)
    return -value if turns & np.int64(2) else value


@fused
def _within(x, least, largest):
    """Whether all values are zero, or lie between two bounds in size."""
    outside = np.int64(0)
    for i in range(x.size):
        a = abs(x[i])
        outside += np.int64(0) if (a == 0.0) | ((a >= least) & (a <= largest)) else np.int64(1)
    return outside == 0


@fused
def _positive(x, least, largest):
    """Whether all values lie between two positive bounds."""
    outside = np.int64(0)
    for i in range(x.size):
        outside += np.int64(0) if (x[i] >= least) & (x[i] <= largest) else np.int64(1)
    return outside == 0


_THIRD_HIGH = math.floor(THIRD * 2.0**40) / 2.0**40
_THIRD_LOW = THIRD - _THIRD_HIGH
_TO23_HIGH = math.floor(2.3 * 2.0**39) / 2.0**39
_TO23_LOW = 2.3 - _TO23_HIGH


@fused
def _apply_exponential(code, x, out):
    """Exponentials: right for all numbers."""
    if code == Code.SIGMOID:
        for i in range(x.size):
            out[i] = _sigmoid(x[i])
    elif code == Code.TANH:
        for i in range(x.size):
            out[i] = _tanh(x[i])
    elif code == Code.GAUSS:
        for i in range(x.size):
            out[i] = _exp(-x[i] * x[i])
    elif code == Code.EXP_ABS:
        for i in range(x.size):
            out[i] = _exp(-abs(x[i]))
    else:
        return False
    return True


@fused
def _apply_sine(code, x, out):
    """Sines and cosines of angles that are not too large."""
    if not _within(x, 0.0, _LARGEST_ANGLE):
        return False
    if code == Code.SIN:
        for i in range(x.size):
            out[i] = _sine(x[i], 0)
    elif code == Code.COS:
        for i in range(x.size):
            out[i] = _sine(x[i], 1)
    elif code == Code.SIN_DEG:
        for i in range(x.size):
            out[i] = _sine(RADIANS * x[i], 0)
    elif code == Code.COS_DEG:
        for i in range(x.size):
            out[i] = _sine(RADIANS * x[i], 1)
    else:
        return False
    return True


@fused
def _apply_power(code, x, out):
    """Powers of numbers that are neither very large nor very small."""
    if not _within(x, _LEAST_BASE, _LARGEST_BASE):
        return False
    if code == Code.TROOT:
        for i in range(x.size):
            a = abs(x[i])
            out[i] = 0.0 if a == 0.0 else _power(a, _THIRD_HIGH, _THIRD_LOW)
    elif code == Code.TO23:
        for i in range(x.size):
            a = abs(x[i])
            out[i] = 0.0 if a == 0.0 else _power(a, _TO23_HIGH, _TO23_LOW)
    elif code == Code.TO25:
        for i in range(x.size):
            a = abs(x[i])
            out[i] = a * a * math.sqrt(a)
    elif code == Code.TO35:
        for i in range(x.size):
            a = abs(x[i])
            out[i] = a * a * a * math.sqrt(a)
    else:
        return False
    return True


@fused
def _apply_logarithm(code, x, out):
    """Logarithms of numbers that are neither very large nor, without one added, very small."""
    if code == Code.LOG1P_ABS:
        if not _within(x, 0.0, _LARGEST_LOG):
            return False
        for i in range(x.size):
            out[i] = _log1p(abs(x[i]))
        return True
    if not _positive(x, _LEAST_LOG, _LARGEST_LOG):
        return False
    for i in range(x.size):
        out[i] = _log(x[i])
    return True


@fused
def apply_vector(code, x, out):
    """Write the transform with this code of each value of x into out, NaN outside the domain.

    Parameters
    ----------
    code : int
        A `Code` of a built-in transform.
    x : float64[n]
        The column.
    out : float64[n]
        Receives the values; another array than x.
    """
    done = False
    if code == Code.SIGMOID or code == Code.TANH or code == Code.GAUSS or code == Code.EXP_ABS:
        done = _apply_exponential(code, x, out)
    elif code >= Code.SIN and code <= Code.COS_DEG:
        done = _apply_sine(code, x, out)
    elif code == Code.TROOT or (code >= Code.TO23 and code <= Code.TO35 and code != Code.TO3):
        done = _apply_power(code, x, out)
    elif code == Code.LOG1P_ABS or code == Code.P0:
        done = _apply_logarithm(code, x, out)
    if not done:
        apply(code, x, out)


@entry
def apply_vectors(code, x, out):
    """Call `apply_vector` from Python."""
    apply_vector(code, x, out)
