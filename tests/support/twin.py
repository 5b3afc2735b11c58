"""Plain twins of the compiled samplers, for clarity and not for speed.

Models are Python integers used as bit sets, values come from least squares on the rows, the cache is a dictionary.
The twins draw their random numbers in the same order as the compiled kernels, so that with one stream both must
follow the same path. Two conventions belong to that order and not to the mathematics: the list of terms from which
members are drawn (:class:`Model`), and that terms that leave are toggled before terms that enter.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import plain
from brute import rank_deficient

from modejump.kernels.evaluate import RESID_FLOOR
from modejump.kernels.jump import COLD
from modejump.kernels.moves import JUMP_ANNEAL, JUMP_GREEDY, KERNELS, MAX_FLIPS, Moves
from modejump.kernels.store import ModelStore
from modejump.problem.problem import Problem, standardised_block

FLIP, MULTI, SWAP, PARTNER, BIRTH_DEATH = map(KERNELS.index, ("flip", "multi", "swap", "partner", "birth-death"))
WORD = (1 << 64) - 1
# Two ways to one log posterior agree to this, or to the rounding of a large value.
ACCURACY = 1e-9
NEG_INF = -math.inf


def close(a: np.ndarray | float, b: np.ndarray | float, accuracy: float = ACCURACY) -> np.ndarray:
    """Equal infinities, or values within the accuracy."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= accuracy * np.maximum(1.0, np.abs(b) * 1e-3)
    return np.asarray((a == b) | near)


# --- random numbers -------------------------------------------------------------------------------------------


def _rotate_left(x: int, k: int) -> int:
    return ((x << k) | (x >> (64 - k))) & WORD


class Stream:
    """xoshiro256++ of Blackman and Vigna, on Python integers."""

    def __init__(self, state: Sequence[int]) -> None:
        self.state = [int(word) for word in state]

    def word(self) -> int:
        s0, s1, s2, s3 = self.state
        result = (_rotate_left((s0 + s3) & WORD, 23) + s0) & WORD
        shifted = (s1 << 17) & WORD
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= shifted
        self.state = [s0, s1, s2, _rotate_left(s3, 45)]
        return result

    def uniform(self) -> float:
        """The upper 53 bits as a fraction."""
        return (self.word() >> 11) / 2**53

    def below(self, m: int) -> int:
        return int(self.uniform() * m)

    def alias(self, threshold: np.ndarray, alias: np.ndarray) -> int:
        """Walker: a column of the table uniformly, then the column's own index or its alias."""
        column, rest = divmod(self.uniform() * len(threshold), 1.0)
        j = int(column)
        return j if rest < threshold[j] else int(alias[j])

    def accept(self, log_ratio: float) -> bool:
        """Metropolis: a number is drawn only where the answer is open; a ratio that is no number says no."""
        if log_ratio >= 0.0:
            return True
        u = self.uniform()
        return bool(u < math.exp(log_ratio)) if log_ratio < 0.0 else False


# --- the target -----------------------------------------------------------------------------------------------


def members_of(mask: int) -> tuple[int, ...]:
    return tuple(t for t in range(mask.bit_length()) if mask >> t & 1)


def mask_of(words: np.ndarray) -> int:
    """A stored bit set as one integer."""
    return sum(int(word) << (64 * w) for w, word in enumerate(words))


def member_vector(mask: int, n_terms: int) -> np.ndarray:
    return np.array([mask >> t & 1 for t in range(n_terms)], np.uint8)


