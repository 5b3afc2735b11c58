"""The Python that fits a model again."""

from __future__ import annotations

from typing import Any

from modejump.estimators.options import Options


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
