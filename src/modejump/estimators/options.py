"""Reading the options that estimators share: every option is honoured or refused in one sentence."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_random_state

from modejump.core.errors import InputError, ModejumpWarning
from modejump.data.tables import column_name, response_values
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import Transform, transforms
from modejump.likelihoods import FAMILIES, Family, resolve_family
from modejump.likelihoods.custom.batch import BatchLikelihood
from modejump.likelihoods.custom.own import StoredLikelihood
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.checks import checked_offset, checked_weights
from modejump.samplers.budget import Budget
from modejump.samplers.enumerate import MAX_TERMS

ALGORITHMS = ("auto", "enumerate", "mjmcmc")
# These search among nonlinear features, of which a list of given covariates has none.
_NONLINEAR = ("gmjmcmc", "rgmjmcmc")
# Up to so many terms "auto" enumerates: about a second of work, and an exact answer.
AUTO_TERMS = 20
# The same for models that are fitted to rows: about ten seconds for so many models times rows.
AUTO_FITS = 5e7
# The same for models that a Python function scores: nobody knows how long it takes.
AUTO_SCORED = 12


def name_some(names: Sequence[str]) -> str:
    """The first names of a list, for a sentence."""
    return ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")


def read_family(family: Any, link: Any) -> Family:
    """The family of a regressor's response, with its link; or a likelihood of the user's own, which has none."""
    if isinstance(family, StoredLikelihood):
        raise InputError(
            f"the model was read from a file, which holds no functions; set family to the likelihood, {family!r}, "
            "before fitting again."
        )
    if isinstance(family, Family) and family.custom:
        if link is not None:
            raise InputError(
                f"link {link!r} does not go with a likelihood of your own, which has none; leave link out."
            )
        return family
    if isinstance(family, str) and family in FAMILIES and FAMILIES[family].response == "class":
        raise InputError(
            f"family {family!r} is for classes, and this estimator predicts numbers; use BGLMClassifier or "
            "BGNLMClassifier."
        )
    if not isinstance(family, str) or family not in FAMILIES:
        names = ", ".join(repr(name) for name, known in FAMILIES.items() if known.response != "class")
        raise InputError(
            f"family {family!r} does not exist; choose one of {names}, or give an OwnLikelihood or a BatchLikelihood."
        )
    return resolve_family(family, _checked_link(link))


def read_link(link: Any) -> Family:
    """The family of a classifier's response, with its link."""
    return resolve_family("binomial", _checked_link(link))


def _checked_link(link: Any) -> str | None:
    if link is not None and not isinstance(link, str):
        raise InputError(f"link must be a name such as 'log'; got {link!r}.")
    return link


def read_offset(offset: Any, family: Family, rows: int) -> np.ndarray | None:
    """The known part of the linear predictor as numbers, one for each row of X."""
    if offset is None:
        return None
    family.check_rows(None, offset)
    return checked_offset(response_values(offset), rows)


def rows_fitted(family: Family, rows: int) -> int:
    """Rows that a model is fitted to, or that its evaluation costs as much as.

    Parameters
    ----------
    family : Family
        Family of the response.
    rows : int
        Rows of the table.
    """
    if isinstance(family, BatchLikelihood):
        return int(AUTO_FITS / 2**AUTO_SCORED)
    return 0 if family.conjugate else rows


def choose_algorithm(algorithm: Any, terms: int, budget: Any, rows: int = 0) -> str:
    """The algorithm to run on a problem of so many terms.

    Parameters
    ----------
    algorithm : str
        As given to the estimator.
    terms : int
        Number of terms that may enter or leave.
    budget : Budget or None
        As given to the estimator; enumeration has no use for one.
    rows : int
        Rows that each model is fitted to; 0 for Gaussian responses, whose models cost the same for any number.
    """
    if algorithm in _NONLINEAR:
        raise InputError(
            f"algorithm {algorithm!r} searches among nonlinear features, which this estimator does not have; "
            "use 'auto', 'enumerate' or 'mjmcmc', or BGNLMRegressor or BGNLMClassifier."
        )
    if algorithm not in ALGORITHMS:
        close = difflib.get_close_matches(str(algorithm), ALGORITHMS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(map(repr, ALGORITHMS))}."
        raise InputError(f"algorithm {algorithm!r} does not exist; {hint}")
    if algorithm == "auto":
        return "enumerate" if terms <= AUTO_TERMS and rows * 2.0**terms <= AUTO_FITS else "mjmcmc"
    if algorithm == "enumerate":
        if terms > MAX_TERMS:
            raise InputError(
                f"enumeration is offered up to {MAX_TERMS} terms and the data have {terms}; use algorithm='mjmcmc'."
            )
        if budget is not None:
            raise InputError(
                "a budget is for sampling, and algorithm='enumerate' evaluates every model once; leave the budget out."
            )
    return str(algorithm)


def choose_search(algorithm: Any) -> str:
    """The algorithm of a search among features."""
    if algorithm in ("enumerate", "mjmcmc"):
        raise InputError(
            f"algorithm {algorithm!r} takes a fixed list of terms, and features are found as the search goes; use "
            "'gmjmcmc', or BGLMRegressor or BGLMClassifier to select among the columns as they are."
        )
    if algorithm not in ("auto", "rgmjmcmc", "gmjmcmc"):
        raise InputError(f"algorithm {algorithm!r} does not exist; choose 'rgmjmcmc' or 'gmjmcmc'.")
    return "gmjmcmc" if algorithm == "gmjmcmc" else "rgmjmcmc"