class Target:
    """Log posterior of a model: prior, and p(y|M) by QR of the standardised columns.

    ``known`` is the cache: the models evaluated, in that order. Models that the prior excludes are never evaluated.
    """

    def __init__(self, problem: Problem, marginal: Callable[..., float] | None = None) -> None:
        self.n_terms = problem.n_terms
        self.data = problem.data
        self.z = standardised_block(problem.data.columns, slice(None))
        self.marginal = marginal or (
            lambda prior, *args: plain.log_marginal_plain(problem.coef_prior, prior.par, *args)
        )
        self.known: dict[int, float] = {}

    def columns_of(self, mask: int) -> list[int]:
        first = self.data.first
        return [c for t in members_of(mask) for c in range(first[t], first[t + 1])]

    def resid(self, mask: int) -> float:
        """RSS(M) / RSS(base), floored; -1.0 where the design is rank deficient or too large."""
        cols = self.columns_of(mask)
        if len(cols) > self.data.max_cols:
            return -1.0
        q, r = np.linalg.qr(self.z[:, cols])
        if q.shape[1] < len(cols) or rank_deficient(r):
            return -1.0
        response = self.data.columns.response
        left = response - q @ (q.T @ response)
        return max(float(left @ left), RESID_FLOOR)

    def log_prior(self, mask: int) -> float:
        return plain.log_model_prior(members_of(mask), self.data.prior)

    def log_likelihood(self, mask: int) -> float:
        resid = self.resid(mask)
        if resid < 0.0:
            return NEG_INF
        d = self.data
        return self.marginal(d.coef_prior, d.n, d.base, len(self.columns_of(mask)), resid)

    def value(self, mask: int) -> float:
        if mask in self.known:
            return self.known[mask]
        prior = self.log_prior(mask)
        if prior == NEG_INF:
            return NEG_INF
        self.known[mask] = prior + self.log_likelihood(mask)
        return self.known[mask]


# --- a model and its proposals --------------------------------------------------------------------------------


class Model:
    """A set of terms, and the list from which members (its head) and the others (its tail) are drawn.

    A term that flips is exchanged with the one at the border of head and tail, then the border moves over it.
    """

    def __init__(self, n_terms: int) -> None:
        self.mask = 0
        self.size = 0
        self.order = list(range(n_terms))

    def copy(self) -> Model:
        twin = Model(0)
        twin.mask, twin.size, twin.order = self.mask, self.size, list(self.order)
        return twin

    def has(self, t: int) -> bool:
        return bool(self.mask >> t & 1)

    def toggle(self, t: int) -> None:
        at = self.order.index(t)
        border = self.size - 1 if self.has(t) else self.size
        self.order[at], self.order[border] = self.order[border], t
        self.size += -1 if self.has(t) else 1
        self.mask ^= 1 << t

    def leaving_first(self, flips: Sequence[int]) -> list[int]:
        """Each term that leaves changes places with the first one that does not."""
        flips = list(flips)
        head = 0
        for i, t in enumerate(flips):
            if self.has(t):
                flips[i], flips[head] = flips[head], t
                head += 1
        return flips

    def flip(self, flips: Sequence[int]) -> None:
        for t in self.leaving_first(flips):
            self.toggle(t)

    def neighbour(self, flips: Sequence[int], target: Target) -> float:
        """Value of the model that differs in these terms: there and back."""
        flips = self.leaving_first(flips)
        for t in flips:
            self.toggle(t)
        value = target.value(self.mask)
        for t in reversed(flips):
            self.toggle(t)
        return value


def propose(which: int, model: Model, moves: Moves, rng: Stream) -> tuple[list[int], float]:
    """Terms to flip and log q(M|M') - log q(M'|M); no terms where the kernel has no move from here."""
    k, size = len(model.order), model.size
    if which == FLIP:
        return [rng.alias(moves.threshold, moves.alias)], 0.0
    if which == MULTI:
        return _propose_multi(k, moves, rng), 0.0
    if which == SWAP:
        if size in (0, k):
            return [], 0.0
        return [model.order[rng.below(size)], model.order[size + rng.below(k - size)]], 0.0
    if which == PARTNER:
        return _propose_partner(model, moves, rng)
    assert which == BIRTH_DEATH
    if rng.uniform() < 0.5:
        if size == k:
            return [], 0.0
        # q(M'|M) = 1/2 1/(K - s), and the way back is a death among s + 1.
        return [model.order[size + rng.below(k - size)]], math.log(k - size) - math.log(size + 1)
    if size == 0:
        return [], 0.0
    return [model.order[rng.below(size)]], math.log(size) - math.log(k - size + 1)


