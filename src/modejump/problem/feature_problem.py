"""A problem over a space of features: data, language, priors and likelihood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.language import Language
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import Transform
from modejump.likelihoods import Family, resolve_family
from modejump.likelihoods.columns import Conjugate, LikelihoodRows
from modejump.likelihoods.family import Table
from modejump.likelihoods.glm.newton import Glm
from modejump.priors.coefficients import CoefPrior, resolve_coef_prior
from modejump.priors.compiled import weights_only
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.features import FeaturePrior
from modejump.priors.models import UniformPrior, WeightedPrior
from modejump.problem.checks import check_observations, checked_rows
from modejump.problem.design import Columns, project_base
from modejump.problem.problem import Problem, ProblemData, problem_data


@dataclass(frozen=True, eq=False)
class FeatureProblem:
    """A problem over a space of features."""

    language: Language  # which features there are
    x: np.ndarray  # (columns, n): covariates, one row each
    y: np.ndarray  # (n,): response as given
    response: np.ndarray  # (1, n): weighted response without the base, of unit length
    basis: np.ndarray  # (b, n): orthonormal basis of the weighted base
    root_weight: np.ndarray  # (n,): square roots of the case weights
    n: float  # observations
    base_rss: float  # RSS of the base model
    coef_prior: CoefPrior
    model_prior: FeaturePrior
    family: Family
    base_model: LikelihoodRows = Conjugate()  # what the likelihood needs of the rows, without the columns of features
    intercept: bool = True  # whether every model has an intercept
    # (n, k): columns of the terms that are in every model beside it, with a flat prior as it has.
    always_in: Mapping[str, np.ndarray] = field(default_factory=dict)
    noise_floor: float = 0.0  # what the measurement cannot resolve, in units of a Gaussian response
    # (n,): precision of each row's error relative to the others, which is a factor of the weights; None where all are
    # alike.
    noise_weight: np.ndarray | None = None
    # Constants of some features that were refined together with others, and frozen; those of other features are
    # fitted to the response by each feature itself.
    refined: Mapping[Expression, np.ndarray] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns, in the order of ``x``."""
        return self.language.names

    @property
    def size(self) -> int:
        """Q, the largest number of features in a model."""
        return int(self.language.limits.size)

    @property
    def table(self) -> dict[str, np.ndarray]:
        """The covariates by name."""
        return dict(zip(self.names, self.x, strict=True))

    def glm(self, z: np.ndarray) -> LikelihoodRows:
        """What the likelihood needs of the rows over the columns of a population."""
        if not isinstance(self.base_model, Glm):
            return self.base_model
        unroot = np.zeros(0) if self.base_model.unit else 1.0 / self.root_weight
        return self.base_model._replace(x=z, unroot=unroot)

    @property
    def weights(self) -> np.ndarray | None:
        """Case weights; None where all are one."""
        if (self.root_weight == 1.0).all():
            return None
        # A square of a root is not the number itself, and a function of the user's own is told that.
        return self.root_weight**2 if isinstance(self.base_model, Conjugate) else self.base_model.weight

    @property
    def offset(self) -> np.ndarray | None:
        """The known part of the linear predictor; None where there is none."""
        return self.base_model.offset if isinstance(self.base_model, Glm) and self.base_model.offset.any() else None

    def with_noise(self, family: Family, weight: np.ndarray | None, rows: np.ndarray | None = None) -> FeatureProblem:
        """The problem with errors of another family and precision, scaled so that the number of observations stays; of
        some rows where they are given.
        """
        some = slice(None) if rows is None else rows
        case = self.case_weight
        if weight is not None:
            weight = weight * (case.sum() / (case @ weight))
        total = case if weight is None else case * weight
        made = problem_over(
            self.x.T[some], self.y[some], self.language, coef_prior=self.coef_prior, model_prior=self.model_prior,
            weights=None if (total == 1.0).all() else total[some], intercept=self.intercept, family=family,
            always_in={name: columns[some] for name, columns in self.always_in.items()}, noise_floor=self.noise_floor,
        )  # fmt: skip
        return replace(made, noise_weight=None if weight is None else weight[some])

    def of_rows(self, rows: np.ndarray) -> FeatureProblem:
        """The same problem with some of the rows alone."""
        weights, offset = self.weights, self.offset
        made = problem_over(
            self.x.T[rows], self.y[rows], self.language, coef_prior=self.coef_prior, model_prior=self.model_prior,
            weights=None if weights is None else weights[rows], intercept=self.intercept, family=self.family,
            offset=None if offset is None else offset[rows], noise_floor=self.noise_floor,
            always_in={name: columns[rows] for name, columns in self.always_in.items()},
        )  # fmt: skip
        return replace(made, noise_weight=None if self.noise_weight is None else self.noise_weight[rows])

    @property
    def case_weight(self) -> np.ndarray:
        """Case weights of the rows, without the precision of their errors."""
        weight = np.ones(len(self.y)) if self.weights is None else self.weights
        return weight if self.noise_weight is None else weight / self.noise_weight

    def covariates(self) -> list[Expression]:
        """The columns that vary, as features."""
        varies = np.ptp(self.x, axis=1) > 0.0
        return [self.language.covariate(name) for name, some in zip(self.names, varies, strict=True) if some]

    def log_weights(self, features: Sequence[Expression]) -> np.ndarray:
        """Log prior weight of each of some features."""
        return self.model_prior.log_weights_of(features, self.n, len(self.names))

    def log_sizes(self) -> np.ndarray:
        """Log prior weight of a model by its number of features, besides that of the features."""
        return self.model_prior.log_sizes(self.size, len(self.names))

    def prior_among(self, features: Sequence[Expression]) -> WeightedPrior:
        """The prior of models of some features."""
        by_size = self.log_sizes()
        sizes = tuple(by_size.tolist()) if by_size.any() else ()
        return WeightedPrior(tuple(self.log_weights(features).tolist()), self.size, sizes)

    def weights_by_complexity(self) -> np.ndarray:
        """Log prior weight of a feature by its complexity, its spellings left aside."""
        return self.model_prior.log_weights(self.n, int(self.language.limits.complexity), len(self.names))

    def selection(self, features: Sequence[Expression], columns: np.ndarray, model_prior: Any = "uniform") -> Problem:
        """Selection among some features, given by their columns (n, features), under a prior of their models."""
        terms = {f.text: [j] for j, f in enumerate(features)}
        width = len(terms)
        for name, fixed in self.always_in.items():
            terms[name] = list(range(width, width + fixed.shape[1]))
            width += fixed.shape[1]
        return Problem.build(
            np.hstack([columns, *self.always_in.values()]), self.y, terms=terms, always_in=tuple(self.always_in),
            weights=self.weights, coef_prior=self.coef_prior, model_prior=model_prior, intercept=self.intercept,
            family=self.family, offset=self.offset, noise_floor=self.noise_floor,
        )  # fmt: skip

    def population_data(self, z: np.ndarray, most: int | None = None, glm: LikelihoodRows | None = None) -> ProblemData:
        """Arrays of a selection problem with one place for each row of ``z``, all of them empty.

        ``most`` bounds the columns of a model that can be evaluated, where that is less than the places. ``glm`` is
        the model of the columns where it is not one of ``z``.
        """
        s, n = z.shape
        return problem_data(
            gram=np.zeros((s, s)),
            corr=np.zeros(s),
            first=np.arange(s + 1, dtype=np.int64),
            coef_prior=self.coef_prior,
            model_prior=weights_only(np.full(s, -np.inf), min(self.size, s), self.log_sizes()),
            columns=Columns(
                z.T, np.zeros((n, 0)), np.zeros((0, s)), np.ones(s), np.ones(n), np.ascontiguousarray(self.response[0])
            ),
            glm=self.glm(z) if glm is None else glm,
            n=self.n,
            base=self.basis.shape[0],
            base_rss=self.base_rss,
            noise_floor=self.noise_floor,
            most=most,
            zobrist=np.zeros(s, np.uint64),
        )


