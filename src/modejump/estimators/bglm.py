"""Selection among given covariates: Bayesian generalised linear models behind scikit-learn's interface."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.special import gammaln

from modejump.core.errors import InputError, warn_user
from modejump.data.coding import TableSpec, refuse_not_finite
from modejump.data.rows import in_place
from modejump.data.sources import is_source
from modejump.data.tables import Table, read_formula, read_wide_table
from modejump.data.wide_table import WideSpec, count_columns
from modejump.estimators.base import PosteriorEstimator, PosteriorRegressor
from modejump.estimators.classifier import PosteriorClassifier
from modejump.estimators.docs import documented
from modejump.estimators.given import check_names, read_given
from modejump.estimators.options import Options, name_some, read_always_in
from modejump.estimators.prepare import WIDE_COLUMNS, Chunks
from modejump.estimators.summary import plural
from modejump.features.symbols import escape_latex, import_sympy
from modejump.likelihoods import Family
from modejump.posterior.coefficients import labelled
from modejump.posterior.posterior import Posterior
from modejump.priors.models import resolve_model_prior
from modejump.priors.sizes import SizePrior
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget

# Terms of probability zero that are asked why, those most like the response first.
_SUSPECTS = 20
_OWN = """
model_prior : str or model prior
    Prior of the models: "uniform", "bernoulli", "beta-binomial", or an object such as ``BernoulliPrior(0.1)``.
algorithm : str
    "auto" enumerates up to 20 terms and samples beyond; "enumerate" evaluates every model (up to 30 terms); "mjmcmc"
    samples. For families other than gaussian, where a model is fitted row by row, "auto" enumerates while models times
    rows stay below 5e7, and for a BatchLikelihood up to 12 terms. "rgmjmcmc" is for columns that are too many for one
    list, up to millions: all of them numbers, of float64, float32 or int8, in memory or mapped from a file. Then
    ``inclusion_`` lists the columns that leading models have, and models have at most 64 columns unless the model prior
    has a ``max_size``. "auto" takes it above 5 000 columns, where there are no groups, factors, heredity or
    probabilities of single terms.
chains : int, optional
    Independent chains of the sampler; 4 by default.
budget : Budget, optional
    How long to sample, by steps, seconds or wanted precision; not for enumeration. By default each chain makes 500 000
    steps for a Gaussian response, and for others, whose models take time to fit, as many as the second decimal of the
    probabilities needs, up to 200 000 (``Budget(mcse=0.01, cap=200_000)``).
always_in : sequence of str or int
    Terms that are in every model, by name (or column position), with a flat prior like the intercept's.
groups : mapping of str to sequence of str or int, optional
    Columns, by name or position, that enter and leave together as one term.
missing : {"refuse", "median"}
    What to do about missing values: refuse them, or replace each by the median of its column at fit. Columns with
    missing values then have an indicator beside them, such as ``age[missing]``; both are one term.