def _propose_multi(k: int, moves: Moves, rng: Stream) -> list[int]:
    """Two to four distinct terms, or as many as there are, by the weights of the terms."""
    if k < 2:
        return []
    count = 2 + rng.below(min(MAX_FLIPS, k) - 1)
    flips: list[int] = []
    while len(flips) < count:
        t = rng.alias(moves.threshold, moves.alias)
        if t not in flips:
            flips.append(t)
    return flips


def transition_matrix(moves: Moves) -> np.ndarray:
    """T(i, j) of the partner kernel as a matrix."""
    k, count = moves.partner.shape
    matrix = np.zeros((k, k))
    for i in range(k):
        for at in range(count):
            matrix[i, moves.partner[i, at]] += moves.partner_cdf[i, at] - (moves.partner_cdf[i, at - 1] if at else 0.0)
    return matrix


def _propose_partner(model: Model, moves: Moves, rng: Stream) -> tuple[list[int], float]:
    """Exchange a member i for j with probability T(i, j), the way back having T(j, i)."""
    count = moves.partner.shape[1]
    if model.size == 0 or count == 0:
        return [], 0.0
    i = model.order[rng.below(model.size)]
    u = rng.uniform()
    at = min(int(np.searchsorted(moves.partner_cdf[i], u, side="right")), count - 1)
    j = int(moves.partner[i, at])
    if model.has(j):
        return [], 0.0
    matrix = transition_matrix(moves)
    back = math.log(matrix[j, i]) if matrix[j, i] > 0.0 else NEG_INF
    return [i, j], back - math.log(matrix[i, j])


# --- the mode jump --------------------------------------------------------------------------------------------


def draw_index_set(k: int, moves: Moves, rng: Stream) -> list[int]:
    """Distinct terms by the frozen weights, whatever the model."""
    size = 1 + rng.below(min(moves.jump_max, k))
    chosen: list[int] = []
    while len(chosen) < size:
        t = rng.alias(moves.threshold, moves.alias)
        if t not in chosen:
            chosen.append(t)
    return chosen


def search(kind: int, model: Model, fixed: list[int], target: Target, moves: Moves, rng: Stream) -> None:
    """Try single flips outside the index set: uphill only, cooling down, or at one temperature."""
    tries = moves.search
    cooling = (COLD / moves.temperature) ** (1.0 / max(1, tries - 1))
    for i in range(tries):
        if rng.uniform() < 0.5 or model.size == 0:
            t = rng.alias(moves.threshold, moves.alias)
        else:
            t = model.order[rng.below(model.size)]
        if t in fixed:
            continue
        value, now = model.neighbour([t], target), target.value(model.mask)
        if kind == JUMP_GREEDY:
            take = value > now
        else:
            temperature = moves.temperature * (cooling**i if kind == JUMP_ANNEAL else 1.0)
            take = value > NEG_INF and rng.accept((value - now) / temperature)
        if take:
            model.flip([t])


def jump_and_search(kind: int, start: Model, fixed: list[int], target: Target, moves: Moves, rng: Stream) -> Model:
    """chi_k: the index set flips, then the search holds it fixed."""
    chi = start.copy()
    for t in fixed:
        chi.flip([t])
    target.value(chi.mask)
    search(kind, chi, fixed, target, moves, rng)
    return chi


def randomise(chi: Model, target: Target, moves: Moves, rng: Stream) -> Model:
    """Each term flips with probability rho; the gaps between flips are geometric."""

    def gap() -> int:
        return int(math.log(1.0 - rng.uniform()) / math.log1p(-moves.rho))

    proposal = chi.copy()
    t = gap()
    while t < len(chi.order):
        proposal.flip([t])
        t += 1 + gap()
    target.value(proposal.mask)
    return proposal


def log_randomisation(a: Model, b: Model, rho: float) -> float:
    """log q_r(a|b) = d log rho + (K - d) log(1 - rho)."""
    d = (a.mask ^ b.mask).bit_count()
    return d * math.log(rho) + (len(a.order) - d) * math.log1p(-rho)


