"""Search for laws: Bayesian models of nonlinear features behind scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.data.coding import TableSpec
from modejump.estimators.base import PosteriorEstimator, PosteriorRegressor
from modejump.estimators.classifier import PosteriorClassifier
from modejump.estimators.docs import documented
from modejump.estimators.questions.law_terms import Estimates, constants_of_best
from modejump.estimators.summary import plural
from modejump.features.laws.expression import Feature
from modejump.features.laws.powers import LAW_TRANSFORMS
from modejump.features.nonlinear.space import Space
from modejump.features.symbols import escape_latex, import_sympy
from modejump.features.tokens import quoted
from modejump.likelihoods import Family
from modejump.posterior.coefficients import labelled
from modejump.samplers.budget import Budget
from modejump.samplers.laws import Laws

_OWN = """
model_prior : ComplexityPrior, optional
    Prior of the models, which penalises the complexity of features; ``ComplexityPrior("1/n")`` by default.
transforms : sequence of str or Transform, or str
    The functions G, by name or as entries of ``modejump.transforms``; "G1" and "G2" are published sets. An empty
    sequence leaves products.
always_in : sequence of str or int
    Columns that are in every model, by name or position, with a flat prior like the intercept's; no feature is made of
    them. A factor is there by indicators of all its levels but the first.
missing : {"refuse", "median"}
    What to do about missing values: refuse them, or replace each by the median of its column at fit. Columns with
    missing values then have an indicator beside them, such as ``age[missing]``, of which features may be made.
space : Space, optional
    Limits of the feature space, and weights of the operators that move in it. A BatchLikelihood is told features by
    their text, so that its space can have no projections.
algorithm : str
    "rgmjmcmc" samples reversibly, so that frequencies are posterior probabilities with a Monte Carlo error; "gmjmcmc"
    searches only, and renormalises over the models found. "auto" is "rgmjmcmc". Of rows that are read in chunks it
    searches a sample, and samples models of the features found by all rows.
chains : int, optional
    Independent chains, of the search and of sampling; 16 by default.
budget : Budget, optional
    How long to run: ``warmup`` steps of each chain for the search and ``steps`` for sampling ("gmjmcmc" has ``steps``
    alone), ``seconds`` for all together, or a wanted precision ``mcse``.
noise_floor : float, optional
    What the measurement cannot resolve, in units of a Gaussian or Student-t response: the standard deviation of an
    error that is part of every measurement, whatever the model. By default only rounding errors, below 6e-8 of the
    standard deviation of y, are left aside.
