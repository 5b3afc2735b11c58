"""A law of the user's own, fitted to data: constants with intervals, fit, and marginal likelihood."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.data.coding import TableSpec, is_frame, learn_table, names_in, open_frame
from modejump.data.tables import Table, read_rows
from modejump.estimators.bgnlm import BGNLMRegressor
from modejump.estimators.equations import plain_sum
from modejump.estimators.questions.law_terms import fit_terms, inner_constants, named_estimates, term_columns
from modejump.features.laws.text import Node, read
from modejump.features.laws.written import Term, terms_of, written
from modejump.likelihoods import Family, resolve_family
from modejump.posterior.law_fit import Data, Estimate, log_marginal_of_all
from modejump.problem.problem import Problem

DIGITS = 4


class LawFit:
    """A law fitted to data; made by :func:`modejump.fit_law`.

    Attributes
    ----------
    text : str
        The law with the fitted numbers; of families other than gaussian the linear predictor.
    constants : DataFrame
        One row for each constant: ``value``, ``lower`` and ``upper`` (95 %), and ``simple``, an integer, fraction or
        multiple of pi that the data do not tell from it, or empty.
    coefficients : DataFrame
        ``value``, ``lower`` and ``upper`` of the intercept and of the coefficient of each term.
    r2 : float
        Share of the variance that the law explains, or of the deviance.
    log_marginal_likelihood : float
        log p(y|law) - log p(y|intercept), by the formula of :class:`modejump.BGNLMRegressor` with its default prior
        of the coefficients, the constants at their estimates, less half of log n for each constant inside the terms
        (Laplace's approximation). A constant that is the coefficient of a term is a coefficient there. Under Student-t
        errors it is given the weights that the law itself has estimated, so that it compares no laws;
        ``bayes_factor`` does.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"S": np.linspace(0.1, 10.0, 50)})
    >>> rate = (3.0 * X["S"] / (X["S"] + 2.0)).rename("rate") + np.random.default_rng(1).normal(0.0, 0.01, 50)
    >>> fit = fit_law("S/(S + c)", X, rate)
    >>> fit.text, round(fit.r2, 4)
    ('0.005739 + 2.994*S/(S + 2.008)', 0.9998)
    """

    def __init__(self, law: Node, terms: Sequence[Term], table: Table, family: Family, estimate: Estimate) -> None:
        self._law, self._terms, self._table, self._family = law, tuple(terms), table, family
        self._columns = [term for term in terms if term.core is not None]
        self._values = dict(zip(inner_constants(terms), estimate.constants.tolist(), strict=True))
        mean = family.mean(estimate.coef[0] + self._design(table.design) @ estimate.coef[1:])
        self._coef = estimate.coef
        self.r2 = float(family.explained(table.response, mean, table.weights))
        coefficients, constants = named_estimates(law, terms, estimate)
        self.coefficients, self.constants = coefficients.table(), constants.with_simple()
        texts = [written(core, self._values, DIGITS) for core in self._cores()]
        self.text = plain_sum(float(self._coef[0]), self._coef[1:], texts, DIGITS)
        self.log_marginal_likelihood = self._log_marginal(BGNLMRegressor().coef_prior)

    def _cores(self) -> list[Node]:
        return [term.core for term in self._columns if term.core is not None]

    def _design(self, rows: np.ndarray) -> np.ndarray:
        assert isinstance(self._table.spec, TableSpec)
        return term_columns(self._cores(), dict(zip(self._table.spec.design_names, rows.T, strict=True)), self._values)

    def _problem(self, coef_prior: Any) -> Problem:
        table = self._table
        columns = {name: [j] for j, name in enumerate(self.coefficients.index[1:])}
        return Problem.build(
            self._design(table.design), table.response, terms=columns, weights=table.weights, coef_prior=coef_prior,
            family=self._family,
        )  # fmt: skip

    def _log_marginal(self, coef_prior: Any) -> float:
        problem = self._problem(coef_prior)
        return log_marginal_of_all(problem) - 0.5 * len(self._values) * float(np.log(problem.data.n))

    def predict(self, X: Any) -> np.ndarray:
        """Expected response of new rows.

        Parameters
        ----------
        X : data frame or array
            The columns of the fit.

        Examples
        --------
        >>> import pandas as pd
        >>> X = pd.DataFrame({"S": np.linspace(0.1, 10.0, 50)})
        >>> rate = (3.0 * X["S"] / (X["S"] + 2.0)).rename("rate") + np.random.default_rng(1).normal(0.0, 0.01, 50)
        >>> fit_law("S/(S + c)", X, rate).predict(pd.DataFrame({"S": [2.0, 1000.0]})).round(2)
        array([1.5 , 2.99])
        """
        spec = self._table.spec
        assert isinstance(spec, TableSpec)
        rows = spec.apply(_used(X, spec.names) if spec.named else X)
        columns = self._design(rows)
        bad = ~np.isfinite(columns).all(axis=1)
        if bad.any():
            raise InputError(
                f"the law is not finite in row {int(np.argmax(bad))} of the new data (counting from 0); drop such "
                "rows, or check their values."
            )
        return np.asarray(self._family.mean(self._coef[0] + columns @ self._coef[1:]))

    def bayes_factor(self, model: Any, *, log: bool = False) -> float:
        """How many times more probable the data are under this law than under the best model of a fitted search.

        Both are weighed by the model's target: its family, prior of the coefficients, and precision of the errors, with
        half of log n taken off for each constant inside the terms. Constants of the law are fitted anew by it.

        Parameters
        ----------
        model : fitted estimator
            A :class:`modejump.BGNLMRegressor` or :class:`modejump.BGNLMClassifier`, fitted to the same data.
        log : bool
            Whether to return the natural logarithm.

        Examples
        --------
        >>> import pandas as pd
        >>> from modejump import Budget
        >>> X = pd.DataFrame({"a": np.linspace(1.0, 3.0, 50), "b": np.cos(np.arange(50.0))})
        >>> y = X["a"] ** 2 + np.random.default_rng(1).normal(0.0, 0.1, 50)
        >>> model = BGNLMRegressor(chains=2, budget=Budget(warmup=500, steps=500), random_state=1).fit(X, y)
        >>> model.best_model(), round(fit_law("exp(a)", X, y).bayes_factor(model, log=True))
        (('a^2',), -58)
        """
        best = model.best_model()
        target = model.posterior_.searched
        if target is None:
            raise InputError(
                "a model read from a file, or of given terms, holds no rows of a search; fit a search again."
            )
        if not np.array_equal(np.unique(target.y), np.unique(self._table.response)):
            raise InputError("the model was fitted to another response than the law; fit one of them again.")
        absent = sorted({node.value for node in self._law.walk() if node.kind == "column"} - target.table.keys())
        if absent:
            raise InputError(f"the model was fitted to a table without the column {absent[0]!r}; fit it again with it.")
        data = Data(target.y, target.root_weight**2, target.family, frozen=True)
        estimate, _ = fit_terms(self._law, self._terms, target.table, data)
        values = dict(zip(self._values, estimate.constants.tolist(), strict=True))
        columns = term_columns(self._cores(), target.table, values)
        names = [SimpleNamespace(text=name) for name in self.coefficients.index[1:]]
        half_log_n = 0.5 * float(np.log(target.n))
        ours = log_marginal_of_all(target.selection(names, columns)) - half_log_n * len(values)
        counts = {feature.text: feature.constants for feature in model.laws_.features}
        theirs = model.log_marginal_likelihood(best) - half_log_n * sum(counts[name] for name in best)
        with np.errstate(over="ignore"):
            return float(ours - theirs if log else np.exp(ours - theirs))

    def summary(self) -> str:
        """The fit as text.

        Examples
        --------
        >>> import pandas as pd
        >>> X = pd.DataFrame({"S": np.linspace(0.1, 10.0, 50)})
        >>> rate = (3.0 * X["S"] / (X["S"] + 2.0)).rename("rate") + np.random.default_rng(1).normal(0.0, 0.01, 50)
        >>> print(fit_law("S/(S + c)", X, rate).summary())
        rate = 0.005739 + 2.994*S/(S + 2.008)
        R2 0.999778, log marginal likelihood 193.57 (against the intercept)
        <BLANKLINE>
            value   lower   upper simple
        c 2.00789 1.96735 2.04842      2
        """
        response = self._family.text(self._table.target) if not self._family.conjugate else self._table.target
        head = f"{response} = {self.text}"
        fit = f"R2 {self.r2:.6g}, log marginal likelihood {self.log_marginal_likelihood:.2f} (against the intercept)"
        parts = [head, fit]
        if len(self.constants):
            parts += ["", self.constants.to_string(float_format=lambda x: f"{x:.6g}")]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return self.summary()


def fit_law(law: str, X: Any, y: Any, *, family: str | Family = "gaussian", sample_weight: Any = None) -> LawFit:
    """Fit a law that you have in mind.

    The law is a sum of terms; each gets a coefficient, and there is an intercept. Names ``c``, ``c0``, ``c1``, ... that
    are no columns are constants, fitted together with the coefficients by maximum likelihood: from many starting
    places, frequencies by a scan. Numbers in the text stay as they are, but for those in front of a term, whose
    coefficient is fitted. A constant may be used more than once, and as an exponent. Fractional and fitted powers are
    of absolute values; ``pi`` is known.

    Parameters
    ----------
    law : str
        For instance ``"V*S/(S + c)"``.
    X : data frame or array of shape (n, columns)
        The columns, by name; those of an array are x0, x1, ...
    y : array of shape (n,)
        The response.
    family : str or Family
        Family of the response, with its first link; "student" for errors with heavy tails.
    sample_weight : array of shape (n,), optional
        Case weights: a row of weight 2 counts as two rows.

    Returns
    -------
    LawFit

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(1)
    >>> S = rng.uniform(0.1, 10.0, 100)
    >>> rate = 3.0 * S / (S + 2.0) + rng.normal(0.0, 0.01, 100)
    >>> fit = fit_law("S/(S + c)", pd.DataFrame({"S": S}), rate)
    >>> fit.constants.round(2)
       value  lower  upper simple
    c   2.02   1.98   2.05      2
    """
    family = resolve_family(family)
    if family.custom:
        raise InputError("a likelihood of your own says nothing about coefficients; give a family such as 'gaussian'.")
    owners = names_in(X)
    tree = read(law, owners)
    terms = terms_of(tree)
    _check_terms(terms)
    used = {owners[node.value] for node in tree.walk() if node.kind == "column"}
    # Columns of an array have no names, so all of them stay.
    spec, design = learn_table(_used(X, used), indicators=True)
    table = read_rows(spec, design, y, sample_weight, None, labels=family.response == "class")
    if table.classes is None:
        family.check(table.used)
    weight = np.ones(len(design)) if table.weights is None else table.weights
    given = dict(zip(spec.design_names, design.T, strict=True))
    estimate, data = fit_terms(tree, terms, given, Data(table.response, weight, family))
    if data.weight is not weight:
        table = dataclasses.replace(table, weights=data.weight)
    return LawFit(tree, terms, table, data.family, estimate)


def _check_terms(terms: Sequence[Term]) -> None:
    texts = [written(term.core) for term in terms if term.core is not None]
    if not texts:
        raise InputError("the law has no column, so there is nothing to fit; name at least one.")
    for text in texts:
        if texts.count(text) > 1:
            raise InputError(f"the law has the term {text!r} twice, with one coefficient; leave one out.")
    if sum(term.core is None and term.constant is not None for term in terms) > 1:
        raise InputError("the law has two constants that are added, which cannot be told apart; leave one out.")


def _used(X: Any, names: Collection[str]) -> Any:
    """The named columns of a frame; anything else as it is."""
    if not is_frame(X):
        return X
    frame = open_frame(X)
    return frame.select([name for name in frame.columns if str(name) in names]).to_native()
