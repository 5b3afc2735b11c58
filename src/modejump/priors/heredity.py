"""Heredity: which terms must be in a model before an interaction or a power may enter."""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from modejump.core.errors import InputError

IndexArray = NDArray[np.int64]

# A parent that belongs to the base model: it is in every model.
ALWAYS_IN = -1

NONE = 0
STRONG = 1
WEAK = 2
HEREDITY_CODES = {None: NONE, "strong": STRONG, "weak": WEAK}

_POWER = re.compile(r"(?P<base>.+?)\s*(?:\*\*|\^)\s*(?P<exponent>\d{1,9})")


def _split_outside_brackets(text: str, separator: str) -> list[str]:
    depth = 0
    parts = [""]
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if char == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _factors(name: str) -> Counter[str]:
    """Factors of a term with their powers: "a:b" is a b, "I(x**2)" and "x^2" are x x."""
    factors: Counter[str] = Counter()
    for part in _split_outside_brackets(name, ":"):
        inner = part[2:-1].strip() if part.startswith("I(") and part.endswith(")") else part
        match = _POWER.fullmatch(inner)
        if match and int(match["exponent"]) > 0:
            factors[match["base"].strip()] += int(match["exponent"])
        else:
            factors[part] += 1
    return factors


def _supports_inside(
    product: Counter[str], by_support: dict[frozenset[str], list[tuple[int, Counter[str]]]]
) -> Iterator[list[tuple[int, Counter[str]]]]:
    """Terms whose factors are among those of a product, by the shorter way of looking them up."""
    if 2 ** len(product) > len(by_support):
        yield from (terms for support, terms in by_support.items() if support <= product.keys())
        return
    for size in range(1, len(product) + 1):
        for support in itertools.combinations(product, size):
            yield by_support.get(frozenset(support), [])


def parents_from_names(names: Sequence[str], always_in: Iterable[str] = ()) -> list[tuple[int, ...]]:
    """Deduce the parents of each term from the names of the terms.

    The parents of a term are the terms that divide it: "a:b" has the parents "a" and "b", "a:b:c" also "a:b",
    "a:c" and "b:c", and "x^2", "x**2" or "I(x**2)" has the parent "x"; always only those that exist, in any
    order of factors.

    They are given as increasing indices into ``names``, -1 for a parent among those always in.

    Examples
    --------
    >>> parents_from_names(["a", "b", "b:a", "I(a**2)"])
    [(), (), (0, 1), (0,)]
    >>> parents_from_names(["b", "a:b"], always_in=["a"])
    [(), (-1, 0)]
    """
    factors = [_factors(name) for name in names]
    by_support: dict[frozenset[str], list[tuple[int, Counter[str]]]] = defaultdict(list)
    for j, product in enumerate(factors):
        by_support[frozenset(product)].append((j, product))
    for name in always_in:
        product = _factors(name)
        by_support[frozenset(product)].append((ALWAYS_IN, product))
    parents = []
    for product in factors:
        found = {j for support in _supports_inside(product, by_support) for j, other in support if other < product}
        parents.append(tuple(sorted(found)))
    return parents


def topological_order(parents: Sequence[Collection[int]]) -> list[int]:
    """Order in which every term follows its parents; `InputError` where the parents form a cycle."""
    try:
        return list(TopologicalSorter(dict(enumerate(parents))).static_order())
    except CycleError as error:
        stuck = min(error.args[1])
        raise InputError(f"The parents of term {stuck} lead back to it: remove the cycle from parents.") from None


def effective_parents(parents: Sequence[Sequence[int]], n_terms: int, heredity: int) -> list[tuple[int, ...]]:
    """Check the parents and drop what always-in terms satisfy already."""
    if len(parents) != n_terms:
        raise InputError(f"parents must have one entry for each of the {n_terms} terms, got {len(parents)}.")
    effective = []
    for j, mine in enumerate(parents):
        for parent in mine:
            if not ALWAYS_IN <= parent < n_terms or parent == j:
                raise InputError(
                    f"Term {j} has the parent {parent}: parents must be other terms, 0 to {n_terms - 1}, "
                    "or -1 for one that is always in."
                )
        rest = sorted({int(parent) for parent in mine} - {ALWAYS_IN})
        satisfied = heredity == WEAK and ALWAYS_IN in mine
        effective.append(() if satisfied else tuple(rest))
    if not any(len(mine) for mine in parents):
        raise InputError("heredity was asked for, but no term has a parent: give parents, or leave heredity out.")
    topological_order(effective)
    return effective


def compressed(rows: Sequence[Collection[int]]) -> tuple[IndexArray, IndexArray]:
    """Lists of indices as start offsets and one flat array."""
    start = np.zeros(len(rows) + 1, dtype=np.int64)
    start[1:] = np.cumsum([len(row) for row in rows])
    return start, np.array([j for row in rows for j in row], dtype=np.int64)


def children_of(parents: Sequence[Collection[int]]) -> list[list[int]]:
    """The inverse relation: for each term, the terms that have it as a parent."""
    children: list[list[int]] = [[] for _ in parents]
    for j, mine in enumerate(parents):
        for parent in mine:
            children[parent].append(j)
    return children