def read_transforms(given: Any) -> tuple[Transform, ...]:
    """G from names of transforms or of published sets, and from transforms themselves; each once, in order."""
    items = [given] if isinstance(given, str | Transform) else given
    if items is None or not isinstance(items, Iterable):
        raise InputError(f"transforms must be names such as ('sin', 'troot'), or 'G1' or 'G2'; got {given!r}.")
    chosen: dict[str, Transform] = {}
    for item in items:
        if isinstance(item, Transform):
            chosen[item.name] = item
        elif isinstance(item, str) and item in transforms.SETS:
            chosen |= {name: transforms[name] for name in transforms.set(item)}
        else:
            chosen[str(item)] = transforms[item]
    return tuple(chosen.values())


def read_space(space: Any) -> Space:
    """The limits of the feature space."""
    if space is not None and not isinstance(space, Space):
        raise InputError(f"space must be a modejump.Space, such as Space(depth=3); got {space!r}.")
    return Space() if space is None else space


def read_complexity_prior(prior: Any) -> ComplexityPrior:
    """The prior of models made of features."""
    if prior is None or prior == ComplexityPrior.name:
        return ComplexityPrior()
    if not isinstance(prior, ComplexityPrior):
        raise InputError(
            f"model_prior is {prior!r}, but features are weighed by their complexity; give a ComplexityPrior, such "
            "as ComplexityPrior('1/n')."
        )
    return prior


def check_transforms(chosen: Sequence[Transform], design: np.ndarray, names: Sequence[str]) -> None:
    """Refuse a transform that is defined on no column, and warn of one that is not defined on some.

    Parameters
    ----------
    chosen : sequence of Transform
        G.
    design : ndarray of shape (n, columns)
        The covariates.
    names : sequence of str
        Their names.
    """
    for transform in chosen:
        bad = [name for j, name in enumerate(names) if not np.isfinite(transform(design[:, j])).all()]
        defined = transform.domain.text
        if bad and len(bad) == len(names):
            raise InputError(
                f"transform {transform.name!r} ({defined}) is not finite on any column; drop it from transforms, or "
                "shift or rescale the columns."
            )
        if bad:
            warnings.warn(
                f"transform {transform.name!r} ({defined}) is not finite on {name_some(bad)} and is not applied there.",
                ModejumpWarning,
                stacklevel=4,
            )


def check_budget(budget: Any) -> Budget | None:
    """A Budget, or None for the sampler's own."""
    if budget is not None and not isinstance(budget, Budget):
        raise InputError(f"budget must be a modejump.Budget, such as Budget(steps=100_000); got {budget!r}.")
    return budget


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_chains(chains: Any, usual: int | None = None) -> int:
    """A number of chains; the usual one for None, where there is one."""
    if chains is None and usual is not None:
        return usual
    if not _is_whole(chains) or chains < 1:
        raise InputError(f"chains must be a whole number of at least 1; got {chains!r}.")
    return int(chains)


def count_workers(n_jobs: Any) -> int:
    """Number of workers, by joblib's rules for n_jobs."""
    if n_jobs is not None and not _is_whole(n_jobs):
        raise InputError(f"n_jobs must be a whole number or None; got {n_jobs!r}.")
    if n_jobs == 0:
        raise InputError("n_jobs is 0, which means no worker at all; give 1 or more, or -1 for all cores.")
    try:
        return int(joblib.effective_n_jobs(n_jobs))
    except TimeoutError:
        raise InputError(
            "the cluster of joblib's active backend has no worker; start workers, or let joblib.parallel_config wait "
            "longer (wait_for_workers_timeout)."
        ) from None


def draw_seed(random_state: Any) -> int:
    """Entropy of the sampler's SeedSequence.

    A whole number is used as it is; a generator gives one draw; None gives fresh entropy from the operating
    system.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if _is_whole(random_state):
        if random_state < 0:
            raise InputError(f"random_state is {random_state}; give a whole number of at least 0.")
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise InputError(
            f"random_state must be None, a whole number or a NumPy generator; got {random_state!r}."
        ) from None


def read_weights(sample_weight: Any, rows: int) -> np.ndarray | None:
    """Case weights as numbers, with a warning where they look like something else."""
    if sample_weight is None:
        return None
    weights = checked_weights(response_values(sample_weight), rows)
    total = weights.sum()
    if (weights % 1 != 0).any() and abs(total - rows) > 0.01 * rows:
        warnings.warn(
            f"sample_weight counts cases, so these weights amount to {total:g} observations in {rows} rows; "
            "where they only express relative precision, scale them to sum to the number of rows.",
            ModejumpWarning,
            stacklevel=3,
        )
    return weights


def check_varies(y: np.ndarray, weights: np.ndarray | None) -> None:
    """A response of one value has nothing to explain."""
    used = y if weights is None else y[weights > 0]
    if len(used) > 1 and np.ptp(used) == 0.0:
        raise InputError("y is constant, so there is nothing to explain; check the target column.")


def read_always_in(always_in: Any, terms: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Names of the terms that are in every model, from names of terms or positions of columns.

    Parameters
    ----------
    always_in : str, int, or sequence of them
        As given to the estimator.
    terms : sequence of str
        Names of the terms.
    columns : sequence of str
        Names of the columns of the table.
    """
    given = [always_in] if isinstance(always_in, str) or _is_whole(always_in) else list(always_in or ())
    names: list[str] = []
    for item in given:
        name = column_name(int(item), columns, "always_in") if _is_whole(item) else str(item)
        if name not in terms and name in columns:
            raise InputError(f"always_in names {name!r}, which is part of a group; name the group instead.")
        if name not in terms:
            raise InputError(
                f"always_in names {name!r}, which is not a term; the terms are {', '.join(list(terms)[:8])}."
            )
        if name not in names:
            names.append(name)
    if len(names) == len(terms):
        raise InputError("every term is always in, so there is nothing to select; leave some out of always_in.")
    return tuple(names)
