"""A given law fitted to data: its constants by variable projection, their precision, and its marginal likelihood."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from modejump.core.errors import InputError
from modejump.features.laws.written import Scale
from modejump.likelihoods import Family, Gaussian
from modejump.likelihoods.gaussian.student import DEGREES, SPREADS, Noise, Student, estimate_noise
from modejump.posterior.fits import marginal_of_members
from modejump.problem.problem import Problem

# Columns of the terms for some values of the constants, on some rows.
Columns = Callable[[np.ndarray, Any], np.ndarray]

# Places at which the search starts for each constant and at most, those that are followed, and the rows looked at.
STARTS, MOST_STARTS, FOLLOWED, ROWS = 1000, 3000, 12, 500
CYCLES = 100.0
LARGEST = 1e100
# Turns between constants and the weights of Student-t errors.
TURNS = 30
# A constant whose derivative depends on the other columns up to this share of its length cannot be told.
UNTOLD = 1e-7


class Data(NamedTuple):
    """Responses with their weights and family; the weights may hold the frozen precision of Student-t errors."""

    y: np.ndarray
    weight: np.ndarray
    family: Family
    frozen: bool = False


class Estimate(NamedTuple):
    """A fitted law."""

    constants: np.ndarray  # constants inside the terms
    coef: np.ndarray  # intercept, then the coefficient of each term
    covariance: np.ndarray  # covariance of coefficients and constants, in this order
    freedom: float  # degrees of freedom of the noise; infinite where its size is known


def fit_constants(
    columns: Columns, scales: Mapping[str, Scale], data: Data, start: np.ndarray | None = None
) -> Estimate:
    """Fit coefficients and constants of a law by maximum likelihood.

    Constants start from many places; the best few are followed on a sample of the rows, the best one on all rows.

    Where ``start`` is given, nothing else is tried.
    """
    rows = slice(None)
    constants = np.zeros(0)
    if scales:
        if start is None:
            some = _some_rows(data)
            few = data._replace(y=data.y[some], weight=data.weight[some])
            found = [_followed(columns, place, scales, few, some) for place in _starts(columns, scales, few, some)]
            start = min(found, key=lambda pair: pair[0])[1]
        constants = _followed(columns, start, scales, data, rows, last=True)[1]
        constants = _positive(columns, constants, data)
    terms = columns(constants, rows)
    if not (np.abs(terms) < LARGEST).all():
        raise InputError("the law is not finite on all rows, whatever its constants are; drop such rows, or change it.")
    return _with_precision(columns, constants, _coefficients(terms, data), list(scales), data)


def fit_student(
    columns: Columns, scales: Mapping[str, Scale], data: Data, start: np.ndarray | None = None
) -> tuple[Estimate, Data]:
    """Fit a law with Student-t errors: constants and the weights of the rows in turn, until neither moves.

    Parameters
    ----------
    columns, scales, data, start
        As for :func:`fit_constants`.

    Returns
    -------
    estimate : Estimate
        The law, given the weights.
    data : Data
        The responses with these weights, and the family with its degrees of freedom.
    """
    family = data.family
    assert isinstance(family, Student)
    degrees = DEGREES if family.dof is None else (family.dof,)
    spreads = SPREADS if family.spread is None else (family.spread,)
    weighted, estimate = data, fit_constants(columns, scales, data, start)
    for _ in range(TURNS):
        design = _design(columns(estimate.constants, slice(None)))
        noise = estimate_noise(design, data.y, data.weight, degrees, spreads=spreads)
        weight = data.weight * noise.weight
        weight *= data.weight.sum() / weight.sum()
        moved = float(np.abs(weight - weighted.weight).max())
        errors = Gaussian() if noise.gaussian else Student(noise.dof, spread=noise.spread)
        weighted = Data(data.y, weight, errors, frozen=True)
        estimate = fit_constants(columns, scales, weighted, estimate.constants)
        if not scales or moved < 1e-6 * weight.max():
            break
    if np.isfinite(noise.dof):
        # Given the weights, errors would seem smaller than they are: the weights were chosen by these very rows.
        variance = _variance_of_weighted(noise, data.weight)
        sized = data._replace(weight=data.weight / noise.size**2)
        estimate = _with_precision(columns, estimate.constants, estimate.coef, list(scales), sized, variance)
    return estimate, weighted


def _variance_of_weighted(noise: Noise, case: np.ndarray) -> float:
    """Variance, for one row, of estimates whose score is the weighted residual: E(score^2) / E(score')^2."""
    residual = noise.standardised()
    squares = np.square(residual / noise.scale)
    weight = (noise.dof + 1.0) / (noise.dof + squares)
    slope = (noise.dof + 1.0) * (noise.dof - squares) / np.square(noise.dof + squares)
    score = np.average(np.square(weight * residual), weights=case)
    return float(score / np.average(slope, weights=case) ** 2)


def _some_rows(data: Data) -> np.ndarray:
    used = np.flatnonzero(data.weight > 0.0)
    if len(used) <= ROWS:
        return used
    return np.sort(np.random.default_rng(0).choice(used, ROWS, replace=False))


def _starts(columns: Columns, scales: Mapping[str, Scale], data: Data, rows: np.ndarray) -> list[np.ndarray]:
    """The best of many places, drawn by the size and role of each constant."""
    rng = np.random.default_rng(1)
    count = min(STARTS * len(scales), MOST_STARTS)
    drawn = np.empty((count, len(scales)))
    share = (np.arange(count) + 0.5) / count
    for j, scale in enumerate(scales.values()):
        wide = scale.size * rng.choice([-1.0, 1.0], count) * 10.0 ** rng.uniform(-2.0, 2.0, count)
        if scale.role == "phase":
            wide = rng.uniform(-np.pi, np.pi, count)
        if scale.role == "exponent":
            wide = rng.uniform(-4.0, 4.0, count)
        if scale.role == "frequency":
            # Low ones more densely; each cycle over the data is hit many times.
            most = min(CYCLES, max(len(data.y) / 4.0, 2.0))
            wide = most * scale.cycles * rng.permutation(share) ** 2
        drawn[:, j] = wide
    drawn[0] = [scale.size for scale in scales.values()]
    losses = np.array([_screened(columns(constants, rows), data) for constants in drawn])
    order = np.argsort(losses, kind="stable")[:FOLLOWED]
    return [drawn[i] for i in order]


def _screened(terms: np.ndarray, data: Data) -> float:
    """What the best coefficients leave of the sum of squares, roughly: for the choice of starting places."""
    if not (np.abs(terms) < LARGEST).all():
        return np.inf
    weight = data.weight / data.weight.sum()
    centred, response = terms - weight @ terms, data.y - weight @ data.y
    products = centred.T * weight
    gram, corr = products @ centred, products @ response
    # A touch of the diagonal keeps columns that depend on each other from being a special case.
    gram.flat[:: len(gram) + 1] *= 1.0 + 1e-9
    if not (np.diag(gram) > 0.0).all():
        return np.inf
    return -float(corr @ np.linalg.solve(gram, corr))


def _loss(residuals: np.ndarray) -> float:
    return float(residuals @ residuals)


def _design(terms: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(terms)), terms])


