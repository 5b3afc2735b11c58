"""A problem over a space of features: data, language, priors and likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.language import Language
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import Transform
from modejump.likelihoods.custom.own import Own, RawTable
from modejump.likelihoods.families import Family, resolve_family
from modejump.likelihoods.gaussian.marginal import make_table
from modejump.likelihoods.glm.newton import Glm, no_glm
from modejump.priors import codes
from modejump.priors.coefficients import CoefPrior, resolve_coef_prior
from modejump.priors.compiled import ModelPriorArrays
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.models import UniformPrior
from modejump.problem.design import Columns, project_base
from modejump.problem.problem import ProblemData, checked_offset, fitted_base, kept_rows, new_glm, own_base


@dataclass(frozen=True, eq=False)
class FeatureProblem:
    """A problem over a space of features.

    Attributes
    ----------
    language : Language
        Which features there are.
    x : ndarray of shape (columns, n)
        Covariates, one row each.
    y : ndarray of shape (n,)
        Response as given.
    response : ndarray of shape (1, n)
        Weighted response without the base, of unit length.
    basis : ndarray of shape (b, n)
        Orthonormal basis of the weighted base.
    root_weight : ndarray of shape (n,)
        Square roots of the case weights.
    n, base_rss : float
        Observations, and RSS of the base model.
    coef_prior, model_prior : CoefPrior, ComplexityPrior
        The priors.
    family : Family
        Family of the response.
    base_model : Glm
        Response and fit of the base model, for families other than gaussian.
    digest : str, optional
        Digest of the rows, where ``x`` and ``y`` hold a sample of them only.
    """

    language: Language
    x: np.ndarray
    y: np.ndarray
    response: np.ndarray
    basis: np.ndarray
    root_weight: np.ndarray
    n: float
    base_rss: float
    coef_prior: CoefPrior
    model_prior: ComplexityPrior
    family: Family = resolve_family("gaussian")
    base_model: Glm = no_glm()
    digest: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Columns, in the order of ``x``."""
        return self.language.names

    @property
    def size(self) -> int:
        """Q, the largest number of features in a model."""
        return int(self.language.limits.size)

    @property
    def intercept(self) -> bool:
        """Whether every model has an intercept."""
        return self.basis.shape[0] > 0

    @property
    def table(self) -> dict[str, np.ndarray]:
        """The covariates by name."""
        return dict(zip(self.names, self.x, strict=True))

    def glm(self, z: np.ndarray) -> Glm:
        """The generalised linear model over the columns of a population; nothing for Gaussian responses."""
        if self.family.name == "gaussian":
            return self.base_model
        unroot = np.zeros(0) if self.base_model.unit else 1.0 / self.root_weight
        return self.base_model._replace(x=z, unroot=unroot)

    @property
    def weights(self) -> np.ndarray | None:
        """Case weights; None where all are one."""
        if (self.root_weight == 1.0).all():
            return None
        # A square of a root is not the number itself, and a function of the user's own is told that.
        return self.root_weight**2 if self.family.name == "gaussian" else self.base_model.weight

    @property
    def offset(self) -> np.ndarray | None:
        """The known part of the linear predictor; None where there is none."""
        return self.base_model.offset if self.base_model.offset.any() else None

    def covariates(self) -> list[Expression]:
        """The columns that vary, as features."""
        varies = np.ptp(self.x, axis=1) > 0.0
        return [self.language.covariate(name) for name, some in zip(self.names, varies, strict=True) if some]

    def log_weight(self, feature: Expression) -> float:
        """Log prior weight of a feature."""
        weight = float(self.feature_weights()[feature.complexity])
        return weight + feature.log_spellings if self.model_prior.spelling == "trees" else weight

    def feature_weights(self) -> np.ndarray:
        """Log prior weight of a feature by its complexity."""
        return self.model_prior.log_a(self.n) * np.arange(self.language.limits.complexity + 1.0)

    def population_data(self, z: np.ndarray, most: int | None = None, glm: Glm | None = None) -> ProblemData:
        """Arrays of a selection problem with one place for each row of ``z``, all of them empty.

        ``most`` bounds the columns of a model that can be evaluated, where that is less than the places. ``glm`` is
        the model of the columns where it is not one of ``z``.
        """
        s, n = z.shape
        base = self.basis.shape[0]
        log_size = np.full(s + 1, -np.inf)
        log_size[: min(self.size, s) + 1] = 0.0
        none = np.zeros(s + 1, np.int64)
        prior = ModelPriorArrays(
            log_size, np.full(s, -np.inf), 0, none, np.zeros(0, np.int64), none, np.zeros(0, np.int64)
        )
        columns = Columns(
            z.T, np.zeros((n, 0)), np.zeros((0, s)), np.ones(s), np.ones(n), np.ascontiguousarray(self.response[0])
        )
        par = self.coef_prior.parameters(self.n, self.base_rss)
        max_cols = min(s if most is None else most, max(int(np.ceil(self.n)) - base - 1, 0))
        code = self.coef_prior.code
        gram = np.zeros((s, s))
        return ProblemData(
            gram,
            np.zeros(s),
            np.arange(s + 1, dtype=np.int64),
            code,
            par,
            self.n,
            base,
            max_cols,
            make_table(code if self.family.name == "gaussian" else codes.BIC, par, self.n, base, max_cols),
            prior,
            columns,
            np.zeros(s, np.uint64),
            float(np.log1p(par[0])) if code == codes.G else 0.0,
            self.glm(z) if glm is None else glm,
            gram,
        )


