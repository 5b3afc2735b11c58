"""Families of responses: each answers for itself what the rest of the library asks about a response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from modejump.core.errors import InputError
from modejump.core.registry import Registry
from modejump.priors.coefficients import CoefPrior, CoefPriorData
from modejump.priors.compiled import ModelPriorArrays


class Table(NamedTuple):
    """Rows and terms of a problem, for a likelihood to be bound to."""

    names: tuple[str, ...]
    always_in: tuple[str, ...]
    first: np.ndarray  # int64 (K + 1,): first column of each term
    y: np.ndarray
    weight: np.ndarray
    base: np.ndarray  # float64 (n, b): columns of every model, as given
    candidates: np.ndarray  # float64 (n, p): the others, as given
    gram: np.ndarray  # float64 (p, p): of the candidates, standardised
    max_cols: int
    prior: ModelPriorArrays
    offset: np.ndarray = np.zeros(0)
    # Candidates without their part in the base and of unit length, as fields of a `Glm`, from an orthonormal base.
    standardised: Callable[[np.ndarray], Mapping[str, Any]] = lambda basis: {}
    # For features made of the candidates, whose columns come later: whether projections are among them.
    projections: bool | None = None


class Link:
    """A link function of one family.

    A link of a generalised linear model has compiled functions, too: ``rows(glm, work, first, m)`` leaves score and
    information of a block of rows in ``work`` and returns its log likelihood; ``information_slope(t)``, where estimates
    may be infinite, gives the first two derivatives of the log information by the predictor; ``settle(glm, work)``,
    where the family has a further parameter, estimates it at the end of a fit and says whether that could be done.

    Attributes
    ----------
    name : str
        What users call it.
    code : int
        Place in the registry.
    latex : str
        LaTeX of the link function, with ``{}`` for the mean.
    text : str
        The same as plain text.
    positive : bool
        Whether means are positive, so that predictions are about their logarithm.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    latex: ClassVar[str] = "{}"
    text: ClassVar[str] = "{}"
    positive: ClassVar[bool] = False

    rows: ClassVar[Any] = None
    information_slope: ClassVar[Any] = None
    settle: ClassVar[Any] = None

    @staticmethod
    def predictor(mean: np.ndarray) -> np.ndarray:
        """The link function: from means to linear predictors."""
        raise NotImplementedError

    @staticmethod
    def mean(predictor: np.ndarray) -> np.ndarray:
        """The inverse link function: from linear predictors to means."""
        raise NotImplementedError

    @staticmethod
    def log_mean(loc: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Location and variance of the log mean, where means are positive; NaN where a predictor has no mean.

        Parameters
        ----------
        loc, variance : ndarray
            Of the linear predictor, which is normal.
        """
        return loc, variance


class Family:
    """A family of responses with a link.

    Parameters
    ----------
    link : str, optional
        Name of one of its links; the first by default.

    Attributes
    ----------
    name : str
        What users call it.
    links : tuple of Link classes
        Its links.
    response : str
        What a response is: "number", "class" (0 or 1), "count", or "amount" (positive).
    conjugate : bool
        Whether the marginal likelihood has a closed form, so that no model is fitted to the rows.
    custom : bool
        Whether it is a function of the user's own: without coefficients, predictions and a form on disk.
    bounded : bool
        Whether the likelihood of every model has a maximum.
    perfect : tuple of two str, or None
        What models do that have no maximum of the likelihood, and what to do about it, as parts of a sentence.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    links: ClassVar[tuple[type[Link], ...]]
    response: ClassVar[str] = "number"
    conjugate: ClassVar[bool] = False
    custom: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    perfect: ClassVar[tuple[str, str] | None] = None

    def __init__(self, link: str | None = None) -> None:
        known = {candidate.name: candidate for candidate in self.links}
        if link is not None and link not in known:
            raise InputError(
                f"the {self.name} family has no link {link!r}; choose one of {', '.join(map(repr, known))}."
            )
        self.link_function = known[link] if link else self.links[0]

    @property
    def link(self) -> str:
        """Name of the link."""
        return self.link_function.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Family) and (self.name, self.link) == (other.name, other.link)

    def __hash__(self) -> int:
        return hash((self.name, self.link))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.link!r})"

    @property
    def words(self) -> str:
        """Family and link, for a summary; empty where that goes without saying."""
        return f"{self.name}, {self.link} link"

    def check(self, y: np.ndarray) -> None:
        """Refuse responses that the family cannot have."""

    def check_rows(self, weights: Any, offset: Any) -> None:
        """Refuse weights and offsets that the family cannot honour."""

    def check_prior(self, prior: CoefPrior) -> None:
        """Refuse priors that the family cannot have."""

    def predictor(self, mean: np.ndarray) -> np.ndarray:
        """The link function: from means to linear predictors."""
        return self.link_function.predictor(mean)

    def mean(self, predictor: np.ndarray) -> np.ndarray:
        """The inverse link function: from linear predictors to means."""
        return self.link_function.mean(predictor)

    def latex(self, mean: str) -> str:
        r"""The linear predictor of a mean in LaTeX.

        Examples
        --------
        >>> print(resolve_family("poisson").latex(r"\\hat{y}"))
        \\log \\hat{y}
        """
        return self.link_function.latex.replace("{}", mean)

    def text(self, response: str) -> str:
        """The linear predictor in words, by the name of the response, or for classes the event.

        Examples
        --------
        >>> resolve_family("gamma", "inverse").text("y"), resolve_family("binomial", "probit").text("y = 1")
        ('1/E(y)', 'probit P(y = 1)')
        """
        return self.link_function.text.format(f"{'P' if self.response == 'class' else 'E'}({response})")

    def deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Deviance of each row, up to a factor."""
        raise NotImplementedError

    def explained(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray | None = None) -> float:
        """Share of the deviance that predicted means explain; R squared for Gaussian responses.

        Parameters
        ----------
        y, mean : ndarray of shape (n,)
            Responses and predicted means.
        weight : ndarray of shape (n,), optional
            Case weights.
        """
        if len(y) < 2:
            return float("nan")
        average = np.full(len(y), np.average(y, weights=weight))
        left, total = (float(np.average(self.deviance(y, m), weights=weight)) for m in (mean, average))
        return 1.0 - left / total if total > 0.0 else float(left == 0.0)

    def bind(self, table: Table, prior: CoefPriorData, n: float) -> tuple[Family, Any]:
        """The family as one that knows the problem, and what compiled code needs of the rows.

        Parameters
        ----------
        table : Table
            Rows and terms.
        prior : CoefPriorData
            Prior of the coefficients.
        n : float
            Observations.
        """
        raise NotImplementedError

    def without_rows(self, base: int) -> Any:
        """What compiled code has of a problem whose rows are gone, with so many columns of the base."""
        raise NotImplementedError


# Links by family and name; their places are what compiled code dispatches on.
LINKS: Registry[Link] = Registry("link")


class Families(Registry[Family]):
    """Families by name."""

    def register(self, member: type[Family]) -> type[Family]:
        """Add a family and its links."""
        for link in member.links:
            LINKS.register(link, f"{member.name} {link.name}")
        return super().register(member)


FAMILIES = Families("family")


def register_link(family: str, link: type[Link]) -> None:
    """Add a link to a family.

    Parameters
    ----------
    family : str
        Name of the family.
    link : Link class
        The link.
    """
    owner = FAMILIES.find(family)
    LINKS.register(link, f"{family} {link.name}")
    owner.links = (*(other for other in owner.links if other.name != link.name), link)


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
    return FAMILIES.find(family)(link)
