"""Student-t errors as a scale mixture: given the precision of each row's error, the model is Gaussian.

With weights :math:`w_i \\sim \\mathrm{Gamma}(\\nu/2, \\nu/2)` and Gaussian errors of variance :math:`\\sigma^2 / w_i`,
errors are Student-t with :math:`\\nu` degrees of freedom and scale :math:`\\sigma`. The weights are set to their
conditional means :math:`(\\nu + 1) / (\\nu + r_i^2 / \\sigma^2)` under one good model, before any sampling, and are
part of the target from then on: everything exact about Gaussian responses stays exact.

Errors may grow with the mean, as those of measurements do that are given to so many digits. The scale of a row's error
is then :math:`\\sigma` times the size of its mean to a power, the *spread*, and its weight is divided by the square of
that size.

What the measurement cannot resolve, the noise floor, is one more part of every error: its square is added to the
variance of each row. Where the errors of most rows are below it, these rows are alike, whatever their residuals.

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
from modejump.core.numbers import real_number
from modejump.likelihoods.family import Family, Link
from modejump.likelihoods.gaussian.family import Gaussian

# Degrees of freedom that are tried for weights where none are given, infinity for the Gaussian; and for the errors of
# new observations.
DEGREES = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 30.0, math.inf)
TAILS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.5, *DEGREES)
# Powers of the mean that the scale of errors may be proportional to, where none is given.
SPREADS = (0.0, 1.0)
# No mean is smaller, for its error, than this share of their median; turns between means and the scales of the rows.
LEAST_MEAN = 0.01
TURNS = 2
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
        Degrees of freedom, infinite for Gaussian errors; estimated by default.
    link : str, optional
        "identity".
    spread : float, optional
        The scale of errors is proportional to the size of the mean to this power, from 0 (all rows alike) to 1 (errors
        of so many percent). Estimated by default, as 0 or 1, where all responses have one sign; 0 otherwise.
    tail : tuple of two floats, optional
        Errors of new observations: degrees of freedom, and their scale, for a mean of size one, relative to that of the
        weighted residuals. By default they are those of the weights.

    Examples
    --------
    >>> Student(3), Student(3).spec
    (Student(dof=3.0, spread=None), 'student(3)')
    """

    name = "student"
    links = (Link("identity", predictor=np.asarray, mean=np.asarray),)

    def __init__(
        self,
        dof: float | None = None,
        link: str | None = None,
        spread: float | None = None,
        tail: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(link)
        self.dof = dof if dof is None or dof == math.inf else real_number(dof, "dof of Student-t errors", above=0.0)
        self.spread = spread
        if spread is not None and not 0.0 <= real_number(spread, "spread of Student-t errors") <= 1.0:
            raise InputError(f"spread of Student-t errors must be a number from 0 to 1; got {spread!r}.")
        self.tail = (math.inf if self.dof is None else self.dof, 1.0) if tail is None else tail

    @classmethod
    def from_spec(cls, inside: str, link: str | None) -> Family:
        """The family with degrees of freedom, spread and tail as its text has them."""
        try:
            numbers = [float(part) if part.strip() else None for part in inside.split(",")]
        except ValueError:
            raise InputError(f"dof of Student-t errors must be a number; got {inside!r}.") from None
        dof, spread, *tail = [*numbers, None][: max(len(numbers), 2)]
        return cls(dof, link, spread, tuple(tail) if len(tail) == 2 else None)  # type: ignore[arg-type]

    @property
    def spec(self) -> str:
        """The name, with the degrees of freedom and the spread where they are given, and with a tail of its own."""
        own = (math.inf if self.dof is None else self.dof, 1.0)
        numbers = [self.dof, self.spread, *(() if self.tail == own else self.tail)]
        while numbers and numbers[-1] is None:
            numbers.pop()
        inside = ",".join("" if number is None else f"{number:.17g}" for number in numbers)
        return f"{self.name}({inside})" if numbers else self.name

    def words(self) -> str:
        """What the errors are, and that weights are part of the target."""
        if self.dof is None:
            return "Student-t errors"
        kind = "Gaussian errors"
        if math.isfinite(self.dof):
            new = "" if self.tail[0] == self.dof else f" (new observations have {self.tail[0]:g})"
            kind = f"Student-t errors, {self.dof:g} degrees of freedom{new}"
        if self.spread:
            kind += ", in proportion to the " + ("mean" if self.spread == 1.0 else f"mean to the power {self.spread:g}")
        return f"{kind}; the weights of the rows were frozen before sampling, and probabilities are given them"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Student) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.dof, self.link, self.spread, self.tail)

    def __repr__(self) -> str:
        return f"Student(dof={self.dof!r}, spread={self.spread!r})"


