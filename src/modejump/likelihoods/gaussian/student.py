"""Student-t errors as a scale mixture: given the precision of each row's error, the model is Gaussian.

With weights :math:`w_i \\sim \\mathrm{Gamma}(\\nu/2, \\nu/2)` and Gaussian errors of variance :math:`\\sigma^2 / w_i`,
errors are Student-t with :math:`\\nu` degrees of freedom and scale :math:`\\sigma`. The weights are set to their
conditional means :math:`(\\nu + 1) / (\\nu + r_i^2 / \\sigma^2)` under one good model, before any sampling, and are
part of the target from then on: everything exact about Gaussian responses stays exact.

Two things ask how heavy the tails are. Weights must not rule rows out: with one degree of freedom or less, whatever
suits half of the rows to the last digit wins, so that they have two at least. New observations have the tails that the
residuals show, however heavy: their errors are Student-t with degrees of freedom and a scale of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from modejump.core.errors import InputError
from modejump.likelihoods.family import Family, Link
from modejump.likelihoods.gaussian.family import Gaussian
from modejump.priors.base import real_number

# Degrees of freedom that are tried for weights where none are given, infinity for the Gaussian; and for the errors of
# new observations.
DEGREES = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 30.0, math.inf)
TAILS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.5, *DEGREES)
# Errors of more scales than this are gross ones, whose size says nothing about a model.
GROSS = 5.0
# Steps of the EM algorithm at most, and the gain of the log likelihood, relative to its size, that ends it.
STEPS = 200
TOLERANCE = 1e-9


class Student(Gaussian):
    """Student-t errors, by weights of the rows that are estimated and frozen before sampling.

    Parameters
    ----------
    dof : float, optional
        Degrees of freedom; estimated by default, infinity (Gaussian errors, no weights) included.
    link : str, optional
        "identity".
    tail : tuple of two floats, optional
        Errors of new observations: degrees of freedom, and their scale relative to that of the weighted residuals. By
        default they are those of the weights.

    Examples
    --------
    >>> Student(3), Student(3).spec
    (Student(dof=3.0), 'student(3)')
    """

    name = "student"
    links = (Link("identity", predictor=np.asarray, mean=np.asarray),)

    def __init__(
        self, dof: float | None = None, link: str | None = None, tail: tuple[float, float] | None = None
    ) -> None:
        super().__init__(link)
        self.dof = None if dof is None else real_number(dof, "dof of Student-t errors", above=0.0)
        self.tail = (math.inf if self.dof is None else self.dof, 1.0) if tail is None else tail

    @classmethod
    def from_spec(cls, inside: str, link: str | None) -> Family:
        """The family with degrees of freedom as its text has them."""
        try:
            numbers = [float(part) for part in inside.split(",")] if inside else [None]
        except ValueError:
            raise InputError(f"dof of Student-t errors must be a number; got {inside!r}.") from None
        return cls(numbers[0], link, (numbers[1], numbers[2]) if len(numbers) == 3 else None)  # type: ignore[arg-type]

    @property
    def spec(self) -> str:
        """The name, with the degrees of freedom where they are given, and with the tail where it has its own."""
        if self.dof is None:
            return self.name
        numbers = (self.dof,) if self.tail == (self.dof, 1.0) else (self.dof, *self.tail)
        return f"{self.name}({','.join(f'{number:.17g}' for number in numbers)})"

    def words(self) -> str:
        """What the errors are, and that weights are part of the target."""
        if self.dof is None:
            return "Student-t errors"
        new = "" if self.tail == (self.dof, 1.0) else f" (new observations have {self.tail[0]:g})"
        return (
            f"Student-t errors, {self.dof:g} degrees of freedom{new}; the weights of the rows were frozen before "
            "sampling, and probabilities are given them"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Student) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.dof, self.link, self.tail)

    def __repr__(self) -> str:
        return f"Student(dof={self.dof!r})"


class Noise(NamedTuple):
    """Errors of one model at the maximum of the likelihood.

    Attributes
    ----------
    dof, scale : float
        Degrees of freedom, infinite for Gaussian errors, and scale.
    weight : ndarray of shape (n,)
        Expected precision of each row's error, in units of ``scale**-2``.
    residual : ndarray of shape (n,)
        What the model leaves of the response.
    log_likelihood : float
        At the maximum.
    """

    dof: float
    scale: float
    weight: np.ndarray
    residual: np.ndarray
    log_likelihood: float


def estimate_noise(
    design: np.ndarray,
    y: np.ndarray,
    case_weight: np.ndarray,
    degrees: Sequence[float] = DEGREES,
    noise_floor: float = 0.0,
) -> Noise:
    """Degrees of freedom, scale and weights of a model's errors by maximum likelihood.

    Finite degrees of freedom have to gain half the logarithm of the observations over Gaussian errors, as a parameter
    does in Schwarz's criterion.

    Parameters
    ----------
    design : ndarray of shape (n, k)
        Columns of the model, the base's among them.
    y : ndarray of shape (n,)
        Response.
    case_weight : ndarray of shape (n,)
        Case weights.
    degrees : sequence of float
        Degrees of freedom to try.
    noise_floor : float
        Standard deviation that the measurement cannot resolve: its square is added to the square of every residual.
    """
    cost = 0.5 * math.log(case_weight.sum()) if len(degrees) > 1 else 0.0
    found = _profile(design, y, case_weight, degrees, noise_floor)
    return max(found, key=lambda noise: noise.log_likelihood - (cost if math.isfinite(noise.dof) else 0.0))


def _profile(
    design: np.ndarray, y: np.ndarray, case: np.ndarray, degrees: Sequence[float], noise_floor: float
) -> list[Noise]:
    """Maxima of the likelihood from light tails to heavy ones: each begins where the one before ended."""
    length = np.linalg.norm(design, axis=0)
    design = design / np.where(length > 0.0, length, 1.0)
    weight, found = np.ones(len(y)), []
    for dof in sorted(degrees, reverse=True):
        found.append(_maximised(design, y, case, dof, noise_floor**2, weight))
        weight = found[-1].weight
    return found


def _maximised(
    design: np.ndarray, y: np.ndarray, case: np.ndarray, dof: float, floor: float, weight: np.ndarray
) -> Noise:
    """EM with the scale as an expanded parameter (Kent, Tyler and Vardi 1994), which needs few steps."""
    n, last, residual, squares, scale2 = float(case.sum()), -math.inf, y, y, 0.0
    tails = math.isfinite(dof)
    for _ in range(STEPS if tails else 1):
        root = np.sqrt(case * weight) if tails else np.sqrt(case)
        q, r = np.linalg.qr(design * root[:, None])
        coef = solve_triangular(r, q.T @ (y * root), check_finite=False) if design.shape[1] else np.zeros(0)
        # Never zero: a fit that leaves nothing at all has no scale.
        residual = y - design @ coef
        squares = np.square(residual) + floor + 1e-300
        scale2 = float(root**2 @ squares / (root @ root))
        weight = _precision(squares / scale2, dof)
        value = _log_likelihood(squares / scale2, scale2, case, dof)
        if value - last < TOLERANCE * (1.0 + abs(value)):
            break
        last = value
    # The degrees of freedom of the model are left in the scale.
    scale2 *= n / max(n - design.shape[1], 1.0)
    return Noise(dof, math.sqrt(scale2), _precision(squares / scale2, dof), residual, value)


def bounded_log_likelihood(noise: Noise, case_weight: np.ndarray, noise_floor: float = 0.0) -> float:
    """Log likelihood of a model's errors in which gross ones count as if they were just that.

    Otherwise a term that explains a handful of outliers, however far out, would be worth more than its price.

    Parameters
    ----------
    noise : Noise
        Errors of a model.
    case_weight : ndarray of shape (n,)
        Case weights.
    noise_floor : float
        As for `estimate_noise`.
    """
    squares = (np.square(noise.residual) + noise_floor**2) / noise.scale**2
    return _log_likelihood(np.minimum(squares, GROSS**2), noise.scale**2, case_weight, noise.dof)


def estimate_tail(noise: Noise, case_weight: np.ndarray, noise_floor: float = 0.0) -> tuple[float, float]:
    """Errors of new observations: degrees of freedom, and the scale relative to that of the weighted residuals.

    They have the heaviest tails that the residuals do not rule out by half the logarithm of the observations: the most
    likely ones are too light half of the time, and intervals would then be too short.

    Parameters
    ----------
    noise : Noise
        Errors of a model.
    case_weight : ndarray of shape (n,)
        Case weights.
    noise_floor : float
        As for `estimate_noise`.
    """
    left = noise.residual
    profile = _profile(np.empty((len(left), 0)), left, case_weight, TAILS, noise_floor)
    least = max(found.log_likelihood for found in profile) - 0.5 * math.log(case_weight.sum())
    found = [found for found in profile if found.log_likelihood >= least][-1]
    weight = case_weight * noise.weight
    return found.dof, found.scale / math.sqrt(float(weight @ (left**2 + noise_floor**2) / weight.sum()) + 1e-300)


def _precision(squares: np.ndarray, dof: float) -> np.ndarray:
    """Expected precision given squared residuals in units of the squared scale."""
    return (dof + 1.0) / (dof + squares) if math.isfinite(dof) else np.ones(len(squares))


def _log_likelihood(squares: np.ndarray, scale2: float, case: np.ndarray, dof: float) -> float:
    n = float(case.sum())
    if not math.isfinite(dof):
        return -0.5 * float(case @ squares) - 0.5 * n * math.log(2.0 * math.pi * scale2)
    constant = float(gammaln(0.5 * (dof + 1.0)) - gammaln(0.5 * dof)) - 0.5 * math.log(dof * math.pi * scale2)
    return n * constant - 0.5 * (dof + 1.0) * float(case @ np.log1p(squares / dof))