def feature_problem(
    x: np.ndarray,
    y: np.ndarray,
    names: Sequence[str],
    *,
    transforms: Sequence[Transform],
    space: Space,
    **more: Any,
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
    model_prior: ComplexityPrior | None = None,
    weights: np.ndarray | None = None,
    intercept: bool = True,
    family: str | Family = "gaussian",
    link: str | None = None,
    offset: np.ndarray | None = None,
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
    """
    family = resolve_family(family, link)
    family.check_rows(weights, offset)
    x, y, w, known = kept_rows(x, y, weights, checked_offset(offset, family, y))
    names = language.names
    if x.shape[1] == 0:
        raise InputError("there is no covariate to build features from; give at least one column.")
    if len(names) != x.shape[1] or len(set(names)) < len(names):
        raise InputError(f"X has {x.shape[1]} columns and names are {', '.join(names)}; give each column its own name.")
    base = np.ones((len(y), 1)) if intercept else np.zeros((len(y), 0))
    root = np.sqrt(w)
    columns, base_rss, _ = project_base(np.ascontiguousarray(x), y, w, base, linear=family.name == "gaussian")
    if not (columns.scale > 0).any():
        raise InputError("every covariate is constant, so there is no feature to build; check the columns.")
    basis = np.linalg.qr(base * root[:, None])[0].T if intercept else np.zeros((0, len(y)))
    prior = resolve_coef_prior(coef_prior)  # type: ignore[arg-type]
    family, base_model = _base_model(family, language, x, y, w, known, base, prior, base_rss)
    return FeatureProblem(
        language=language,
        # Arrays that may not be written to would be another type to compiled code.
        x=np.require(x.T, requirements=("C", "W")),
        y=np.require(y, requirements=("C", "W")),
        response=columns.response[None].copy(),
        basis=np.ascontiguousarray(basis),
        root_weight=root,
        n=float(w.sum()),
        base_rss=base_rss,
        coef_prior=prior,
        model_prior=model_prior or ComplexityPrior(),
        family=family,
        base_model=base_model,
    )


def _base_model(
    family: Family,
    language: Language,
    x: np.ndarray,
    y: np.ndarray,
    w: np.ndarray,
    offset: np.ndarray,
    base: np.ndarray,
    prior: CoefPrior,
    base_rss: float,
) -> tuple[Family, Glm]:
    """The family as one that knows the problem, and its model of no features."""
    if family.name == "gaussian":
        return family, no_glm()
    family.check(y)
    family.check_prior(prior)
    n = float(w.sum())
    if isinstance(family, Own):
        # The covariates are terms only by name, for sentences about models that fail.
        p = len(language.names)
        flat = UniformPrior().compile(p).arrays
        raw = RawTable(language.names, (), np.arange(p + 1), y, w, base, x, np.eye(p), p, flat)
        return own_base(family.bind_features(raw, language.fits_constants))
    par = prior.parameters(n, base_rss)
    glm = new_glm(family, y, w, offset, base, np.zeros((0, len(y))))
    return family, fitted_base(family, glm, prior.code, par, n)