def feature_problem(
    x: np.ndarray, y: np.ndarray, names: Sequence[str], *, transforms: Sequence[Transform], space: Space, **more: Any
) -> FeatureProblem:
    """Check the data and make a problem over a space of nonlinear features.

    Parameters
    ----------
    x : ndarray of shape (n, columns)
        Covariates.
    y : ndarray of shape (n,)
        Response.
    names : sequence of str
        Names of the columns.
    transforms : sequence of Transform
        G.
    space : Space
        Limits and operator weights.
    **more
        Priors, weights, family and the like, as for :func:`problem_over`.
    """
    return problem_over(x, y, Nonlinear(names, transforms, space), **more)


def problem_over(
    x: np.ndarray,
    y: np.ndarray,
    language: Language,
    *,
    coef_prior: object = "g",
    model_prior: FeaturePrior | None = None,
    weights: np.ndarray | None = None,
    intercept: bool = True,
    family: str | Family = "gaussian",
    link: str | None = None,
    offset: np.ndarray | None = None,
    always_in: Mapping[str, np.ndarray] | None = None,
    noise_floor: float = 0.0,
) -> FeatureProblem:
    """Check the data and make a problem over the features of a language.

    Parameters
    ----------
    x : ndarray of shape (n, columns)
        Covariates.
    y : ndarray of shape (n,)
        Response.
    language : Language
        Which features there are.
    coef_prior, model_prior : prior objects
        Prior of the coefficients, and prior of the models.
    weights : ndarray of shape (n,), optional
        Case weights.
    intercept : bool
        Whether every model has an intercept.
    family : str, Family, OwnLikelihood or BatchLikelihood
        Family of the response, or a likelihood of your own. One that scores models by name is told the texts of the
        features, and takes no features with fitted constants.
    link : str, optional
        Link function; default the family's first.
    offset : ndarray of shape (n,), optional
        Part of the linear predictor that is known; not for Gaussian responses, where it is taken from y.
    always_in : mapping of str to ndarray of shape (n,) or (n, k), optional
        Columns that are in every model beside the intercept, by the name of their term; no feature is made of them.
    noise_floor : float
        What the measurement cannot resolve, in units of a Gaussian response.
    """
    family = resolve_family(family, link)
    family.check_rows(weights, offset)
    family.check_floor(noise_floor)
    fixed = checked_fixed(always_in or {}, len(x), weights)
    x, y, w, known = checked_rows(x, y, weights, offset)
    family.check(y)
    names, p = language.names, x.shape[1]
    if p == 0:
        raise InputError("there is no covariate to build features from; give at least one column.")
    if len(names) != p or len(set(names)) < p:
        raise InputError(f"X has {p} columns and names are {', '.join(names)}; give each column its own name.")
    taken = [name for name in fixed if name in names]
    if taken:
        raise InputError(f"always_in names {taken[0]!r}, of which features are made; leave it out of one of them.")
    # The covariates are terms only by name, for sentences about models that fail.
    fields, columns = base_fields(
        np.ascontiguousarray(x), y, w, known, fixed, intercept=intercept, family=family, coef_prior=coef_prior,
        names=names, fits_constants=language.fits_constants,
    )  # fmt: skip
    if not (columns.scale > 0).any():
        raise InputError("every covariate is constant, so there is no feature to build; check the columns.")
    return FeatureProblem(
        language=language,
        # Arrays that may not be written to would be another type to compiled code.
        x=np.require(x.T, requirements=("C", "W")),
        model_prior=model_prior or ComplexityPrior(),
        noise_floor=noise_floor,
        **fields,
    )


