"""Priors of the regression coefficients given a model.

Each class is a small frozen record: a name, the code that compiled code dispatches on, and checked
parameters. The marginal likelihoods they lead to are in `modejump.likelihoods`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from modejump.priors import base, codes


@dataclass(frozen=True)
class CoefPrior:
    """Base of all coefficient priors."""

    name: ClassVar[str]
    code: ClassVar[int]

    def parameters(self, n: float, tss: float) -> NDArray[np.float64]:
        """Return the parameters as compiled code reads them.

        Parameters
        ----------
        n : float
            Number of observations, the sum of the case weights.
        tss : float
            Residual sum of squares of the base model.

        Returns
        -------
        float64[4]
        """
        return np.zeros(4)

    def to_dict(self) -> dict[str, Any]:
        """Return name and parameters as plain values, see `coef_prior_from_dict`."""
        return base.to_dict(self)


def _packed(*values: float) -> NDArray[np.float64]:
    par = np.zeros(4)
    par[: len(values)] = values
    return par


@dataclass(frozen=True)
class Jeffreys(CoefPrior):
    """Jeffreys prior with unknown variance: log p(y|M) = -(n/2) log RSS + (k/2) log 2 pi + const."""

    name: ClassVar[str] = "jeffreys"
    code: ClassVar[int] = codes.JEFFREYS


@dataclass(frozen=True)
class GPrior(CoefPrior):
    """Zellner's g-prior.

    Parameters
    ----------
    g : float, optional
        The prior variance relative to the least squares covariance; by default the number of observations
        (the unit information prior).
    """

    g: float | None = None

    name: ClassVar[str] = "g"
    code: ClassVar[int] = codes.G

    def __post_init__(self) -> None:
        if self.g is not None:
            object.__setattr__(self, "g", base.real_number(self.g, "g of the g-prior", above=0.0))

    def parameters(self, n: float, tss: float) -> NDArray[np.float64]:
        """Return ``[g, 0, 0, 0]``."""
        return _packed(n if self.g is None else self.g)


@dataclass(frozen=True)
class HyperG(CoefPrior):
    """Hyper-g prior of Liang et al. (2008): p(g) = (a-2)/2 (1+g)^(-a/2).

    Parameters
    ----------
    a : float
        Above 2; values in (2, 4] are recommended.
    """

    a: float = 3.0

    name: ClassVar[str] = "hyper-g"
    code: ClassVar[int] = codes.HYPER_G

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", base.real_number(self.a, f"a of the {self.name} prior", above=2.0))

    def parameters(self, n: float, tss: float) -> NDArray[np.float64]:
        """Return ``[a, 0, 0, 0]``."""
        return _packed(self.a)


@dataclass(frozen=True)
class HyperGN(HyperG):
    """Hyper-g/n prior of Liang et al. (2008): p(g) = (a-2)/(2n) (1+g/n)^(-a/2).

    Parameters
    ----------
    a : float
        Above 2; values in (2, 4] are recommended.
    """

    a: float = 3.0

    name: ClassVar[str] = "hyper-g-n"
    code: ClassVar[int] = codes.HYPER_G_N


@dataclass(frozen=True)
class JZS(CoefPrior):
    """Jeffreys-Zellner-Siow prior, a multivariate Cauchy: g ~ InverseGamma(1/2, n scale^2 / 2).

    Parameters
    ----------
    scale : float
        Scale of the Cauchy distribution.
    """

    scale: float = 1.0

    name: ClassVar[str] = "jzs"
    code: ClassVar[int] = codes.JZS

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", base.real_number(self.scale, "scale of the jzs prior", above=0.0))

    def parameters(self, n: float, tss: float) -> NDArray[np.float64]:
        """Return ``[scale, 0, 0, 0]``."""
        return _packed(self.scale)


@dataclass(frozen=True)
class EBLocal(CoefPrior):
    """Local empirical Bayes: the g-prior with the g that maximises the marginal likelihood of each model."""

    name: ClassVar[str] = "eb-local"
    code: ClassVar[int] = codes.EB_LOCAL


@dataclass(frozen=True)
class BIC(CoefPrior):
    """Schwarz's criterion as a log marginal likelihood: -(n/2) log RSS - (k/2) log n."""

    name: ClassVar[str] = "bic"
    code: ClassVar[int] = codes.BIC


