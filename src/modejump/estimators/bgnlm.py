"""Discovery of laws: Bayesian models of nonlinear features behind scikit-learn's interface."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from modejump.core.errors import InputError, ModejumpWarning
from modejump.core.progress import reporter
from modejump.data.chunks import job_elsewhere, open_rows, refuse_family, remember_names
from modejump.data.rows import merge_rows_with_offset
from modejump.data.sources import is_source
from modejump.data.tables import TableSpec, is_frame, learn_table, name_of
from modejump.estimators import options
from modejump.estimators.base import PosteriorEstimator, PosteriorRegressor, checked_names
from modejump.estimators.job import Job
from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.features.nonlinear.projections import with_projections
from modejump.features.nonlinear.space import Space
from modejump.likelihoods.custom.batch import BatchLikelihood
from modejump.likelihoods.custom.own import Own, StoredLikelihood
from modejump.posterior.coefficients import coefficients
from modejump.posterior.posterior import Posterior
from modejump.posterior.prediction.distribution import NewRows, new_rows
from modejump.problem.feature_problem import FeatureProblem
from modejump.problem.fingerprint import fingerprints
from modejump.problem.problem import Problem
from modejump.problem.streamed import lengths
from modejump.runtime.joblib_executor import crew_for
from modejump.samplers.budget import Budget
from modejump.samplers.gmjmcmc import Discovery as Found
from modejump.samplers.gmjmcmc import feature_problem, gmjmcmc
from modejump.samplers.laws import Laws
from modejump.samplers.rgmjmcmc import rgmjmcmc
from modejump.samplers.streamed import streamed_features, streamed_gmjmcmc
from modejump.samplers.warmup.library import EVALUATIONS

if TYPE_CHECKING:
    from modejump.estimators.summary import Summary

TRANSFORMS = ("sigmoid", "sin", "exp_abs", "log1p_abs", "troot", "to23", "to35")
CHAINS, CHAINS_IN_CHUNKS = 16, 1
# Models that a Python function scores to complete the library: nobody knows how long it takes.
SCORED_EDITS = 5_000

_Training = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]


class Discovery(PosteriorEstimator):
    """Search for laws among nonlinear features, whatever the family of the response."""

    coef_prior: Any
    model_prior: Any
    transforms: Any
    space: Space | None
    algorithm: str
    chains: int | None
    budget: Budget | None
    n_jobs: int | None
    random_state: Any
    progress: Any
    laws_: Laws
    target_: str

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Search for laws.

        Parameters
        ----------
        X : data frame or array of shape (n, columns), or source of chunks
            Covariates, all of them numbers. Rows beyond memory come from a source such as ``scan_parquet(path)``, or
            from a Dask frame: then X holds the response too, and the algorithm is "gmjmcmc".
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
        algorithm = options.choose_search(self.algorithm)
        options.read_transforms(self.transforms)
        options.read_space(self.space)
        options.read_complexity_prior(self.model_prior)
        spec, design = learn_table(X, estimator=self, factors=False)
        checked_names(self, X, reset=True)
        weights = options.read_weights(sample_weight, len(design))
        known = options.read_offset(offset, family, len(design))
        response = self._read_y(y, weights, known, len(design))
        budget, chains = options.check_budget(self.budget), options.check_chains(self.chains, CHAINS)
        workers, seed = options.count_workers(self.n_jobs), options.draw_seed(self.random_state)
        if not family.custom:
            design = np.ascontiguousarray(design)
            design, response, weights, known = merge_rows_with_offset(design, response, weights, known)
        _check_size(response, weights)
        names = {"target": name_of(y, "y")} | ({} if offset is None else {"offset": name_of(offset, "offset")})
        return self._do(
            Job(spec, design, response, weights, known, algorithm, budget, chains, workers, seed, names=names)
        )

    def _do(self, job: Job) -> Self:
        chosen, space = options.read_transforms(self.transforms), options.read_space(self.space)
        prior, names = options.read_complexity_prior(self.model_prior), job.spec.names
        checkpoint = self._desk.begin(self, job)
        with reporter(self.progress, log=self._desk.log) as report:
            problem = feature_problem(
                job.design, job.response, names, transforms=chosen, space=space, coef_prior=self.coef_prior,
                model_prior=prior, weights=job.weights, family=self._read_family(), offset=job.offset,
            )  # fmt: skip
            _warn_constant([name for j, name in enumerate(names) if np.ptp(job.design[:, j]) == 0.0])
            options.check_transforms(chosen, job.design, names)
            how: dict[str, Any] = {"chains": job.chains, "budget": job.budget, "seed": job.seed}
            how["crew"] = crew_for(job.workers)
            if job.algorithm == "gmjmcmc":
                found = gmjmcmc(problem, progress=report, checkpoint=checkpoint, **how)
            else:
                edits = SCORED_EDITS if isinstance(problem.family, BatchLikelihood) else EVALUATIONS
                found = rgmjmcmc(problem, edits=edits, progress=report, checkpoint=checkpoint, **how)
        self.target_, self.offset_ = job.names["target"], job.names.get("offset")
        self._training: _Training | None = (job.design, job.response, job.weights, job.offset)
        return self._found(job, problem, found, stacklevel=5)

    def _fit_source(self, source: Any, y: Any, sample_weight: Any) -> Self:
        """Search on rows that are read in chunks."""
        algorithm = "gmjmcmc" if self.algorithm == "auto" else options.choose_search(self.algorithm)
        if algorithm != "gmjmcmc":
            raise InputError(
                "algorithm 'rgmjmcmc' needs the rows in memory, and these are read in chunks; use algorithm='gmjmcmc'."
            )
        chosen = options.read_transforms(self.transforms)
        space, prior = options.read_space(self.space), options.read_complexity_prior(self.model_prior)
        budget, chains = options.check_budget(self.budget), options.check_chains(self.chains, CHAINS_IN_CHUNKS)
        workers, seed = options.count_workers(self.n_jobs), options.draw_seed(self.random_state)
        spec, rows = open_rows(source, y, sample_weight, None, workers)
        job = job_elsewhere(spec, algorithm, budget, chains, workers, seed)
        with reporter(self.progress) as report:
            problem, moments = streamed_features(
                rows, space=space, transforms=chosen, coef_prior=self.coef_prior, model_prior=prior
            )
            _warn_constant([name for name, length in zip(spec.names, lengths(moments)) if length == 0.0])
            options.check_transforms(chosen, problem.x.T, spec.names)
            found = streamed_gmjmcmc(problem, rows, chains=chains, budget=budget, seed=seed, progress=report)
        remember_names(self, spec)
        self.target_, self.offset_, self._training = y, None, None
        return self._found(job, problem, found, stacklevel=5)

    def _found(self, job: Job, problem: FeatureProblem, found: Found, stacklevel: int) -> Self:
        """Keep the outcome of a search."""
        self.laws_ = found.laws
        self._prior, self._space = problem.model_prior, problem.space
        self._transforms = tuple(t.name for t in problem.transforms)
        identity = None if problem.family.custom else fingerprints(problem)
        self._keep(job, Posterior(found.laws.problem, found.result, identity=identity), stacklevel)
        return self

    def _new_rows(self, X: Any, kind: str, offset: Any = None) -> NewRows:
        if is_frame(X):
            checked_names(self, X, reset=False)
        design = self.table_.apply(X)
        if not is_frame(X):
            checked_names(self, X, reset=False)
        known = self._new_offset(offset, len(design))
        table = _columns_of(self.table_, design)
        # Laws that no averaged model has may be undefined on the new rows: nobody asks for them.
        columns = np.zeros((len(design), len(self.laws_.features)))
        for j in self.posterior_.predictor(kind).used:
            feature = self.laws_.features[j]
            columns[:, j] = evaluate(feature, table, self.laws_.alphas)
            bad = ~np.isfinite(columns[:, j])
            if bad.any():
                raise InputError(
                    f"the feature {feature.text!r} is not finite in row {int(np.argmax(bad))} of the new data "
                    "(counting from 0); drop such rows, or check their values."
                )
        return new_rows(self.problem_, columns, offset=known)

    @property
    def inclusion_(self) -> pd.DataFrame:
        """Inclusion probability of each law, best first, with its complexity and its other spellings."""
        frame = self._fitted.inclusion.copy()
        laws = {feature.text: feature for feature in self.laws_.features}
        frame["complexity"] = np.array([laws[text].complexity for text in frame.index], dtype=np.int64)
        aliases = [tuple(a.text for a in self.laws_.aliases.get(laws[text], ())) for text in frame.index]
        frame["aliases"] = pd.Series(aliases, index=frame.index, dtype=object)
        return frame

    def coefficients(self, kind: str = "bma") -> pd.DataFrame:
        """Posterior mean and standard deviation of every law's coefficient.

        Parameters
        ----------
        kind : str
            "bma" averages over the models; "best" and "median" are given the best or the median
            probability model.

        Returns
        -------
        DataFrame
            The intercept, then one row for each law, with ``mean``, ``sd``, ``conditional_mean`` and
            ``conditional_sd`` (given that the law is in) and the ``probability`` that it is.
        """
        return coefficients(self._fitted, kind=kind)

    def _equation(self, kind: str) -> tuple[float, np.ndarray]:
        """Intercept and coefficient of each law for one kind of prediction."""
        mean = self.coefficients(kind)["mean"].to_numpy()
        return float(mean[0]), mean[1:]

    def log_marginal_likelihood(self, features: str | Feature | Sequence[str | Feature]) -> float:
        """Log Bayes factor of a model against the intercept alone, ``log p(y|M) - log p(y|base)``.

        Parameters
        ----------
        features : sequence of str or Feature
            Features of the model, found by the search or not; any order of factors. A model read from a file
            holds no data, so there only laws that were found can be asked for.
        """
        posterior = self._fitted
        given = [features] if isinstance(features, str | Feature) else list(features)
        names = list(self.table_.names)
        parsed = [Feature.parse(f.text if isinstance(f, Feature) else f, names) for f in given]
        wanted = sorted({self._law_of(feature) for feature in parsed})
        if all(feature in self.laws_.features for feature in wanted):
            self._check_spellings(wanted)
            return posterior.log_marginal_likelihood([feature.text for feature in wanted])
        return self._evaluate_model(wanted)

    def _check_spellings(self, laws: Sequence[Feature]) -> None:
        """A file knows the posterior of a model of laws, all spellings together: not that of one of them."""
        several = [law.text for law in laws if self.laws_.aliases.get(law)]
        if several and isinstance(self.problem_.family, StoredLikelihood):
            raise InputError(
                f"the saved run holds no functions, and of models with {several[0]!r} the sum over the law's spellings "
                "only; fit again to evaluate them."
            )

    def _law_of(self, feature: Feature) -> Feature:
        """The law that a feature is a spelling of; itself where the search did not meet it."""
        return next((law for law, aliases in self.laws_.aliases.items() if feature in aliases), feature)

    def _evaluate_model(self, features: Sequence[Feature]) -> float:
        if self._training is None:
            missing = next(f.text for f in features if f not in self.laws_.features)
            raise InputError(
                f"the feature {missing!r} is none of the laws found, and a model read from a file or fitted to chunks "
                "holds no data to evaluate it on; fit again."
            )
        design, y, weights, offset = self._training
        table = _columns_of(self.table_, design)
        counts = np.ones(len(y)) if weights is None else weights
        alphas = with_projections(features, table, y, counts, known=self.laws_.alphas, kind=self._space.alphas)
        columns = np.column_stack([evaluate(feature, table, alphas) for feature in features])
        bad = ~np.isfinite(columns).all(axis=0)
        if bad.any():
            raise InputError(f"the feature {features[int(np.argmax(bad))].text!r} is not finite on the training data.")
        problem = Problem.build(
            columns,
            y,
            terms={feature.text: [j] for j, feature in enumerate(features)},
            weights=weights,
            coef_prior=self.problem_.coef_prior,
            family=self.problem_.family,
            offset=offset,
        )
        return Posterior(problem, self.posterior_.result).log_marginal_likelihood(problem.names)

    def page(self, features: int = 20, models: int = 5) -> Summary:
        """What ``summary`` prints, as data.

        Parameters
        ----------
        features, models : int
            How many of each to list.
        """
        from modejump.estimators.equations import plain_sum
        from modejump.estimators.summary import describe_prior, summarise_laws

        texts = [feature.text for feature in self.laws_.features]
        equation = ""
        if not self.problem_.family.custom:
            left = self.problem_.family.text(self._event())
            equation = f"{left} = {plain_sum(*self._equation('best'), texts)}"
        return summarise_laws(
            self._fitted,
            features,
            models,
            covariates=len(self.table_.names),
            aliases=self.inclusion_["aliases"].to_dict(),
            prior=describe_prior(self._prior),
            equation=equation,
            response=self._response_words(),
        )

    def _event(self) -> str:
        """What the mean of the response is the mean of."""
        return Feature.covariate(self.target_).text

    def to_latex(self, kind: str = "best", digits: int = 4) -> str:
        """The prediction equation as LaTeX; for families other than gaussian that of the linear predictor.

        Parameters
        ----------
        kind : str
            "best" or "median" for the equation of one model, "bma" for the model-averaged one.
        digits : int
            Significant digits of the coefficients.
        """
        from modejump.estimators.equations import latex_sum
        from modejump.features.nonlinear.printing import escape_latex, to_latex

        intercept, coef = self._equation(kind)
        symbols = [to_latex(feature, self.laws_.alphas, digits) for feature in self.laws_.features]
        left = r"\hat{y}" if self.target_ == "y" else rf"\widehat{{\mathrm{{{escape_latex(self.target_)}}}}}"
        return f"{self.problem_.family.latex(left)} = {latex_sum(intercept, coef, symbols, digits)}"

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
        from modejump.features.nonlinear.builtin import import_sympy
        from modejump.features.nonlinear.printing import to_sympy

        intercept, coef = self._equation(kind)
        sympy = import_sympy()
        terms = [
            sympy.Float(c) * to_sympy(feature, self.laws_.alphas)
            for c, feature in zip(coef.tolist(), self.laws_.features, strict=True)
            if c != 0.0
        ]
        return sympy.Add(sympy.Float(intercept), *terms)

    def to_arviz(self) -> Any:
        """The chains as an ArviZ object; refused after a search, which has no draws.

        The group ``posterior`` holds ``inclusion`` with dimensions chain, draw and feature: one draw is one
        batch of steps, its value the share of the batch during which the law was in.
        """
        if not self._fitted.result.counted:
            raise InputError(
                "a search among features has no draws to hand to ArviZ; fit with algorithm='rgmjmcmc', or use "
                "inclusion_ and models_ instead."
            )
        return super().to_arviz()


class BGNLMRegressor(PosteriorRegressor, Discovery):
    """Bayesian discovery of laws: linear regression on nonlinear features that are found in the data.

    A feature is an expression over the columns, such as ``troot(mass*period*period)``: products of features,
    transforms of them, and transforms of their linear combinations. Chains of populations search for good models;
    what they find becomes a library, and reversible chains (RGMJMCMC) sample models of its features and of fresh
    ones, so that the share of steps with a law estimates its posterior probability. Features that are the same
    column up to scale are one law.

    Parameters
    ----------
    family : str, OwnLikelihood or BatchLikelihood
        Family of the response: "gaussian", "poisson" (counts) or "gamma" (positive amounts). Its models are compared
        by Laplace approximations unless it is Gaussian. For classes there is :class:`BGNLMClassifier`. A likelihood
        of your own has neither link nor coefficient prior, and no predictions, because nobody knows its coefficients.
        A BatchLikelihood is told features by their text, so that the space can have no projections.
    link : str, optional
        Link function: "identity", "log" for counts, "log" or "inverse" for amounts; the family's first by default.
    coef_prior : str or coefficient prior
        Prior of the coefficients given the model: a name such as "g", "jeffreys" or "bic", or an object with
        parameters such as ``GPrior(g=47)``.
    model_prior : ComplexityPrior, optional
        Prior of the models, which penalises the complexity of features; ``ComplexityPrior("1/n")`` by default.
    transforms : sequence of str or Transform, or str
        The functions G, by name or as entries of ``modejump.transforms``; "G1" and "G2" are published sets. An
        empty sequence leaves products.
    space : Space, optional
        Limits of the feature space, and weights of the operators that move in it.
    algorithm : str
        "rgmjmcmc" samples reversibly, so that frequencies are posterior probabilities with a Monte Carlo error;
        "gmjmcmc" searches only, and renormalises over the models found. "auto" is "rgmjmcmc", and "gmjmcmc" for rows
        that are read in chunks.
    chains : int, optional
        Independent chains, of the search and of sampling; 16 by default. For rows that are read in chunks it is one, as
        every chain has columns of its own to be made of all rows.
    budget : Budget, optional
        How long to run: ``warmup`` steps of each chain for the search and ``steps`` for sampling ("gmjmcmc" has
        ``steps`` alone), ``seconds`` for all together, or a wanted precision ``mcse``.
    n_jobs : int, optional
        Workers, by joblib's rules: None is 1 and -1 all cores, and ``joblib.parallel_config`` says of which kind they
        are; threads by default. The answer does not depend on them, unless the budget is in seconds.
    random_state : int, Generator, RandomState or None
        Seed of the search.
    progress : bool, "auto" or callable
        "auto" shows a bar on a terminal once the work has taken two seconds; True always reports; a
        callable is called with (done, total, note).

    Attributes
    ----------
    inclusion_ : DataFrame
        Inclusion probability of each law, best first, with its complexity and its other spellings.
    models_ : DataFrame
        The leading models, best first.
    posterior_ : Posterior
        The object behind both.
    laws_ : Laws
        The laws found: features, aliases, and coefficients inside projections.
    problem_ : Problem
        Selection among the laws, as prediction sees it.
    verdict_ : Verdict
        What can be said about the search, in plain sentences.
    table_ : TableSpec
        How tables become columns.
    target_ : str
        Name of the response: that of the series given, or "y".
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
    >>> x = np.random.default_rng(1).uniform(0.5, 3.0, (80, 3))
    >>> y = 2.0 + 5.0 * x[:, 0] * np.sin(x[:, 2])
    >>> model = BGNLMRegressor(chains=4, budget=Budget(steps=15_000), random_state=1).fit(x, y)
    >>> model.best_model()
    ('x1*sin(x3)',)
    """

    def __init__(
        self,
        *,
        family: str | Own = "gaussian",
        link: str | None = None,
        coef_prior: Any = "g",
        model_prior: Any = None,
        transforms: Any = TRANSFORMS,
        space: Space | None = None,
        algorithm: str = "auto",
        chains: int | None = None,
        budget: Budget | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = "auto",
    ) -> None:
        self.family = family
        self.link = link
        self.coef_prior = coef_prior
        self.model_prior = model_prior
        self.transforms = transforms
        self.space = space
        self.algorithm = algorithm
        self.chains = chains
        self.budget = budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress


def _columns_of(spec: TableSpec, design: np.ndarray) -> Mapping[str, np.ndarray]:
    return {name: design[:, j] for j, name in enumerate(spec.names)}


def _check_size(y: np.ndarray, weights: np.ndarray | None) -> None:
    n = float(len(y) if weights is None else weights.sum())
    if n < 2.0:
        raise InputError(
            f"the data have {n:g} observation(s) besides the intercept's one column; give more rows (n_samples = 1)."
        )


def _warn_constant(constant: Sequence[str]) -> None:
    if constant:
        shown = options.name_some(constant)
        warnings.warn(f"constant, so no law can tell from it: {shown}.", ModejumpWarning, stacklevel=4)
