"""Integrals over g, compiled.

Every mixture of g-priors is brought to one form. With ``g = shift + scale * x`` and ``x = exp(t)``, the prior
of t on the whole real line is, up to a constant,

    x**alpha * (1 + x)**(-beta) * exp(-delta / x) dt,

and the likelihood of g, relative to its limit ``resid**(-nu/2)`` without the penalty for size, is

    (resid * (1 + g) / (1 + g * resid))**(nu/2) * (1 + g)**(-k/2).

The integrand is analytic in a strip around the real line, so the trapezoidal rule converges geometrically: it
needs no error estimate, only a step that is small against the curvature around the mode. Both tails end as a
power of x with a known first correction, so they are summed in closed form as soon as that is exact to
rounding. Taking ``resid**(-nu/2)`` out keeps the exponents small, so that no digits are lost with many
observations.
"""

import math

import numpy as np

from modejump.core.compilation import entry, kernel, switch
from modejump.priors.coefficients import COEF_PRIORS

# The step is at most MAX_STEP, and at most STEP_PER_WIDTH times the width that belongs to the largest
# curvature seen at the mode and one standard deviation to either side. The sides matter: with the mode of g
# close to its lower limit the integrand falls like exp(-c * exp(2 * t)), much faster than the curvature at
# the mode tells.
MAX_STEP = 0.25
STEP_PER_WIDTH = 0.6
# What the sum may neglect, relative to the sum.
CUT = 1e-13
MAX_NEWTON = 60
MODE_TOLERANCE = 0.2  # in standard deviations: the sum needs the neighbourhood of the mode, not the mode
MAX_JUMP = 2.0


@entry
def slope_and_curvature(x, nu, k, resid, form):
    """First derivative, and minus the second, of the log integrand with respect to t = log x."""
    shift, scale, alpha, beta, delta = form
    rise = scale * x
    g = shift + rise
    up = rise / (1.0 + g)
    down = rise * resid / (1.0 + g * resid)
    tail = x / (1.0 + x)
    inverse = delta / x
    slope = 0.5 * ((nu - k) * up - nu * down) + alpha - beta * tail + inverse
    bend = 0.5 * (nu * down * (1.0 - down) - (nu - k) * up * (1.0 - up)) + beta * tail * (1.0 - tail) + inverse
    return slope, bend


@entry
def find_mode(nu, k, resid, form):
    """Approximate mode x of the integrand and the curvature there: Newton steps in a shrinking bracket."""
    shift, scale, alpha, beta, delta = form
    decay = 0.5 * k + beta - alpha
    x = (max(alpha, 0.0) + delta + 0.5 * nu * (1.0 - resid) / (resid * scale)) / decay
    low, high = 0.0, math.inf
    slope, bend = slope_and_curvature(x, nu, k, resid, form)
    for _ in range(MAX_NEWTON):
        if slope * slope <= MODE_TOLERANCE * MODE_TOLERANCE * bend:
            break
        if slope > 0.0:
            low = x
        else:
            high = x
        jump = slope / bend if bend > 0.0 else math.copysign(MAX_JUMP, slope)
        x *= math.exp(min(max(jump, -MAX_JUMP), MAX_JUMP))
        if x <= low or x >= high:
            x = math.sqrt(low * high)
        slope, bend = slope_and_curvature(x, nu, k, resid, form)
    return x, bend


@entry
def step_size(x, bend, nu, k, resid, form):
    """Step of the trapezoidal rule from the largest curvature within one standard deviation of the mode."""
    sd = 1.0 if bend < 1.0 else 1.0 / math.sqrt(bend)
    away = math.exp(sd)
    _, right = slope_and_curvature(x * away, nu, k, resid, form)
    _, left = slope_and_curvature(x / away, nu, k, resid, form)
    bend = max(bend, left, right)
    if bend * MAX_STEP * MAX_STEP < STEP_PER_WIDTH * STEP_PER_WIDTH:
        return MAX_STEP
    return STEP_PER_WIDTH / math.sqrt(bend)


@entry
def log_integrand(x, t, nu, cols, resid, form):
    """Log integrand at t = log x."""
    shift, scale, alpha, beta, delta = form
    g = shift + scale * x
    below = 1.0 + g * resid
    loss = (1.0 - resid) / below
    # Two ways to write log(resid * (1 + g) / below): the first keeps the digits near 0, the second far from
    # it.
    fit = math.log1p(-loss) if loss < 0.5 else math.log(resid * (1.0 + g) / below)
    value = 0.5 * (nu * fit - cols * math.log(1.0 + g)) + alpha * t
    if beta != 0.0:
        value -= beta * math.log(1.0 + x)
    if delta != 0.0:
        value -= delta / x
    return value


