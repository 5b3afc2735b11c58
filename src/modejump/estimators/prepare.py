"""From the user's rows and options to a problem and a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modejump.core.errors import InputError, warn_user
from modejump.core.memory import need_memory
from modejump.core.threads import ThreadPool
from modejump.data.bits import BitColumns
from modejump.data.coding import TableSpec
from modejump.data.markers import MarkerSpec
from modejump.data.sources import Rows
from modejump.data.tables import Table
from modejump.data.wide_table import WideSpec
from modejump.estimators.options import Options, count_workers, name_some, prior_of_all
from modejump.features.laws.language import Laws
from modejump.features.laws.powers import LAW_TRANSFORMS
from modejump.features.logic.language import Logic
from modejump.features.logic.space import LogicSpace
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import Transform
from modejump.likelihoods import Family, Student
from modejump.likelihoods.custom.batch import BatchLikelihood
from modejump.problem.feature_problem import FeatureProblem, problem_over
from modejump.problem.fingerprint import sealed
from modejump.problem.problem import Problem
from modejump.problem.products import problem_from_rows
from modejump.problem.score_statistics import marginal_statistics, subgroup_statistics
from modejump.problem.wide_problem import WideProblem, wide_problem
from modejump.samplers.budget import Budget
from modejump.samplers.enumerate import MAX_TERMS
from modejump.samplers.plan import Plan
from modejump.samplers.sample_search import SampledRows, draw_sample

# Up to so many terms "auto" enumerates: about a second of work, and an exact answer.
AUTO_TERMS = 20
# The same for models that are fitted to rows: about ten seconds for so many models times rows.
AUTO_FITS = 5e7
# The same for models that a Python function scores: nobody knows how long it takes.
AUTO_SCORED = 12
SELECTION_CHAINS, SEARCH_CHAINS = 4, 16
# How long chains sample by default where models are fitted to rows, which takes time: until the second decimal is
# settled, as the verdict judges it, or for a few seconds on a table of some hundred rows.
FITTED_BUDGET = Budget(warmup=10_000, mcse=0.01, cap=200_000)
# Leading markers of logic regression, in whose subgroups others are looked at.
LEADERS = 100


@dataclass(frozen=True, eq=False)
class Chunks:
    """Rows that are read in chunks, in the place of a Table."""

    spec: TableSpec
    rows: Rows
    offset_name: str | None = None
    classes: np.ndarray | None = None

    @property
    def target(self) -> str:
        """Name of the response."""
        return self.rows.target


# Above so many columns, all of them numbers, "auto" does not put them into one list.
WIDE_COLUMNS = 5_000


def prepare(table: Table | Chunks, options: Options) -> tuple[Problem | FeatureProblem | SampledRows, Plan]:
    """The target, and what the sampler is to do.

    Parameters
    ----------
    table : Table or Chunks
        The user's rows.
    options : Options
        What the estimator was asked for.
    """
    if isinstance(options.family, Student) and not isinstance(options.space, Space):
        raise InputError("Student-t errors are for searches of laws (BGNLMRegressor); use family 'gaussian' here.")
    if isinstance(table.spec, WideSpec):
        assert isinstance(table, Table)
        return _wide(table, options)
    if options.space is None:
        return _selection(table, options)
    if isinstance(options.space, LogicSpace):
        assert isinstance(table, Table)
        return _logic(table, options)
    return _search(table, options)


def _plan(options: Options, algorithm: str, chains: int) -> Plan:
    return Plan(algorithm, options.chains or chains, options.budget, options.seed, options.settings)


# --- selection among given terms ----------------------------------------------------------------------------------


def _selection(table: Table | Chunks, options: Options) -> tuple[Problem, Plan]:
    assert not isinstance(table.spec, WideSpec)
    terms, always_in = table.spec.terms, options.always_in
    columns = sum(map(len, terms.values()))
    # The Gram matrix, and one more while it is summed up.
    instead = "screen the columns first, or use a machine with more memory"
    need_memory(16.0 * columns**2, f"the products of {columns} columns with each other", instead)
    rows = 0 if isinstance(table, Chunks) else rows_fitted(options.family, len(table.response))
    algorithm = choose_algorithm(options.algorithm, len(terms) - len(always_in), options.budget, rows)
    plan = _plan(options, algorithm, SELECTION_CHAINS)
    if plan.budget is None and algorithm == "mjmcmc" and rows:
        plan = dataclasses.replace(plan, budget=FITTED_BUDGET)
    priors = {"coef_prior": options.coef_prior, "model_prior": options.model_prior}
    if isinstance(table, Chunks):
        problem = problem_from_rows(table.rows, terms=terms, always_in=always_in, **priors)
    else:
        problem = Problem.build(
            table.design, table.response, terms=terms, always_in=always_in, intercept=table.spec.intercept,
            weights=table.weights, family=options.family, offset=table.offset, **priors,
        )  # fmt: skip
        problem = sealed(problem)
    dead = problem.dead_terms()
    if dead:
        warn_user(
            f"{name_some(dead)}: constant, or a linear combination of what is always in, so the inclusion probability "
            "is 0."
        )
    return problem, plan


def _wide(table: Table, options: Options) -> tuple[WideProblem, Plan]:
    """Selection among very many columns."""
    names: Any = table.spec.variables
    fixed = {name: np.asarray(table.design[:, names.index(name)], dtype=np.float64) for name in options.always_in}
    with ThreadPool(count_workers(options.n_jobs)) as pool:
        problem = wide_problem(
            table.design, table.response, names, weights=table.weights, family=options.family, offset=table.offset,
            coef_prior=options.coef_prior, model_prior=options.model_prior, always_in=fixed, pool=pool,
        )  # fmt: skip
    return problem, _plan(options, "rgmjmcmc", SELECTION_CHAINS)


def choose_algorithm(algorithm: str, terms: int, budget: Budget | None, rows: int) -> str:
    """The algorithm to run on so many terms that may enter or leave.

    Parameters
    ----------
    algorithm : str
        As given to the estimator.
    terms : int
        Number of terms.
    budget : Budget or None
        As given to the estimator; enumeration has no use for one.
    rows : int
        Rows that each model is fitted to; 0 for Gaussian responses, whose models cost the same for any number.
    """
    if algorithm == "auto":
        return "enumerate" if terms <= AUTO_TERMS and rows * 2.0**terms <= AUTO_FITS else "mjmcmc"
    if algorithm == "enumerate":
        if terms > MAX_TERMS:
            raise InputError(
                f"enumeration takes up to {MAX_TERMS} terms, and the data have {terms}; use algorithm='mjmcmc'."
            )
        if budget is not None:
            raise InputError("algorithm='enumerate' evaluates every model once; leave the budget out.")
    return algorithm


def rows_fitted(family: Family, rows: int) -> int:
    """Rows that a model is fitted to, or that its evaluation costs as much as."""
    if isinstance(family, BatchLikelihood):
        return int(AUTO_FITS / 2**AUTO_SCORED)
    return 0 if family.conjugate else rows


# --- search among features ----------------------------------------------------------------------------------------


def _search(table: Table | Chunks, options: Options) -> tuple[FeatureProblem | SampledRows, Plan]:
    algorithm = "rgmjmcmc" if options.algorithm == "auto" else options.algorithm
    assert isinstance(options.space, Space) and isinstance(table.spec, TableSpec)
    made_of, fixed = table.spec.split(options.always_in)
    all_names = table.spec.design_names
    names = [all_names[j] for j in made_of]
    rules = Laws if options.space.rules == "laws" else Nonlinear
    language = rules(names, options.transforms, options.space)
    priors = {"coef_prior": options.coef_prior, "model_prior": options.model_prior}
    if isinstance(table, Chunks):
        if options.noise_floor or isinstance(options.family, Student):
            raise InputError(
                "Student-t errors and noise_floor need the rows in memory, and these are read in chunks; use family "
                "'gaussian' without noise_floor, or a sample of the rows."
            )
        if options.algorithm == "rgmjmcmc":
            raise InputError(
                "algorithm 'rgmjmcmc' needs the rows in memory, and these are read in chunks; use algorithm='auto'."
            )
        if options.always_in:
            raise InputError("always_in needs the rows in memory in a search for laws, and these are read in chunks.")
        plan = _plan(options, "mjmcmc", SEARCH_CHAINS)
        sampled = draw_sample(table.rows, language, seed=options.seed, **priors)
        varying = {name for feature in sampled.varying for name in feature.covariates}
        _warn_constant([name for name in names if name not in varying])
        _check_transforms(options.transforms, sampled.problem.x.T, names)
        return sampled, plan
    plan = _plan(options, algorithm, SEARCH_CHAINS)
    _check_size(table)
    design = table.design if len(made_of) == len(all_names) else np.ascontiguousarray(table.design[:, made_of])
    problem = problem_over(
        design, table.response, language, weights=table.weights, family=options.family, offset=table.offset,
        always_in={all_names[j]: table.design[:, j] for j in fixed},
        noise_floor=options.noise_floor or 0.0, **priors,
    )  # fmt: skip
    _warn_constant([name for j, name in enumerate(names) if np.ptp(design[:, j]) == 0.0])
    _check_transforms(options.transforms, design, names)
    return problem, plan


def _logic(table: Table, options: Options) -> tuple[FeatureProblem, Plan]:
    spec = table.spec
    assert isinstance(spec, MarkerSpec) and isinstance(options.space, LogicSpace)
    _check_size(table)
    x, fixed = table.design[:, : len(spec.markers)], table.design[:, len(spec.markers) :]
    # Markers that look like the response are drawn more often: by what is beyond chance in their statistics.
    null, bits = (table.response, options.family, fixed, table.weights, table.offset), BitColumns.of_ones(x == 1.0)
    looks = marginal_statistics(bits, *null)
    leaders = np.argsort(-looks, kind="stable")[:LEADERS]
    within = subgroup_statistics(bits, leaders, *null) - 2.0 * np.log(2.0 * len(leaders))
    looks = np.maximum(looks, within)
    problem = problem_over(
        x, table.response, Logic(spec.names, options.space, 1.0 + looks), weights=table.weights,
        family=options.family, offset=table.offset, coef_prior=options.coef_prior,
        model_prior=prior_of_all(options.model_prior, spec),
        always_in=dict(zip(spec.fixed, fixed.T, strict=True)),
    )  # fmt: skip
    return problem, _plan(options, "rgmjmcmc" if options.algorithm == "auto" else options.algorithm, SEARCH_CHAINS)


def _check_size(table: Table) -> None:
    n = float(len(table.response) if table.weights is None else table.weights.sum())
    if n < 2.0:
        raise InputError(f"the data have {n:g} observation(s) (n_samples = 1); give more rows.")


def _warn_constant(names: Sequence[str]) -> None:
    if names:
        several = "columns" if len(names) > 1 else "column"
        verb = "are constant and are" if len(names) > 1 else "is constant and is"
        warn_user(f"{several} {name_some(names)} {verb} ignored.")


def _check_transforms(chosen: Sequence[Transform], design: np.ndarray, names: Sequence[str]) -> None:
    """Warn of a transform of the user's choice that is not defined on some columns."""
    for transform in chosen if tuple(t.name for t in chosen) != LAW_TRANSFORMS else ():
        bad = [name for j, name in enumerate(names) if not np.isfinite(transform(design[:, j])).all()]
        defined = transform.domain.text
        if bad and len(bad) == len(names):
            warn_user(
                f"transform {transform.name!r} ({defined}) is not finite on any column; it is applied to products and "
                "sums alone, where it is finite."
            )
        elif bad:
            warn_user(
                f"transform {transform.name!r} ({defined}) is not finite on {name_some(bad)} and is not applied there."
            )