def _projected(terms: np.ndarray, data: Data) -> np.ndarray:
    """What the best coefficients leave of the response, weighted, by least squares."""
    root = np.sqrt(data.weight)
    # Columns whose squares overflow fit nothing.
    if not (np.abs(terms) < LARGEST).all():
        terms = np.zeros_like(terms)
    design = _design(terms) * root[:, None]
    length = np.linalg.norm(design, axis=0)
    design = design / np.where(length > 0.0, length, 1.0)
    response = root * data.y
    return response - design @ np.linalg.lstsq(design, response, rcond=1e-12)[0]


def _deviances(coef: np.ndarray, terms: np.ndarray, data: Data) -> np.ndarray:
    """Signed roots of the deviances, whose sum of squares is what maximum likelihood makes small."""
    with np.errstate(all="ignore"):
        mean = data.family.mean(_design(terms) @ coef)
        deviance = data.weight * data.family.deviance(data.y, mean)
        root = np.sign(data.y - mean) * np.sqrt(np.maximum(deviance, 0.0))
    return np.nan_to_num(root, nan=1e6, posinf=1e6, neginf=-1e6)


def _coefficients(terms: np.ndarray, data: Data) -> np.ndarray:
    """Maximum likelihood estimates of the coefficients, on the scale of the columns."""
    middle, spread = terms.mean(axis=0), terms.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    scaled = (terms - middle) / spread
    root = np.sqrt(data.weight)
    if data.family.conjugate:
        coef = np.linalg.lstsq(_design(scaled) * root[:, None], root * data.y, rcond=1e-12)[0]
    else:
        start = np.zeros(terms.shape[1] + 1)
        start[0] = data.family.predictor(np.array([np.average(data.y, weights=data.weight)]))[0]
        coef = optimize.least_squares(_deviances, start, args=(scaled, data), x_scale="jac").x
    coef[1:] /= spread
    coef[0] -= middle @ coef[1:]
    return coef