def mode_jump(kind: int, model: Model, target: Target, moves: Moves, rng: Stream) -> Model | None:
    """The accepted model, or None."""
    fixed = draw_index_set(len(model.order), moves, rng)
    chi_forward = jump_and_search(kind, model, fixed, target, moves, rng)
    proposal = randomise(chi_forward, target, moves, rng)
    value = target.value(proposal.mask)
    if value == NEG_INF:
        return None
    log_target = value - target.value(model.mask)
    if moves.delayed and not rng.accept(log_target):
        return None
    chi_backward = jump_and_search(kind, proposal, fixed, target, moves, rng)
    back = log_randomisation(model, chi_backward, moves.rho)
    there = log_randomisation(proposal, chi_forward, moves.rho)
    # Equal distances give exactly nothing, as they do in the compiled kernel, where only their difference enters.
    log_ratio = back - there if back != there else 0.0
    return proposal if rng.accept(log_ratio if moves.delayed else log_target + log_ratio) else None


# --- the chain ------------------------------------------------------------------------------------------------


@dataclass
class Path:
    """What a chain did: the model after each step, the kernel of each step, whether it moved."""

    models: list[int] = field(default_factory=list)
    kernels: list[int] = field(default_factory=list)
    moved: list[bool] = field(default_factory=list)

    def visits(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for mask in self.models:
            counts[mask] = counts.get(mask, 0) + 1
        return counts

    def inside(self, n_terms: int) -> np.ndarray:
        return np.array([sum(mask >> t & 1 for mask in self.models) for t in range(n_terms)], float)

    def sizes(self, n_terms: int) -> np.ndarray:
        return np.bincount([mask.bit_count() for mask in self.models], minlength=n_terms + 1).astype(float)

    def tried(self) -> np.ndarray:
        table = np.zeros((8, 2), np.int64)
        for which, moved in zip(self.kernels, self.moved, strict=True):
            table[which] += (1, moved)
        return table


def local_step(which: int, model: Model, target: Target, moves: Moves, rng: Stream) -> Model | None:
    """Metropolis-Hastings with one of the local proposals; the new model, or None."""
    flips, log_ratio = propose(which, model, moves, rng)
    if not flips:
        return None
    value = model.neighbour(flips, target)
    if not rng.accept(value - target.value(model.mask) + log_ratio):
        return None
    model.flip(flips)
    return model


def run(target: Target, moves: Moves, state: Sequence[int], steps: int, start: np.ndarray) -> Path:
    """A chain from ``start``, or from the empty model where that one has probability zero."""
    rng = Stream(state)
    model = Model(target.n_terms)
    for t in np.flatnonzero(start):
        model.toggle(int(t))
    if target.value(model.mask) == NEG_INF:
        for t in members_of(model.mask):
            model.toggle(t)
        target.value(model.mask)
    path = Path()
    for _ in range(steps):
        u = rng.uniform()
        which = min(int(np.searchsorted(moves.cumulative, u, side="right")), len(moves.cumulative) - 1)
        step = mode_jump if which >= JUMP_GREEDY else local_step
        new = step(which, model, target, moves, rng)
        model = model if new is None else new
        path.models.append(model.mask)
        path.kernels.append(which)
        path.moved.append(new is not None)
    return path


# --- best-first search and traversal -----------------------------------------------------------------------------


def best_first(target: Target, wanted: int) -> list[int]:
    """Models in the order in which best-first expansion meets them."""
    target.value(0)
    frontier = [(-target.known[0], 0)]
    while frontier and len(target.known) < wanted:
        _, mask = heapq.heappop(frontier)
        for t in range(target.n_terms):
            if len(target.known) >= wanted:
                break
            other = mask ^ 1 << t
            new = other not in target.known
            if target.value(other) > NEG_INF and new:
                heapq.heappush(frontier, (-target.known[other], other))
    return list(target.known)


def as_dict(store: ModelStore) -> dict[int, tuple[float, int]]:
    """The models of a store, each with its log posterior and its visits."""
    return {
        mask_of(store.words[e]): (float(store.log_posterior[e]), int(store.visits[e]))
        for e in range(int(store.scalars["count"]))
    }


def merge(parts: Sequence[Mapping[int, tuple[float, int]]]) -> list[tuple[int, float, int, int, int]]:
    """Models of some caches, best first: mask, log posterior, visits, rank of evaluation, caches with visits."""
    found: dict[int, list[Any]] = {}
    for part in parts:
        for mask, (value, visits) in part.items():
            seen = found.setdefault(mask, [value, 0, len(found), 0])
            seen[1] += visits
            seen[3] += visits > 0
    alive = [(mask, *seen) for mask, seen in found.items() if seen[0] > NEG_INF]
    return sorted(alive, key=lambda row: (-row[1], row[3]))


@dataclass
class Exact:
    """The whole posterior of a small problem: all models of positive probability."""

    n_terms: int
    masks: np.ndarray
    log_posterior: np.ndarray

    @property
    def log_evidence(self) -> float:
        top = self.log_posterior.max()
        return float(top + np.log(np.exp(self.log_posterior - top).sum()))

    @property
    def probability(self) -> np.ndarray:
        return np.exp(self.log_posterior - self.log_evidence)

    @property
    def members(self) -> np.ndarray:
        return ((self.masks[:, None] >> np.arange(self.n_terms)) & 1).astype(np.uint8)

    @property
    def inclusion(self) -> np.ndarray:
        return self.probability @ self.members

    @property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.members.sum(axis=1), weights=self.probability, minlength=self.n_terms + 1)