class Noise(NamedTuple):
    """Errors of one model at the maximum of the likelihood."""

    dof: float  # degrees of freedom, infinite for Gaussian errors
    scale: float
    weight: np.ndarray  # (n,): expected precision of each row's error, in units of ``scale**-2``
    residual: np.ndarray  # (n,): what the model leaves of the response
    log_likelihood: float  # at the maximum
    spread: float  # power of the mean that the scale of a row's error is proportional to
    size: np.ndarray  # (n,): the mean of each row to that power, in units of ``unit``
    unit: float  # geometric mean over the rows

    @property
    def gaussian(self) -> bool:
        """Whether all rows have the same Gaussian error."""
        return math.isinf(self.dof) and self.spread == 0.0

    def standardised(self) -> np.ndarray:
        """Residuals in units of the sizes of the rows."""
        return self.residual / self.size


def estimate_noise(
    design: np.ndarray,
    y: np.ndarray,
    case_weight: np.ndarray,
    degrees: Sequence[float] = DEGREES,
    rounding: float = 0.0,
    spreads: Sequence[float] = (0.0,),
) -> Noise:
    """Degrees of freedom, scale and weights of a model's errors by maximum likelihood.

    Finite degrees of freedom have to gain half the logarithm of the observations over Gaussian errors, as a parameter
    does in Schwarz's criterion, and errors that grow with the mean the same over others, where there is a choice.

    ``rounding`` is the standard deviation that rounding errors have: its square is added to the square of every
    residual. Of ``spreads``, the powers of the mean to try, only 0 counts where responses have both signs.
    """

    def net(noise: Noise) -> float:
        return noise.log_likelihood - price_of_noise(noise, case_weight, degrees, spreads)

    alike = max(_profile(design, y, case_weight, degrees, np.full(len(y), rounding**2)), key=net)
    if y.min() < 0.0 < y.max():
        return alike
    found = [alike] if 0.0 in spreads else []
    for spread in spreads:
        noise = alike
        for some in [(alike.dof,)] * (TURNS - 1) + [degrees] if spread else ():
            size, unit = sizes_of(y - noise.residual, spread, case_weight)
            profile = _profile(design / size[:, None], y / size, case_weight, some, np.square(rounding / size))
            best = max(profile, key=net)
            noise = best._replace(
                residual=size * best.residual, weight=best.weight / size**2, spread=spread, size=size, unit=unit
            )
        if noise is not alike:
            found.append(noise)
    return max(found, key=net)


def sizes_of(mean: np.ndarray, spread: float, case: np.ndarray) -> tuple[np.ndarray, float]:
    """Means to a power in units of their geometric mean, so that likelihoods need no Jacobian; and that unit."""
    mean = np.abs(mean)
    size = np.maximum(mean, LEAST_MEAN * np.median(mean) + 1e-300) ** spread
    unit = math.exp(float(case @ np.log(size)) / float(case.sum()))
    return size / unit, unit


def price_of_noise(noise: Noise, case_weight: np.ndarray, degrees: Sequence[float], spreads: Sequence[float]) -> float:
    """What the parameters of errors cost a log likelihood, those that were chosen among several."""
    chosen = (math.isfinite(noise.dof) and len(degrees) > 1) + (noise.spread > 0.0 and len(spreads) > 1)
    return 0.5 * chosen * math.log(case_weight.sum())


