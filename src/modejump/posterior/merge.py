"""Posteriors of one problem from several runs as one: models united, visits added, chains side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from modejump.core.errors import InputError
from modejump.posterior.fits import KeptModels, chosen_models, model_probabilities, single_model
from modejump.posterior.posterior import KINDS, Posterior
from modejump.posterior.prediction.laplace import LaplaceFits, picked_fits
from modejump.problem.fingerprint import differing
from modejump.problem.problem import Problem
from modejump.samplers.merge import weighted_inclusion
from modejump.samplers.result import ModelTable, Result, members_of

# Two runs agree about a model where its log posteriors are as close as this.
AGREEMENT = 1e-6
# What is said where more than this share of a run is lost when batches are made alike.
LOST = 0.01
# Batches are of one length where they differ by no more than this share, which moves an error by half of it.
ALIKE = 0.05
# Renormalised mass of dropped models that nobody needs to hear about.
NEGLIGIBLE = 1e-4


def merge_posteriors(posteriors: Sequence[Posterior]) -> Posterior:
    """One posterior from several of the same problem; an exact one among them is the answer."""
    first = posteriors[0]
    if any(posterior.reweighting is not None for posterior in posteriors):
        raise InputError("reweighted models cannot be merged; merge the models that they were made from first.")
    for other in posteriors[1:]:
        check_same_problem(first, other)
    exact = [posterior for posterior in posteriors if posterior.exact]
    if exact or len(posteriors) == 1:
        return (exact or [first])[0]
    algorithms = sorted({posterior.result.algorithm for posterior in posteriors})
    if len(algorithms) > 1:
        raise InputError(f"the runs used different algorithms ({', '.join(algorithms)}); merge runs of one of them.")
    if first.result.laws is not None:
        from modejump.posterior.merge_laws import over_united_laws

        posteriors = over_united_laws(posteriors)
    results = [posterior.result for posterior in posteriors]
    _refuse_twice(results)
    # A run in memory still has its rows; those read from files have none.
    problem = max((p.problem for p in posteriors), key=lambda held: len(held.data.columns.x) + held.data.glm.rows)
    result = _merged_result(results, problem.n_terms)
    united = Posterior(problem, result, None, first.fingerprints)
    errors = {law: error for posterior in posteriors for law, error in (posterior.errors or {}).items()}
    return Posterior(problem, result, _merged_kept(united, posteriors), first.fingerprints, errors=errors)


def check_same_problem(ours: Posterior, theirs: Posterior) -> None:
    """Raise InputError where two posteriors are not of the same problem, and say what differs."""
    if ours.result.laws is not None and "mjmcmc" in (ours.result.algorithm, theirs.result.algorithm):
        raise InputError(
            "laws of rows that are read in chunks are models of a library that each run finds for itself, so such runs "
            "cannot be merged; run one with more chains."
        )
    if ours.problem.family.custom or theirs.problem.family.custom:
        raise InputError("runs with a likelihood of your own cannot be merged, because it may not be the same in all.")
    if ours.fingerprints is None or theirs.fingerprints is None:
        raise InputError("a run has no fingerprint of its problem, so it cannot be merged; fit it again.")
    part = differing(ours.fingerprints, theirs.fingerprints)
    if part:
        raise InputError(f"the runs are not of the same problem: {part} differ; merge runs that share them.")


def _refuse_twice(results: Sequence[Result]) -> None:
    """The same chains twice would be taken for independent ones."""
    for i, a in enumerate(results):
        for b in results[:i]:
            if a is b or _same_chains(a, b):
                raise InputError(
                    "two of the runs hold the same chains, which would count twice; merge runs with different seeds."
                )


def _same_chains(a: Result, b: Result) -> bool:
    """Whether some chain of one run begins as a chain of the other does."""
    if a.batch_means is None or b.batch_means is None:
        if a.chain_best is None or b.chain_best is None or a.populations != b.populations:
            return False
        return np.array_equal(a.models.words, b.models.words) and np.array_equal(a.chain_best, b.chain_best)
    length = math.lcm(a.batch_length, b.batch_length)
    one, two = _longer_batches(a, length), _longer_batches(b, length)
    count = min(one.shape[1], two.shape[1])
    if not count:
        return False
    # A chain that never moves between two values says nothing about where it comes from.
    moved = [(m[:, :count] != np.rint(m[:, :count])).any(axis=(1, 2)) for m in (one, two)]
    pairs = (np.allclose(x, y, rtol=0.0, atol=1e-12) for x in one[moved[0], :count] for y in two[moved[1], :count])
    return any(pairs)


def _longer_batches(result: Result, length: int) -> np.ndarray:
    """Batch means of chains in batches of this length; what is left over at the end is left out."""
    assert result.batch_means is not None
    times = length // result.batch_length
    chains, batches, terms = result.batch_means.shape
    whole = batches // times
    return result.batch_means[:, : whole * times].reshape(chains, whole, times, terms).mean(axis=2)


def _merged_batches(results: Sequence[Result]) -> tuple[np.ndarray | None, int, list[str]]:
    """Batch means of all chains side by side, in batches of one length and one number, and what was lost by that."""
    if any(r.batch_means is None or not r.batch_means.shape[1] for r in results):
        return None, 0, []
    lengths = _alike([r.batch_length for r in results])
    parts = [_longer_batches(r, length) for r, length in zip(results, lengths, strict=True)]
    count = min(part.shape[1] for part in parts)
    if not count:
        raise InputError(
            "the runs are too different in length for their chains to stand side by side; run the short one longer."
        )
    means = np.concatenate([part[:, :count] for part in parts])
    have = sum(r.batch_means.shape[0] * r.batch_means.shape[1] * r.batch_length for r in results)  # type: ignore[union-attr]
    used = sum(len(part) * count * length for part, length in zip(parts, lengths, strict=True))
    lost = 1.0 - used / have
    note = (
        f"the merged runs differ in length, so the last {lost:.0%} of their steps are left out of the frequencies; "
        "runs of one length use all."
    )
    return means, min(lengths), [note] if lost > LOST else []


def _alike(lengths: Sequence[int]) -> list[int]:
    """The shortest multiples of some lengths that are nearly the same.

    Their least common multiple is longer than whole runs where budgets were chosen without thought of each other.
    """
    for many in itertools.count(1):
        target = many * max(lengths)
        made = [length * round(target / length) for length in lengths]
        if max(made) <= (1.0 + ALIKE) * min(made):
            break
    return made


def united_models(tables: Sequence[ModelTable]) -> ModelTable:
    """The distinct models of several tables, best first, with visits and chains added."""
    words = np.concatenate([table.words for table in tables])
    values = np.concatenate([table.log_posterior for table in tables])
    distinct, where = np.unique(words, axis=0, return_inverse=True)
    where = where.reshape(-1)
    count = len(distinct)
    high, low = np.full(count, -np.inf), np.full(count, np.inf)
    np.maximum.at(high, where, values)
    np.minimum.at(low, where, values)
    apart = high - low
    if (apart > AGREEMENT).any():
        raise InputError(
            f"the runs give a model log posteriors that differ by {apart.max():.2g}, so they are not of the same "
            "problem; fit them again with one version."
        )
    starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
    seen = np.concatenate([table.first_seen + start for table, start in zip(tables, starts, strict=True)])
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, where, seen)
    visits, chains = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(visits, where, np.concatenate([table.visits for table in tables]))
    np.add.at(chains, where, np.concatenate([table.chains for table in tables]))
    draws = np.zeros(count, np.int64)
    # Draws of one run alone would not stand for the others.
    if all(table.draws.any() for table in tables):
        np.add.at(draws, where, np.concatenate([table.draws for table in tables]))
    # Ties by their bits, so that the order of the runs does not matter.
    order = np.lexsort((*distinct.T, -high))
    return ModelTable(
        np.ascontiguousarray(distinct[order]), high[order], visits[order], np.argsort(np.argsort(first[order])),
        chains[order], draws[order],
    )  # fmt: skip


def _merged_result(results: Sequence[Result], terms: int) -> Result:
    """Sums, unions and shares of several results."""
    models = united_models([r.models for r in results])
    top = models.log_posterior[0]
    weight = np.exp(models.log_posterior - top)
    total = float(weight.sum())
    inclusion = weighted_inclusion(models.words, weight / total, terms)
    means, length, notes = _merged_batches(results)
    steps = sum(r.steps for r in results)
    counted = all(r.counted for r in results)
    if counted:
        sizes = np.sum([r.size_distribution * (r.steps / steps) for r in results], axis=0)
    else:
        members = models.membership(terms).sum(axis=1)
        sizes = np.bincount(members, weights=weight / total, minlength=terms + 1)
    best = [r.chain_best for r in results if r.chain_best is not None]
    searched = [r.search_best for r in results if r.search_best is not None]
    return Result(
        algorithm=results[0].algorithm,
        exact=False,
        models=models,
        n_models=len(models),
        log_evidence=float(top + np.log(total)),
        renormalised=np.minimum(inclusion, 1.0),
        size_distribution=sizes,
        batch_means=means,
        batch_length=length,
        steps=steps,
        warmup_steps=sum(r.warmup_steps for r in results),
        acceptance=_added([r.acceptance for r in results]),
        seconds=sum(r.seconds for r in results),
        warmup_seconds=sum(r.warmup_seconds for r in results),
        finished=all(r.finished for r in results),
        forgotten_visits=sum(r.forgotten_visits for r in results),
        notes=tuple(dict.fromkeys([*(note for r in results for note in r.notes), *notes, *_cut(results)])),
        chain_best=np.concatenate(best) if best else None,
        populations=sum(r.populations for r in results),
        restarts=sum(r.restarts for r in results),
        forgotten_shared=sum(r.forgotten_shared for r in results),
        library=max(r.library for r in results),
        population_moves=_added([r.population_moves for r in results]),
        library_share=sum(r.library_share * r.steps for r in results) / steps if steps else float("nan"),
        laws=results[0].laws,
        rao_blackwell=_averaged(results),
        search_best=np.concatenate(searched) if searched else None,
        noise_weight=results[0].noise_weight,
    )


def _averaged(results: Sequence[Result]) -> np.ndarray | None:
    """Conditional inclusion probabilities of all columns, by the steps of the runs; None where a run has none."""
    found = [r.rao_blackwell for r in results]
    if any(part is None for part in found):
        return None
    return np.average(np.array(found), axis=0, weights=[r.steps for r in results])


def _cut(results: Sequence[Result]) -> list[str]:
    """What to say where runs evaluated models that they did not keep."""
    lost = 0.0
    for r in results:
        held = float(np.exp(r.models.log_posterior - r.log_evidence).sum())
        lost = max(lost, 1.0 - held) if r.n_models > len(r.models) else lost
    if lost < NEGLIGIBLE:
        return []
    return [
        f"a merged run evaluated more models than it kept; those it dropped held {lost:.2g} of its renormalised "
        "posterior and are left out."
    ]


def _added(records: Sequence[Mapping[str, tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    """Counts added by name."""
    names = dict.fromkeys(name for record in records for name in record)
    return {
        name: tuple(int(v) for v in np.sum([record[name] for record in records if name in record], axis=0))
        for name in names
    }


def _merged_kept(united: Posterior, posteriors: Sequence[Posterior]) -> dict[str, KeptModels]:
    """The models behind predictions: those of all runs, by their probability now; fits come from the runs."""
    pools = [posterior.kept_models(kind) for posterior in posteriors for kind in ("bma", "best")]
    pool = _joined(pools)
    probability = dict(zip(map(bytes, united.result.models.words), model_probabilities(united.result), strict=True))
    weight = np.array([probability.get(bytes(words), 0.0) for words in pool.words])
    if not weight.sum() > 0.0:
        value = dict(zip(map(bytes, united.result.models.words), united.result.models.log_posterior, strict=True))
        weight = np.exp(np.array([value.get(bytes(w), -np.inf) for w in pool.words]) - united.log_evidence)
    order = np.lexsort((*pool.words.T, -weight))
    order = order[weight[order] > 0.0]
    kept = {"bma": chosen_models(pool, order, weight[order] / weight[order].sum(), float(min(weight.sum(), 1.0)))}
    for kind in KINDS[1:]:
        members = united._members(kind)
        row = next((i for i, words in enumerate(pool.words) if members_of(words) == members), None)
        if row is not None:
            kept[kind] = chosen_models(pool, np.array([row]), np.ones(1), float("nan"))
        else:
            found = _evaluated(united.problem, members)
            if found is not None:
                kept[kind] = found
    return kept


def _evaluated(problem: Problem, members: Sequence[int]) -> KeptModels | None:
    """A model that no run kept; None where the problem does not hold what it needs."""
    try:
        return single_model(problem, members)
    except InputError:
        return None


def _joined(pools: Sequence[KeptModels]) -> KeptModels:
    """All distinct models of several lists; weights are the caller's."""
    words = np.concatenate([pool.words for pool in pools])
    _, first = np.unique(words, axis=0, return_index=True)
    first = np.sort(first)
    fits: list[LaplaceFits] = [pool.fits for pool in pools if pool.fits is not None]
    resid = np.concatenate([pool.resid for pool in pools])
    return KeptModels(
        np.ascontiguousarray(words[first]),
        np.zeros(len(first)),
        resid if fits else resid[first],
        float("nan"),
        picked_fits(fits, first) if fits else None,
    )
