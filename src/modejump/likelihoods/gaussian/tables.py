"""Tables of mixture marginal likelihoods: the integral over g for the price of a logarithm and a short
polynomial.

For one prior and one (n, base), the log marginal likelihood of a model with k columns is a smooth function of
``depth = -log resid`` alone. ``log p(y|M) - (nu/2) * depth`` varies slowly on a logarithmic scale of
``z = 1 + nu * depth / DEPTH_UNIT``, so it is stored per k as polynomials that interpolate it at the Chebyshev
points of half octaves of z. A piece is filled from inside compiled code when it is first needed, and kept
only if it reproduces the quadrature at the points where the error of interpolation is largest; otherwise it
goes to the quadrature for good.

Threads may share a table. Unfilled coefficients are NaN, so a half-written piece evaluates to NaN and the
reader simply computes the same coefficients again: what is returned never depends on the timing.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from modejump.core.compilation import entry, kernel
from modejump.likelihoods.gaussian.quadrature import log_mixture_part
from modejump.priors.coefficients import CoefPrior, CoefPriorData

MAX_ROWS = 256
# Doubles for the coefficients of one k, so that a row with its status bytes stays within 4 KB.
ROW_BUDGET = 504
MAX_COEFFICIENTS = 16
# Near depth 0 the function is analytic with a radius of a few times 1 / nu: finer octaves there would be
# wasted.
DEPTH_UNIT = 4.0
# Models with a smaller resid go to the quadrature.
LEAST_RESID = 1e-10
# Largest error of interpolation that keeps a piece; the quadrature itself is good to 2e-11.
PIECE_TOLERANCE = 2e-10

EMPTY = 0
FILLED = 1
DIRECT = 2


class MixturePrior(NamedTuple):
    """A mixture of g-priors as compiled code reads it, with the table of its marginal likelihoods."""

    code: int
    par: NDArray[np.float64]
    needs_information: int
    survives_separation: int
    coef: NDArray[np.float64]  # (rows, pieces, size): coefficients of powers by k - 1 and piece
    status: NDArray[np.uint8]  # (rows, pieces)


def tabulated(
    prior: CoefPrior, n: float, base: int, tss: float, max_cols: int, floor: float = 0.0
) -> CoefPriorData | MixturePrior:
    """A coefficient prior for compiled code; with an empty table where its marginal likelihood is an integral."""
    compiled = prior.compile(n, tss, floor)
    if prior.log_bayes_factor is not None:
        return compiled
    rows = min(max_cols, MAX_ROWS)
    pieces = locate.py_func(max(-(n - base) * math.log(LEAST_RESID), 1.0) / DEPTH_UNIT)[0] + 1
    size = min(MAX_COEFFICIENTS, ROW_BUDGET // pieces)
    return MixturePrior(*compiled, np.full((rows, pieces, size), np.nan), np.zeros((rows, pieces), dtype=np.uint8))


@entry
def locate(scaled_depth):
    """Piece that holds nu * depth / DEPTH_UNIT, and the position inside it in [-1, 1]."""
    mantissa, exponent = math.frexp(1.0 + scaled_depth)
    piece = 2 * (exponent - 1)
    if mantissa < 0.75:
        return piece, 8.0 * (mantissa - 0.5) - 1.0
    return piece + 1, 8.0 * (mantissa - 0.75) - 1.0


@entry
def depth_at(piece, position, nu):
    """Depth at a position of a piece: the inverse of `locate`."""
    mantissa = 0.5 + 0.25 * (piece % 2) + 0.125 * (position + 1.0)
    return max(math.ldexp(mantissa, piece // 2 + 1) - 1.0, 0.0) * DEPTH_UNIT / nu


@entry
def power_sum(coef, row, piece, position):
    """Value of a stored polynomial at a position in [-1, 1]: Horner's rule on even and on odd powers."""
    square = position * position
    even, odd = 0.0, 0.0
    j = coef.shape[2] - 1
    if j % 2 == 0:
        even = coef[row, piece, j]
        j -= 1
    while j > 0:
        odd = odd * square + coef[row, piece, j]
        even = even * square + coef[row, piece, j - 1]
        j -= 2
    return even + position * odd


@entry
def powers_from_chebyshev(cheb, coef):
    """Rewrite a Chebyshev series as powers. The series decays fast, so that this loses no digits here."""
    size = cheb.size
    current = np.zeros(size)
    following = np.zeros(size)
    current[0] = 1.0
    following[1] = 1.0
    coef[:] = 0.0
    for j in range(size):
        for i in range(j + 1):
            coef[i] += cheb[j] * current[i]
        # T_{j+2} = 2 x T_{j+1} - T_j, written over T_j
        for i in range(size - 1, 0, -1):
            current[i] = 2.0 * following[i - 1] - current[i]
        current[0] = -current[0]
        current, following = following, current


@kernel
def fit_piece(code, par, n, base, k, piece, coef):
    """Write the polynomial of one piece into coef[0, 0]; return whether it is accurate."""
    size = coef.shape[2]
    nu = n - base
    cheb = np.zeros(size)
    for i in range(size):
        angle = math.pi * (i + 0.5) / size
        value = log_mixture_part(code, par, n, base, k, math.exp(-depth_at(piece, math.cos(angle), nu)))
        cheb[0] += value / size
        for j in range(1, size):
            cheb[j] += 2.0 * value * math.cos(j * angle) / size
    powers_from_chebyshev(cheb, coef[0, 0])
    # The first neglected Chebyshev polynomial has its extremes at cos(j pi / size).
    for j in (0, size // 2, size):
        position = math.cos(math.pi * j / size)
        value = log_mixture_part(code, par, n, base, k, math.exp(-depth_at(piece, position, nu)))
        if not abs(power_sum(coef, 0, 0, position) - value) <= PIECE_TOLERANCE:
            return False
    return True
