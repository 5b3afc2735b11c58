"""Selection among given covariates: Bayesian linear models behind scikit-learn's interface."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from modejump.errors import InputError, ModejumpWarning
from modejump.estimators import options
from modejump.estimators.base import PosteriorRegressor, checked_names
from modejump.estimators.formulas import FormulaSpec, learn_formula
from modejump.estimators.rows import merge_rows
from modejump.estimators.tables import TableSpec, is_frame, learn_table, read_response
from modejump.posterior.coefficients import coefficients
from modejump.posterior.posterior import Posterior
from modejump.posterior.predict import NewRows, new_rows
from modejump.problem import Problem
from modejump.progress import reporter
from modejump.samplers.budget import Budget
from modejump.samplers.enumerate import enumerate_models
from modejump.samplers.mjmcmc import mjmcmc


class BGLMRegressor(PosteriorRegressor):
    """Bayesian variable selection and model averaging in linear regression.

    The posterior over all subsets of the terms is enumerated where that is feasible and sampled by mode
    jumping MCMC where it is not; predictions average over it. A term is a column, a factor, or a group of
    columns.

    Parameters
    ----------
    family : str
        Family of the response: "gaussian".
    coef_prior : str or coefficient prior
        Prior of the coefficients given the model: a name such as "g", "hyper-g", "jzs" or "bic", or an
        object with parameters such as ``GPrior(g=47)``.
    model_prior : str or model prior
        Prior of the models: "uniform", "bernoulli", "beta-binomial", or an object such as
        ``BernoulliPrior(0.1)``.
    algorithm : str
        "auto" enumerates up to 20 terms and samples beyond, "enumerate" evaluates every model (up to 30
        terms), "mjmcmc" samples.
    chains : int
        Independent chains of the sampler.
    budget : Budget, optional
        How long to sample, by steps, seconds or wanted precision; not for enumeration.
    always_in : sequence of str or int
        Terms that are in every model, by name (or column position), with a flat prior like the intercept's.
    groups : mapping of str to sequence of str or int, optional
        Columns, by name or position, that enter and leave together as one term.
    n_jobs : int, optional
        Threads, by joblib's rules: None is 1 and -1 all cores. The answer does not depend on it.
    random_state : int, Generator, RandomState or None
        Seed of the sampler.
    progress : bool, "auto" or callable
        "auto" shows a bar on a terminal once the work has taken two seconds; True always reports; a
        callable is called with (done, total, note).

    Attributes
    ----------
    inclusion_ : DataFrame
        Inclusion probability of each term, best first, with its Monte Carlo error and diagnostics.
    models_ : DataFrame
        The leading models, best first.
    posterior_ : Posterior
        The object behind both.
    problem_ : Problem
        The data and priors as the samplers see them.
    verdict_ : Verdict
        What can be said about convergence, in plain sentences.
    coef_ : ndarray
        Model-averaged coefficients of the design columns, on their original scale.
    intercept_ : float
        Model-averaged intercept.
    table_ : TableSpec or FormulaSpec
        How tables become design columns.
    seed_ : int
        Entropy from which the chains' random streams were spawned.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns of X, where it had names.

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
        family: str = "gaussian",
        coef_prior: Any = "g",
        model_prior: Any = "beta-binomial",
        algorithm: str = "auto",
        chains: int = 4,
        budget: Budget | None = None,
        always_in: Sequence[str | int] = (),
        groups: Mapping[str, Sequence[str | int]] | None = None,
        n_jobs: int | None = 1,
        random_state: Any = None,
        progress: Any = "auto",
    ) -> None:
        self.family = family
        self.coef_prior = coef_prior
        self.model_prior = model_prior
        self.algorithm = algorithm
        self.chains = chains
        self.budget = budget
        self.always_in = always_in
        self.groups = groups
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BGLMRegressor:
        """Compute the posterior over the models.

        Parameters
        ----------
        X : data frame or array of shape (n, columns)
            Covariates. In a frame, categorical columns are factors: blocks of treatment contrasts.
        y : array of shape (n,)
            Response.
        sample_weight : array of shape (n,), optional
            Case weights: a row of weight 2 counts as two rows.
        """
        options.check_family(self.family)
        spec, design = learn_table(X, self.groups, estimator=self)
        checked_names(self, X, reset=True)
        response = read_response(y, len(design))
        return self._fit_design(spec, design, response, options.read_weights(sample_weight, len(design)))

    def fit_formula(self, formula: str, data: Any, sample_weight: Any = None) -> BGLMRegressor:
        """Compute the posterior over the models whose terms are the terms of a formula.

        Parameters
        ----------
        formula : str
            For instance ``"y ~ a + C(f) + a:b"``; a ``.`` stands for all other columns. Functions of
            formulaic and of NumPy (as ``np``) may be used, and nothing else.
        data : data frame
            The table with its columns; ``predict`` takes frames with the same columns.
        sample_weight : array of shape (n,), optional
            Case weights.
        """
        options.check_family(self.family)
        if self.groups is not None:
            raise InputError("groups do not go with a formula, whose terms are the units; call fit without one.")
        spec, design, response = learn_formula(formula, data)
        self.feature_names_in_ = np.array(spec.variables, dtype=object)
        self.n_features_in_ = len(spec.variables)
        return self._fit_design(spec, design, response, options.read_weights(sample_weight, len(design)))

    def _fit_design(
        self, spec: TableSpec | FormulaSpec, design: np.ndarray, y: np.ndarray, weights: np.ndarray | None
    ) -> BGLMRegressor:
        terms = spec.terms
        positions = spec.variables if isinstance(spec, TableSpec) else []
        always_in = options.read_always_in(self.always_in, list(terms), positions)
        algorithm = options.choose_algorithm(self.algorithm, len(terms) - len(always_in), self.budget)
        budget, chains = options.check_budget(self.budget), options.check_chains(self.chains)
        workers, seed = options.count_workers(self.n_jobs), options.draw_seed(self.random_state)
        options.check_varies(y, weights)
        design, y, weights = merge_rows(design, y, weights)
        with reporter(self.progress) as report:
            problem = Problem.build(
                design, y, terms=terms, always_in=always_in, weights=weights, coef_prior=self.coef_prior,
                model_prior=self.model_prior, intercept=spec.intercept,
            )  # fmt: skip
            _warn_dead(problem)
            if algorithm == "enumerate":
                result = enumerate_models(problem, workers=workers, progress=report)
            else:
                result = mjmcmc(problem, chains=chains, budget=budget, workers=workers, seed=seed, progress=report)
        self._keep(spec, seed, Posterior(problem, result))
        return self

    def _new_rows(self, X: Any, kind: str) -> NewRows:
        by_table = isinstance(self.table_, TableSpec)
        if by_table and is_frame(X):
            checked_names(self, X, reset=False)
        design = self.table_.apply(X)
        if by_table and not is_frame(X):
            checked_names(self, X, reset=False)
        candidates, always = self._columns()
        return new_rows(self.problem_, design[:, candidates], design[:, always])

    def _columns(self) -> tuple[list[int], list[int]]:
        """Design columns of the candidates, in the problem's order, and of the terms always in."""
        terms = self.table_.terms
        candidates = [j for name in self.problem_.names for j in terms[name]]
        return candidates, [j for name in self.problem_.always_in for j in terms[name]]

    @property
    def coef_(self) -> np.ndarray:
        """Model-averaged coefficients of the design columns, on their original scale."""
        return self._equation("bma")[1]

    @property
    def intercept_(self) -> float:
        """Model-averaged intercept; 0 for a formula without one."""
        return self._equation("bma")[0]

    def coefficients(self, kind: str = "bma") -> pd.DataFrame:
        """Posterior mean and standard deviation of every coefficient, on the original scale of its column.

        Parameters
        ----------
        kind : str
            "bma" averages over the models; "best" and "median" are given the best or the median
            probability model.

        Returns
        -------
        DataFrame
            The intercept, then one row for each design column, with ``mean``, ``sd``, ``conditional_mean``
            and ``conditional_sd`` (given that the column is in) and the ``probability`` that it is.
        """
        posterior = self._fitted
        names = self.table_.design_names
        candidates, always = self._columns()
        table = coefficients(posterior, [names[j] for j in candidates], [names[j] for j in always], kind=kind)
        shift = int(self.problem_.intercept)
        rows = np.empty(len(names), dtype=np.int64)
        rows[always + candidates] = np.arange(len(names)) + shift
        return table.iloc[np.concatenate([np.arange(shift), rows])]

    def _equation(self, kind: str) -> tuple[float, np.ndarray]:
        """Intercept and coefficients of the design columns for one kind of prediction."""
        table = self.coefficients(kind)
        mean = table["mean"].to_numpy()
        return (float(mean[0]), mean[1:]) if self.problem_.intercept else (0.0, mean)

    def log_marginal_likelihood(self, features: Sequence[str]) -> float:
        """Log Bayes factor of a model against the base model, ``log p(y|M) - log p(y|base)``.

        The base model has the intercept and the terms always in; its own marginal likelihood is improper
        for most priors, so only differences between models have a meaning.

        Parameters
        ----------
        features : sequence of str
            Terms of the model; those always in may be left out.
        """
        if isinstance(features, str):
            features = (features,)
        return self._fitted.log_marginal_likelihood(features)

    def to_latex(self, kind: str = "best", digits: int = 4) -> str:
        """The prediction equation as LaTeX.

        Parameters
        ----------
        kind : str
            "best" or "median" for the equation of one model, "bma" for the model-averaged one.
        digits : int
            Significant digits of the coefficients.
        """
        from modejump.estimators.equation import latex

        check_is_fitted(self, "posterior_")
        return latex(*self._equation(kind), self.table_.design_names, digits)

    def to_sympy(self, kind: str = "best") -> Any:
        """The prediction equation as a SymPy expression; ``predict`` of the same kind evaluates it.

        Parameters
        ----------
        kind : str
            "best" or "median" for the equation of one model, "bma" for the model-averaged one.
        """
        from modejump.estimators.equation import sympy_expression

        check_is_fitted(self, "posterior_")
        return sympy_expression(*self._equation(kind), self.table_.design_names)


def _warn_dead(problem: Problem) -> None:
    dead = problem.dead_terms()
    if dead:
        warnings.warn(
            "constant, or a linear combination of what is always in, so its inclusion probability is 0: "
            f"{options.name_some(dead)}.",
            ModejumpWarning,
            stacklevel=4,
        )
