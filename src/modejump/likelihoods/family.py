"""Families of responses: each answers for itself what the rest of the library asks about a response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from modejump.core.errors import InputError
from modejump.core.registry import Registry
from modejump.priors.coefficients import CoefPrior, CoefPriorData
from modejump.priors.compiled import ModelPriorArrays

Function = Callable[[np.ndarray], np.ndarray]


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
    # For features made of the candidates, whose columns come later: whether constants are fitted inside them.
    fits_constants: bool | None = None


@dataclass(eq=False)
class Link:
    """A link function of one family."""

    name: str  # what users call it
    predictor: Function  # the link function, from means to linear predictors
    mean: Function  # its inverse
    latex: str = "{}"  # of the link function, with ``{}`` for the mean
    text: str = "{}"
    positive: bool = False  # whether means are positive, so that predictions are about their logarithm
    # Location and variance of the log mean from those of the linear predictor, where they are others; NaN where a
    # predictor has no mean.
    log_mean: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]] = lambda loc, variance: (loc, variance)
    # ``rows(glm, work, first, m)`` leaves score and information of a block of rows in ``work`` and returns its log
    # likelihood.
    rows: Any = None
    # ``information_slope(t)``, where estimates may be infinite: the first two derivatives of the log information.
    information_slope: Any = None
    # ``settle(glm, work)``, where responses have a further parameter, estimates it at the end of a fit and says
    # whether that could be done.
    settle: Any = None
    # For an inverse link that is a smooth step from 0 to 1: location and scale of the normal
    # distribution function beside which it is tabulated for predictions, and where the difference is tabulated (above
    # it is below 1e-12; below, the inverse link is the exponential function). Without them predictions take the
    # slower way of any link.
    close: tuple[float, float] | None = None
    reach: tuple[float, float] = (0.0, 0.0)
    step: Any = None  # the inverse link of one number, where there is such a difference

    code: ClassVar[int]


class Family:
    """A family of responses with a link, the first of its links by default."""

    name: str  # what users call it
    code: ClassVar[int]
    links: tuple[Link, ...]
    response = "number"  # what a response is: this, "class" (0 or 1), "count", or "amount" (positive)
    conjugate = False  # whether the marginal likelihood has a closed form, so that no model is fitted to the rows
    custom = False  # whether it is a function of the user's own: without coefficients, predictions and a form on disk
    bounded = False  # whether the likelihood of every model has a maximum
    # What models do that have no such maximum, and what to do about it, as parts of a sentence.
    perfect: tuple[str, str] | None = None

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

    def __reduce__(self) -> tuple[Any, ...]:
        return resolve_family, (self.name, self.link)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.link!r})"

    @classmethod
    def from_spec(cls, inside: str, link: str | None) -> Family:
        """The family with a link, and with the parameters that its text has in brackets."""
        if inside:
            raise InputError(f"family {cls.name!r} takes no parameter; got {inside!r}.")
        return cls(link)

    @property
    def spec(self) -> str:
        """The family as a text that `resolve_family` takes: its name, and its parameters where it has some."""
        return self.name

    def words(self) -> str:
        """Family and link, for a summary; empty where that goes without saying."""
        return f"{self.name}, {self.link} link"

    def check(self, y: np.ndarray) -> None:
        """Refuse responses that the family cannot have."""

    def check_rows(self, weights: Any, offset: Any) -> None:
        """Refuse weights and offsets that the family cannot honour."""

    def check_floor(self, noise_floor: float) -> None:
        """Refuse a noise floor where responses are not measurements with an error of their own."""
        if noise_floor:
            raise InputError(f"noise_floor does not go with family {self.name!r}; leave it out, or use 'gaussian'.")

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
        >>> print(resolve_family("poisson").latex(r"\hat{y}"))
        \log \hat{y}
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
        """Share of the deviance that predicted means explain; R squared for Gaussian responses."""
        if len(y) < 2:
            return float("nan")
        average = np.full(len(y), np.average(y, weights=weight))
        left, total = (float(np.average(self.deviance(y, m), weights=weight)) for m in (mean, average))
        return 1.0 - left / total if total > 0.0 else float(left == 0.0)

    def bind(self, table: Table, prior: CoefPriorData, n: float) -> tuple[Family, Any]:
        """The family as one that knows the problem, and what compiled code needs of the rows."""
        raise NotImplementedError

    def without_rows(self, base: int) -> Any:
        """What compiled code has of a problem whose rows are gone, with so many columns of the base."""
        raise NotImplementedError


# Links by family and name; their places are what compiled code dispatches on.
LINKS: Registry[Link] = Registry("link")


class Families(Registry[type[Family]]):
    """Families by name."""

    def register(self, member: type[Family], name: str | None = None) -> type[Family]:
        """Add a family and its links."""
        for link in member.links:
            LINKS.register(link, f"{member.name} {link.name}")
        return super().register(member, name)


FAMILIES = Families("family")


def register_link(family: str, link: Link) -> None:
    """Add a link to a family; one of the same name gives way to it."""
    owner = FAMILIES.find(family)
    LINKS.register(link, f"{family} {link.name}")
    owner.links = (*(other for other in owner.links if other.name != link.name), link)


def resolve_family(family: str | Family, link: str | None = None) -> Family:
    """A family by name, such as "student(3)", with its first link where none is given."""
    if isinstance(family, Family):
        if link not in (None, family.link):
            raise InputError(f"link {link!r} does not go with {family!r}, which has its own; leave link out.")
        return family
    name, _, inside = str(family).partition("(")
    return FAMILIES.find(name if inside else family).from_spec(inside.removesuffix(")"), link)
