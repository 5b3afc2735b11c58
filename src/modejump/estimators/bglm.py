"""Selection among given covariates: Bayesian generalised linear models behind scikit-learn's interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from modejump.core.errors import InputError, ModejumpWarning
from modejump.core.progress import reporter
from modejump.data.chunks import job_elsewhere, open_rows, refuse_family, remember_names
from modejump.data.formulas import FormulaSpec, learn_formula
from modejump.data.rows import merge_rows_with_offset
from modejump.data.sources import is_source
from modejump.data.tables import TableSpec, is_frame, learn_table, name_of
from modejump.estimators import options
from modejump.estimators.base import PosteriorEstimator, PosteriorRegressor, checked_names
from modejump.estimators.job import Job
from modejump.likelihoods.custom.own import Own
from modejump.posterior.coefficients import coefficients
from modejump.posterior.posterior import Posterior
from modejump.posterior.prediction.distribution import NewRows, new_rows
from modejump.problem.design import in_place
from modejump.problem.fingerprint import sealed
from modejump.problem.problem import Problem
from modejump.problem.streamed import streamed_problem
from modejump.runtime.checkpoints import Checkpoint
from modejump.runtime.joblib_executor import crew_for, threads_here
from modejump.samplers.budget import Budget
from modejump.samplers.enumerate import enumerate_models
from modejump.samplers.mjmcmc import mjmcmc

# Terms of probability zero that are asked why, those most like the response first.
_SUSPECTS = 20


class Selection(PosteriorEstimator):
    """Selection among the terms of a table or a formula, whatever the family of the response."""

    coef_prior: Any
    model_prior: Any
    algorithm: str
    chains: int
    budget: Budget | None
    always_in: Sequence[str | int]
    groups: Mapping[str, Sequence[str | int]] | None
    n_jobs: int | None
    random_state: Any
    progress: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Compute the posterior over the models.

        Parameters
        ----------
        X : data frame or array of shape (n, columns), or source of chunks
            Covariates. In a frame, categorical columns are factors: blocks of treatment contrasts. Rows beyond memory
            come from a source such as ``scan_parquet(path)``, or from a Dask frame: then X holds the response too.
        y : array of shape (n,), or str
            Response; of a source, the name of its column.
        sample_weight : array of shape (n,), or str, optional
            Case weights: a row of weight 2 counts as two rows; of a source, the name of their column.
        offset : array of shape (n,), optional
            Part of the linear predictor that is known, such as the logarithm of the exposure for counts; not for
            a Gaussian response, where it can be taken from y.
        """
        family = self._read_family()
        if is_source(X):
            refuse_family(family)
            options.read_offset(offset, family, 0)
            return self._fit_source(X, y, sample_weight)
        spec, design = learn_table(X, self.groups, estimator=self)
        checked_names(self, X, reset=True)
        return self._fit_design(spec, design, y, sample_weight, offset)

    def fit_formula(self, formula: str, data: Any, sample_weight: Any = None, offset: Any = None) -> Self:
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
        offset : array of shape (n,), optional
            Part of the linear predictor that is known; not for a Gaussian response.
        """
        family = self._read_family()
        if self.groups is not None:
            raise InputError("groups do not go with a formula, whose terms are the units; call fit without one.")
        spec, design, response = learn_formula(formula, data, labels=family.response == "class")
        self.feature_names_in_ = np.array(spec.variables, dtype=object)
        self.n_features_in_ = len(spec.variables)
        return self._fit_design(spec, design, response, sample_weight, offset)

    def _fit_design(
        self, spec: TableSpec | FormulaSpec, design: np.ndarray, y: Any, sample_weight: Any, offset: Any
    ) -> Self:
        family, rows = self._read_family(), len(design)
        weights = options.read_weights(sample_weight, rows)
        known = options.read_offset(offset, family, rows)
        response = self._read_y(y, weights, known, rows)
        always_in = self._names_always_in(spec)
        budget, chains = options.check_budget(self.budget), options.check_chains(self.chains)
        workers, seed = options.count_workers(self.n_jobs), options.draw_seed(self.random_state)
        if not family.custom:
            design, response, weights, known = merge_rows_with_offset(design, response, weights, known)
        fitted = options.rows_fitted(family, len(response))
        names = {} if offset is None else {"offset": name_of(offset, "offset")}
        algorithm = options.choose_algorithm(self.algorithm, len(spec.terms) - len(always_in), self.budget, fitted)
        return self._do(
            Job(spec, design, response, weights, known, algorithm, budget, chains, workers, seed, always_in, names)
        )

    def _do(self, job: Job) -> Self:
        checkpoint = self._desk.begin(self, job)

        def build() -> Problem:
            problem = Problem.build(
                job.design, job.response, terms=job.spec.terms, always_in=job.always_in, weights=job.weights,
                coef_prior=self.coef_prior, model_prior=self.model_prior, intercept=job.spec.intercept,
                family=self._read_family(), offset=job.offset,
            )  # fmt: skip
            return sealed(problem)

        return self._select(job, build, checkpoint, stacklevel=6)

    def _fit_source(self, source: Any, y: Any, sample_weight: Any) -> Self:
        """Fit to rows that are read in chunks."""
        budget, chains = options.check_budget(self.budget), options.check_chains(self.chains)
        workers, seed = options.count_workers(self.n_jobs), options.draw_seed(self.random_state)
        spec, rows = open_rows(source, y, sample_weight, self.groups, workers)
        always_in = self._names_always_in(spec)
        algorithm = options.choose_algorithm(self.algorithm, len(spec.terms) - len(always_in), self.budget)
        remember_names(self, spec)

        def build() -> Problem:
            return streamed_problem(
                rows, terms=spec.terms, always_in=always_in, coef_prior=self.coef_prior, model_prior=self.model_prior
            )

        job = job_elsewhere(spec, algorithm, budget, chains, workers, seed)
        return self._select(job, build, None, stacklevel=5)

    def _names_always_in(self, spec: TableSpec | FormulaSpec) -> tuple[str, ...]:
        positions = spec.variables if isinstance(spec, TableSpec) else []
        return options.read_always_in(self.always_in, list(spec.terms), positions)

    def _select(self, job: Job, build: Callable[[], Problem], checkpoint: Checkpoint | None, stacklevel: int) -> Self:
        """Make the problem and compute its posterior."""
        with reporter(self.progress, log=self._desk.log) as report:
            problem = build()
            _warn_dead(problem, stacklevel)
            if job.algorithm == "enumerate":
                result = enumerate_models(
                    problem, workers=threads_here(job.workers), progress=report, checkpoint=checkpoint
                )
            else:
                result = mjmcmc(
                    problem, chains=job.chains, budget=job.budget, seed=job.seed, progress=report,
                    checkpoint=checkpoint, crew=crew_for(job.workers),
                )  # fmt: skip
        self.offset_ = job.names.get("offset")
        self._keep(job, Posterior(problem, result), stacklevel)
        _warn_without_estimate(self.posterior_, stacklevel)
        return self

    def _new_rows(self, X: Any, kind: str, offset: Any = None) -> NewRows:
        by_table = isinstance(self.table_, TableSpec)
        if by_table and is_frame(X):
            checked_names(self, X, reset=False)
        design = self.table_.apply(X)
        if by_table and not is_frame(X):
            checked_names(self, X, reset=False)
        known = self._new_offset(offset, len(design))
        candidates, always = self._columns()
        return new_rows(self.problem_, design[:, in_place(candidates)], design[:, always], offset=known)

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
        """The prediction equation as LaTeX; for families other than gaussian that of the linear predictor.

        Parameters
        ----------
        kind : str
            "best" or "median" for the equation of one model, "bma" for the model-averaged one.
        digits : int
            Significant digits of the coefficients.
        """
        from modejump.estimators.equations import latex

        check_is_fitted(self, "posterior_")
        left = self.problem_.family.latex(r"\hat{y}")
        return latex(*self._equation(kind), self.table_.design_names, digits, left)

    def to_sympy(self, kind: str = "best") -> Any:
        """The prediction equation as a SymPy expression; ``predict`` of the same kind evaluates it.

        For families other than gaussian it is the linear predictor, the link of the mean. There ``predict`` also
        averages over the posterior of the coefficients, so that it is close to the inverse link of the expression
        and not equal to it.

        Parameters
        ----------
        kind : str
            "best" or "median" for the equation of one model, "bma" for the model-averaged one.
        """
        from modejump.estimators.equations import sympy_expression

        check_is_fitted(self, "posterior_")
        return sympy_expression(*self._equation(kind), self.table_.design_names)


class BGLMRegressor(PosteriorRegressor, Selection):
    """Bayesian variable selection and model averaging in linear regression, and in regression of counts and amounts.

    The posterior over all subsets of the terms is enumerated where that is feasible and sampled by mode
    jumping MCMC where it is not; predictions average over it. A term is a column, a factor, or a group of
    columns.

    Parameters
    ----------
    family : str, OwnLikelihood or BatchLikelihood
        Family of the response: "gaussian", "poisson" (counts) or "gamma" (positive amounts). Its models are compared
        by Laplace approximations unless it is Gaussian. For classes there is :class:`BGLMClassifier`. A likelihood
        of your own has neither link nor coefficient prior, and no predictions, because nobody knows its coefficients.
    link : str, optional
        Link function: "identity", "log" for counts, "log" or "inverse" for amounts; the family's first by default.
    coef_prior : str or coefficient prior
        Prior of the coefficients given the model: a name such as "g", "hyper-g", "jzs" or "bic", or an
        object with parameters such as ``GPrior(g=47)``.
    model_prior : str or model prior
        Prior of the models: "uniform", "bernoulli", "beta-binomial", or an object such as
        ``BernoulliPrior(0.1)``.
    algorithm : str
        "auto" enumerates up to 20 terms and samples beyond, "enumerate" evaluates every model (up to 30
        terms), "mjmcmc" samples. For families other than gaussian, where a model is fitted row by row, "auto"
        enumerates while models times rows stay below 5e7, and for a BatchLikelihood up to 12 terms.
    chains : int
        Independent chains of the sampler.
    budget : Budget, optional
        How long to sample, by steps, seconds or wanted precision; not for enumeration.
    always_in : sequence of str or int
        Terms that are in every model, by name (or column position), with a flat prior like the intercept's.
    groups : mapping of str to sequence of str or int, optional
        Columns, by name or position, that enter and leave together as one term.
    n_jobs : int, optional
        Workers, by joblib's rules: None is 1 and -1 all cores, and ``joblib.parallel_config`` says of which kind they
        are; threads by default. The answer does not depend on them.
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
    offset_ : str or None
        Name of the offset: that of the series given, or "offset"; None without one.
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
        family: str | Own = "gaussian",
        link: str | None = None,
        coef_prior: Any = "g",
        model_prior: Any = "beta-binomial",
        algorithm: str = "auto",
        chains: int = 4,
        budget: Budget | None = None,
        always_in: Sequence[str | int] = (),
        groups: Mapping[str, Sequence[str | int]] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = "auto",
    ) -> None:
        self.family = family
        self.link = link
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


