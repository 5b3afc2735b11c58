"""Boolean functions of a few variables as truth tables: which there are, how many leaves each needs, how it is spelled.

Bit ``r`` of a truth table is the value of the function where variable ``i`` is bit ``i`` of ``r``. A function and its
complement span the same model, so one of the two stands for both: the one that is false where all variables are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

# A truth table of more variables would not fit into the code of a feature.
MOST_LEAVES = 5
# Of spellings with equally many leaves the one that reads best: few negations, then rather an "or" of "and"s.
_NEGATION, _OR_INSIDE_AND = 8, 1
AND, OR, LEAF, NEGATED = "&", "|", "leaf", "!"


@dataclass(frozen=True)
class Spelling:
    """A tree of and, or, not; negations stand at the leaves alone."""

    kind: str  # AND or OR with parts, or LEAF or NEGATED with a variable
    parts: tuple[Spelling, ...] = ()  # the operands
    variable: int = -1  # number of the variable


@dataclass(frozen=True, eq=False)
class Functions:
    """All functions that some number of leaves can spell, up to complements."""

    # (variables + 2,): functions of exactly k variables are numbered from ``first[k]`` to ``first[k + 1]``, by their
    # truth tables.
    first: np.ndarray
    truth: np.ndarray  # truth tables; every variable matters
    leaves: np.ndarray  # leaves of the shortest spelling
    spelling: tuple[Spelling, ...]  # the shortest spellings
    # extension_first and extension: functions with one more variable, the last, that become function i where that
    # variable is known: ``extension[extension_first[i] : extension_first[i + 1]]``.
    extension_first: np.ndarray
    extension: np.ndarray

    def find(self, variables: int, truth: int) -> int:
        """Number of a function, -1 where it is not among them."""
        low, high = self.first[variables : variables + 2]
        at = int(low + np.searchsorted(self.truth[low:high], truth))
        return at if at < high and self.truth[at] == truth else -1


def full(variables: int) -> int:
    """The truth table of the constant true."""
    return (1 << (1 << variables)) - 1


def cofactor(truth: int, variables: int, i: int, value: int) -> int:
    """The function of the other variables where variable i has this value."""
    made = 0
    for r in range(1 << (variables - 1)):
        low = r & ((1 << i) - 1)
        at = low | (value << i) | ((r >> i) << (i + 1))
        made |= ((truth >> at) & 1) << r
    return made


def canonical(truth: int, variables: int) -> tuple[int, tuple[int, ...]]:
    """The truth table that stands for a function and its complement, and the variables that matter.

    Examples
    --------
    Variable 1 does not matter to ``(a and b) or (a and not b)``, which is ``a``:

    >>> canonical(0b1010, 2)
    (2, (0,))
    """
    if truth & 1:
        truth ^= full(variables)
    kept = list(range(variables))
    for i in reversed(range(variables)):
        known = cofactor(truth, len(kept), i, 0)
        if known == cofactor(truth, len(kept), i, 1):
            truth = known
            kept.pop(i)
    return truth, tuple(kept)


def permuted(truth: int, order: tuple[int, ...]) -> int:
    """The same function with variable ``order[i]`` called i."""
    made = 0
    for r in range(1 << len(order)):
        at = sum(((r >> i) & 1) << old for i, old in enumerate(order))
        made |= ((truth >> at) & 1) << r
    return made


@cache
def functions_of(leaves: int) -> Functions:
    """All functions that up to so many leaves can spell.

    Examples
    --------
    Of two variables there are and, or, and both with one of them negated; their equality needs four leaves:

    >>> np.diff(functions_of(3).first)[1:].tolist()
    [1, 4, 32]
    >>> np.diff(functions_of(4).first)[1:3].tolist()
    [1, 5]
    """
    trees = _shortest(leaves)
    variables = sum(_matters(trees.truth, i).astype(np.int64) for i in range(leaves))
    first, chosen = [0, 0], []
    for k in range(1, leaves + 1):
        # A function of the first k variables repeats its truth table in the higher bits.
        own = np.logical_and.reduce([_matters(trees.truth, i) for i in range(k)]) & (variables == k)
        at = np.flatnonzero(own & (trees.truth & 1 == 0))
        chosen.append(at[np.argsort(trees.truth[at] & full(k))])
        first.append(first[-1] + len(at))
    offsets, numbers = np.array(first, np.int64), np.concatenate(chosen)
    mask = np.repeat([full(k) for k in range(leaves + 1)], np.diff(offsets))
    truth = trees.truth[numbers] & mask
    memo: dict[int, Spelling] = {}
    return Functions(
        offsets,
        truth,
        trees.leaves[numbers],
        tuple(trees.spelling(int(i), memo) for i in numbers),
        *_extensions(truth, offsets, leaves),
    )


def _matters(truth: np.ndarray, i: int) -> np.ndarray:
    """Whether variable i matters to functions of MOST_LEAVES variables."""
    low = sum(1 << r for r in range(1 << MOST_LEAVES) if not (r >> i) & 1)
    return ((truth >> (1 << i)) ^ truth) & low != 0


@dataclass(frozen=True, eq=False)
class _Trees:
    """Functions of MOST_LEAVES variables, complements included, each with the last step of its shortest spelling."""

    truth: np.ndarray
    leaves: np.ndarray
    cost: np.ndarray
    operation: np.ndarray  # 0: and; 1: or; -1: a leaf; -2: a negated leaf
    left: np.ndarray  # number of the first operand, or of the variable
    right: np.ndarray

    def spelling(self, i: int, memo: dict[int, Spelling]) -> Spelling:
        """The shortest spelling of function i; operands of equal operations are put together."""
        if i not in memo:
            operation, left, right = int(self.operation[i]), int(self.left[i]), int(self.right[i])
            if operation < 0:
                memo[i] = Spelling(LEAF if operation == -1 else NEGATED, (), left)
            else:
                kind = (AND, OR)[operation]
                parts: list[Spelling] = []
                for part in (self.spelling(left, memo), self.spelling(right, memo)):
                    parts += part.parts if part.kind == kind else [part]
                memo[i] = Spelling(kind, tuple(sorted(parts, key=_reading_order)))
        return memo[i]


def _reading_order(spelling: Spelling) -> tuple[int, int]:
    """Leaves come before groups, and the first variables first."""
    if not spelling.parts:
        return 1, spelling.variable
    size = sum(_reading_order(part)[0] for part in spelling.parts)
    return size, min(_reading_order(part)[1] for part in spelling.parts)


def _shortest(leaves: int) -> _Trees:
    """The shortest spelling of every function that so many leaves can spell."""
    bits = 1 << MOST_LEAVES
    plain = [sum(1 << r for r in range(bits) if (r >> i) & 1) for i in range(leaves)]
    variable = np.tile(np.arange(leaves), 2)
    trees = _Trees(
        truth=np.array(plain + [full(MOST_LEAVES) ^ t for t in plain], np.int64),
        leaves=np.ones(2 * leaves, np.int64),
        cost=np.repeat([0, _NEGATION], leaves),
        operation=np.repeat([-1, -2], leaves),
        left=variable,
        right=variable,
    )
    for size in range(2, leaves + 1):
        parts: list[tuple[np.ndarray, ...]] = []
        for s in range(1, size // 2 + 1):
            left, right = np.flatnonzero(trees.leaves == s), np.flatnonzero(trees.leaves == size - s)
            a, b = np.repeat(left, len(right)), np.tile(right, len(left))
            for operation in (0, 1):
                t = trees.truth[a] & trees.truth[b] if operation == 0 else trees.truth[a] | trees.truth[b]
                ors = (trees.operation[a] == 1).astype(np.int64) + (trees.operation[b] == 1)
                cost = trees.cost[a] + trees.cost[b] + _OR_INSIDE_AND * ors * (operation == 0)
                parts.append((t, np.full(len(t), size), cost, np.full(len(t), operation), a, b))
        new = [np.concatenate(column) for column in zip(*parts, strict=True)]
        constant = (new[0] == 0) | (new[0] == full(MOST_LEAVES))
        fresh = np.flatnonzero(~np.isin(new[0], trees.truth) & ~constant)
        fresh = fresh[np.lexsort((fresh, new[2][fresh], new[0][fresh]))]
        once = np.concatenate([[True], np.diff(new[0][fresh]) != 0])[: len(fresh)]
        old = (trees.truth, trees.leaves, trees.cost, trees.operation, trees.left, trees.right)
        trees = _Trees(*(np.concatenate([o, n[fresh[once]]]) for o, n in zip(old, new, strict=True)))
    return trees


def _extensions(truth: np.ndarray, first: np.ndarray, leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """For each function those of one more variable, the last, that become it where that variable is known."""
    below, above = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for k in range(2, leaves + 1):
        own, half = np.arange(first[k], first[k + 1]), 1 << (k - 1)
        shorter = truth[first[k - 1] : first[k]]
        for known in (truth[own] & full(k - 1), truth[own] >> half):
            known = np.where(known & 1, known ^ full(k - 1), known)
            at = np.minimum(np.searchsorted(shorter, known), len(shorter) - 1)
            hit = shorter[at] == known
            below.append(first[k - 1] + at[hit])
            above.append(own[hit])
    pairs = np.unique(np.stack([np.concatenate(below), np.concatenate(above)], axis=1), axis=0)
    counts = np.bincount(pairs[:, 0].astype(np.int64), minlength=len(truth))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), pairs[:, 1].astype(np.int64)