@kernel
def side_sum(x, t, h, sign, top, sum_so_far, rate, first, bound, nu, cols, resid, form):
    """Sum of the nodes on one side of the mode, relative to exp(top).

    Far out the integrand is ``x**(-sign*rate) * (1 + first * z)`` with ``z = x**(-sign)`` and a remainder
    below ``(bound * z)**2``; once that remainder is negligible the rest is two geometric series.
    """
    factor = math.exp(sign * h)
    total = 0.0
    while True:
        x *= factor
        t += sign * h
        term = math.exp(log_integrand(x, t, nu, cols, resid, form) - top)
        total += term
        allowed = CUT * (sum_so_far + total)
        if term <= allowed:
            return total
        z = 1.0 / x if sign > 0.0 else x
        remainder = bound * z
        if remainder < 0.5 and term * remainder * remainder <= allowed * rate * h:
            ratio = math.exp(-rate * h)
            next_ratio = ratio * math.exp(-h)
            first *= z
            return total + term / (1.0 + first) * (ratio / (1.0 - ratio) + first * next_ratio / (1.0 - next_ratio))


@entry
def log_mixture(nu, k, resid, form):
    """Log of the integral over t of the relative likelihood of g times its prior without constant."""
    shift, scale, alpha, beta, delta = form
    x, bend = find_mode(nu, k, resid, form)
    h = step_size(x, bend, nu, k, resid, form)
    # d(log integrand)/dt is alpha + first_left * x on the far left and -rate - first_right / x on the far
    # right.
    rate = 0.5 * k + beta - alpha
    lower = (1.0 + shift) / scale
    upper = (1.0 / resid + shift) / scale
    gain = 0.5 * nu * (1.0 - resid) / (resid * scale)
    gain_left = gain / (lower * upper)
    first_left = gain_left - 0.5 * k / lower - beta
    bound_left = gain_left + 0.5 * k / lower + beta + 1.0 / lower + 1.0
    if delta != 0.0:
        bound_left = math.inf  # the left tail falls like exp(-delta / x) and ends by itself
    first_right = -gain - 0.5 * k * lower - beta - delta
    bound_right = lower + upper + 1.0 - first_right
    constant = 0.0
    cols = float(k)
    if 1.0 + shift == scale:
        # 1 + g = scale * (1 + x): one logarithm serves both factors.
        constant = beta * math.log(scale)
        cols += 2.0 * beta
        form = (shift, scale, alpha, 0.0, delta)
    t = math.log(x)
    top = log_integrand(x, t, nu, cols, resid, form)
    right = side_sum(x, t, h, 1.0, top, 1.0, rate, first_right, bound_right, nu, cols, resid, form)
    left = side_sum(x, t, h, -1.0, top, 1.0 + right, alpha, first_left, bound_left, nu, cols, resid, form)
    return top + constant + math.log((1.0 + right + left) * h)


def log_integrand_plain(t: np.ndarray, nu: float, k: int, resid: float, form: tuple[float, ...]) -> np.ndarray:
    """Plain twin of `log_integrand` for many t."""
    shift, scale, alpha, beta, delta = form
    x = np.exp(t)
    g = shift + scale * x
    loss = (1.0 - resid) / (1.0 + g * resid)
    near = np.log1p(-np.minimum(loss, 0.5))
    fit = np.where(loss < 0.5, near, np.log(resid * (1.0 + g) / (1.0 + g * resid)))
    return np.asarray(0.5 * nu * fit - 0.5 * k * np.log1p(g) + alpha * t - beta * np.log1p(x) - delta / x)


# The mixing prior of g that belongs to the number of a coefficient prior, and its log constant.
mixture_form = switch("par, n, base, k", COEF_PRIORS.cases("mixture_form"), ((0.0, 1.0, 1.0, 1.0, 0.0), math.nan))


@kernel
def log_mixture_part(code, par, n, base, k, resid):
    """Log marginal likelihood of a mixture of g-priors plus (nu/2) log resid, a slowly varying function."""
    form, constant = mixture_form(code, par, n, base, k)
    return log_mixture(n - base, k, resid, form) + constant
