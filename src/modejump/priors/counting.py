"""The total weight of the admissible models: what normalises a truncated or restricted model prior.

Without heredity the weights of the models of each size are elementary symmetric polynomials. With heredity
the terms fall into three kinds: *gates* (terms that are somebody's parent, possibly children themselves),
*guarded* terms (children only) and *free* terms. Given which gates are in, every guarded term is either
allowed or not, and allowed terms are as good as free ones. So it is enough to go through the admissible sets
of gates.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, logsumexp

from modejump.core.compilation import entry, kernel
from modejump.priors.heredity import STRONG, children_of, topological_order

Array = NDArray[np.float64]

# Going through all sets of gates doubles its time with every gate.
MAX_GATES = 20
# Weights of sets are products of probabilities in floating point: a smaller total is not trusted.
LEAST_TOTAL = 1e-250


def log_binomial(n: int, size: NDArray[np.int64]) -> Array:
    """Log binomial coefficients, -inf outside 0..n."""
    inside = (size >= 0) & (size <= n)
    s = np.where(inside, size, 0)
    return np.where(inside, gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1), -np.inf)


def log_symmetric(log_weight: Array, max_size: int) -> Array:
    """Log elementary symmetric polynomials of the weights, for sizes 0 to max_size."""
    total = np.full(max_size + 1, -np.inf)
    total[0] = 0.0
    for weight in log_weight:
        total[1:] = np.logaddexp(total[1:], total[:-1] + weight)
    return total


class Gates(NamedTuple):
    """Terms by kind, with their parents as bits over the gates; guarded terms by their last gate."""

    gate: list[int]
    guarded: list[int]
    free: list[int]
    gate_mask: NDArray[np.int64]
    guarded_mask: NDArray[np.int64]
    guarded_start: NDArray[np.int64]


def sort_terms(parents: Sequence[Sequence[int]]) -> Gates:
    """Sort the terms into gates (parents first), guarded and free terms."""
    children = children_of(parents)
    gate = [j for j in topological_order(parents) if children[j]]
    position = {j: i for i, j in enumerate(gate)}
    last = {j: max(position[i] for i in mine) for j, mine in enumerate(parents) if mine and not children[j]}
    guarded = sorted(last, key=lambda j: last[j])
    free = [j for j, mine in enumerate(parents) if not mine and not children[j]]
    start = np.searchsorted([last[j] for j in guarded], np.arange(len(gate) + 1)).astype(np.int64)

    def masks(terms: list[int]) -> NDArray[np.int64]:
        return np.array([sum(1 << position[i] for i in parents[j]) for j in terms], dtype=np.int64)

    return Gates(gate, guarded, free, masks(gate), masks(guarded), start)


@kernel
def mask_satisfied(mask, gates, strong):
    """Whether the gates that are in allow a term with these parents (bit masks over the gates)."""
    if strong:
        return mask & gates == mask
    return mask & gates != 0 or mask == 0


@entry
def count_gate_sets(gate_mask, guarded_mask, guarded_count, strong, counts):
    """Add to counts[i, j] the number of admissible sets of i gates that allow j guarded terms."""
    n_gates = gate_mask.size
    for gates in range(1 << n_gates):
        size = 0
        admissible = True
        for i in range(n_gates):
            if gates >> i & 1:
                size += 1
                if not mask_satisfied(gate_mask[i], gates, strong):
                    admissible = False
                    break
        if admissible:
            allowed = 0
            for i in range(guarded_mask.size):
                if mask_satisfied(guarded_mask[i], gates, strong):
                    allowed += guarded_count[i]
            counts[size, allowed] += 1.0


@kernel
def multiply_in_place(poly, inside, outside, lump):
    """Multiply a truncated polynomial by (outside + inside z); with lump, z = 1 and only poly[0] is used."""
    if lump:
        poly[0] *= inside + outside
        return
    for s in range(poly.size - 1, 0, -1):
        poly[s] = poly[s] * outside + poly[s - 1] * inside
    poly[0] *= outside


@entry
def weigh_gate_sets(gate_mask, gate_prob, guarded_mask, guarded_prob, guarded_start, strong, lump, total):
    """Add to total[s] the probability of an admissible set of s gates and guarded terms.

    Terms are in independently with their probabilities. A depth-first search over the gates, parents first;
    the guarded terms whose last parent is gate i are ``guarded_start[i]:guarded_start[i + 1]`` and are
    settled together with it. With lump, sets of all sizes add to total[0].
    """
    n_gates = gate_mask.size
    poly = np.zeros((n_gates + 1, total.size))
    poly[0, 0] = 1.0
    tried = np.zeros(n_gates + 1, dtype=np.int64)
    gates = 0
    depth = 0
    while depth >= 0:
        if depth == n_gates:
            total += poly[depth]
            depth -= 1
            continue
        choice = tried[depth]
        tried[depth] += 1
        bit = 1 << depth
        if choice == 2:
            tried[depth] = 0
            gates &= ~bit
            depth -= 1
            continue
        if choice == 1:
            if not mask_satisfied(gate_mask[depth], gates, strong):
                continue
            gates |= bit
        below = poly[depth + 1]
        below[:] = poly[depth]
        if choice == 1:
            multiply_in_place(below, gate_prob[depth], 0.0, lump)
        else:
            below *= 1.0 - gate_prob[depth]
        for i in range(guarded_start[depth], guarded_start[depth + 1]):
            if mask_satisfied(guarded_mask[i], gates, strong):
                multiply_in_place(below, guarded_prob[i], 1.0 - guarded_prob[i], lump)
            else:
                below *= 1.0 - guarded_prob[i]
        depth += 1


def log_equal_weights(terms: Gates, strong: bool, max_size: int) -> Array:
    """Log number of admissible models of each size up to max_size."""
    masks, repeats = np.unique(terms.guarded_mask, return_counts=True)
    counts = np.zeros((len(terms.gate) + 1, len(terms.guarded) + 1))
    count_gate_sets(terms.gate_mask, masks, repeats.astype(np.int64), strong, counts)
    sizes = np.arange(max_size + 1)
    result = np.full(max_size + 1, -np.inf)
    for i, j in np.argwhere(counts):
        result = np.logaddexp(result, np.log(counts[i, j]) + log_binomial(int(j) + len(terms.free), sizes - i))
    return result


def log_unequal_weights(log_weight: Array, terms: Gates, strong: bool, max_size: int, lump: bool) -> Array | None:
    """Log total weight of the admissible models of each size up to max_size; with lump, of all sizes."""
    total = np.zeros(1 if lump else max_size + 1)
    gate_prob, guarded_prob = expit(log_weight[terms.gate]), expit(log_weight[terms.guarded])
    weigh_gate_sets(
        terms.gate_mask, gate_prob, terms.guarded_mask, guarded_prob, terms.guarded_start, strong, lump, total
    )
    if not total.sum() > LEAST_TOTAL:
        return None
    bound = terms.gate + terms.guarded
    with np.errstate(divide="ignore"):
        log_bound = np.log(total) + np.logaddexp(0.0, log_weight[bound]).sum()
    if lump:
        return np.asarray(log_bound + np.logaddexp(0.0, log_weight[terms.free]).sum())
    log_free = log_symmetric(log_weight[terms.free], max_size)
    product = np.full(max_size + 1, -np.inf)
    for size, value in enumerate(log_bound):
        product[size:] = np.logaddexp(product[size:], value + log_free[: max_size + 1 - size])
    return product


def log_normaliser(log_size: Array, log_weight: Array, parents: Sequence[Sequence[int]], heredity: int) -> float | None:
    """Log of the sum over the admissible models of exp(log_size[size] + the sum of the terms' log_weight).

    Sizes that are cut off have -inf; either all weights are zero, or ``log_size`` is constant where it is finite. None
    where there are too many gates, or too extreme weights, to go through all sets of gates.
    """
    n_terms = log_weight.size
    max_size = int(np.flatnonzero(log_size > -np.inf)[-1])
    terms = sort_terms(parents)
    if len(terms.gate) > MAX_GATES:
        return None
    strong = heredity == STRONG
    by_size: Array | None
    if not log_weight.any():
        by_size = log_equal_weights(terms, strong, max_size)
    else:
        by_size = log_unequal_weights(log_weight, terms, strong, max_size, lump=max_size == n_terms)
    return None if by_size is None else float(logsumexp(log_size[: by_size.size] + by_size))
