"""What all families of generalised linear models share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.family import Family, Table
from modejump.likelihoods.glm.newton import Glm, has_estimate, new_glm_work
from modejump.priors.coefficients import CoefPrior, CoefPriorData


class GlmFamily(Family):
    """A family whose models are fitted by Newton's method, with Laplace's approximation of the marginal likelihood.

    Predictions of counts and amounts need `noise`, `cdf` and `sharpness`, those of amounts also ``log_response`` and
    ``log_moments`` (see `modejump.likelihoods.glm.gamma`).
    """

    separable = False  # whether rows that all lie on their right side of zero prove that the likelihood has no maximum
    # Where responses have an unknown shape: from its estimates, observations, coefficients under a flat prior and
    # ``Q (1 - s)`` over the estimate to values and weights that stand for its posterior.
    shape_rules: Any = None
    flat = (-np.inf, np.inf)  # predictors below and above which the distribution of a response is nearly constant

    def check_prior(self, prior: CoefPrior) -> None:
        """Refuse priors without a formula for these models."""
        if prior.log_laplace is None and prior.mixture_form is None:
            raise InputError(
                f"coef_prior {prior.name!r} is for gaussian responses; choose another one for the {self.name} family."
            )

    def first_guesses(self, y: np.ndarray, w: np.ndarray, offset: np.ndarray) -> Iterator[np.ndarray]:
        """Linear predictors, without the offset, to begin the fit of a base model at: the mean of the responses."""
        yield np.full(len(y), float(self.predictor(np.array([(w * y).sum() / w.sum()]))[0])) - offset

    def noise(self, mean: np.ndarray, second: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Expected variance of a response, from the first and second moment of its mean and its shape."""
        raise NotImplementedError

    def cdf(self, y: np.ndarray, log_mean: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Probability of a response of at most y, given the log of its mean and its shape."""
        raise NotImplementedError

    def sharpness(self, log_mean: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Scale on which `cdf` is smooth as a function of the log mean, up to these log means and shapes."""
        raise NotImplementedError

    def bind(self, table: Table, prior: CoefPriorData, n: float) -> tuple[Family, Glm]:
        """The family, and the rows with the base model's fit; one sentence where that has no fit."""
        base = table.base
        basis = np.ascontiguousarray(np.linalg.qr(base)[0].T) if base.shape[1] else np.zeros((0, len(table.y)))
        glm = self._glm(table.y, table.weight, table.offset, basis)._replace(**table.standardised(basis))
        for guess in self.first_guesses(glm.y, glm.weight, glm.offset):
            glm = glm._replace(start=basis @ guess)
            work = new_glm_work(glm, 1)
            value = float(fit_columns(glm, work, np.zeros(0, np.int64), prior, n))
            if np.isfinite(value) and has_estimate(work):
                return self, glm._replace(start=work.beta[: len(basis)].copy(), null=value)
        raise InputError(
            "the model of the intercept and the terms that are always in has no maximum likelihood estimate; check y, "
            "the offset, and these terms."
        )

    def without_rows(self, base: int) -> Glm:
        """No rows; the factor in place of the base's columns has these as its own."""
        none = np.zeros(0)
        return self._glm(none, none, none, np.eye(base))

    def _glm(self, y: np.ndarray, weight: np.ndarray, offset: np.ndarray, basis: np.ndarray) -> Glm:
        return Glm(
            y=np.ascontiguousarray(y), weight=weight, offset=offset, base=basis, x=np.zeros((0, len(y))),
            start=np.zeros(len(basis)), null=0.0, link=self.link_function.code,
            separable=int(self.separable and not offset.any()), bounded=int(self.bounded),
            unit=int((weight == 1.0).all()),
        )  # fmt: skip
