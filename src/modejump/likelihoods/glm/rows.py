"""Score, information and log likelihood of a block of rows, for each family and link, compiled."""

from __future__ import annotations

import math

import numpy as np

from modejump.core.compilation import kernel, summing

BINOMIAL, POISSON, GAMMA, OWN = 1, 2, 3, 4
LOGIT, PROBIT, CLOGLOG, LOG, INVERSE = 1, 2, 3, 4, 5

TINY = 1e-300
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to the nearest integer


@kernel
def fast_exp(x):
    """exp(x) to an ulp or two, without branches, so that loops over rows become vector instructions."""
    x = min(max(x, -708.0), 708.0)
    t = x * 1.4426950408889634 + _ROUND
    k = t - _ROUND
    r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    bits = (np.float64(t).view(np.int64) + 1023) << 52
    return p * np.int64(bits).view(np.float64)


@summing
def _logit_sum(y, weight, eta, first, m):
    """The part of the log likelihood that is linear in the predictor."""
    total = 0.0
    for r in range(m):
        total += weight[first + r] * (y[first + r] * eta[r] - max(eta[r], 0.0))
    return total


@summing
def _product(values, m):
    """Product of the values of a block."""
    total = 1.0
    for r in range(m):
        total *= values[r]
    return total


@summing
def lowest_margin(y, eta, first, m):
    """How far the row that is classified worst lies on its right side of zero; a share of both classes has none."""
    lowest = np.inf
    for r in range(m):
        side = 2.0 * y[first + r] - 1.0
        lowest = min(lowest, side * eta[r] - (1.0 - side * side) * (1.0 + abs(eta[r])))
    return lowest


@kernel
def _logit_rows(glm, work, first, m):
    """Score and information of the block under the logit link; returns its log likelihood."""
    y, weight, eta, score, info = glm.y, glm.weight, work.eta, work.score, work.info
    weighted = work.weighted
    for r in range(m):
        e = fast_exp(-abs(eta[r]))
        p = 1.0 / (1.0 + e)
        mu = p if eta[r] >= 0.0 else 1.0 - p
        score[r] = weight[first + r] * (y[first + r] - mu)
        info[r] = weight[first + r] * p * (e * p)
        weighted[r] = 1.0 + e
    total = _logit_sum(y, weight, eta, first, m)
    if glm.unit:
        # At most 2^256: one logarithm for the whole block.
        return total - math.log(_product(weighted, m))
    for r in range(m):
        total -= weight[first + r] * math.log(weighted[r])
    return total


@kernel
def _log_rows(glm, work, first, m):
    """Poisson or gamma with log link; the gamma's dispersion is left out here."""
    y, weight, eta, score, info = glm.y, glm.weight, work.eta, work.score, work.info
    total = 0.0
    if glm.family == POISSON:
        for r in range(m):
            mu = fast_exp(eta[r])
            score[r] = weight[first + r] * (y[first + r] - mu)
            info[r] = weight[first + r] * mu
        for r in range(m):
            total += weight[first + r] * (y[first + r] * eta[r]) - info[r]
        return total
    for r in range(m):
        ratio = y[first + r] * fast_exp(-eta[r])
        score[r] = weight[first + r] * (ratio - 1.0)
        # The observed information: positive, and Newton's method needs no other.
        info[r] = weight[first + r] * ratio
    for r in range(m):
        total -= info[r] + weight[first + r] * eta[r]
    return total


@kernel
def _probit_bend(t, mills):
    """Minus the second derivative of log Phi(t), given its first: positive, and close to one far on the left."""
    return mills * (mills + t) if t > -30.0 else 1.0 - 1.0 / (t * t)


@kernel
def _cloglog_bend(hazard, slope):
    """Minus the second derivative, by log hazard, of log(1 - exp(-hazard)), given its first: positive."""
    if hazard < 0.01:
        return slope * hazard * (0.5 + hazard * (1.0 / 12.0 - hazard * hazard / 720.0))
    return slope * (slope + hazard - 1.0)


@kernel
def _other_rows(glm, work, first, m):
    """Links without a fast way: probit and complementary log-log of binomial, inverse of gamma responses.

    The information is the observed one, as for the other links: scoring by the expected one converges linearly, at a
    pace that may pass for that of rows which move off.
    """
    y, weight, eta, score, info = glm.y, glm.weight, work.eta, work.score, work.info
    total = 0.0
    for r in range(m):
        w, target, t, hazard = weight[first + r], y[first + r], eta[r], 0.0
        if glm.link == INVERSE:
            if not t > 0.0:
                return -np.inf
            score[r] = w * (1.0 / t - target)
            info[r] = w / (t * t)
            total += w * (math.log(t) - target * t)
            continue
        if glm.link == PROBIT:
            density = 0.3989422804014327 * math.exp(-0.5 * t * t)
            upper = 0.5 * math.erfc(-t / math.sqrt(2.0))
            lower = 0.5 * math.erfc(t / math.sqrt(2.0))
        else:
            hazard = math.exp(min(t, 700.0))
            lower = math.exp(-hazard)
            upper = -math.expm1(-hazard)
            density = hazard * lower
        # A side that underflows matters only to rows that are on it.
        if not ((upper > 0.0 or target == 0.0) and (lower > 0.0 or target == 1.0)):
            return -np.inf
        upper, lower = max(upper, TINY), max(lower, TINY)
        score[r] = w * density * (target / upper - (1.0 - target) / lower)
        if work.expected:
            info[r] = w * density * (density / (upper * lower))
        elif glm.link == PROBIT:
            bend = target * _probit_bend(t, density / upper) + (1.0 - target) * _probit_bend(-t, density / lower)
            info[r] = w * bend
        else:
            info[r] = w * (target * _cloglog_bend(hazard, density / upper) + (1.0 - target) * hazard)
        total += w * (target * math.log(upper) + (1.0 - target) * math.log(lower))
    return total


@kernel
def score_rows(glm, work, first, m):
    """Score and information of the rows of a block; returns its log likelihood."""
    if glm.link == LOGIT:
        return _logit_rows(glm, work, first, m)
    if glm.link == LOG:
        return _log_rows(glm, work, first, m)
    return _other_rows(glm, work, first, m)


@kernel
def information_slope(glm, t):
    """First and second derivative, by the predictor, of the log of a row's information; binomial and Poisson only."""
    if glm.link == LOG:
        return 1.0, 0.0
    if glm.link == LOGIT:
        e = math.exp(-abs(t))
        slope = (1.0 - e) / (1.0 + e)
        return -slope if t >= 0.0 else slope, -2.0 * e / ((1.0 + e) * (1.0 + e))
    if glm.link == PROBIT:
        density = 0.3989422804014327 * math.exp(-0.5 * t * t)
        above = density / max(0.5 * math.erfc(t / math.sqrt(2.0)), TINY)
        below = density / max(0.5 * math.erfc(-t / math.sqrt(2.0)), TINY)
        return above - below - 2.0 * t, above * (above - t) + below * (below + t) - 2.0
    hazard = math.exp(min(t, 700.0))
    if hazard > 700.0:
        return 2.0 - hazard, -hazard
    growth = math.expm1(hazard)
    share = hazard / growth if growth > 0.0 else 1.0
    return 2.0 - hazard - share, -hazard - share * (1.0 - share * math.exp(hazard))