@dataclass(frozen=True)
class AIC(CoefPrior):
    """Akaike's criterion as a log marginal likelihood: -(n/2) log RSS - k."""

    name: ClassVar[str] = "aic"
    code: ClassVar[int] = codes.AIC


@dataclass(frozen=True)
class Robust(CoefPrior):
    """Robust prior of Bayarri et al. (2012) with a = 1/2, b = 1 and rho = 1 / (columns of the model).

    p(g) = 1/2 sqrt(L) (1+g)^(-3/2) for 1 + g > L, L = (1+n) / (base + k).
    """

    name: ClassVar[str] = "robust"
    code: ClassVar[int] = codes.ROBUST


@dataclass(frozen=True)
class Intrinsic(CoefPrior):
    """Intrinsic prior of Womack et al. (2014): g = n / ((base + k) w), w ~ Beta(1/2, 1/2)."""

    name: ClassVar[str] = "intrinsic"
    code: ClassVar[int] = codes.INTRINSIC


@dataclass(frozen=True)
class BetaPrime(CoefPrior):
    """Beta-prime prior of Maruyama and George (2011): 1 / (1+g) ~ Beta(1/4, (n - base - k - 1/2) / 2)."""

    name: ClassVar[str] = "beta-prime"
    code: ClassVar[int] = codes.BETA_PRIME


@dataclass(frozen=True)
class KnownVariance(CoefPrior):
    """Known error variance: log p(y|M) = -RSS / (2 sigma2) + const.

    Parameters
    ----------
    sigma2 : float
        The error variance.
    """

    sigma2: float = 1.0

    name: ClassVar[str] = "known-variance"
    code: ClassVar[int] = codes.KNOWN_VARIANCE

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "sigma2", base.real_number(self.sigma2, "sigma2 of the known-variance prior", above=0.0)
        )

    def parameters(self, n: float, tss: float) -> NDArray[np.float64]:
        """Return ``[sigma2, tss, 0, 0]``."""
        return _packed(self.sigma2, tss)


COEF_PRIORS: dict[str, type[CoefPrior]] = {
    prior.name: prior
    for prior in (
        Jeffreys,
        GPrior,
        HyperG,
        HyperGN,
        JZS,
        EBLocal,
        BIC,
        AIC,
        Robust,
        Intrinsic,
        BetaPrime,
        KnownVariance,
    )
}


def resolve_coef_prior(spec: str | CoefPrior) -> CoefPrior:
    """Return the coefficient prior that a name or an object stands for.

    Examples
    --------
    >>> resolve_coef_prior("hyper-g")
    HyperG(a=3.0)
    >>> resolve_coef_prior("hyperg")
    Traceback (most recent call last):
        ...
    modejump.core.errors.InputError: Unknown coefficient prior 'hyperg' (did you mean 'hyper-g'?): choose one of
    'jeffreys', 'g', 'hyper-g', 'hyper-g-n', 'jzs', 'eb-local', 'bic', 'aic', 'robust', 'intrinsic',
    'beta-prime', 'known-variance'.
    """
    return base.resolve(spec, "coefficient prior", COEF_PRIORS, CoefPrior)


def coef_prior_from_dict(stored: Mapping[str, Any]) -> CoefPrior:
    """Return the prior that `CoefPrior.to_dict` described.

    Examples
    --------
    >>> coef_prior_from_dict(GPrior(g=47).to_dict())
    GPrior(g=47.0)
    """
    return base.from_dict(stored, "coefficient prior", COEF_PRIORS)
