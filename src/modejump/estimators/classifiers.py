"""Classes of rows: selection and discovery for binomial responses behind scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modejump.estimators.base import PosteriorClassifier
from modejump.estimators.bglm import Selection
from modejump.estimators.bgnlm import TRANSFORMS, Discovery
from modejump.features.nonlinear.space import Space
from modejump.samplers.budget import Budget


class BGLMClassifier(PosteriorClassifier, Selection):
    """Bayesian variable selection and model averaging for two classes: logistic regression and its like.

    The posterior over all subsets of the terms is enumerated where that is feasible and sampled by mode jumping
    MCMC where it is not; predicted probabilities average over it. Marginal likelihoods are Laplace
    approximations. A model whose maximum likelihood estimate does not exist, because its columns separate the
    classes, has probability zero.

    Parameters
    ----------
    link : str
        Link function: "logit", "probit" or "cloglog".
    coef_prior : str or coefficient prior
        Prior of the coefficients given the model: a name such as "g", "hyper-g-n", "robust" or "bic", or an
        object with parameters such as ``GPrior(g=47)``.
    model_prior : str or model prior
        Prior of the models: "uniform", "bernoulli", "beta-binomial", or an object such as
        ``BernoulliPrior(0.1)``.
    algorithm : str
        "enumerate" evaluates every model (up to 30 terms), "mjmcmc" samples; "auto" enumerates up to 20 terms
        while models times rows stay below 5e7, and samples beyond.
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
    classes_ : ndarray of shape (2,)
        The labels, sorted. Coefficients, and intervals of probabilities, are about the second one.
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
    >>> import numpy as np
    >>> x = np.random.default_rng(1).normal(size=(200, 3))
    >>> y = np.where(x[:, 1] + np.random.default_rng(2).logistic(size=200) > 0, "yes", "no")
    >>> model = BGLMClassifier().fit(x, y)
    >>> model.best_model(), model.classes_.tolist()
    (('x2',), ['no', 'yes'])
    """

    def __init__(
        self,
        *,
        link: str = "logit",
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


class BGNLMClassifier(PosteriorClassifier, Discovery):
    """Bayesian discovery of laws for two classes: logistic regression on nonlinear features found in the data.

    It searches and samples as :class:`BGNLMRegressor` does; marginal likelihoods are Laplace approximations, and
    models whose features separate the classes have probability zero. Coefficients inside projections are found
    by least squares on the classes coded 0 and 1.

    Parameters
    ----------
    link : str
        Link function: "logit", "probit" or "cloglog".
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
        "gmjmcmc" searches only, and renormalises over the models found. "auto" is "rgmjmcmc".
    chains : int, optional
        Independent chains, of the search and of sampling; 16 by default.
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
    classes_ : ndarray of shape (2,)
        The labels, sorted. Coefficients, and intervals of probabilities, are about the second one.
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
    """

    def __init__(
        self,
        *,
        link: str = "logit",
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

    def _event(self) -> str:
        return f"{super()._event()} = {self.classes_[1]}"
