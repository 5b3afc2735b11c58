"""Prediction equations as text, LaTeX and SymPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from modejump.core.errors import InputError
from modejump.estimators.docs import documented
from modejump.features.symbols import escape_latex, import_sympy, latex_number
from modejump.features.tokens import quoted
from modejump.posterior.posterior import KINDS, Posterior
from modejump.problem.problem import Problem


class Equations:
    """Equations of a fitted estimator."""

    posterior_: Posterior

    @property
    def _fitted(self) -> Posterior:
        check_is_fitted(self, "posterior_")
        return self.posterior_

    @property
    def problem_(self) -> Problem:
        """Data and priors as the samplers see them."""
        return self._fitted.problem

    def coefficients(self, kind: str = "bma") -> pd.DataFrame:
        """Posterior mean of every coefficient, the intercept first."""
        raise NotImplementedError

    def _symbols(self, form: str, digits: int = 4) -> list[Any]:
        """What the coefficients belong to: "text", "latex" or "sympy"."""
        raise NotImplementedError

    def _equation(self, kind: str) -> tuple[float, np.ndarray]:
        """Intercept and coefficients for one kind of prediction."""
        mean = self.coefficients(kind)["mean"].to_numpy()
        return (float(mean[0]), mean[1:]) if self.problem_.intercept else (0.0, mean)

    @documented()
    def equation(self, kind: str = "best", numbers: bool = True, digits: int = 4) -> str:
        """The law as people write it; for families other than gaussian that of the linear predictor.

        {parameters}

        Returns
        -------
        str
            Terms joined by " + ", with their coefficients and the constants inside them. Without ``numbers``,
            coefficients are left out and constants are named c0, c1, ..., as ``modejump.fit_law`` takes it; the model
            without terms is "1".

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = BGLMRegressor().fit(X, y)
        >>> print(model.equation(digits=3))
        152 - 235*sex + 522*bmi + 325*bp - 288*s3 + 473*s5
        >>> print(model.equation(numbers=False))
        sex + bmi + bp + s3 + s5
        """
        if numbers:
            return plain_sum(*self._equation(kind), self._symbols("text", digits), digits)
        posterior = self._fitted
        if kind not in KINDS:
            raise InputError(f"kind must be one of 'bma', 'best' and 'median'; got {kind!r}.")
        if kind == "bma":
            terms = tuple(posterior.inclusion.index[posterior.inclusion["probability"] > 0.0])
        else:
            terms = posterior.best_model() if kind == "best" else posterior.median_model()
        law = " + ".join(map(quoted, terms)) or "1"
        if posterior.laws is not None:
            place = dict(zip(posterior.problem.names, posterior.laws.features, strict=True))
            law = posterior.laws.language.law([place[name] for name in terms])
        fixed = [quoted(name) for name in self.problem_.always_in]
        return " + ".join([*fixed, *([law] if terms or not fixed else [])])

    @documented()
    def to_latex(self, kind: str = "best", digits: int = 4) -> str:
        r"""The prediction equation as LaTeX; for families other than gaussian that of the linear predictor.

        {parameters}

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> x = np.arange(20.0).reshape(10, 2) ** 2
        >>> print(BGLMRegressor(coef_prior="bic").fit(x, 1.0 + 2.0 * x[:, 0]).to_latex())
        \hat{y} = 1 + 2\,\mathrm{x0}
        """
        left = self._fitted.problem.family.latex(hat(getattr(self, "target_", "y")))
        return f"{left} = {latex_sum(*self._equation(kind), self._symbols('latex', digits), digits)}"

    @documented()
    def to_sympy(self, kind: str = "best") -> Any:
        """The prediction equation as a SymPy expression; ``predict`` of the same kind evaluates it.

        For families other than gaussian it is the linear predictor, the link of the mean. There ``predict`` also
        averages over the posterior of the coefficients, so that it is close to the inverse link of the expression
        and not equal to it.

        {parameters}

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> sorted(map(str, BGLMRegressor().fit(X, y).to_sympy().free_symbols))
        ['bmi', 'bp', 's3', 's5', 'sex']
        """
        return sympy_sum(*self._equation(kind), self._symbols("sympy"))


def hat(name: str) -> str:
    """The predicted response in LaTeX."""
    return r"\hat{y}" if name == "y" else rf"\widehat{{\mathrm{{{escape_latex(name)}}}}}"


def latex_sum(intercept: float, coef: np.ndarray, symbols: Sequence[str], digits: int = 4) -> str:
    r"""A constant and multiples of symbols, those with coefficient zero left out.

    Examples
    --------
    >>> print(latex_sum(1.5, np.array([0.25, 0.0, -3e-7]), ["a", "b", "c"]))
    1.5 + 0.25\,a - 3 \times 10^{-7}\,c
    """
    products = [(c, rf"{latex_number(abs(c), digits)}\,{s}") for c, s in zip(coef.tolist(), symbols, strict=True)]
    return _signed(intercept, latex_number(abs(intercept), digits), products)


def plain_sum(intercept: float, coef: np.ndarray, symbols: Sequence[str], digits: int = 4) -> str:
    """The same as plain text.

    Examples
    --------
    >>> plain_sum(1.5, np.array([0.25, -3e-7, 1.0, 4.0]), ["a*b", "sin(x)", "c", "1/d^2"])
    '1.5 + 0.25*a*b - 3e-07*sin(x) + c + 4/d^2'
    """
    products = [(c, _multiple(f"{abs(c):.{digits}g}", s)) for c, s in zip(coef.tolist(), symbols, strict=True)]
    return _signed(intercept, f"{abs(intercept):.{digits}g}", products)


def _multiple(number: str, symbol: str) -> str:
    """A number times a symbol, as people write it."""
    if symbol.startswith("1/"):
        return number + symbol[1:]
    return symbol if number == "1" else f"{number}*{symbol}"


def _signed(intercept: float, constant: str, products: Sequence[tuple[float, str]]) -> str:
    parts = [] if intercept == 0.0 and any(c != 0.0 for c, _ in products) else [(intercept, constant)]
    text = ""
    for value, size in [*parts, *((c, product) for c, product in products if c != 0.0)]:
        sign = "-" if value < 0 else "+"
        text += (f" {sign} " if text else ("-" if value < 0 else "")) + size
    return text


def sympy_sum(intercept: float, coef: np.ndarray, symbols: Sequence[Any]) -> Any:
    """The same as a SymPy expression."""
    sympy = import_sympy()
    terms = [sympy.Float(c) * s for c, s in zip(coef.tolist(), symbols, strict=True) if c != 0.0]
    return sympy.Add(sympy.Float(intercept), *terms)