def _followed(
    columns: Columns, start: np.ndarray, scales: Mapping[str, Scale], data: Data, rows: Any, last: bool = False
) -> tuple[float, np.ndarray]:
    """A local optimum of the constants, with the coefficients at their best, and the loss there."""
    size = np.maximum(np.abs(start), 1e-3 * np.array([scale.size for scale in scales.values()]))
    precise: dict[str, Any] = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14, "jac": "3-point"} if last else {}
    most = 200 if last else 50
    if data.family.conjugate:

        def left(constants: np.ndarray) -> np.ndarray:
            return _projected(columns(constants, rows), data)

        found = optimize.least_squares(left, start, x_scale=size, max_nfev=most, **precise)
        return 2.0 * float(found.cost), found.x
    terms = columns(start, rows)
    if not np.isfinite(terms).all():
        return np.inf, start
    coef = _coefficients(terms, data)
    k = len(coef)

    def deviances(both: np.ndarray) -> np.ndarray:
        terms = columns(both[k:], rows)
        return _deviances(both[:k], terms if np.isfinite(terms).all() else np.zeros_like(terms), data)

    found = optimize.least_squares(deviances, np.append(coef, start), x_scale="jac", max_nfev=most, **precise)
    return 2.0 * float(found.cost), found.x[k:]


def _positive(columns: Columns, constants: np.ndarray, data: Data) -> np.ndarray:
    """Constants whose sign does not matter, such as frequencies, are positive."""
    before = _loss(_projected(columns(constants, slice(None)), data))
    for j in np.flatnonzero(constants < 0.0):
        other = constants.copy()
        other[j] = -other[j]
        after = _loss(_projected(columns(other, slice(None)), data))
        if abs(after - before) <= 1e-9 * before:
            constants = other
    return constants


def _with_precision(
    columns: Columns,
    constants: np.ndarray,
    coef: np.ndarray,
    names: Sequence[str],
    data: Data,
    variance: float | None = None,
) -> Estimate:
    """Covariance by the Fisher information of coefficients and constants together, and the variance of the noise."""
    terms = columns(constants, slice(None))
    jacobian = np.column_stack([_design(terms), *_slopes(columns, constants, coef)])
    predictor = _design(terms) @ coef
    mean = data.family.mean(predictor)
    step = 1e-4
    higher, lower = data.family.mean(predictor + step), data.family.mean(predictor - step)
    information = (data.family.deviance(mean, higher) + data.family.deviance(mean, lower)) / (2.0 * step**2)
    information = data.weight * information
    _check_identified(jacobian * np.sqrt(information)[:, None], len(coef), names)
    n, known = float(data.weight.sum()), data.family.response in ("class", "count")
    freedom = n - jacobian.shape[1]
    if freedom <= 0.0:
        count = jacobian.shape[1]
        raise InputError(f"the law has {count} parameters, but the data {n:g} observations; give more rows.")
    noise = 1.0 if variance is None else variance * n / freedom
    if not known and variance is None:
        slope = (higher - lower) / (2.0 * step)
        noise = float(np.sum(information * np.square((data.y - mean) / slope)) / freedom)
    length = np.sqrt(np.einsum("ij,i,ij->j", jacobian, information, jacobian))
    scaled = jacobian / length
    inverse = np.linalg.inv(np.einsum("ij,i,ik->jk", scaled, information, scaled))
    return Estimate(constants, coef, noise * inverse / np.outer(length, length), np.inf if known else freedom)


def _slopes(columns: Columns, constants: np.ndarray, coef: np.ndarray) -> list[np.ndarray]:
    """Derivatives of the predictor by each constant."""
    slopes = []
    for j, value in enumerate(constants):
        step = np.zeros(len(constants))
        step[j] = 1e-5 * max(abs(value), 1e-8)
        difference = columns(constants + step, slice(None)) - columns(constants - step, slice(None))
        slopes.append(difference @ coef[1:] / (2.0 * step[j]))
    return slopes


def _check_identified(jacobian: np.ndarray, coefficients: int, names: Sequence[str]) -> None:
    length = np.linalg.norm(jacobian, axis=0)
    pivots = np.abs(np.diag(np.linalg.qr(jacobian / np.where(length > 0.0, length, 1.0), mode="r")))
    for j, pivot in enumerate(pivots):
        if not (pivot > UNTOLD and length[j] > 0.0):
            what = f"the constant {names[j - coefficients]}" if j >= coefficients else f"the coefficient of term {j}"
            raise InputError(
                f"{what} cannot be told from the rest of the law, whose coefficients are fitted as well; leave it out, "
                "or write a number for it."
            )


def log_marginal_of_all(problem: Problem) -> float:
    """``log p(y|M) - log p(y|base)`` of the model with all terms of a problem."""
    return marginal_of_members(problem, range(problem.n_terms))
