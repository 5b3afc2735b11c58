"""The posterior of single coefficients, averaged over models: quantiles, densities and draws.

Given a model and g a coefficient is Student-t, or normal for generalised linear models (by Laplace's method) and where
the variance is known. Averaged over g and over the models that have its column it is a mixture of these; the models
that lack it leave a point mass at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from modejump.core.errors import InputError
from modejump.posterior.prediction.distribution import PredictiveDistribution
from modejump.posterior.prediction.mixture import LEAST_SCALE, make_tails, mixture_quantiles, quantile, upper_tail

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior

# A grid for a density reaches to these quantiles, given that the coefficient is in the model.
_ENDS = (0.001, 0.999)


class Components(NamedTuple):
    """One coefficient given that it is in the model: a mixture of Student-t and normal distributions.

    The weights sum to the probability that it is in.
    """

    loc: np.ndarray
    scale: np.ndarray
    weight: np.ndarray
    freedom: np.ndarray


@dataclass(frozen=True, eq=False)
class CoefficientDensity:
    """The posterior of one coefficient: a density given that it is in the model, and a point mass at zero.

    Attributes
    ----------
    name : str
        The column or law.
    value, density : ndarray
        A grid, and the density on it given that the coefficient is in the model.
    zero : float
        Probability that it is not in the model, so that the coefficient is zero.
    components : Components
        The mixture behind both.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor
    >>> model = BGLMRegressor().fit(*load_diabetes(return_X_y=True, as_frame=True))
    >>> density = model.coefficient_density("s4")
    >>> round(density.zero, 2), len(density.value)
    (0.75, 200)
    """

    name: str
    value: np.ndarray
    density: np.ndarray
    zero: float
    components: Components

    def frame(self) -> pd.DataFrame:
        """The grid as a frame: ``value``, ``density`` given inclusion, and ``averaged``, which is times P(in).

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> model = BGLMRegressor().fit(*load_diabetes(return_X_y=True, as_frame=True))
        >>> density = model.coefficient_density("s4")
        >>> density.frame().columns.tolist()
        ['value', 'density', 'averaged']
        """
        return pd.DataFrame(
            {"value": self.value, "density": self.density, "averaged": (1.0 - self.zero) * self.density}
        )

    def quantile(self, probability: float, conditional: bool = False) -> float:
        """A quantile of the coefficient.

        Parameters
        ----------
        probability : float
            Between 0 and 1.
        conditional : bool
            Given that it is in the model, so that the mass at zero does not count.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> model = BGLMRegressor().fit(*load_diabetes(return_X_y=True, as_frame=True))
        >>> density = model.coefficient_density("s4")
        >>> density.quantile(0.5), round(density.quantile(0.5, conditional=True))
        (0.0, 227)
        """
        if not 0.0 < probability < 1.0:
            raise InputError(f"probability must lie between 0 and 1, such as 0.05; got {probability!r}.")
        return float(component_quantiles(self.components, np.array([probability]), conditional)[0])

    def cdf(self, value: float) -> float:
        """Probability that the coefficient is at most ``value``, the mass at zero included.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> model = BGLMRegressor().fit(*load_diabetes(return_X_y=True, as_frame=True))
        >>> density = model.coefficient_density("s4")
        >>> round(density.cdf(0.0), 2)
        0.79
        """
        below = float(self.components.weight.sum() - _above(self.components, value))
        return below + (self.zero if value >= 0.0 else 0.0)


class CoefficientPosteriors:
    """Mixtures of all coefficients, in the order of the base's columns and the candidates."""

    def __init__(self, predictor: PredictiveDistribution) -> None:
        self.predictor = predictor
        self.base = predictor.problem.data.base

    @cached_property
    def _components(self) -> list[Components]:
        """The mixture of every coefficient, in the problem's order."""
        p, nodes, total = self.predictor, self.predictor.nodes, self.base + self.predictor.problem.n_columns
        parts: list[list[tuple[np.ndarray, ...]]] = [[] for _ in range(total)]
        weight = nodes.weight * nodes.repeat(p.models.weight)
        for i, model in enumerate(p.affine_coefficients()):
            some = slice(nodes.start[i], nodes.start[i + 1])
            s, unit2 = nodes.shrink[some], p.unit2[some]
            square = np.square(model.loads)
            fixed, shrunk = square[:, : self.base].sum(axis=1), square[:, self.base :].sum(axis=1)
            loc = model.fixed[:, None] + s * model.slope[:, None]
            scale = np.maximum(np.sqrt(unit2 * (fixed[:, None] + s * shrunk[:, None])), LEAST_SCALE)
            for row, j in enumerate([*range(self.base), *(self.base + model.columns)]):
                parts[j].append((loc[row], scale[row], weight[some], p.freedom[some]))
        empty = (np.zeros(0),) * 4
        return [Components(*map(np.concatenate, zip(*(part or [empty]), strict=True))) for part in parts]

    def components(self, place: int) -> Components:
        """The mixture of one coefficient."""
        return self._components[place]

    def quantiles(self, probability: np.ndarray, conditional: bool = False) -> np.ndarray:
        """Quantiles of all coefficients, shape (coefficients, len(probability))."""
        return np.array([component_quantiles(c, probability, conditional) for c in self._components])

    def density(self, place: int, name: str, points: int) -> CoefficientDensity:
        """Density of one coefficient on a grid."""
        found = self._components[place]
        held = float(found.weight.sum())
        if held <= 0.0:
            raise InputError(f"no model that prediction averages over has {name!r}, so its coefficient is zero.")
        low, high = component_quantiles(found, np.array(_ENDS), conditional=True)
        value = np.linspace(low, high, points)
        density = sum(w * _density(df, (value - at) / scale) / scale for at, scale, w, df in zip(*found, strict=True))
        return CoefficientDensity(name, value, np.asarray(density) / held, max(1.0 - held, 0.0), found)

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws of all coefficients together, zeros where the model drawn lacks them."""
        p, nodes = self.predictor, self.predictor.nodes
        weight = nodes.weight * nodes.repeat(p.models.weight)
        node = np.sort(rng.choice(len(weight), size, p=weight / weight.sum()))
        of_model = np.searchsorted(nodes.start, node, side="right") - 1
        out = np.zeros((size, self.base + p.problem.n_columns))
        for i, model in enumerate(p.affine_coefficients()):
            rows = np.flatnonzero(of_model == i)
            if not len(rows):
                continue
            at = node[rows]
            s, scale, df = nodes.shrink[at], np.sqrt(p.unit2[at]), p.freedom[at]
            u = rng.normal(size=(len(rows), len(model.fixed))) * scale[:, None]
            u[:, self.base :] *= np.sqrt(s)[:, None]
            u *= _heavy(df, rng)[:, None]
            place = np.concatenate([np.arange(self.base), self.base + model.columns])
            out[np.ix_(rows, place)] = model.fixed + s[:, None] * model.slope + u @ model.loads.T
        return out[rng.permutation(size)]


def _heavy(df: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What makes a normal draw one of Student-t."""
    finite = np.where(np.isinf(df), 1.0, df)
    return np.where(np.isinf(df), 1.0, np.sqrt(finite / rng.chisquare(finite)))


