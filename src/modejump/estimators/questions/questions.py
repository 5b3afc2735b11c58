"""Questions people ask of a fitted estimator."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from modejump.core.errors import InputError, warn_user
from modejump.estimators.questions.effects import effect_curve
from modejump.estimators.questions.exports import json_of, latex_table, write_json
from modejump.estimators.questions.probabilities import Probabilities
from modejump.estimators.questions.python_source import python_source
from modejump.estimators.summary import describe_prior
from modejump.features.expression import Expression
from modejump.posterior.questions.coefficient_posteriors import (
    CoefficientDensity,
    CoefficientPosteriors,
    coefficient_intervals,
)
from modejump.posterior.questions.pairs import joint_inclusion, log_bayes_factor, substitutes
from modejump.posterior.questions.reweighting import reweight

if TYPE_CHECKING:
    from modejump.estimators.options import Options

Terms = str | Expression | Sequence[str | Expression]


class Questions(Probabilities):
    """What a fitted estimator answers besides predictions and probabilities."""

    _options: Options
    offset_: str | None
    table_: Any

    # --- coefficients -------------------------------------------------------------------------------------------------

    def confint(self, level: float = 0.9, conditional: bool = False, kind: str = "bma") -> pd.DataFrame:
        """Credible intervals of the coefficients, averaged over models, on the original scale of the columns.

        Intervals are equal-tailed quantiles of the posterior averaged over models, in which a coefficient is zero in
        the models that lack it: for a term of low probability both ends are zero. Given a model coefficients are
        Student-t or, for families other than the Gaussian, normal by Laplace's method, on the scale of the linear
        predictor.

        Parameters
        ----------
        level : float
            Probability that an interval holds.
        conditional : bool
            Given that the term is in the model, so that no mass at zero counts; NaN for a term that no model has.
        kind : str
            "bma" averages over the models; "best" and "median" use one model.

        Returns
        -------
        DataFrame
            The intercept, then one row for each design column or law: ``mean``, ``sd``, ``lower``, ``upper``, and the
            ``probability`` that it is in the model.

        Examples
        --------
        >>> import pandas as pd
        >>> from modejump import BGLMRegressor
        >>> rng = np.random.default_rng(1)
        >>> X = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
        >>> model = BGLMRegressor().fit(X, 2.0 + X["a"] + rng.normal(size=80))
        >>> model.confint().round(2)
                     mean    sd  lower  upper  probability
        column
        (intercept)  1.89  0.11   1.72   2.07         1.00
        a            0.97  0.11   0.79   1.16         1.00
        b           -0.03  0.07  -0.20   0.00         0.21
        c            0.04  0.09   0.00   0.25         0.27
        """
        return self._labelled(coefficient_intervals(self._fitted, level, bool(conditional), kind))

    def coefficient_density(self, term: str, points: int = 200, kind: str = "bma") -> CoefficientDensity:
        """The posterior of one coefficient: a density on a grid given that it is in the model, and a mass at zero.

        Parameters
        ----------
        term : str
            Design column or law, as ``confint`` has it in its index.
        points : int
            Points of the grid.
        kind : str
            "bma" averages over the models; "best" and "median" use one model.

        Returns
        -------
        CoefficientDensity
            ``value`` and ``density`` (given inclusion), ``zero`` (probability of a coefficient of zero), ``frame()``,
            ``quantile(p)`` and ``cdf(x)``.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> found = BGLMRegressor().fit(X, y).coefficient_density("s4")
        >>> round(found.zero, 2), round(float(np.trapezoid(found.density, found.value)), 2)
        (0.75, 1.0)
        """
        if isinstance(points, bool) or not isinstance(points, int | np.integer) or points < 2:
            raise InputError(f"points must be a whole number of at least 2; got {points!r}.")
        predictor = self._fitted.predictor(kind)
        found = CoefficientPosteriors(predictor)
        places = np.arange(predictor.problem.data.base + predictor.problem.n_columns)
        order = self._labelled({"place": places})["place"]
        name = str(term)
        if name not in order.index:
            known = ", ".join(map(str, order.index[:8])) + (", ..." if len(order) > 8 else "")
            raise InputError(f"{name!r} has no coefficient; those there are belong to {known}.")
        return found.density(int(order[name]), name, int(points))

    # --- effects ------------------------------------------------------------------------------------------------------

    def effect(
        self,
        column: str | int,
        grid: Any = None,
        level: float = 0.9,
        X: Any = None,
        average: bool = False,
        kind: str = "bma",
        offset: float | None = None,
    ) -> pd.DataFrame:
        """The mean response as one column moves, with a credible band, averaged over models.

        All other columns stay where they are typical: numbers at their median, factors and yes-or-no columns at their
        most frequent value. The band is that of the mean response, not of new observations around it. For classes the
        response is the probability of the second one.

        Parameters
        ----------
        column : str or int
            Column of the table, by name or position.
        grid : sequence or int, optional
            Values of the column, or how many points; by default 41 points between the 5 % and the 95 % quantile, or all
            values where there are few.
        level : float
            Probability that the band holds at each point.
        X : data frame or array, optional
            Rows of the table that say what is typical; by default those of the fit. Needed after a formula and for rows
            that were read in chunks.
        average : bool
            Average over the rows of X, at most a thousand of them, in which the other columns stay as they are (partial
            dependence). The band of families other than the Gaussian is then by draws.
        kind : str
            "bma" averages over the models; "best" and "median" use one model.
        offset : float, optional
            Offset of all rows; needed where the fit had one.

        Returns
        -------
        DataFrame
            ``value``, ``mean``, ``lower`` and ``upper``.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> BGLMRegressor().fit(X, y).effect("bmi", grid=[-0.05, 0.0, 0.05]).round(2)
           value    mean   lower   upper
        0  -0.05  133.82  124.57  142.73
        1   0.00  160.39  153.55  166.95
        2   0.05  186.96  178.70  195.09
        """
        self._fitted  # noqa: B018  not fitted: scikit-learn's own sentence
        return effect_curve(self, column, grid, level, X, bool(average), kind, offset)

    # --- terms and models in pairs ------------------------------------------------------------------------------------

    def joint_inclusion(self) -> pd.DataFrame:
        """Probability that two terms or laws are in the model together; on the diagonal, that of each.

        Returns
        -------
        DataFrame
            Square, the most probable terms first. It is over the models held, so that after sampling the diagonal may
            differ a little from ``inclusion_``.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> BGLMRegressor().fit(X, y).joint_inclusion().loc["s3", ["s3", "s1", "s2"]].round(2).tolist()
        [0.54, 0.18, 0.12]
        """
        return joint_inclusion(self._fitted)

    def substitutes(self, min_probability: float = 0.1, max_log_odds: float = -1.0) -> pd.DataFrame:
        """Pairs of terms or laws that replace each other: the model has one or the other, rather than both.

        Parameters
        ----------
        min_probability : float
            Pairs of which at least one is in with a lower probability are not listed.
        max_log_odds : float
            Pairs whose log odds ratio is above it are not listed.

        Returns
        -------
        DataFrame
            Strongest first: ``first``, ``second``, ``log_odds_ratio`` (minus infinity for terms never together), and
            the probabilities ``either`` (at least one), ``both``, ``first_alone`` and ``second_alone``.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> BGLMRegressor().fit(X, y).substitutes().loc[0, ["first", "second"]].tolist()
        ['s1', 's3']
        """
        return substitutes(joint_inclusion(self._fitted), min_probability, max_log_odds)

    def bayes_factor(self, model_a: Terms, model_b: Terms = (), log: bool = False) -> float:
        """How much more probable the data are under one model than under another.

        Parameters
        ----------
        model_a, model_b : str, Feature, or sequence of them
            Terms or laws of each model; those always in may be left out. By default the second is the model without
            any.
        log : bool
            Give the natural logarithm.

        Returns
        -------
        float
            ``p(y|a) / p(y|b)``; infinite where it is too large for a number.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> round(BGLMRegressor().fit(X, y).bayes_factor(["bmi", "s5"], ["bmi", "s4"], log=True), 2)
        27.83
        """
        value = log_bayes_factor(self._fitted, model_a, model_b)
        with np.errstate(over="ignore"):
            return value if log else float(np.exp(value))

    # --- other priors -------------------------------------------------------------------------------------------------

    def reweight(self, model_prior: Any = None, coef_prior: Any = None) -> Self:
        """A fitted copy under another prior, from the models that were evaluated.

        After enumeration it is what a new fit gives. After sampling, probabilities are renormalised over the models
        that were evaluated; ``verdict_`` says how far these hold the new posterior, and there is a warning where they
        may not.

        Parameters
        ----------
        model_prior : str or prior, optional
            Prior of the models, as at construction; the same by default.
        coef_prior : str or prior, optional
            Prior of the coefficients, as at construction; the same by default. Models of families other than the
            Gaussian are then fitted again.

        Returns
        -------
        estimator
            A copy; the model itself stays as it is.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BernoulliPrior, BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = BGLMRegressor().fit(X, y)
        >>> sparse = model.reweight(model_prior=BernoulliPrior(0.05))
        >>> [round(float(m.inclusion_.loc["s1", "probability"]), 2) for m in (model, sparse)]
        [0.63, 0.17]
        """
        posterior = self._fitted
        if model_prior is None and coef_prior is None:
            raise InputError("reweight was given no prior; give model_prior, coef_prior, or both.")
        options = self._options.with_priors(model_prior, coef_prior)
        said = [
            *([] if model_prior is None else [f"the model prior {describe_prior(options.model_prior)}"]),
            *([] if coef_prior is None else [f"the coefficient prior {describe_prior(options.coef_prior)}"]),
        ]
        stated = None if model_prior is None else options.prior_of_features(self.table_, posterior.laws)
        made = copy.copy(self)
        for name, value in (("model_prior", model_prior), ("coef_prior", coef_prior)):
            if value is not None:
                setattr(made, name, value)
        made._options = options
        coefficients = None if coef_prior is None else options.coef_prior
        made.posterior_ = reweight(posterior, stated, coefficients, " and ".join(said))
        if made.posterior_.verdict.level in ("doubtful", "bad"):
            warn_user(str(made.posterior_.verdict))
        return made

    # --- exports ------------------------------------------------------------------------------------------------------

    def to_python(self, kind: str = "best", name: str = "predict") -> str:
        """The prediction as the source of a Python function that needs NumPy alone.

        For Gaussian responses it returns what ``predict`` of the same kind does. For other families it is the inverse
        link of the mean linear predictor; ``predict`` also averages over the uncertainty of that, so that the two are
        close and not equal. Laws need SymPy to be written, not to be evaluated.

        Parameters
        ----------
        kind : str
            "best" and "median" use one model; "bma" averages over the models.
        name : str
            Name of the function.

        Returns
        -------
        str
            A module. Its function takes a data frame or a dict of columns; an array after a fit on an array.

        Examples
        --------
        >>> import pandas as pd
        >>> from modejump import BGLMRegressor
        >>> X = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 0.0, 1.0]})
        >>> model = BGLMRegressor(coef_prior="bic").fit(X, [1.0, 3.1, 4.9, 7.0])
        >>> space = {}
        >>> exec(model.to_python(), space)
        >>> bool(np.allclose(space["predict"](X), model.predict(X, kind="best")))
        True
        """
        self._fitted  # noqa: B018  not fitted: scikit-learn's own sentence
        return python_source(self, kind, name)

    def to_latex_table(self, level: float = 0.9, digits: int = 3, limit: int = 20, kind: str = "bma") -> str:
        r"""A table of the terms in LaTeX: probabilities, and coefficients with intervals, the most probable first.

        Parameters
        ----------
        level : float
            Level of the intervals.
        digits : int
            Significant digits.
        limit : int
            Rows at most.
        kind : str
            "bma" averages over the models; "best" and "median" use one model.

        Returns
        -------
        str
            A ``tabular`` that needs no package.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> print(BGLMRegressor().fit(X, y).to_latex_table(limit=3))
        \begin{tabular}{lrrc}
        \hline
        Term & Probability & Mean & 90\,\% interval \\
        \hline
        (intercept) & 1.000 & $152$ & $[148,\ 156]$ \\
        $\mathrm{bmi}$ & 1.000 & $531$ & $[423,\ 641]$ \\
        $\mathrm{s5}$ & 1.000 & $605$ & $[398,\ 882]$ \\
        \hline
        \end{tabular}
        """
        return latex_table(self, level, digits, limit, kind)

    def to_json(self, path: str | os.PathLike[str] | None = None, level: float = 0.9, models: int = 100) -> str | None:
        """Inclusion, models, verdict, equation and intervals as JSON.

        Parameters
        ----------
        path : str or path, optional
            A file to write to; without one the text is returned.
        level : float
            Level of the intervals.
        models : int
            Models at most.

        Returns
        -------
        str or None
            The text, where no path is given. Numbers that are not finite are null.

        Examples
        --------
        >>> import json
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> json.loads(BGLMRegressor().fit(X, y).to_json())["level"]
        'exact'
        """
        return write_json(json_of(self, level, models), path)

    def to_arviz(self, draws: int = 1000, random_state: int = 0) -> Any:
        """The posterior as an ArviZ object (InferenceData, or a DataTree from ArviZ 1.0 on); needs ArviZ.

        The group ``posterior`` holds ``coefficient``: independent draws from the posterior averaged over models, zero
        where the model drawn lacks the column. After sampling, ``sample_stats`` holds ``batch_share``: the share of
        each batch of steps during which a term was in the model, from which Monte Carlo errors are computed. These are
        no draws of an inclusion probability.

        Parameters
        ----------
        draws : int
            Draws of the coefficients.
        random_state : int
            Seed of these draws.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = BGLMRegressor().fit(X, y)
        >>> model.to_arviz()["posterior"]["coefficient"].dims  # doctest: +SKIP
        ('chain', 'draw', 'column')
        """
        return self._fitted.to_arviz(draws, random_state)