"""


class Selection(PosteriorEstimator):
    """Selection among the terms of a table or a formula, whatever the family of the response."""

    def __init__(
        self,
        *,
        link: str | None = None,
        coef_prior: Any = "g",
        model_prior: Any = "beta-binomial",
        algorithm: str = "auto",
        chains: int | None = None,
        budget: Budget | None = None,
        always_in: Sequence[str | int] = (),
        groups: Mapping[str, Sequence[str | int]] | None = None,
        missing: str = "refuse",
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = "auto",
        sampler: Any = None,
    ) -> None:
        self.link = link
        self.coef_prior = coef_prior
        self.model_prior = model_prior
        self.algorithm = algorithm
        self.chains = chains
        self.budget = budget
        self.always_in = always_in
        self.groups = groups
        self.missing = missing
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
        self.sampler = sampler

    def fit_formula(
        self, formula: str, data: Any, sample_weight: Any = None, offset: Any = None, *, python: bool = False
    ) -> Self:
        """Compute the posterior over the models whose terms are the terms of a formula.

        Parameters
        ----------
        formula : str
            For instance ``"y ~ a + C(f) + a:b"``; a ``.`` stands for all other columns. Arithmetic, ``C``, ``I``,
            logarithms, ``poly``, splines (``bs``, ``cs``), and plain functions of NumPy such as ``np.sqrt``.
        data : data frame
            The table with its columns; ``predict`` takes frames with the same columns.
        sample_weight : array of shape (n,), or str, optional
            Case weights, or the name of their column.
        offset : array of shape (n,), or str, optional
            Known part of the linear predictor, or the name of its column; not for a Gaussian response.
        python : bool
            Evaluate any Python in the formula. Only for formulas that you trust as you trust a program.

        Examples
        --------
        >>> rng = np.random.default_rng(1)
        >>> cars = pd.DataFrame({"weight": rng.uniform(1, 3, 80), "doors": rng.choice(["two", "four"], 80)})
        >>> cars["use"] = 5.0 * np.log(cars["weight"]) + rng.normal(0.0, 0.1, 80)
        >>> BGLMRegressor().fit_formula("use ~ weight + log(weight) + C(doors)", cars).best_model()
        ('log(weight)',)
        """
        return self._fit_here(*self._read_formula(formula, data, sample_weight, offset, python=python))

    def _read_formula(
        self, formula: str, data: Any, sample_weight: Any = None, offset: Any = None, *, python: bool = False
    ) -> tuple[Table, Options]:
        """The rows and the options of a fit."""
        options = Options.read(self)
        if options.algorithm == "rgmjmcmc":
            raise InputError("algorithm 'rgmjmcmc' does not go with a formula; call fit, or use algorithm='mjmcmc'.")
        if self.groups is not None:
            raise InputError("groups do not go with a formula, whose terms are the units; call fit without one.")
        if options.missing != "refuse":
            raise InputError("missing values are refused in a formula; leave missing out, or call fit without one.")
        data, _, sample_weight, offset, self._beside = read_given(data, None, sample_weight, offset)
        options.family.check_rows(None, offset)
        table = read_formula(
            formula, data, sample_weight, offset, labels=options.family.response == "class", python=python
        )
        self._learn_names(table.spec.variables)
        return self._checked(table, options)

    def _read_table(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Table | Chunks, Options]:
        if not self._is_wide(X):
            return super()._read_table(X, y, sample_weight, offset)
        options = Options.read(self)
        if options.missing != "refuse":
            raise InputError(
                "missing values are refused where columns are too many for one list; leave missing out, or use "
                "algorithm='mjmcmc'."
            )
        if self.groups is not None:
            raise InputError("groups need all terms in one list; use algorithm='mjmcmc', or leave groups out.")
        if is_source(X):
            raise InputError("algorithm 'rgmjmcmc' needs the rows in memory, or mapped from a file; use 'auto'.")
        options.family.check_rows(None, offset)
        table = read_wide_table(X, y, sample_weight, offset, labels=options.family.response == "class")
        check_names(self, X, reset=True)
        if table.classes is None:
            options.family.check(table.used)
        names: Any = table.spec.variables
        return table, dataclasses.replace(options, always_in=read_always_in(self.always_in, names, names))

    def _is_wide(self, X: Any) -> bool:
        """Whether the columns are too many for one list, and can do without it."""
        if self.algorithm == "rgmjmcmc":
            return True
        if self.algorithm != "auto" or self.groups is not None or isinstance(getattr(self, "family", ""), Family):
            return False
        if is_source(X) or count_columns(X) <= WIDE_COLUMNS:
            return False
        try:
            SizePrior(resolve_model_prior(self.model_prior))
        except InputError:
            return False
        return True

    @property
    def _wide(self) -> bool:
        """Whether the posterior is over some of very many columns."""
        return isinstance(self.table_, WideSpec)

    def _keep(self, table: Table | Chunks, options: Options, posterior: Posterior) -> Self:
        super()._keep(table, options, posterior)
        if self._wide:
            return self
        _warn_without_estimate(posterior)
        _warn_of_free_terms(posterior.problem)
        return self

    def _places(self) -> tuple[list[int], list[int]]:
        """Design columns of the candidates, in the problem's order, and of the terms always in."""
        if isinstance(self.table_, WideSpec):
            place = self.table_.names.index
            return [place(name) for name in self.problem_.names], [place(name) for name in self.problem_.always_in]
        terms = self.table_.terms
        candidates = [j for name in self.problem_.names for j in terms[name]]
        return candidates, [j for name in self.problem_.always_in for j in terms[name]]

    def _column_names(self, given: Sequence[str] | None) -> tuple[list[str], list[str]]:
        if isinstance(self.table_, WideSpec):
            names: Any = self.table_.names if given is None else given
        elif given is None or not isinstance(self.table_, TableSpec):
            names = self.table_.design_names
        else:
            renamed = [dataclasses.replace(column, name=name) for column, name in zip(self.table_.columns, given)]
            names = [name for column in renamed for name in column.design_names]
        candidates, always = self._places()
        return [names[j] for j in candidates], [names[j] for j in always]

    def _columns(self, design: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        candidates, always = self._places()
        if not self._wide:
            return design[:, in_place(candidates)], design[:, always]
        columns, fixed = (np.asarray(design[:, some], dtype=np.float64) for some in (candidates, always))
        refuse_not_finite(columns, self.problem_.names)
        refuse_not_finite(fixed, self.problem_.always_in)
        return columns, fixed

    def _page_facts(self) -> dict[str, Any]:
        facts = super()._page_facts()
        if self._fitted.laws is not None:
            facts |= {"covariates": plural(len(self.table_.variables), "covariate"), "prior": self._options.model_prior}
        return facts

    def credible_sets(self, level: float = 0.95, purity: float = 0.5, min_probability: float = 0.1) -> pd.DataFrame:
        """Groups of correlated terms, each with the probability that at least one of them is in the model.

        Parameters
        ----------
        level : float
            Share of its group's probability that a set must have.
        purity : float
            Least absolute correlation between any two terms of a set.
        min_probability : float
            Sets of a lower probability are not reported.

        Returns
        -------
        DataFrame
            ``covariates`` (tuple of names), ``probability``, ``leading``, ``size`` and ``min_abs_correlation``.

        Examples
        --------
        >>> rng = np.random.default_rng(1)
        >>> X = pd.DataFrame(rng.normal(size=(100, 3)), columns=["a", "b", "c"])
        >>> X["twin"] = X["a"] + rng.normal(0.0, 0.05, 100)
        >>> model = BGLMRegressor().fit(X, X["a"] + rng.normal(size=100))
        >>> model.credible_sets()[["covariates", "probability"]].round(2)
          covariates  probability
        0  (twin, a)          1.0
        """
        return self._fitted.credible_sets(level, purity, min_probability)

    @property
    def coef_(self) -> np.ndarray:
        """Model-averaged coefficients of the design columns, on their original scale."""
        coef = self._equation("bma")[1]
        if not self._wide:
            return coef
        candidates, always = self._places()
        everywhere = np.zeros(len(self.table_.variables))
        everywhere[always + candidates] = coef
        return everywhere

    @property
    def intercept_(self) -> float:
        """Model-averaged intercept; 0 for a formula without one."""
        return self._equation("bma")[0]

    def _labelled(self, values: Mapping[str, np.ndarray]) -> pd.DataFrame:
        if isinstance(self.table_, WideSpec):
            return labelled(self.problem_, values, self.problem_.names, self.problem_.always_in)
        names = self.table_.design_names
        candidates, always = self._places()
        table = labelled(self.problem_, values, [names[j] for j in candidates], [names[j] for j in always])
        shift = int(self.problem_.intercept)
        rows = np.empty(len(names), dtype=np.int64)
        rows[always + candidates] = np.arange(len(names)) + shift
        return table.iloc[np.concatenate([np.arange(shift), rows])]

    def _symbols(self, form: str, digits: int = 4) -> list[Any]:
        names = [*self.problem_.always_in, *self.problem_.names]
        if not isinstance(self.table_, WideSpec):
            names = self.table_.design_names
        if form == "sympy":
            return [import_sympy().Symbol(name) for name in names]
        return names if form == "text" else [rf"\mathrm{{{escape_latex(name)}}}" for name in names]


@documented(_OWN)
class BGLMRegressor(PosteriorRegressor, Selection):
    """Bayesian variable selection and model averaging in linear regression, and in regression of counts and amounts.

    The posterior over all subsets of the terms is enumerated where that is feasible and sampled by mode jumping MCMC
    where it is not; predictions average over it. A term is a column, a factor, or a group of columns.

    {parameters}

    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor().fit(X, y)
    >>> model.best_model()
    ('sex', 'bmi', 'bp', 's3', 's5')
    """

    def __init__(
        self,
        *,
        family: str | Family = "gaussian",
        link: str | None = None,
        coef_prior: Any = "g",
        model_prior: Any = "beta-binomial",
        algorithm: str = "auto",
        chains: int | None = None,
        budget: Budget | None = None,
        always_in: Sequence[str | int] = (),
        groups: Mapping[str, Sequence[str | int]] | None = None,
        missing: str = "refuse",
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = "auto",
        sampler: Any = None,
    ) -> None:
        super().__init__(
            link=link, coef_prior=coef_prior, model_prior=model_prior, algorithm=algorithm, chains=chains,
            budget=budget, always_in=always_in, groups=groups, missing=missing, n_jobs=n_jobs,
            random_state=random_state, progress=progress, sampler=sampler,
        )  # fmt: skip
        self.family = family


@documented(_OWN)
class BGLMClassifier(PosteriorClassifier, Selection):
    """Bayesian variable selection and model averaging for classes: logistic regression and its like.

    The posterior over all subsets of the terms is enumerated where that is feasible and sampled by mode jumping MCMC
    where it is not; predicted probabilities average over it. Marginal likelihoods are Laplace approximations, also
    where columns separate the classes. Of more than two classes, each is fitted against the rest.

    {parameters}

    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).normal(size=(200, 3))
    >>> y = np.where(x[:, 1] + np.random.default_rng(2).logistic(size=200) > 0, "yes", "no")
    >>> model = BGLMClassifier().fit(x, y)
    >>> model.best_model(), model.classes_.tolist()
    (('x1',), ['no', 'yes'])
    """


def _warn_of_free_terms(problem: Problem) -> None:
    """Where neither prior penalises size, noise is in most models, which nobody would guess."""
    if problem.coef_prior.penalises_size or problem.n_terms < 2:
        return
    count, prior = problem.n_terms, problem.data.prior
    sizes = np.arange(count + 1)
    log_share = prior.log_size - gammaln(sizes + 1) - gammaln(count - sizes + 1)
    share = np.exp(log_share - log_share.max())
    if not prior.log_weight.any() and share @ sizes >= 0.499 * count * share.sum():
        warn_user(
            f"neither the {problem.coef_prior.name} prior of the coefficients nor the {problem.model_prior.name} prior "
            "of the models penalises the number of terms, so columns of noise get large probabilities; choose "
            "coef_prior='g', or a model prior such as BernoulliPrior(0.1)."
        )


def _warn_without_estimate(posterior: Posterior) -> None:
    """A term that predicts perfectly has probability zero, which nobody would guess."""
    problem, family = posterior.problem, posterior.problem.family
    if family.perfect is None:
        return
    probability, data = posterior.inclusion["probability"], problem.data
    telling = np.maximum.reduceat(np.abs(data.corr), data.first[:-1]) if problem.n_terms else np.zeros(0)
    never = [j for j in np.argsort(-telling) if probability[problem.names[j]] == 0.0][:_SUSPECTS]
    dead = problem.dead_terms()
    alone = [problem.names[j] for j in never if problem.names[j] not in dead]
    found = [name for name in alone if posterior.log_marginal_likelihood([name]) == -np.inf]
    if found:
        why, instead = family.perfect
        warn_user(
            f"models with {name_some(found)} have no maximum likelihood estimate, because they {why}, so their "
            f"inclusion probability is 0 however well they predict; {instead}."
        )
