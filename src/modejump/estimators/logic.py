"""Logic regression: Bayesian models of boolean functions of binary covariates behind scikit-learn's interface."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.core.progress import Report, reporter
from modejump.data.bits import BitColumns, is_genotypes
from modejump.data.markers import MarkerSpec, learn_markers
from modejump.data.sources import is_source
from modejump.data.tables import Table, read_rows
from modejump.estimators.base import PosteriorRegressor
from modejump.estimators.bgnlm import LawSearch
from modejump.estimators.classifier import PosteriorClassifier
from modejump.estimators.docs import documented
from modejump.estimators.given import check_names
from modejump.estimators.options import Options, prior_of_all
from modejump.estimators.prepare import LEADERS
from modejump.estimators.summary import count, plural
from modejump.features.logic.expression import in_brackets
from modejump.features.logic.space import LogicSpace
from modejump.likelihoods import Family
from modejump.problem.score_statistics import marginal_statistics, subgroup_statistics
from modejump.samplers.budget import Budget

# Markers that features are made of where nothing else is asked.
PRESELECT = 1000
_OWN = """
model_prior : LogicPrior or ComplexityPrior, optional
    Prior of the models; ``LogicPrior()`` by default: a feature of s leaves has weight 1 / N(s).
space : LogicSpace, optional
    Limits of the space, such as the number of leaves of a feature, and weights of the operators that move in it.
always_in : sequence of str or int
    Columns that are in every model, by name or position, and may hold any numbers: age, sex, principal components. All
    others are binary covariates.
coding : {"binary", "genotype"}
    Whether the other columns hold 0 and 1, or genotypes 0, 1, 2. Of a column of genotypes, features are made of a
    dominant marker ``name_d`` (one copy of the allele or two) and a recessive one ``name_r`` (two copies).
missing : {"refuse", "mode"}
    What to do about missing genotypes: refuse them, or replace each by the most frequent genotype of its column.
preselect : int, optional
    Of very many binary covariates, features are made of this many, 1000 by default: half are those of the largest
    marginal Bayes factors, half those of the largest effects in the rows where one of the 100 leading ones is 0, or 1.
    The logic prior counts all of them.
algorithm : str
    "rgmjmcmc" samples reversibly, so that frequencies are posterior probabilities with a Monte Carlo error; "gmjmcmc"
    searches only, and renormalises over the models found. "auto" is "rgmjmcmc".
chains : int, optional
    Independent chains, of the search and of sampling; 16 by default.
budget : Budget, optional
    How long to run: ``warmup`` steps of each chain for the search and ``steps`` for sampling ("gmjmcmc" has ``steps``
    alone), ``seconds`` for all together, or a wanted precision ``mcse``.
table_ : MarkerSpec
    How tables become binary covariates and columns always in.