def base_fields(
    x: np.ndarray,
    y: np.ndarray,
    w: np.ndarray,
    offset: np.ndarray,
    fixed: dict[str, np.ndarray],
    *,
    intercept: bool,
    family: Family,
    coef_prior: Any,
    names: tuple[str, ...] = (),
    fits_constants: bool | None = None,
) -> tuple[dict[str, Any], Columns]:
    """Fields of a `FeatureProblem` that follow from the base model, and what it leaves of the columns of x."""
    base = np.hstack([np.ones((len(y), int(intercept))), *fixed.values()])
    n, root, p = float(w.sum()), np.sqrt(w), x.shape[1]
    check_observations(n, base.shape[1])
    columns, base_rss, _ = project_base(x, y, w, base, linear=family.conjugate)
    prior = resolve_coef_prior(coef_prior)
    family.check_prior(prior)
    table = Table(
        names, tuple(fixed), np.arange(p + 1), y, w, base, x, np.eye(p), p, UniformPrior().compile(p), offset,
        fits_constants=fits_constants,
    )  # fmt: skip
    bound, base_model = family.bind(table, prior.compile(n, base_rss), n)
    fields = {
        "y": np.require(y, requirements=("C", "W")), "response": columns.response[None].copy(),
        "basis": np.ascontiguousarray(np.linalg.qr(base * root[:, None])[0].T), "root_weight": root, "n": n,
        "base_rss": base_rss, "coef_prior": prior, "family": bound, "base_model": base_model, "intercept": intercept,
        "always_in": fixed,
    }  # fmt: skip
    return fields, columns


def checked_fixed(always_in: Mapping[str, np.ndarray], rows: int, weights: np.ndarray | None) -> dict[str, np.ndarray]:
    """Columns of the terms always in, as tables of numbers; of rows that count."""
    counts = slice(None) if weights is None else np.asarray(weights) > 0
    fixed = {}
    for name, given in always_in.items():
        columns = np.asarray(given, dtype=np.float64)
        columns = columns[:, None] if columns.ndim == 1 else columns
        if columns.ndim != 2 or len(columns) != rows:
            raise InputError(f"{name!r} is always in and has shape {columns.shape} where X has {rows} rows.")
        if not np.isfinite(columns).all():
            row = int(np.argmax(~np.isfinite(columns).all(axis=1)))
            raise InputError(f"{name!r} is always in and is NaN or infinite in row {row} (counting from 0).")
        fixed[name] = np.ascontiguousarray(columns[counts])
    return fixed
