"""Families of responses: what they are called, which links they have, and which responses they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from modejump.core.errors import InputError
from modejump.likelihoods.glm.rows import BINOMIAL, CLOGLOG, GAMMA, INVERSE, LOG, LOGIT, POISSON, PROBIT
from modejump.priors.coefficients import CoefPrior, KnownVariance

_CODES = {"gaussian": 0, "binomial": BINOMIAL, "poisson": POISSON, "gamma": GAMMA}
LINKS = {
    "gaussian": {"identity": 0},
    "binomial": {"logit": LOGIT, "probit": PROBIT, "cloglog": CLOGLOG},
    "poisson": {"log": LOG},
    "gamma": {"log": LOG, "inverse": INVERSE},
}


@dataclass(frozen=True)
class Family:
    """A family of responses with a link.

    Parameters
    ----------
    name : str
        "gaussian", "binomial", "poisson" or "gamma".
    link : str
        One of the family's links.
    """

    name: str
    link: str

    @property
    def code(self) -> int:
        """Number of the family in compiled code."""
        return _CODES[self.name]

    @property
    def link_code(self) -> int:
        """Number of the link in compiled code."""
        return LINKS[self.name][self.link]

    def check(self, y: np.ndarray) -> None:
        """Refuse responses that the family cannot have."""
        if self.name == "binomial" and not ((y >= 0.0) & (y <= 1.0)).all():
            row = int(np.argmax((y < 0.0) | (y > 1.0)))
            raise InputError(f"a binomial response lies between 0 and 1, and y is {y[row]:g} in row {row}.")
        if self.name == "poisson" and ((y < 0.0) | (y != np.floor(y))).any():
            row = int(np.argmax((y < 0.0) | (y != np.floor(y))))
            raise InputError(
                f"a Poisson response is a count, and y is {y[row]:g} in row {row}; give whole numbers of at least 0."
            )
        if self.name == "poisson" and not y.any():
            raise InputError("every count is 0, so that their rate has no estimate; give rows with other counts too.")
        if self.name == "gamma" and (y <= 0.0).any():
            row = int(np.argmax(y <= 0.0))
            raise InputError(
                f"a gamma response is positive, and y is {y[row]:g} in row {row}; drop such rows, or choose another "
                "family."
            )

    def check_rows(self, weights: np.ndarray | None, offset: np.ndarray | None) -> None:
        """Refuse weights and offsets that the family cannot honour; these families take both."""

    def check_prior(self, prior: CoefPrior) -> None:
        """Refuse priors that make sense for Gaussian responses only."""
        if isinstance(prior, KnownVariance):
            raise InputError(
                f"coef_prior 'known-variance' is for gaussian responses; choose another one for the {self.name} family."
            )

    def first_guesses(self, y: np.ndarray, w: np.ndarray, offset: np.ndarray) -> Iterator[np.ndarray]:
        """Linear predictors, without the offset, to begin the fit of a base model at.

        The first one is at the mean of the responses. Where an offset varies too much for that, the second one is
        constant: the estimate of the intercept under a log link, and positive in all rows under the inverse one.
        """
        mean = float((w * y).sum() / w.sum())
        yield np.full(len(y), float(self.predictor(np.array([mean]))[0])) - offset
        if self.name == "poisson":
            yield np.full(len(y), np.log((w * y).sum()) - logsumexp(offset, b=w))
        elif self.name == "gamma":
            log_link = self.link == "log"
            yield np.full(
                len(y), logsumexp(np.log(y) - offset, b=w / w.sum()) if log_link else 1.0 / mean - offset.min()
            )

    def predictor(self, mean: np.ndarray) -> np.ndarray:
        """The link: from means to linear predictors."""
        from scipy.special import logit, ndtri

        if self.link == "logit":
            return logit(mean)
        if self.link == "probit":
            return ndtri(mean)
        if self.link == "cloglog":
            return np.log(-np.log1p(-mean))
        if self.link == "log":
            return np.log(mean)
        return 1.0 / mean if self.link == "inverse" else mean

    def mean(self, predictor: np.ndarray) -> np.ndarray:
        """The inverse link: from linear predictors to means."""
        from scipy.special import expit, ndtr

        if self.link == "logit":
            return expit(predictor)
        if self.link == "probit":
            return ndtr(predictor)
        if self.link == "cloglog":
            return -np.expm1(-np.exp(predictor))
        if self.link == "log":
            return np.exp(predictor)
        return 1.0 / predictor if self.link == "inverse" else predictor


def resolve_family(family: str | Family, link: str | None = None) -> Family:
    """A family by name, with its first link where none is given.

    Parameters
    ----------
    family : str or Family
        The family.
    link : str, optional
        The link.
    """
    if isinstance(family, Family):
        if link not in (None, family.link):
            raise InputError(f"link {link!r} does not go with {family!r}, which has its own; leave link out.")
        return family
    if family not in LINKS:
        raise InputError(f"family {family!r} does not exist; choose one of {', '.join(map(repr, LINKS))}.")
    links = LINKS[family]
    if link is not None and link not in links:
        raise InputError(f"the {family} family has no link {link!r}; choose one of {', '.join(map(repr, links))}.")
    return Family(family, link or next(iter(links)))