"""


class LogicSearch(LawSearch):
    """Search among logic features, whatever the family of the response."""

    table_: MarkerSpec

    def __init__(
        self,
        *,
        link: str | None = None,
        coef_prior: Any = "g",
        model_prior: Any = None,
        space: LogicSpace | None = None,
        always_in: Sequence[str | int] = (),
        coding: str = "binary",
        missing: str = "refuse",
        preselect: int | None = None,
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
        self.space = space  # type: ignore[assignment]
        self.always_in = always_in
        self.coding = coding
        self.missing = missing
        self.preselect = preselect
        self.algorithm = algorithm
        self.chains = chains
        self.budget = budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
        self.sampler = sampler

    def _read_table(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Table, Options]:
        """The rows and the options of a fit: of very many markers, those that look like the response."""
        options = Options.read(self)
        assert options.markers is not None
        options.family.check_rows(None, offset)
        if is_source(X):
            raise InputError("logic regression needs its rows in memory; read those of the source first.")
        coding, missing = options.markers.coding, options.markers.missing
        with reporter(self.progress) as report:
            spec, markers, fixed = learn_markers(X, self.always_in, coding, missing, report)
        if is_genotypes(X):
            self._learn_names(list(X.names))
        else:
            check_names(self, X, reset=True)
        rows = read_rows(spec, fixed, y, sample_weight, offset, options.family.response == "class")
        most = options.markers.preselect or PRESELECT
        kept = np.arange(len(markers))
        if len(markers) > most:
            null = (rows.used, options.family, fixed, rows.weights, rows.offset)
            with reporter(self.progress) as report:
                kept = _preselected(markers, null, most, report)
            spec = spec.some(kept.tolist())
        design = np.empty((markers.n, len(kept) + fixed.shape[1]))
        design[:, : len(kept)], design[:, len(kept) :] = markers.unpack(kept), fixed
        table = dataclasses.replace(rows, spec=spec, design=design)
        if table.classes is None:
            options.family.check(table.used)
        options = dataclasses.replace(options, always_in=spec.fixed)
        return (table if options.family.custom else table.merged()), options

    def _columns(self, design: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        names, laws = self.table_.names, self.laws_
        table = dict(zip(names, design.T, strict=False))
        columns = np.zeros((len(design), len(laws.features)))
        for j in used:
            columns[:, j] = laws.language.column(laws.features[j], table, {})
        return columns, design[:, len(names) :]

    def _symbols(self, form: str, digits: int = 4) -> list[Any]:
        symbols = super()._symbols(form, digits)
        if form == "sympy":
            return symbols
        if form == "text":
            return list(map(in_brackets, symbols))
        fixed = len(self.problem_.always_in)
        joined = [len(feature.covariates) > 1 for feature in self.laws_.features]
        bracketed = [
            rf"\left({text}\right)" if more else text for text, more in zip(symbols[fixed:], joined, strict=True)
        ]
        return symbols[:fixed] + bracketed

    def _covariates(self) -> str:
        spec = self.table_
        words = plural(spec.total, "binary covariate")
        if spec.coding == "genotype":
            words = f"{plural(spec.total, 'marker')} of {plural(len(spec.columns) - len(spec.fixed), 'genotype')}"
        if len(spec.markers) == spec.total:
            return words
        return f"{words}, features made of the {count(len(spec.markers))} of largest effect, alone or in a subgroup"

    def _stated_prior(self) -> Any:
        return prior_of_all(self._options.model_prior, self.table_)

    def marker_inclusion(self) -> pd.Series:
        """Probability of each binary covariate to be in some feature of the model, highest first.

        Examples
        --------
        >>> x = np.random.default_rng(2).integers(0, 2, (300, 5))
        >>> y = 2.0 * (x[:, 0] & x[:, 3]) + np.random.default_rng(3).normal(size=300)
        >>> model = LogicRegressor(space=LogicSpace(leaves=2), budget=Budget(steps=4000), random_state=1).fit(x, y)
        >>> model.marker_inclusion().head(2).round(2).to_dict()
        {'x0': 1.0, 'x3': 1.0}
        """
        from modejump.posterior.credible_sets import covariate_inclusion

        return covariate_inclusion(self._fitted).sort_values(ascending=False, kind="stable")


def _preselected(markers: BitColumns, null: tuple[Any, ...], most: int, report: Report | None) -> np.ndarray:
    """Numbers of the markers to make features of: half by their own effects, half by those in subgroups."""
    order = np.argsort(-marginal_statistics(markers, *null), kind="stable")
    kept = order[: -(-most // 2)]
    within = subgroup_statistics(markers, order[:LEADERS], *null, report=report)
    within[kept] = -1.0
    return np.sort(np.concatenate([kept, np.argsort(-within, kind="stable")[: most - len(kept)]]))


@documented(_OWN)
class LogicRegressor(PosteriorRegressor, LogicSearch):
    """Bayesian logic regression: linear regression on boolean functions of binary covariates found in the data.

    A feature is a function such as ``X1 & (X3 | !X27)``, however it is spelled; it and its complement are one. Chains
    of populations search for good models; what they find becomes a library, and reversible chains (RGMJMCMC) sample
    models of its features and of fresh ones, so that the share of steps with a feature estimates its posterior
    probability.

    {parameters}

    {attributes}

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> x = rng.integers(0, 2, (300, 10))
    >>> y = 1.0 + 2.0 * (x[:, 0] & x[:, 3]) - 1.5 * (x[:, 4] | (1 - x[:, 8])) + rng.normal(size=300)
    >>> model = LogicRegressor(space=LogicSpace(leaves=2), budget=Budget(steps=4000), random_state=1).fit(x, y)
    >>> model.median_model()
    ('!x4 & x8', 'x0 & x3')
    """

    def __init__(
        self,
        *,
        family: str | Family = "gaussian",
        link: str | None = None,
        coef_prior: Any = "g",
        model_prior: Any = None,
        space: LogicSpace | None = None,
        always_in: Sequence[str | int] = (),
        coding: str = "binary",
        missing: str = "refuse",
        preselect: int | None = None,
        algorithm: str = "auto",
        chains: int | None = None,
        budget: Budget | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = "auto",
        sampler: Any = None,
    ) -> None:
        super().__init__(
            link=link, coef_prior=coef_prior, model_prior=model_prior, space=space, always_in=always_in, coding=coding,
            missing=missing, preselect=preselect, algorithm=algorithm, chains=chains, budget=budget, n_jobs=n_jobs,
            random_state=random_state, progress=progress, sampler=sampler,
        )  # fmt: skip
        self.family = family


@documented(_OWN)
class LogicClassifier(PosteriorClassifier, LogicSearch):
    """Bayesian logic regression for classes: cases and controls, say.

    It searches and samples as :class:`LogicRegressor` does, in logistic regression; marginal likelihoods are Laplace
    approximations. Of more than two classes, each is fitted against the rest.

    {parameters}

    {attributes}

    Examples
    --------
    >>> x = np.random.default_rng(2).integers(0, 2, (300, 5))
    >>> risk = 6.0 * (x[:, 0] & x[:, 3]) - 3.0
    >>> y = np.where(risk + np.random.default_rng(3).logistic(size=300) > 0.0, "sick", "well")
    >>> model = LogicClassifier(space=LogicSpace(leaves=2), budget=Budget(steps=4000), random_state=1).fit(x, y)
    >>> model.median_model()
    ('x0 & x3',)
    """

    def _event(self) -> str:
        return f"{super()._event()} = {self.classes_[1]}"