def _density(df: float, z: np.ndarray) -> np.ndarray:
    """Density of Student-t, or of the normal for infinite degrees of freedom."""
    if np.isinf(df):
        return np.asarray(np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi))
    log_c = special.gammaln((df + 1.0) / 2.0) - special.gammaln(df / 2.0) - 0.5 * np.log(df * np.pi)
    return np.asarray(np.exp(log_c - (df + 1.0) / 2.0 * np.log1p(z * z / df)))


def _above(found: Components, value: float) -> float:
    """Mass of a mixture above a value."""
    return float(found.weight @ upper_tail(found.freedom, (value - found.loc) / found.scale))


def component_quantiles(found: Components, probability: np.ndarray, conditional: bool = False) -> np.ndarray:
    """Quantiles of a coefficient, the point mass at zero included unless they are conditional on inclusion.

    NaN given inclusion for a coefficient that no model has.
    """
    held = min(float(found.weight.sum()), 1.0)
    if held <= 0.0:
        return np.full(len(probability), np.nan if conditional else 0.0)
    if conditional:
        return _mixture_quantiles(found, probability)
    above = min(_above(found, 0.0), held)
    below, out = held - above, np.zeros(len(probability))
    # The distribution function jumps by the mass at zero: what falls into the jump is zero.
    left, right = probability < below, probability > 1.0 - above
    if held == 1.0:
        left, right = np.ones(len(probability), bool), np.zeros(len(probability), bool)
    for side, shift in ((left, 0.0), (right, 1.0 - held)):
        if side.any():
            inside = np.clip((probability[side] - shift) / held, 1e-15, 1.0 - 1e-15)
            out[side] = _mixture_quantiles(found, inside)
    return out


@lru_cache(maxsize=8)
def _tails(df: tuple[float, ...]) -> np.ndarray:
    """Tables of the tails; all coefficients of one posterior mostly need the same."""
    return make_tails(np.array(df))


def _mixture_quantiles(found: Components, probability: np.ndarray) -> np.ndarray:
    df, table = np.unique(found.freedom, return_inverse=True)
    unit = np.column_stack([quantile(df, p) for p in probability])
    out = np.empty((1, len(probability)))
    mixture_quantiles(
        found.loc[None], found.scale[None], (found.weight / found.weight.sum())[None], table.astype(np.int64),
        _tails(tuple(df.tolist())), unit, probability, out,
    )  # fmt: skip
    return out[0]


def check_level(level: float) -> float:
    """A level between 0 and 1, or InputError."""
    try:
        value = float(level)
    except (TypeError, ValueError):
        value = float("nan")
    if not 0.0 < value < 1.0:
        raise InputError(f"level must lie between 0 and 1, such as 0.9; got {level!r}.")
    return value


def coefficient_intervals(
    posterior: Posterior, level: float = 0.9, conditional: bool = False, kind: str = "bma"
) -> dict[str, np.ndarray]:
    """Mean, standard deviation and central interval of every coefficient, in the problem's order."""
    level, predictor = check_level(level), posterior.predictor(kind)
    moments, given = predictor.coefficient_moments(), "conditional_" if conditional else ""
    ends = np.array([0.5 - level / 2, 0.5 + level / 2])
    lower, upper = CoefficientPosteriors(predictor).quantiles(ends, conditional).reshape(-1, 2).T
    return {
        "mean": moments[f"{given}mean"],
        "sd": moments[f"{given}sd"],
        "lower": lower,
        "upper": upper,
        "probability": moments["probability"],
    }