def _profile(
    design: np.ndarray, y: np.ndarray, case: np.ndarray, degrees: Sequence[float], floor: np.ndarray
) -> list[Noise]:
    """Maxima of the likelihood from light tails to heavy ones: each begins where the one before ended."""
    length = np.linalg.norm(design, axis=0)
    design = design / np.where(length > 0.0, length, 1.0)
    weight, found = np.ones(len(y)), []
    for dof in sorted(degrees, reverse=True):
        found.append(_maximised(design, y, case, dof, floor, weight))
        weight = found[-1].weight
    return found


def _maximised(
    design: np.ndarray, y: np.ndarray, case: np.ndarray, dof: float, floor: np.ndarray, weight: np.ndarray
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
    return Noise(dof, math.sqrt(scale2), _precision(squares / scale2, dof), residual, value, 0.0, np.ones(len(y)), 1.0)


def bounded_log_likelihood(noise: Noise, case_weight: np.ndarray, rounding: float = 0.0) -> float:
    """Log likelihood of a model's errors in which gross ones count as if they were just that.

    Otherwise a term that explains a handful of outliers, however far out, would be worth more than its price.
    """
    squares = (np.square(noise.residual) + rounding**2) / np.square(noise.scale * noise.size)
    return _log_likelihood(np.minimum(squares, GROSS**2), noise.scale**2, case_weight, noise.dof)


def floored_weight(noise: Noise, noise_floor: float) -> np.ndarray:
    """Precision of each row once the variance of what the measurement cannot resolve is added to that of its error."""
    return noise.weight / (1.0 + noise.weight * (noise_floor / noise.scale) ** 2)


def estimate_tail(
    noise: Noise, case_weight: np.ndarray, rounding: float = 0.0, dof: float | None = None, noise_floor: float = 0.0
) -> tuple[float, float]:
    """Errors of new observations: degrees of freedom, and the scale relative to that of the weighted residuals.

    The scale is that of a mean of size one, without the noise floor, which is no part of these errors.

    They have the heaviest tails that the residuals do not rule out by half the logarithm of the observations: the most
    likely ones are too light half of the time, and intervals would then be too short.

    Where ``dof`` is given, the scale is that of the weights.
    """
    left, least = noise.standardised(), np.square(rounding / noise.size)
    if dof is None:
        profile = _profile(np.empty((len(left), 0)), left, case_weight, TAILS, least)
        likely = max(found.log_likelihood for found in profile) - 0.5 * math.log(case_weight.sum())
        found = [found for found in profile if found.log_likelihood >= likely][-1]
        dof, scale = found.dof, found.scale
    else:
        scale = _root_mean_square(left, least, case_weight * noise.weight * noise.size**2)
    weight = case_weight * floored_weight(noise, noise_floor)
    return dof, scale / (_root_mean_square(noise.residual, rounding**2 + noise_floor**2, weight) * noise.unit)


def _root_mean_square(residual: np.ndarray, least: Any, weight: np.ndarray) -> float:
    return math.sqrt(float(weight @ (residual**2 + least) / weight.sum()) + 1e-300)


def _precision(squares: np.ndarray, dof: float) -> np.ndarray:
    """Expected precision given squared residuals in units of the squared scale."""
    return (dof + 1.0) / (dof + squares) if math.isfinite(dof) else np.ones(len(squares))


def _log_likelihood(squares: np.ndarray, scale2: float, case: np.ndarray, dof: float) -> float:
    n = float(case.sum())
    if not math.isfinite(dof):
        return -0.5 * float(case @ squares) - 0.5 * n * math.log(2.0 * math.pi * scale2)
    constant = float(gammaln(0.5 * (dof + 1.0)) - gammaln(0.5 * dof)) - 0.5 * math.log(dof * math.pi * scale2)
    return n * constant - 0.5 * (dof + 1.0) * float(case @ np.log1p(squares / dof))
