"""The posterior: what the evaluated models and the chains say about terms, models and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.core.numbers import whole_number
from modejump.features.expression import Expression
from modejump.likelihoods.custom.own import StoredLikelihood
from modejump.posterior.fits import (
    KeptModels,
    keep_models,
    marginal_of_members,
    model_probabilities,
    renormalised_models,
    single_model,
)
from modejump.priors.compiled import log_prior_of
from modejump.problem.feature_problem import FeatureProblem
from modejump.problem.fingerprint import fingerprints
from modejump.samplers.diagnostics import Diagnostics, diagnose
from modejump.samplers.laws import Laws
from modejump.samplers.result import Result, members_of

if TYPE_CHECKING:
    from modejump.posterior.prediction.distribution import PredictiveDistribution
    from modejump.posterior.questions.reweighting import Reweighting
    from modejump.posterior.verdict import Verdict

KINDS = ("bma", "best", "median")


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Posterior over the models of one problem; after a search among features, over models of the laws found.

    Attributes
    ----------
    problem : Problem
        Data and priors; after a search among features, the selection among the laws of the result.
    result : Result
        Evaluated models and the record of the chains.
    kept : mapping of str to KeptModels, optional
        For a posterior read from a file: the models behind each kind of prediction, chosen when it was saved.
    identity : mapping of str to str, optional
        Digests of the problem, where the posterior holds no rows; see
        :func:`modejump.problem.fingerprint.fingerprints`.
    searched : FeatureProblem, optional
        The problem whose features were searched, where the posterior holds its rows.
    errors : mapping of str to tuple of two floats, optional
        For a posterior read from a file: for laws of its table, the error on rows left out, and the standard error of
        its square.
    reweighting : Reweighting, optional
        For a posterior of models under other priors than those of the run: how it came about.

    Examples
    --------
    >>> from modejump import BGLMRegressor
    >>> x = np.random.default_rng(1).normal(size=(40, 3))
    >>> posterior = BGLMRegressor().fit(x, x[:, 0] + np.sin(x[:, 2])).posterior_
    >>> posterior.exact, posterior.n_models, posterior.inclusion.index.tolist()
    (True, 8, ['x0', 'x2', 'x1'])
    """

    problem: Any
    result: Result
    kept: Mapping[str, KeptModels] | None = None
    identity: Mapping[str, str] | None = None
    searched: FeatureProblem | None = None
    errors: Mapping[str, tuple[float, float]] | None = None
    reweighting: Reweighting | None = None

    def __post_init__(self) -> None:
        searched, laws = self.problem, self.result.laws
        if isinstance(searched, FeatureProblem):
            if laws is not None and searched.noise_weight is not self.result.noise_weight:
                # The search has found other weights of the rows.
                searched = searched.with_noise(laws.problem.family, self.result.noise_weight)
            object.__setattr__(self, "searched", searched)
        if laws is not None:
            object.__setattr__(self, "problem", laws.problem)

    def __repr__(self) -> str:
        """A few lines: what it is over, the leading terms, and the verdict."""
        from modejump.posterior.questions.page import describe

        return describe(self)

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        from modejump.posterior.questions.page import posterior_html

        return posterior_html(self)

    @property
    def laws(self) -> Laws | None:
        """The laws that a search found; None for selection among given terms."""
        return self.result.laws

    @cached_property
    def fingerprints(self) -> Mapping[str, str] | None:
        """Digests of the problem's data, terms or space, likelihood and priors; None where nobody knows its data, or
        the likelihood is a function of the user's own."""
        if self.identity is not None or self.problem.family.custom:
            return self.identity
        if self.searched is not None:
            return fingerprints(self.searched)
        known = self.problem.observed is not None or self.problem.digest is not None
        return fingerprints(self.problem) if known else None

    def merge(self, *others: Posterior) -> Posterior:
        """This posterior and others of the same problem as one: models united, visits added, chains side by side.

        Renormalised estimates are exact over the union of the models held; frequencies are pooled over all chains.

        Parameters
        ----------
        *others : Posterior
            Posteriors of the same data, terms or space, and priors, from other chains.

        Examples
        --------
        >>> from modejump import BGLMRegressor, Budget
        >>> x = np.random.default_rng(1).normal(size=(40, 3))
        >>> new = BGLMRegressor(algorithm="mjmcmc", budget=Budget(steps=500))
        >>> one, two = (new.set_params(random_state=s).fit(x, x[:, 0] + np.sin(x[:, 2])).posterior_ for s in (1, 2))
        >>> one.merge(two).result.batch_means.shape[0]
        8
        """
        from modejump.posterior.merge import merge_posteriors

        return merge_posteriors((self, *others))

    @cached_property
    def diagnostics(self) -> Diagnostics | None:
        """Frequency, Monte Carlo error, effective sample size and R-hat of each term; None without chains."""
        means = self.result.batch_means
        if self.result.exact or means is None or means.shape[1] == 0:
            return None
        return diagnose(means, self.result.batch_length)

    @property
    def frequency(self) -> np.ndarray | None:
        """Share of the sampling steps during which each term was in; None without chains."""
        return None if self.diagnostics is None else self.diagnostics.frequency

    @property
    def renormalised(self) -> np.ndarray:
        """Inclusion probabilities renormalised over the models evaluated; exact after enumeration."""
        return self.result.renormalised

    @property
    def probability(self) -> np.ndarray:
        """Valid estimate of each inclusion probability, in the order of ``problem.names``.

        Exact after enumeration, otherwise the frequency; renormalised where not one batch was sampled, and
        after a search among features that does not sample.
        """
        return self.renormalised if self.frequency is None else self.frequency

    @property
    def exact(self) -> bool:
        """Whether all models were enumerated, so that every probability is exact."""
        return self.result.exact

    @property
    def n_models(self) -> int:
        """Number of distinct models evaluated."""
        return self.result.n_models

    @property
    def log_evidence(self) -> float:
        """Log of the sum of exp(log posterior) over the distinct models evaluated."""
        return self.result.log_evidence

    @property
    def steps_per_second(self) -> float:
        """Sampling steps of all chains (or models, for enumeration) per second of wall time."""
        return self.result.steps_per_second

    @cached_property
    def inclusion(self) -> pd.DataFrame:
        """Inclusion probabilities, best first, indexed by term name.

        Columns: ``probability`` (exact or frequency), ``mcse``, ``ess``, ``r_hat``, ``renormalised`` and
        ``complexity``; after a search among features also ``aliases``, the other spellings of a law; after
        selection among very many columns also ``rao_blackwell``, the mean of the conditional inclusion probabilities
        given the rest of models drawn; columns that no leading model has are in ``result.rao_blackwell`` alone. After
        enumeration the error is 0, the effective size infinite, and R-hat NaN because there are no chains. Terms that
        are always in are part of every model and have no row. Ties keep the order of the terms. See
        :func:`modejump.samplers.diagnostics.diagnose` for the columns of a sampled run.
        """
        terms = self.problem.n_terms
        if self.diagnostics is not None:
            mcse, ess, r_hat = self.diagnostics.mcse, self.diagnostics.ess, self.diagnostics.r_hat
        else:
            sure = 0.0 if self.exact else np.nan
            mcse, r_hat = np.full(terms, sure), np.full(terms, np.nan)
            ess = np.full(terms, np.inf if self.exact else np.nan)
        columns: dict[str, Any] = {
            "probability": self.probability,
            "mcse": mcse,
            "ess": ess,
            "r_hat": r_hat,
            "renormalised": self.renormalised,
            "complexity": np.ones(terms, np.int64),
        }
        index = pd.Index(self.problem.names, name="feature", dtype=object)
        if self.laws is not None:
            columns["complexity"] = np.array([law.complexity for law in self.laws.features], np.int64)
            aliases = [tuple(a.text for a in self.laws.aliases.get(law, ())) for law in self.laws.features]
            columns["aliases"] = pd.Series(aliases, index=index, dtype=object)
            if self.result.rao_blackwell is not None:
                language: Any = self.laws.language
                columns["rao_blackwell"] = self.result.rao_blackwell[[language.place(f) for f in self.laws.features]]
        return pd.DataFrame(columns, index=index).iloc[np.argsort(-self.probability, kind="stable")]

    def models(self, limit: int | None = 1000) -> pd.DataFrame:
        """The models held, highest log posterior first.

        Shares of the sampling steps have a Monte Carlo error, so that they need not fall in this order.

        Parameters
        ----------
        limit : int, optional
            Number of rows at most; None for all models held.

        Returns
        -------
        DataFrame
            ``features`` (names of the terms chosen; those always in are understood), ``log_posterior``
            (``log p(M) + log p(y|M) - log p(y|base)``), ``probability`` (exact, or share of the sampling
            steps), ``renormalised`` over the models evaluated, and ``size``.

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> x = np.random.default_rng(1).normal(size=(40, 3))
        >>> posterior = BGLMRegressor().fit(x, x[:, 0] + np.sin(x[:, 2])).posterior_
        >>> posterior.models(2)[["features", "size"]]
               features  size
        0      (x0, x2)     2
        1  (x0, x1, x2)     3
        """
        table = self.result.models
        rows = len(table) if limit is None else min(whole_number(limit, "limit", least=1), len(table))
        features = [self._names_of(members_of(words)) for words in table.words[:rows]]
        log_posterior = table.log_posterior[:rows]
        return pd.DataFrame(
            {
                "features": pd.Series(features, dtype=object),
                "log_posterior": log_posterior,
                "probability": model_probabilities(self.result)[:rows],
                "renormalised": renormalised_models(self.result)[:rows],
                "size": np.array([len(f) for f in features], dtype=np.int64),
            }
        )

    def _names_of(self, members: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.problem.names[j] for j in members)

    @cached_property
    def size_distribution(self) -> pd.Series:
        """Posterior of the number of terms in the model (those always in not counted)."""
        values = self.result.size_distribution
        index = pd.RangeIndex(len(values), name="size")
        return pd.Series(values, index=index, name="probability")

    def best_model(self) -> tuple[str, ...]:
        """Names of the terms in the most probable model (those always in are understood).

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> x = np.random.default_rng(1).normal(size=(40, 3))
        >>> posterior = BGLMRegressor().fit(x, x[:, 0] + np.sin(x[:, 2])).posterior_
        >>> posterior.best_model()
        ('x0', 'x2')
        """
        return self._names_of(self._members("best"))

    def median_model(self) -> tuple[str, ...]:
        """Names of the terms with inclusion probability of at least 1/2: the median probability model.

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> x = np.random.default_rng(1).normal(size=(40, 3))
        >>> posterior = BGLMRegressor().fit(x, x[:, 0] + np.sin(x[:, 2])).posterior_
        >>> posterior.median_model()
        ('x0', 'x2')
        """
        return self._names_of(self._members("median"))

    def _members(self, kind: str) -> list[int]:
        if kind == "best":
            return members_of(self.result.models.words[0])
        return np.flatnonzero(self.probability >= 0.5).tolist()

    def discoveries(self, fdr: float = 0.1) -> pd.DataFrame:
        """The terms to report at a Bayesian false discovery rate.

        See :func:`modejump.posterior.discoveries.discoveries` for what is computed.

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> x = np.random.default_rng(1).normal(size=(40, 3))
        >>> posterior = BGLMRegressor().fit(x, x[:, 0] + np.sin(x[:, 2])).posterior_
        >>> posterior.discoveries(0.05).index.tolist()
        ['x0', 'x2']
        """
        from modejump.posterior.discoveries import discoveries

        return discoveries(self.inclusion["probability"], fdr)

    def credible_sets(self, level: float = 0.95, purity: float = 0.5, min_probability: float = 0.1) -> pd.DataFrame:
        """Groups of correlated terms, with the probability that at least one of them is in the model.

        See :func:`modejump.posterior.credible_sets.credible_sets` for what is computed, here from the models held, and
        for the parameters. Correlations are those of the columns given the terms that are always in; between terms of
        several columns, the largest one.

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> x = np.random.default_rng(1).normal(size=(40, 3))
        >>> posterior = BGLMRegressor().fit(x, x[:, 0] + np.sin(x[:, 2])).posterior_
        >>> posterior.credible_sets(min_probability=0.5)["leading"].tolist()
        ['x0', 'x2']
        """
        from modejump.posterior.credible_sets import posterior_sets

        return posterior_sets(self, level, purity, min_probability)

    def log_marginal_likelihood(self, features: str | Expression | Sequence[str | Expression]) -> float:
        """``log p(y|M) - log p(y|base)`` of the model with these terms; -inf where it is rank deficient.

        Exact for Gaussian responses. For others it is Laplace's approximation, and -inf as well where the maximum
        likelihood estimate does not exist. After a search any feature of the space may be asked for, found or not,
        with its factors in any order, unless the posterior holds no rows.

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> x = np.random.default_rng(1).normal(size=(40, 3))
        >>> posterior = BGLMRegressor().fit(x, x[:, 0] + np.sin(x[:, 2])).posterior_
        >>> round(posterior.log_marginal_likelihood(["x0", "x2"]), 1)
        54.9
        """
        given = [features] if isinstance(features, str | Expression) else list(features)
        if self.laws is not None:
            from modejump.posterior.law_models import marginal_of_laws

            return marginal_of_laws(self, given)
        return self.marginal_of([str(feature) for feature in given])

    def marginal_of(self, names: Sequence[str]) -> float:
        """The same for terms of ``problem``."""
        members = self.problem.index_of(names)
        return marginal_of_members(self.problem, members, self._stored(members))

    def _stored(self, members: list[int]) -> float | None:
        """Residual share or log marginal likelihood saved with the run.

        Without its rows a near-perfect fit cannot be refined, and a generalised linear model cannot be fitted.
        """
        if isinstance(self.problem.family, StoredLikelihood):
            return self._from_table(members)
        for models in (self.kept or {}).values():
            values = models.resid if models.fits is None else models.fits.log_marginal
            for words, value in zip(models.words, values, strict=True):
                if members_of(words) == members:
                    return float(value)
        return None

    def _from_table(self, members: list[int]) -> float | None:
        """Log marginal likelihood of a model in the table of models, whose posterior is its product with the prior."""
        for words, value in zip(self.result.models.words, self.result.models.log_posterior, strict=True):
            if members_of(words) == members:
                return float(value) - log_prior_of(members, self.problem.data.prior)
        return None

    def kept_models(self, kind: str = "bma") -> KeptModels:
        """The models behind a kind of prediction: "bma" (average), "best", or "median"."""
        if kind not in KINDS:
            raise InputError(f"kind must be one of 'bma', 'best' and 'median'; got {kind!r}.")
        if kind not in self._kept:
            if kind == "bma":
                self._kept[kind] = keep_models(self.problem, self.result)
            else:
                self._kept[kind] = single_model(self.problem, self._members(kind))
        return self._kept[kind]

    @cached_property
    def _kept(self) -> dict[str, KeptModels]:
        return dict(self.kept or {})

    @cached_property
    def _predictors(self) -> dict[str, PredictiveDistribution]:
        return {}

    def predictor(self, kind: str = "bma") -> PredictiveDistribution:
        """The predictive distribution, prepared once: "bma" averages, "best" and "median" use one model.

        Means and intervals are on the scale of the response; see :class:`Predictor`, and :class:`GlmPredictor` for
        families other than the Gaussian.

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> x = np.random.default_rng(1).normal(size=(40, 3))
        >>> posterior = BGLMRegressor().fit(x, x[:, 0] + np.sin(x[:, 2])).posterior_
        >>> posterior.predictor().coefficient_moments()["mean"].round(1)
        array([0. , 1. , 0. , 0.7])
        """
        from modejump.posterior.prediction.gaussian import Predictor
        from modejump.posterior.prediction.glm import GlmPredictor

        if kind not in self._predictors:
            made = Predictor if self.problem.family.conjugate else GlmPredictor
            self._predictors[kind] = made(self.problem, self.kept_models(kind), kind)
        return self._predictors[kind]

    @cached_property
    def verdict(self) -> Verdict:
        """What can be said about convergence, in plain sentences, with a level."""
        from modejump.posterior.questions.reweighting import reweighted_verdict
        from modejump.posterior.verdict import verdict

        return verdict(self) if self.reweighting is None else reweighted_verdict(self)

    def to_arviz(self, draws: int = 1000, random_state: int = 0) -> Any:
        """The posterior as an ArviZ object (InferenceData or DataTree, whichever the installed ArviZ uses).

        See :func:`modejump.posterior.export.to_arviz` for its groups.

        Parameters
        ----------
        draws : int
            Draws of the coefficients.
        random_state : int
            Seed of these draws.

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> x = np.random.default_rng(1).normal(size=(40, 3))
        >>> posterior = BGLMRegressor().fit(x, x[:, 0] + np.sin(x[:, 2])).posterior_
        >>> posterior.to_arviz()["posterior"]["coefficient"].dims  # doctest: +SKIP
        ('chain', 'draw', 'column')
        """
        from modejump.posterior.export import to_arviz

        return to_arviz(self, draws, random_state)
