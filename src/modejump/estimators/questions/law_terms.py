"""A written law fitted to rows: its columns, and its constants with intervals.

``modejump.fit_law`` fits a law of the user's own by it, and ``constants`` the best model of a search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special, stats

from modejump.core.errors import InputError
from modejump.features.laws.simple import simple_value
from modejump.features.laws.text import Node, read
from modejump.features.laws.written import Term, scales_of, terms_of, value_of, written
from modejump.likelihoods import Student
from modejump.posterior.law_fit import Data, Estimate, fit_constants, fit_student

# Level of the intervals by which simple values are found.
LEVEL = 0.95


class Estimates(NamedTuple):
    """Numbers of a law with their standard errors.

    Attributes
    ----------
    names : tuple of str
        What they are called.
    value, error : ndarray
        Estimates, and their standard errors.
    freedom : float
        Degrees of freedom of the noise; infinite where its size is known.
    """

    names: tuple[str, ...]
    value: np.ndarray
    error: np.ndarray
    freedom: float

    def table(self, level: float = LEVEL) -> pd.DataFrame:
        """``value``, ``lower`` and ``upper`` of each.

        Examples
        --------
        >>> Estimates(("c0",), np.array([2.0]), np.array([0.1]), np.inf).table().round(2)
            value  lower  upper
        c0    2.0    1.8    2.2
        """
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0.0 < level < 1.0:
            raise InputError(f"level must lie between 0 and 1, such as 0.9; got {level!r}.")
        half = 0.5 + 0.5 * level
        reach = stats.t.ppf(half, self.freedom) if np.isfinite(self.freedom) else special.ndtri(half)
        ends = [self.value - reach * self.error, self.value + reach * self.error]
        return pd.DataFrame({"value": self.value, "lower": ends[0], "upper": ends[1]}, index=list(self.names))

    def with_simple(self, level: float = LEVEL) -> pd.DataFrame:
        """The same, with the ``simple`` value that the data do not tell from each, or empty text."""
        simple = [simple_value(*row) for row in self.table().to_numpy().tolist()]
        return self.table(level).assign(simple=pd.Series(simple, index=list(self.names), dtype=object))

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        freedom = self.freedom if np.isfinite(self.freedom) else None
        return {"names": self.names, "value": self.value.tolist(), "error": self.error.tolist(), "freedom": freedom}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Estimates:
        """From JSON; KeyError and the like where it is something else."""
        value, error = (np.array(stored[name], dtype=np.float64) for name in ("value", "error"))
        names = tuple(map(str, stored["names"]))
        if value.shape != (len(names),) or error.shape != value.shape:
            raise TypeError("no estimates")
        return cls(names, value, error, np.inf if stored["freedom"] is None else float(stored["freedom"]))


def fit_terms(
    law: Node, terms: Sequence[Term], columns: Mapping[str, np.ndarray], data: Data, start: np.ndarray | None = None
) -> tuple[Estimate, Data]:
    """Fit the terms of a law; the data come back with the weights that Student-t errors give them.

    Parameters
    ----------
    law : Node
        The law.
    terms : sequence of Term
        Its terms.
    columns : mapping from str to ndarray
        The rows, by column.
    data : Data
        The responses.
    start : ndarray, optional
        Constants near the optimum, in order of appearance; without them many places are tried.
    """
    cores = [term.core for term in terms if term.core is not None]
    inner = inner_constants(terms)

    def evaluated(constants: np.ndarray, rows: Any) -> np.ndarray:
        some = {name: column[rows] for name, column in columns.items()}
        return term_columns(cores, some, dict(zip(inner, constants.tolist(), strict=True)))

    scales = scales_of(law, columns, dict.fromkeys(constants_of(law), 1.0))
    wanted = {name: scales[name] for name in inner}
    # A search has frozen its weights already.
    if isinstance(data.family, Student) and not data.frozen:
        return fit_student(evaluated, wanted, data, start)
    return fit_constants(evaluated, wanted, data, start), data


def term_columns(
    cores: Sequence[Node], columns: Mapping[str, np.ndarray], constants: Mapping[str, float]
) -> np.ndarray:
    """Columns of the terms of a law, not finite where they are not defined."""
    rows = len(next(iter(columns.values())))
    with np.errstate(all="ignore"):
        return np.column_stack([np.broadcast_to(value_of(core, columns, constants), rows) for core in cores])


def inner_constants(terms: Sequence[Term]) -> list[str]:
    """Constants inside the terms, in order of appearance."""
    cores = [term.core for term in terms if term.core is not None]
    return list(dict.fromkeys(node.value for core in cores for node in core.walk() if node.kind == "constant"))


def constants_of(law: Node) -> list[str]:
    """All constants of a law, in order of appearance."""
    return list(dict.fromkeys(node.value for node in law.walk() if node.kind == "constant"))


def named_estimates(law: Node, terms: Sequence[Term], estimate: Estimate) -> tuple[Estimates, Estimates]:
    """Coefficients of a fitted law, and its constants in order of appearance, those before a term among them.

    Parameters
    ----------
    law : Node
        The law.
    terms : sequence of Term
        Its terms.
    estimate : Estimate
        What ``fit_terms`` found.
    """
    columns = [term for term in terms if term.core is not None]
    error, size = np.sqrt(np.diag(estimate.covariance)), len(estimate.coef)
    texts = ("intercept", *(written(term.core) for term in columns if term.core is not None))
    known = dict(zip(inner_constants(terms), zip(estimate.constants, error[size:]), strict=True))
    for term in terms:
        if term.constant is not None:
            place = 0 if term.core is None else 1 + [item is term for item in columns].index(True)
            known[term.constant] = (estimate.coef[place] / term.factor, error[place] / abs(term.factor))
    names = tuple(name for name in constants_of(law) if name in known)
    both = np.array([known[name] for name in names]).reshape(-1, 2)
    coefficients = Estimates(texts, estimate.coef, error[:size], estimate.freedom)
    return coefficients, Estimates(names, both[:, 0], both[:, 1], estimate.freedom)


def constants_of_best(model: Any) -> Estimates:
    """Constants inside the best model of a search, fitted as ``fit_law`` fits them; none where it has none.

    Parameters
    ----------
    model : estimator
        A fitted search for laws.
    """
    laws = model.laws_
    by_name = dict(zip(model.problem_.names, laws.features, strict=True))
    features = [by_name[name] for name in model.best_model()]
    if any(len(laws.constants.get(feature, ())) > feature.constants for feature in features):
        raise InputError(
            "the best model has projections, whose coefficients have no intervals; leave projections out of the space."
        )
    found = np.concatenate([np.zeros(0), *(laws.constants[feature] for feature in features if feature.constants)])
    if not len(found):
        return Estimates((), np.zeros(0), np.zeros(0), np.inf)
    target = model.posterior_.searched
    if target is None:
        raise InputError("the model holds no rows, so its constants have no intervals; fit it again.")
    if target.family.custom or target.offset is not None:
        what = "an offset" if target.offset is not None else "a likelihood of your own"
        raise InputError(f"constants of a law with {what} have no intervals; equation() has their values.")
    columns = target.table | {name: fixed[:, 0] for name, fixed in target.always_in.items()}
    law = read(model.equation(numbers=False), list(columns))
    terms = terms_of(law)
    start = np.array([found[int(name.removeprefix("c"))] for name in inner_constants(terms)])
    estimate, _ = fit_terms(law, terms, columns, Data(target.y, target.case_weight, target.family), start)
    return named_estimates(law, terms, estimate)[1]