def _warn_dead(problem: Problem, stacklevel: int) -> None:
    dead = problem.dead_terms()
    if dead:
        warnings.warn(
            "constant, or a linear combination of what is always in, so its inclusion probability is 0: "
            f"{options.name_some(dead)}.",
            ModejumpWarning,
            stacklevel=stacklevel,
        )


def _warn_without_estimate(posterior: Posterior, stacklevel: int) -> None:
    """A term that predicts perfectly has probability zero, which nobody would guess."""
    problem = posterior.problem
    family = problem.family
    if family.perfect is None or (problem.coef_prior.survives_separation and not family.bounded):
        return
    probability, data = posterior.inclusion["probability"], problem.data
    telling = np.maximum.reduceat(np.abs(data.corr), data.first[:-1]) if problem.n_terms else np.zeros(0)
    never = [j for j in np.argsort(-telling) if probability[problem.names[j]] == 0.0][:_SUSPECTS]
    dead = problem.dead_terms()
    alone = [problem.names[j] for j in never if problem.names[j] not in dead]
    found = [name for name in alone if posterior.log_marginal_likelihood([name]) == -np.inf]
    if found:
        why, instead = family.perfect
        warnings.warn(
            f"models with {options.name_some(found)} have no maximum likelihood estimate, because they {why}, so their "
            f"inclusion probability is 0 however well they predict; {instead}.",
            ModejumpWarning,
            stacklevel=stacklevel,
        )
