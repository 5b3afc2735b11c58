"""The pages about a fitted model, as text and for a browser, and the Python that fits it again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from modejump.estimators.docs import documented
from modejump.estimators.equations import Equations
from modejump.estimators.options import Options
from modejump.estimators.summary import Summary, summarise
from modejump.posterior.questions.page import html_page


class Reports(Equations):
    """Pages about a fitted estimator."""

    _options: Options

    def _response_words(self) -> str:
        """Family and link on the page; empty for a Gaussian response, which goes without saying."""
        return self.problem_.family.words()

    def _page_facts(self) -> dict[str, Any]:
        """What the page has besides the posterior."""
        return {"response": self._response_words()}

    @documented()
    def page(self, features: int = 20, models: int = 5) -> Summary:
        """What ``summary`` prints, as data.

        {parameters}

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> page = BGLMRegressor().fit(X, y).page(features=4)
        >>> page.level, [line.name for line in page.features]
        ('exact', ['bmi', 's5', 'bp', 'sex'])
        """
        return summarise(self._fitted, features, models, **self._page_facts())

    @documented()
    def summary(self, features: int = 20, models: int = 5) -> str:
        """The posterior on one page: data, priors, algorithm, verdict, features, models, and sizes.

        {parameters}

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> print(BGLMRegressor().fit(X, y).summary(features=2, models=2))  # doctest: +ELLIPSIS
        Bayesian variable selection
        ===========================
        data          442 rows, 10 terms to select; always in: intercept
        ...
        feature  probability
        bmi           1.0000  ████████████████████████
        s5            1.0000  ████████████████████████
        ... and 8 more
        <BLANKLINE>
        probability  model (highest log posterior first)
             0.2175  sex + bmi + bp + s3 + s5
             0.2061  sex + bmi + bp + s1 + s2 + s5
        ...
        """
        return self._page_text(features, models)

    def _page_text(self, features: int, models: int) -> str:
        return self.page(features, models).text()

    def report(
        self, path: str | os.PathLike[str], X: Any = None, y: Any = None, offset: Any = None, *, title: str = ""
    ) -> Path:
        """Write one page of HTML about the fitted model, for a browser; it needs no network.

        It has the verdict, the probabilities, the best model as a formula, plots that answer the mouse and the
        keyboard, a slider that shows the probabilities under other priors of the models, and how to repeat the fit.

        Parameters
        ----------
        path : str or path
            The file to write, such as "report.html".
        X : data frame or array of shape (rows, columns), optional
            Rows whose predictions are compared with ``y``, best such that the fit has not seen.
        y : array of shape (rows,), optional
            Their responses.
        offset : array of shape (rows,), optional
            Their offset; needed where the fit had one.
        title : str
            Heading of the page.

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> import pandas as pd
        >>> from modejump import BGLMRegressor
        >>> table = pd.DataFrame(np.random.default_rng(1).normal(size=(60, 3)), columns=["age", "dose", "weight"])
        >>> model = BGLMRegressor().fit(table, 2.0 * table["dose"] + np.sin(table["age"]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = model.report(f"{folder}/report.html").read_text(encoding="utf-8")
        >>> page.startswith("<!DOCTYPE html>")
        True
        """
        from modejump.report import write_report

        self._fitted  # noqa: B018  not fitted, or of several classes: a sentence
        prior, call = self._options.model_prior, python_call(self)
        return write_report(self, path, prior=prior, call=call, title=title, X=X, y=y, offset=offset)

    def _repr_html_inner(self) -> str:
        """The summary for notebooks; scikit-learn's diagram before fit."""
        if not hasattr(self, "posterior_"):
            return str(super()._repr_html_inner())  # type: ignore[misc]
        page = self.page()
        best = [("best model", page.equation)] if page.equation else []
        best += [("constant", line.words) for line in page.constants]
        return html_page(
            page.title,
            (*page.facts, *best),
            page.verdict,
            page.level,
            [(line.name, line.probability, line.mcse) for line in page.features],
            [(line.value, line.probability) for line in page.models],
            page.more_features,
        )

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """The same for Jupyter."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if hasattr(self, "posterior_") and "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def python_call(estimator: Any) -> str:
    """A program that fits a model again, given its rows: what differs from the defaults, and the seed.

    Parameters
    ----------
    estimator : estimator
        One of modejump's, fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from modejump import BGLMRegressor, BernoulliPrior
    >>> x = np.random.default_rng(1).normal(size=(40, 2))
    >>> model = BGLMRegressor(model_prior=BernoulliPrior(0.2), random_state=3).fit(x, x[:, 0])
    >>> print(python_call(model))
    from modejump import BGLMRegressor, BernoulliPrior
    <BLANKLINE>
    model = BGLMRegressor(model_prior=BernoulliPrior(q=0.2, max_size=None, heredity=None), random_state=3)
    model.fit(X, y)
    """
    kind = type(estimator)
    classes = hasattr(estimator, "classes_")
    usual = Options.read(kind()).params(classes)
    given = {
        name: value
        for name, value in estimator._options.params(classes).items()
        if name != "n_jobs" and (name == "random_state" or not _same(value, usual.get(name)))
    }
    if "transforms" in given:
        given["transforms"] = tuple(transform.name for transform in given["transforms"])
    made = {type(value).__name__ for value in given.values() if type(value).__module__.startswith("modejump.")}
    names = ", ".join([kind.__name__, *sorted(made)])
    inside = ", ".join(f"{name}={value!r}" for name, value in given.items())
    more = ", offset=offset" if estimator.offset_ is not None else ""
    formula = getattr(estimator.table_, "formula", None)
    fit = f"model.fit_formula({formula!r}, data{more})" if formula else f"model.fit(X, y{more})"
    return f"from modejump import {names}\n\nmodel = {kind.__name__}({inside})\n{fit}"


def _same(value: Any, usual: Any) -> bool:
    """Whether an option is what it is by default; lists and tuples of the same things are."""
    if isinstance(value, list | tuple) and isinstance(usual, list | tuple):
        return list(value) == list(usual)
    return type(value) is type(usual) and bool(value == usual)
