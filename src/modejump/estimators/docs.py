"""Docstrings that estimators share: each parameter and each attribute is described once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

SHARED = """
family : str, Student, OwnLikelihood or BatchLikelihood
    Family of the response: "gaussian", "poisson" (counts) or "gamma" (positive amounts). Models of families other than
    gaussian are compared by Laplace approximations. For classes there are classifiers. A likelihood of your own has
    neither link nor coefficient prior, and no predictions, because its coefficients are unknown. A search for laws has
    "student" as well: Student-t errors, whose degrees of freedom are estimated (``Student(dof=3)`` gives them), for
    data with outliers, in proportion to the mean where the data say so; the weights of the rows that stand for them are
    frozen before sampling. It is the default there, but for rows that are read in chunks, which are "gaussian". Where
    Gaussian errors are as likely, none are used.
link : str, optional
    Link function; by default the family's first: "identity" for gaussian, "logit", "probit" or "cloglog" for classes,
    "log" for counts, "log" or "inverse" for amounts.
coef_prior : str or coefficient prior
    Prior of the coefficients given the model: a name such as "g", "hyper-g", "jeffreys" or "bic", or an object with
    parameters such as ``GPrior(g=47)``. Of laws of a number "jzs" by default, which does not saturate where laws fit
    closely, otherwise "g".
n_jobs : int, optional
    Number of workers, by joblib's rules: None is 1 and -1 all cores; ``joblib.parallel_config`` chooses their kind,
    threads by default. The answer does not depend on them, unless the budget is in seconds.
random_state : int, Generator, RandomState or None
    Seed of the sampler.
progress : bool, "auto" or callable
    "auto" shows a bar on a terminal once the work has taken two seconds, and elsewhere writes a line to standard error
    every ten seconds; True reports at once, False never; a callable is called with (done, total, note).
sampler : Sampler, "paper" or None
    Weights of moves and kernels: None for our default, "paper" for the algorithm as the paper states it.

X : data frame or array of shape (rows, columns)
    Covariates, as at fit; columns of a frame may be in any order.
y : array of shape (rows,), or str
    Response, or the name of its column in X.
sample_weight : array of shape (rows,), or str, optional
    Case weights, or the name of their column in X.
offset : array of shape (rows,), or str, optional
    Offset of the rows, or the name of its column in X; needed where the fit had one, unless X has the column that the
    fit was told by name.
interval : float, optional
    Level of a central interval, such as 0.9: of new observations, or of the probability of a class.
return_std : bool
    Whether to return the standard deviation of a new observation as well.
kind : str
    "bma" averages over the models; "best" and "median" use the best and the median probability model.
numbers : bool
    Whether coefficients and constants are written as numbers.
digits : int
    Significant digits of the coefficients.
features, models : int
    How many of each to list.

classes_ : ndarray of shape (classes,)
    The labels, sorted. Of two, coefficients and intervals of probabilities are about the second one.
estimators_ : list
    Of more than two classes: one fitted estimator for each, against the rest, in the order of ``classes_``. Then
    ``inclusion_`` has a column for each class, and questions about one posterior go to one of these.
inclusion_ : DataFrame
    Inclusion probability of each term or law, best first, with its Monte Carlo error and diagnostics.
models_ : DataFrame
    The leading models, best first.
posterior_ : Posterior
    The object behind both.
verdict_ : Verdict
    How far the answer may be trusted, in plain sentences; ``level`` is about mixing ("exact", "good", "doubtful",
    "bad"), ``search`` about models that may have been missed ("complete", "well searched", "uncertain").
laws_ : Laws
    The laws found: features, aliases, and coefficients inside projections.
problem_ : Problem
    Data and priors as the samplers see them; after a search, the selection among the laws.
coef_ : ndarray
    Model-averaged coefficients of the design columns, on their original scale.
intercept_ : float
    Model-averaged intercept.
table_ : TableSpec or FormulaSpec
    How tables become design columns.
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


def _entries(text: str) -> dict[str, str]:
    """Entries of a numpydoc section by the names that they describe."""
    found: dict[str, str] = {}
    for block in inspect.cleandoc(text).replace("\n\n", "\n").replace("\n    ", "\0    ").split("\n"):
        entry = block.replace("\0", "\n")
        found |= dict.fromkeys(entry.split(" : ")[0].split(", "), entry)
    return found


def _declared(thing: Any, name: str) -> bool:
    """Whether a class has an attribute, as a property or as an annotation."""
    return any(name in vars(base) or name in vars(base).get("__annotations__", {}) for base in thing.__mro__)


def documented(own: str = "") -> Callable[[T], T]:
    """Fill ``{parameters}`` and ``{attributes}`` in the docstring of a class, or ``{parameters}`` in that of a method.

    Parameters
    ----------
    own : str
        Entries that go before the shared ones, in numpydoc's form.
    """
    known = _entries(SHARED) | _entries(own)

    def fill(thing: T) -> T:
        names = [name for name in inspect.signature(thing).parameters if name != "self"]
        sections = {"Parameters": dict.fromkeys(known[name] for name in names)}
        if inspect.isclass(thing):
            shown = [entry for name, entry in known.items() if name.endswith("_") and _declared(thing, name)]
            sections["Attributes"] = dict.fromkeys(shown)
        text = inspect.cleandoc(thing.__doc__ or "")
        for title, entries in sections.items():
            whole = "\n".join([title, "-" * len(title), *entries])
            text = text.replace(f"{{{title.lower()}}}", whole)
        thing.__doc__ = text
        return thing

    return fill