def traverse(target: Target) -> Exact:
    """Every model, one by one."""
    values = np.array([target.value(mask) for mask in range(1 << target.n_terms)])
    alive = np.flatnonzero(values > NEG_INF)
    return Exact(target.n_terms, alive, values[alive])


# --- problems -------------------------------------------------------------------------------------------------


def table(rng: np.random.Generator, rows: int, columns: int, signal: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    """Correlated columns with uneven effects, so that the posterior is uneven and has several modes."""
    x = rng.normal(size=(rows, columns)) + 1.2 * rng.normal(size=(rows, 1))
    effect = signal * (np.arange(columns) % 3 == 0) * (1.0 - 0.5 * np.arange(columns) / columns)
    return x, 1.0 + x @ effect + rng.normal(size=rows)


def one_column_each(seed: int, terms: int, rows: int = 40, signal: float = 0.6, **options: object) -> Problem:
    x, y = table(np.random.default_rng(seed), rows, terms, signal)
    return Problem.build(x, y, **options)  # type: ignore[arg-type]


def with_factors(seed: int, rows: int = 40, **options: object) -> Problem:
    """Five terms: two factors of three and two columns, three single columns."""
    x, y = table(np.random.default_rng(seed), rows, 8)
    terms = {"a": [0], "f": [1, 2, 3], "b": [4], "g": [5, 6], "c": [7]}
    return Problem.build(x, y, terms=terms, **options)  # type: ignore[arg-type]


def with_interactions(seed: int, rows: int = 40, **options: object) -> Problem:
    """Six terms with the children listed before their parents."""
    x, y = table(np.random.default_rng(seed), rows, 3)
    a, b, c = x.T
    x = np.column_stack([a * b, a * b * c, a, b**2, b, c])
    terms = {name: [j] for j, name in enumerate(["a:b", "a:b:c", "a", "b^2", "b", "c"])}
    return Problem.build(x, y + 0.4 * a * b, terms=terms, **options)  # type: ignore[arg-type]


def with_duplicate(seed: int, rows: int = 40, **options: object) -> Problem:
    """Five columns, of which the last is a copy of the first and the fourth a sum of two others."""
    x, y = table(np.random.default_rng(seed), rows, 5)
    x[:, 3] = x[:, 1] - 2.0 * x[:, 2]
    x[:, 4] = x[:, 0]
    return Problem.build(x, y, **options)  # type: ignore[arg-type]


def large_models(seed: int, rows: int = 160) -> Problem:
    """Seventy terms, of which forty-five matter: models outgrow the first workspace."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 70))
    return Problem.build(x, x[:, :45].sum(axis=1) + rng.normal(size=rows), model_prior="uniform")
