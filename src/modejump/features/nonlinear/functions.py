"""Compiled transforms of a column; the plain twins are the functions in `modejump.features.nonlinear.builtin`."""

import math

from modejump.core.compilation import entry, kernel
from modejump.features.nonlinear.builtin import RADIANS, Code

ROOT_HALF = math.sqrt(0.5)
THIRD = 1.0 / 3.0


@kernel
def apply(code, x, out):
    """Write the transform with this code of each value of x into out, NaN outside the domain.

    Parameters
    ----------
    code : int
        A `Code`; transforms that users added are called by `modejump.features.nonlinear.callbacks`.
    x : float64[n]
        The column.
    out : float64[n]
        Receives the values; may be x itself.
    """
    # The branch is taken once for a column, and groups keep each function short.
    if code < Code.SIGMOID or code > Code.P0PM2:
        raise ValueError("unknown code of a transform")
    if code <= Code.ARCSINH:
        _smooth(code, x, out)
    elif code <= Code.NHS:
        _powers_and_rectifiers(code, x, out)
    else:
        _fractional_polynomials(code, x, out)


@entry
def apply_column(code, x, out):
    """Call `apply` from Python."""
    apply(code, x, out)


@kernel
def _sigmoid(x):
    # The exponential of a negative number cannot overflow.
    small = math.exp(-abs(x))
    return (1.0 if x >= 0.0 else small) / (1.0 + small)


@kernel
def _gelu(x):
    # At minus infinity the product is infinity times zero.
    return 0.0 if x == -math.inf else 0.5 * x * math.erfc(-x * ROOT_HALF)


@kernel
def _relu(x):
    # A comparison with NaN is false, so NaN goes the way of its own.
    return x if x > 0.0 else (0.0 if x <= 0.0 else math.nan)


@kernel
def _step(x):
    return 1.0 if x > 0.0 else (0.0 if x <= 0.0 else math.nan)


@kernel
def _positive(x):
    return x if x > 0.0 else math.nan


@kernel
def _not_zero(x):
    return x if x != 0.0 else math.nan


@kernel
def _log_over(x, power):
    # At infinity the quotient has the limit zero, but infinity over infinity is NaN.
    return 0.0 if x == math.inf else math.log(_positive(x)) / power


@kernel
def _smooth(code, x, out):
    if code == Code.SIGMOID:
        for i in range(x.size):
            out[i] = _sigmoid(x[i])
    elif code == Code.SIN:
        for i in range(x.size):
            out[i] = math.sin(x[i])
    elif code == Code.COS:
        for i in range(x.size):
            out[i] = math.cos(x[i])
    elif code == Code.SIN_DEG:
        for i in range(x.size):
            out[i] = math.sin(RADIANS * x[i])
    elif code == Code.COS_DEG:
        for i in range(x.size):
            out[i] = math.cos(RADIANS * x[i])
    elif code == Code.TANH:
        for i in range(x.size):
            out[i] = math.tanh(x[i])
    elif code == Code.ATAN:
        for i in range(x.size):
            out[i] = math.atan(x[i])
    elif code == Code.ERF:
        for i in range(x.size):
            out[i] = math.erf(x[i])
    elif code == Code.GAUSS:
        for i in range(x.size):
            out[i] = math.exp(-x[i] * x[i])
    elif code == Code.EXP_ABS:
        for i in range(x.size):
            out[i] = math.exp(-abs(x[i]))
    elif code == Code.LOG1P_ABS:
        for i in range(x.size):
            out[i] = math.log1p(abs(x[i]))
    elif code == Code.ARCSINH:
        for i in range(x.size):
            out[i] = math.asinh(x[i])


@kernel
def _powers_and_rectifiers(code, x, out):
    if code == Code.TROOT:
        for i in range(x.size):
            out[i] = abs(x[i]) ** THIRD
    elif code == Code.SROOT:
        for i in range(x.size):
            out[i] = math.sqrt(abs(x[i]))
    elif code == Code.TO23:
        for i in range(x.size):
            out[i] = abs(x[i]) ** 2.3
    elif code == Code.TO25:
        for i in range(x.size):
            out[i] = abs(x[i]) ** 2.5
    elif code == Code.TO3:
        for i in range(x.size):
            out[i] = x[i] * x[i] * x[i]
    elif code == Code.TO35:
        for i in range(x.size):
            out[i] = abs(x[i]) ** 3.5
    elif code == Code.SQUARE:
        for i in range(x.size):
            out[i] = x[i] * x[i]
    elif code == Code.RELU:
        for i in range(x.size):
            out[i] = _relu(x[i])
    elif code == Code.NRELU:
        for i in range(x.size):
            out[i] = _relu(-x[i])
    elif code == Code.GELU:
        for i in range(x.size):
            out[i] = _gelu(x[i])
    elif code == Code.NGELU:
        for i in range(x.size):
            out[i] = _gelu(-x[i])
    elif code == Code.HS:
        for i in range(x.size):
            out[i] = _step(x[i])
    elif code == Code.NHS:
        for i in range(x.size):
            out[i] = _step(-x[i])


@kernel
def _fractional_polynomials(code, x, out):
    if code == Code.P0:
        for i in range(x.size):
            out[i] = math.log(_positive(x[i]))
    elif code == Code.P2:
        for i in range(x.size):
            out[i] = x[i] * x[i]
    elif code == Code.P3:
        for i in range(x.size):
            out[i] = x[i] * x[i] * x[i]
    elif code == Code.P05:
        for i in range(x.size):
            out[i] = math.sqrt(x[i])
    elif code == Code.PM05:
        for i in range(x.size):
            out[i] = 1.0 / math.sqrt(_positive(x[i]))
    elif code == Code.PM1:
        for i in range(x.size):
            out[i] = 1.0 / _not_zero(x[i])
    elif code == Code.PM2:
        for i in range(x.size):
            out[i] = 1.0 / (_not_zero(x[i]) * x[i])
    elif code == Code.P0P0:
        for i in range(x.size):
            out[i] = math.log(_positive(x[i])) ** 2
    elif code == Code.P0P05:
        for i in range(x.size):
            out[i] = math.sqrt(x[i]) * math.log(_positive(x[i]))
    elif code == Code.P0P1:
        for i in range(x.size):
            out[i] = x[i] * math.log(_positive(x[i]))
    elif code == Code.P0P2:
        for i in range(x.size):
            out[i] = x[i] * x[i] * math.log(_positive(x[i]))
    elif code == Code.P0P3:
        for i in range(x.size):
            out[i] = x[i] * x[i] * x[i] * math.log(_positive(x[i]))
    elif code == Code.P0PM05:
        for i in range(x.size):
            out[i] = _log_over(x[i], math.sqrt(x[i]))
    elif code == Code.P0PM1:
        for i in range(x.size):
            out[i] = _log_over(x[i], x[i])
    elif code == Code.P0PM2:
        for i in range(x.size):
            out[i] = _log_over(x[i], x[i] * x[i])
