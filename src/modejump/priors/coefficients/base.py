"""What a coefficient prior is: a small frozen record, and the formulas that compiled code needs of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from modejump.core.compilation import kernel
from modejump.core.registry import to_dict


def compiled(formula: Callable[..., Any]) -> Any:
    """A formula of a prior, compiled."""
    return staticmethod(kernel(formula))


def plain(formula: Callable[..., Any]) -> Any:
    """The plain twin of one."""
    return staticmethod(formula)


# Where ``par`` has the share of the noise floor: what the measurement cannot resolve, see `floor_share`.
FLOOR = 4


def floor_share(noise_floor: float, n: float, tss: float) -> float:
    """Share of the noise floor in the residual sum of squares of the base model, once it is added to it.

    Every residual sum of squares grows by ``n * noise_floor**2``, so that a residual share becomes ``resid + (1 -
    resid) * share``.
    """
    unresolved = n * noise_floor**2
    return unresolved / (tss + unresolved) if unresolved > 0.0 else 0.0


class CoefPriorData(NamedTuple):
    """A coefficient prior as compiled code reads it."""

    code: int  # place in the registry
    par: NDArray[np.float64]  # float64 (5,): its parameters, and the share of the noise floor
    needs_information: int
    survives_separation: int


@dataclass(frozen=True)
class CoefPrior:
    """Base of all coefficient priors.

    A prior comes with one or more of three compiled formulas, each with a plain twin of the same arguments whose name
    ends in ``_plain``. ``par`` are the parameters, n the observations, base the columns with a flat prior, k the
    others.

    - ``log_bayes_factor(par, n, base, k, resid)``: log p(y|M) - log p(y|base) of a Gaussian model, from resid =
      RSS(M) / RSS(base) in (0, 1], with k >= 1 and n - base - k > 0.
    - ``log_laplace(par, n, base, k, log_likelihood, log_det_base, wald)``: the same of a generalised linear model up to
      a constant that all models share, from its fit: log likelihood, log determinant of the base's information, and
      Wald's statistic of the k columns.
    - ``mixture_form(par, n, base, k)``: for a mixture of g-priors, the prior of g as ``((shift, scale, alpha, beta,
      delta), constant)``. With ``g = shift + scale * x`` and ``t = log x``, the log density of t is ``alpha t - beta
      log(1 + x) - delta / x + constant``. Where one of the formulas above is missing, it follows from this one.
    """

    name: ClassVar[str]  # what users call it
    code: ClassVar[int]
    shrinks: ClassVar[bool] = True  # whether coefficients are shrunk by g / (1 + g); if not, their prior is flat
    # Whether ``log_laplace`` depends on the information matrix, so that a fit must be more exact.
    needs_information: ClassVar[bool] = True
    # Whether it keeps coefficients finite where the likelihood has no maximum.
    survives_separation: ClassVar[bool] = False
    penalises_size: ClassVar[bool] = True  # whether models of more columns have to earn them
    # Whether the error variance is known, as ``par[0]``: for Gaussian responses only.
    known_variance: ClassVar[bool] = False

    log_bayes_factor: ClassVar[Any] = None
    log_bayes_factor_plain: ClassVar[Any] = None
    log_laplace: ClassVar[Any] = None
    log_laplace_plain: ClassVar[Any] = None
    mixture_form: ClassVar[Any] = None
    mixture_form_plain: ClassVar[Any] = None

    def parameters(self, n: float, tss: float) -> tuple[float, ...]:
        """At most four numbers for compiled code, given the observations and RSS of the base model."""
        return ()

    def single_g(self, par: NDArray[np.float64], statistic: float) -> float:
        """The one value of g, where it is given or estimated.

        It is estimated from the F statistic of the model against the base; from Wald's statistic over k where the model
        is a generalised linear one.
        """
        raise NotImplementedError

    def compile(self, n: float, tss: float, floor: float = 0.0) -> CoefPriorData:
        """The prior as compiled code reads it, given the observations, RSS of the base model and `floor_share`."""
        par = np.zeros(5)
        given = self.parameters(n, tss / (1.0 - floor))
        par[: len(given)], par[FLOOR] = given, floor
        return CoefPriorData(self.code, par, int(self.needs_information), int(self.survives_separation))

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters as plain values, see `coef_prior_from_dict`."""
        return to_dict(self)
