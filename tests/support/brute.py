"""Independent twins of the samplers: all models by least squares on the rows, and chains of known law.

Nothing here uses the Gram matrix, the Cholesky factorisations, or the chains of the package.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from modejump.kernels.evaluate import RANK_TOLERANCE, RESID_FLOOR
from modejump.likelihoods.gaussian.marginal import log_marginal
from modejump.problem.problem import Problem, standardised_block
from modejump.samplers.result import ModelTable, Result

MOST_TERMS = 12


def log_prior(problem: Problem, members: tuple[int, ...]) -> float:
    """Log prior of a model, term by term; -inf where heredity or the size forbids it."""
    prior = problem.data.prior
    inside = set(members)
    for t in members:
        parents = [int(p) for p in prior.parent_index[prior.parent_start[t] : prior.parent_start[t + 1]]]
        present = [p in inside for p in parents]
        if parents and ((prior.heredity == 1 and not all(present)) or (prior.heredity == 2 and not any(present))):
            return -np.inf
    return float(prior.log_size[len(members)] + sum(prior.log_weight[t] for t in members))


def rank_deficient(r: np.ndarray) -> bool:
    """Whether some column lies in the span of the others but for a share of its square, by the triangle of a QR."""
    if (np.diag(r) ** 2 < RANK_TOLERANCE).any():
        return True
    return bool((np.sum(np.linalg.inv(r) ** 2, axis=1) * RANK_TOLERANCE > 1.0).any())


def resid_share(problem: Problem, members: tuple[int, ...]) -> float:
    """RSS(M)/RSS(base) by QR of the rows; -1.0 where the design is rank deficient."""
    data = problem.data
    cols = [c for t in members for c in range(data.first[t], data.first[t + 1])]
    if len(cols) > data.max_cols:
        return -1.0
    z = standardised_block(data.columns, slice(None))[:, cols]
    q, r = np.linalg.qr(z)
    if rank_deficient(r):
        return -1.0
    left = data.columns.response - q @ (q.T @ data.columns.response)
    return max(float(left @ left), RESID_FLOOR)


def brute_force(problem: Problem) -> Result:
    """The exact posterior of a small problem by least squares on the rows of every model."""
    terms = problem.n_terms
    if terms > MOST_TERMS:
        raise ValueError(f"brute force is for at most {MOST_TERMS} terms")
    data = problem.data
    count = 1 << terms
    value = np.full(count, -np.inf)
    for code in range(count):
        members = tuple(j for j in range(terms) if code >> j & 1)
        prior = log_prior(problem, members)
        if prior == -np.inf:
            continue
        resid = resid_share(problem, members)
        if resid < 0.0:
            continue
        cols = sum(int(data.first[t + 1] - data.first[t]) for t in members)
        value[code] = prior + log_marginal(data.coef_prior, data.n, data.base, cols, resid)
    order = np.argsort(-value, kind="stable")
    order = order[np.isfinite(value[order])]
    log_posterior = value[order]
    log_evidence = float(np.logaddexp.reduce(log_posterior))
    weight = np.exp(log_posterior - log_evidence)
    inside = (order[:, None] >> np.arange(terms)) & 1
    table = ModelTable(
        words=order.astype(np.uint64)[:, None],
        log_posterior=log_posterior,
        visits=np.zeros(len(order), np.int64),
        first_seen=np.arange(len(order)),
    )
    return Result(
        algorithm="enumerate",
        exact=True,
        models=table,
        n_models=len(order),
        log_evidence=log_evidence,
        renormalised=weight @ inside,
        size_distribution=np.bincount(inside.sum(axis=1), weights=weight, minlength=terms + 1),
        seconds=1e-3,
    )


def lazy_chains(
    problem: Problem,
    exact: Result,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    batches: int = 200,
    batch_length: int = 500,
    stay: float = 0.9,
    stuck: bool = False,
) -> Result:
    """What a sampler returns for chains that stay with probability ``stay``, else draw from the posterior.

    Every indicator then has autocorrelation ``stay ** lag``, so its asymptotic variance is
    ``p (1 - p) (1 + stay) / (1 - stay)``. With ``stuck`` each chain keeps its first model for ever.
    """
    steps = batches * batch_length
    weight = np.exp(exact.models.log_posterior - exact.log_evidence)
    inside = exact.models.membership(problem.n_terms)
    visits = np.zeros(len(weight), np.int64)
    means = np.empty((chains, batches, problem.n_terms))
    sizes = np.zeros(problem.n_terms + 1)
    for c in range(chains):
        fresh = rng.random(steps) >= stay
        fresh[0] = True
        if stuck:
            fresh[1:] = False
        drawn = rng.choice(len(weight), size=int(fresh.sum()), p=weight / weight.sum())
        path = drawn[np.cumsum(fresh) - 1]
        visits += np.bincount(path, minlength=len(weight))
        member = inside[path]
        means[c] = member.reshape(batches, batch_length, -1).mean(axis=1)
        sizes += np.bincount(member.sum(axis=1), minlength=len(sizes))
    return Result(
        algorithm="mjmcmc",
        exact=False,
        models=replace(exact.models, visits=visits),
        n_models=len(weight),
        log_evidence=exact.log_evidence,
        renormalised=exact.renormalised,
        size_distribution=sizes / sizes.sum(),
        batch_means=means,
        batch_length=batch_length,
        steps=chains * steps,
        acceptance={"flip": (chains * steps, chains * steps // 10)},
        seconds=1.0,
    )


def small_problem(
    rng: np.random.Generator, rows: int = 30, terms: int = 5, signal: float = 0.8, **options: object
) -> Problem:
    """A problem with correlated columns, of which every other one matters."""
    x = rng.normal(size=(rows, terms)) + 0.7 * rng.normal(size=(rows, 1))
    beta = np.where(np.arange(terms) % 2 == 0, signal, 0.0)
    y = 2.0 + x @ beta + rng.normal(size=rows)
    return Problem.build(x, y, **options)  # type: ignore[arg-type]