"""


class LawSearch(PosteriorEstimator):
    """Search for laws among nonlinear features, whatever the family of the response."""

    # The law and its constants that a file had, which holds no rows to find them by.
    _constants_read: tuple[str, Estimates | None] = ("", None)

    def __init__(
        self,
        *,
        link: str | None = None,
        coef_prior: Any = "g",
        model_prior: Any = None,
        transforms: Any = LAW_TRANSFORMS,
        space: Space | None = None,
        always_in: Sequence[str | int] = (),
        missing: str = "refuse",
        algorithm: str = "auto",
        chains: int | None = None,
        budget: Budget | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = "auto",
        sampler: Any = None,
    ) -> None:
        self.link = link
        self.coef_prior = coef_prior
        self.model_prior = model_prior
        self.transforms = transforms
        self.space = space
        self.always_in = always_in
        self.missing = missing
        self.algorithm = algorithm
        self.chains = chains
        self.budget = budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
        self.sampler = sampler

    @property
    def laws_(self) -> Laws:
        """The laws found."""
        laws = self._fitted.laws
        assert laws is not None
        return laws

    def _column_names(self, given: Sequence[str] | None) -> tuple[list[str], list[str]]:
        if given is not None and given != list(self.table_.variables):
            raise InputError(
                "features are named by the columns of the array of the fit (x0, x1, ...); fit on a data frame, or call "
                "set_output(transform='pandas') on the pipeline."
            )
        return list(self.problem_.names), list(self.problem_.always_in)

    def _columns(self, design: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert isinstance(self.table_, TableSpec)
        names, laws = self.table_.design_names, self.laws_
        table = dict(zip(names, design.T, strict=True))
        # Laws that no averaged model has may be undefined on the new rows, and nobody asks for them.
        columns = np.zeros((len(design), len(laws.features)))
        for j in used:
            feature = laws.features[j]
            columns[:, j] = laws.language.column(feature, table, laws.constants)
            bad = ~np.isfinite(columns[:, j])
            if bad.any():
                raise InputError(
                    f"the feature {feature.text!r} is not finite in row {int(np.argmax(bad))} of the new data "
                    "(counting from 0); drop such rows, or check their values."
                )
        return columns, design[:, [names.index(name) for name in self.problem_.always_in]]

    def _labelled(self, values: Mapping[str, np.ndarray]) -> pd.DataFrame:
        return labelled(self.problem_, values)

    def _symbols(self, form: str, digits: int = 4) -> list[Any]:
        laws, fixed = self.laws_, self.problem_.always_in
        if form == "text":
            features = [laws.language.text(feature, laws.constants, digits) for feature in laws.features]
            return [*map(quoted, fixed), *features]
        if form == "sympy":
            symbols = [laws.language.sympy(feature, laws.constants) for feature in laws.features]
            return [*map(import_sympy().Symbol, fixed), *symbols]
        features = [laws.language.latex(feature, laws.constants, digits) for feature in laws.features]
        return [*(rf"\mathrm{{{escape_latex(name)}}}" for name in fixed), *features]

    def law_table(self) -> pd.DataFrame:
        """The best law of each complexity, simplest first, with its error on rows left out.

        Returns
        -------
        DataFrame
            ``complexity``, ``law``, ``log_posterior``, ``probability`` of the model, ``error`` (root mean square error
            of a row that is left out; constants inside features count as fitted, but features are not searched for
            again) and ``as_good`` (whether the mean squared error is within one standard error of the smallest). See
            :func:`modejump.posterior.best_laws.law_table` for what is computed.

        Examples
        --------
        >>> x = np.random.default_rng(2).uniform(0.5, 3.0, (80, 2))
        >>> y = 2.0 + x[:, 0] ** 2 / x[:, 1] + np.random.default_rng(3).normal(0.0, 0.1, 80)
        >>> model = BGNLMRegressor(chains=4, budget=Budget(warmup=1000, steps=500), random_state=1).fit(x, y)
        >>> model.law_table()[["complexity", "law", "error"]].head(4).round(2)
           complexity      law  error
        0           0        1   2.43
        1           1       x0   1.77
        2           2     x0^2   1.76
        3           4  x0^2/x1   0.11
        """
        from modejump.posterior.best_laws import law_table

        return law_table(self._fitted)

    def constants(self, level: float = 0.9) -> pd.DataFrame:
        """Constants inside the best model, with intervals, as :func:`modejump.fit_law` finds them.

        They are fitted together with the coefficients by maximum likelihood, given the form of the law.

        Parameters
        ----------
        level : float
            Level of the intervals.

        Returns
        -------
        DataFrame
            One row for each constant, named as in ``equation(numbers=False)``: ``value``, ``lower``, ``upper``, and
            ``simple``, an integer, fraction or multiple of pi that the data do not tell from it, or empty. No rows
            where the best model has no constants.

        Examples
        --------
        >>> X = pd.DataFrame({"S": np.linspace(0.1, 10.0, 100)})
        >>> rate = (3.0 * X["S"] / (X["S"] + 2.0) + np.random.default_rng(1).normal(0.0, 0.01, 100)).rename("rate")
        >>> model = BGNLMRegressor(chains=4, budget=Budget(warmup=1000, steps=500), random_state=1).fit(X, rate)
        >>> model.equation(numbers=False)
        '1/(S + c0)'
        >>> model.constants().round(2)
            value  lower  upper simple
        c0   2.01   1.99   2.03      2
        """
        return self._estimated_constants().with_simple(level)

    def _estimated_constants(self) -> Estimates:
        """Those of the best model; a model read from a file has them from there."""
        law, known = self._constants_read
        if known is not None and self._fitted.searched is None and law == self.equation(numbers=False):
            return known
        return constants_of_best(self)

    def _event(self) -> str:
        """What the mean of the response is the mean of."""
        return Feature.covariate(self.target_).text

    def _covariates(self) -> str:
        """What features are made of, in words."""
        return plural(len(self.table_.variables), "covariate")

    def _stated_prior(self) -> Any:
        """The prior of the models, as the page states it."""
        return self._options.model_prior

    def _page_facts(self) -> dict[str, Any]:
        equation, family = "", self.problem_.family
        if not family.custom:
            equation = f"{family.text(self._event())} = {self.equation()}"
        more = {"covariates": self._covariates(), "prior": self._stated_prior(), "equation": equation}
        with suppress(InputError):
            more |= {"law": self.equation(numbers=False), "constants": self.constants()}
        return super()._page_facts() | more


@documented(_OWN)
class BGNLMRegressor(PosteriorRegressor, LawSearch):
    """Bayesian discovery of laws: linear regression on nonlinear features that are found in the data.

    A feature is an expression over the columns, such as ``troot(mass*period*period)``: products of features,
    transforms of them, and transforms of their linear combinations. Chains of populations search for good models;
    what they find becomes a library, and reversible chains (RGMJMCMC) sample models of its features and of fresh
    ones, so that the share of steps with a law estimates its posterior probability. Features that are the same
    column up to scale are one law.

    {parameters}

    {attributes}

    Examples
    --------
    >>> x = np.random.default_rng(1).uniform(0.5, 3.0, (80, 3))
    >>> y = 2.0 + 5.0 * x[:, 0] * np.sin(x[:, 2]) + np.random.default_rng(2).normal(0.0, 0.1, 80)
    >>> model = BGNLMRegressor(chains=4, budget=Budget(warmup=3000, steps=500), random_state=1).fit(x, y)
    >>> model.best_model()
    ('x0*sin(x2)',)
    """

    def __init__(
        self,
        *,
        family: str | Family | None = None,
        link: str | None = None,
        coef_prior: Any = "jzs",
        model_prior: Any = None,
        transforms: Any = LAW_TRANSFORMS,
        space: Space | None = None,
        always_in: Sequence[str | int] = (),
        missing: str = "refuse",
        algorithm: str = "auto",
        chains: int | None = None,
        budget: Budget | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = "auto",
        sampler: Any = None,
        noise_floor: float | None = None,
    ) -> None:
        super().__init__(
            link=link, coef_prior=coef_prior, model_prior=model_prior, transforms=transforms, space=space,
            always_in=always_in, missing=missing, algorithm=algorithm, chains=chains, budget=budget, n_jobs=n_jobs,
            random_state=random_state, progress=progress, sampler=sampler,
        )  # fmt: skip
        self.family = family
        self.noise_floor = noise_floor


@documented(_OWN)
class BGNLMClassifier(PosteriorClassifier, LawSearch):
    """Bayesian discovery of laws for classes: logistic regression on nonlinear features found in the data.

    It searches and samples as :class:`BGNLMRegressor` does; marginal likelihoods are Laplace approximations, and models
    whose features separate the classes count like others. Coefficients inside projections are found by least
    squares on the classes coded 0 and 1. Of more than two classes, each is fitted against the rest.

    {parameters}

    {attributes}

    Examples
    --------
    >>> x = np.random.default_rng(2).uniform(-2.0, 2.0, (200, 2))
    >>> y = np.where(x[:, 0] * x[:, 1] + np.random.default_rng(3).normal(0.0, 0.5, 200) > 0.0, "yes", "no")
    >>> model = BGNLMClassifier(chains=4, budget=Budget(warmup=1000, steps=500), random_state=1).fit(x, y)
    >>> model.best_model()
    ('x0*x1',)
    """

    def _event(self) -> str:
        return f"{super()._event()} = {self.classes_[1]}"
